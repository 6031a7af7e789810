"""Writes that Spark made, and of them those that no recorded action made.

A program may write by what capture does not see: the JVM's own objects (``df._jdf.write()``), libraries in the JVM
(``DeltaTable.merge``, ``MLWriter.save``). Spark counts what its tasks write, and says of each stage to which job it
belongs: jobs of recorded actions carry a property of ours. A stage that wrote and does not carry it is a write whose
lineage nobody knows.

What is read, cached, shuffled or sampled has no output, so jobs that Spark runs for itself are none of this.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError

if TYPE_CHECKING:
    from pyspark import SparkContext

LISTENER_CLASS = "lineage.SparkWrites"
PROPERTY = "lineage.recorded.action"
"""Of the thread's jobs: to which recorded action they belong."""
QUEUE = "lineage"
"""Spark's queue of events for this listener alone: slow ones of others do not make it lose any."""
EVENTS_S = 60.0
"""How long the end of an application waits until Spark has sent all of its events, to listeners of others, too."""
WRITES_NAMED = 20
"""Writes that are named one by one."""
REASON = "it was not recorded: its lineage is unknown"
_PATH = re.compile(r"^Execute \w+ ([A-Za-z][\w+.-]*:[^,]+)|\bpath(?:=| -> )([^,\])]+)")
_TABLE = re.compile(r"`[^`]+`(?:\.`[^`]+`)*")
_CALL = re.compile(r"\bsave[A-Za-z]+|(?<=\$)save[A-Za-z]+")


@dataclass(frozen=True, slots=True)
class StageWrite:
    """A stage that wrote rows. ``action``: the property of its jobs. ``at_ms``: when it began, since 1970."""

    action: str
    at_ms: int | None
    stage: int
    execution: str
    plan: str
    name: str
    calls: str

    @classmethod
    def of(cls, line: str) -> StageWrite:
        """Read a line of ``SparkWrites.java``."""
        action, at, stage, *others = line.split("\u0001")
        return cls(action, int(at) if at else None, int(stage), *others)

    @property
    def text(self) -> str:
        """What was written where, for people."""
        return f"a write{self._target()} (Spark's stage {self.stage}, {self.name})"

    def _target(self) -> str:
        path, table = _PATH.search(self.plan), _TABLE.search(self.plan)
        if path is not None:
            return f" to {path[1] or path[2]}"
        if table is not None:
            return f" to {table[0].replace('`', '')}"
        if self.plan:
            return f" by {self.plan.partition('(')[0].strip()[:80]}"
        # Spark calls itself on: the outermost call is the program's.
        calls = _CALL.findall(self.calls)
        return f" by {calls[-1]}" if calls else ""


class SparkWrites:
    """Counts what the tasks of a SparkContext write, from now on. Thread-safe."""

    def __init__(self, sc: SparkContext) -> None:
        self._sc = sc
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._times: dict[str, tuple[float, float | None]] = {}
        """When recorded actions began and ended, in ms since 1970."""
        self._pinned = _threads_are_pinned(sc)
        self._listener: Any = _listener(sc)
        # Stored here: a context that was stopped without capture no longer has it. Spark sent all
        # events before it stopped.
        self._bus = _bus(sc)
        self._bus.addToQueue(self._listener, QUEUE)

    @contextlib.contextmanager
    def recorded(self, *, lasting: bool = False) -> Iterator[None]:
        """What this thread writes in the body is recorded by whoever calls this.

        ``lasting``: threads that the body begins write on when it is over.
        """
        name = f"{id(self)}-{next(self._numbers)}"
        before = self._sc.getLocalProperty(PROPERTY)
        began = _now_ms()
        with self._lock:
            self._times[name] = began, None
        self._sc.setLocalProperty(PROPERTY, name)
        try:
            yield
        finally:
            with self._lock:
                self._times[name] = began, None if lasting else _now_ms()
            # The program may have stopped Spark in the body.
            with contextlib.suppress(Exception):
                self._sc.setLocalProperty(PROPERTY, before)  # type: ignore[arg-type]

    def close(self) -> list[str]:
        """Count no more, and say which writes no action recorded; each in words.

        Raises:
            Py4JError: Spark does not answer.
        """
        bus = self._bus
        late = _is_late(bus)
        dropped = bus.metrics().metricRegistry().counter(f"queue.{QUEUE}.numDroppedEvents")
        lost = int(dropped.getCount())
        bus.removeListener(self._listener)
        unrecorded = self._unrecorded(StageWrite.of(str(line)) for line in self._listener.taken())
        more = len(unrecorded) - WRITES_NAMED + int(self._listener.more())
        texts = [write.text for write in unrecorded[:WRITES_NAMED]]
        if more > 0:
            texts.append(f"{more} more writes")
        if late:
            texts.append(f"what Spark wrote: its events have not all come within {EVENTS_S:g} s")
        if lost:
            texts.append(
                f"what Spark wrote: it dropped {lost} events, so its writes are not all known"
            )
        return texts

    def _unrecorded(self, writes: Iterable[StageWrite]) -> list[StageWrite]:
        """The writes that no action recorded, each once."""
        unrecorded: dict[str, StageWrite] = {}
        for write in writes:
            if not self._is_recorded(write):
                unrecorded.setdefault(write.execution or f"stage {write.stage}", write)
        return list(unrecorded.values())

    def _is_recorded(self, write: StageWrite) -> bool:
        """Whether a write is part of an action: a thread that one began may write on when it is over."""
        times = self._times
        if not self._pinned and write.at_ms is not None:
            at = write.at_ms
            return any(int(began) <= at <= (ended or at) for began, ended in times.values())
        if write.action not in times:
            return False
        ended = times[write.action][1]
        return ended is None or write.at_ms is None or write.at_ms <= ended


def _now_ms() -> float:
    return time.time() * 1000


def _bus(sc: SparkContext) -> Any:
    java: Any = sc._jsc
    return java.sc().listenerBus()


def _is_late(bus: Any) -> bool:
    """Wait until Spark has sent all events so far; whether that took too long."""
    try:
        bus.waitUntilEmpty(int(EVENTS_S * 1000))
    except Py4JJavaError as problem:
        if "TimeoutException" not in str(problem.java_exception.getClass().getName()):
            raise
        return True
    return False


def _threads_are_pinned(sc: SparkContext) -> bool:
    """Whether a thread of this process has one of the JVM's for itself, and with it properties of its jobs."""
    return type(sc._gateway).__name__ == "ClientServer"


_constructor: tuple[Any, Any] = (None, None)
"""The gateway and, in its JVM, what makes listeners: py4j takes classes of one name for one class."""


def _listener(sc: SparkContext) -> Any:
    """A listener of the class beside this module."""
    global _constructor  # noqa: PLW0603 - a JVM is the process's, too
    gateway: Any = sc._gateway
    if _constructor[0] is not gateway:
        _constructor = gateway, _loaded(gateway)
    arguments = gateway.new_array(gateway.jvm.java.lang.Object, 1)
    arguments[0] = PROPERTY
    return _constructor[1].newInstance(arguments)


def _loaded(gateway: Any) -> Any:
    """The class's constructor, of one text."""
    jvm = gateway.jvm
    held = jvm.java.util.HashMap()
    held.put(LISTENER_CLASS, files(__package__).joinpath("SparkWrites.class").read_bytes())
    parent = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    loader = jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader(held, parent)
    types = gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = jvm.java.lang.Class.forName("java.lang.String")
    return loader.loadClass(LISTENER_CLASS).getConstructor(types)
