"""One captured application on the driver: names nodes, frames jobs, passes commits on."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from lineage_core.address import parse_space
from lineage_core.graph import Unit
from lineage_core.message import (
    Begin,
    EndStatus,
    Expected,
    Heartbeat,
    Message,
    RecordFiles,
    SinkFiles,
    Unknown,
)
from lineage_emitter import call_sites, hadoop, program_end, scope
from lineage_emitter.api import LineageApi
from lineage_emitter.commits import HeldMarkers, Hold, Marker, MarkerParam, Release
from lineage_emitter.culprits import Run, as_text, culprits_in
from lineage_emitter.detail import Detail
from lineage_emitter.dispatch.driver_spool import claim
from lineage_emitter.dispatch.opening import leave_note
from lineage_emitter.errors import (
    CaptureFailedError,
    UnfitExecutorsError,
    UnsupportedOperatorError,
)
from lineage_emitter.executors import are_like_driver, check_executors
from lineage_emitter.failures import error_type, in_words
from lineage_emitter.frames.kept import KeptRows
from lineage_emitter.frames.noting import FrameNotes
from lineage_emitter.hadoop import FileSource
from lineage_emitter.lazy_sinks import LazySink, LazySinks
from lineage_emitter.rules import Details
from lineage_emitter.settings import Settings, read_settings
from lineage_emitter.spark_writes import REASON as NOT_RECORDED
from lineage_emitter.spark_writes import SparkWrites
from lineage_emitter.task_config import TaskConfig
from lineage_store.run_notes import note_application, note_uncaptured

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

    from lineage_core.block import U64
    from lineage_core.recipe import Source

logger = logging.getLogger(__name__)
_STOP = object()
LINKING = "link the lineage"
COUNTING = "count what Spark writes"
DRAIN_S = 60.0
LINK_BYTES = 32 << 20
"""Linking goes on during a job whenever tasks have committed this many bytes of blocks."""


@dataclass(eq=False)
class Node:
    """A registered node, with what a job that reaches it needs to know."""

    name: str
    parents: tuple[Node, ...] = ()
    op: str = ""
    map_side: RDD[Any] | None = None
    """Of a shuffle: the RDD whose every partition its map stage computes."""
    files: FileSource | None = None
    """Of a source: the files that it reads, until they are noted."""
    expected: tuple[int, ...] = field(default=())
    detail: Detail = field(default_factory=lambda: Detail(""))


class Session:
    """Capture of one SparkContext. Make it by :func:`session_of`; thread-safe."""

    def __init__(self, sc: SparkContext, settings: Settings, app: str, details: Details) -> None:
        self.sc = sc
        self.settings = settings
        self.app = app
        self._spark_id = sc.applicationId
        self.problem = ""
        """What went wrong first."""
        self.lost = ""
        """The first of it that no later linking can make good."""
        self._lock = threading.RLock()
        self._nodes = 0
        self._aliases: set[str] = set()
        self._closed = False
        self._unlinked_bytes = 0
        self._rows: dict[tuple[str, int], int] = {}
        self._noted: dict[tuple[str, str], Node | None] = {}
        self._linked: set[tuple[str, str]] = set()
        self._lazy = LazySinks()
        self._kept: dict[str, KeptRows] = {}
        """By name, rows that DataFrames are made of; of a sink by its own."""
        self.frames = FrameNotes(self)
        """What is noted of DataFrames."""
        self.records: WeakValueDictionary[str, Any] = WeakValueDictionary()
        """What gives the records of a node again, by node, while the program holds its RDD."""
        self.settled_jobs = -1
        """Of the jobs that have returned, how many the store was last seen to have."""
        self.open_ends: list[Callable[[], None]] = []
        """Of actions that are under way: each tells what the user was given so far, once."""
        self._queue: SimpleQueue[Any] = SimpleQueue()
        self.details = details
        self._held = HeldMarkers()
        """Of the thread alone: all that changes it goes through the queue."""
        self._thread = threading.Thread(target=self._pass_on, name="lineage-commits", daemon=True)
        self.api = LineageApi(
            sc.appName or "", app=self.app, settings=settings, spark_version=sc.version
        )
        self.config = TaskConfig(
            app=self.app,
            blocks_dir=str(self.api.dispatcher.blocks_dir),
            markers=sc.accumulator([], MarkerParam(self._queue)),
            memory_bytes=settings.memory_mb << 20,
            fail_job=settings.on_error == "fail",
            kafka=self.api.dispatcher.target,
        )
        call_sites.install()
        self.unfit = False
        """Whether executors have turned out not to be able to run captured functions."""
        self.looked = are_like_driver(sc)
        """Whether that is known."""
        self._looking = threading.Lock()
        self._writes: SparkWrites | None = None
        self.guard(COUNTING, self._count_writes)
        self._thread.start()
        self._process = os.getpid()
        program_end.close_at_end(self.close)

    def look_at_executors(self) -> None:
        """Before the first job: end capture where executors can't run captured functions.

        It waits for executors, as the job would.

        Raises:
            CaptureFailedError: they can't, and ``on_error`` is ``fail``.
        """
        with self._looking:
            if self.looked or self._closed:
                return
            self.looked = True
            try:
                self.guard("look at the executors", self._check_executors)
            except UnfitExecutorsError as problem:
                self._give_up(problem)

    def _give_up(self, problem: UnfitExecutorsError) -> None:
        self.unfit = True
        logger.warning("no lineage is captured: %s", problem)
        self.guard("note it", lambda: self.api.unknown("capture", str(problem)))
        self.close()
        with _sessions_lock:
            _sessions[self._spark_id] = None
        if self.settings.on_error == "fail":
            raise CaptureFailedError(f"capture can't begin: {problem}") from problem

    def _check_executors(self) -> None:
        folder = self.api.dispatcher.blocks_dir
        found = check_executors(self.sc, folder)
        if found.capture:
            # Their tasks would fail where they load captured functions.
            raise UnfitExecutorsError(f"executors can't load it: {found.capture}")
        if self.config.kafka is None and found.folder:
            raise CaptureFailedError(
                f"spool {folder}: {found.folder}; set spark.lineage.spool (LINEAGE_SPOOL) to a "
                "folder that the driver and all executors share (executors of another user: one whose "
                "group both are of, chmod g+ws FOLDER)"
            )
        if self.config.kafka is not None and found.kafka:
            logger.warning("executors leave lineage in the spool: %s", found.kafka)
        if self.config.kafka is not None and found.folder:
            logger.warning(
                "what Kafka does not take stays on the disks of executors: spool %s: %s",
                *(folder, found.folder),
            )

    # -- nodes -------------------------------------------------------------------------------

    def register(
        self,
        kind: Any,
        op: str,
        parents: Iterable[Node] = (),
        *,
        exact: bool = True,
        reason: str = "",
        path: str | None = None,
        description: str = "",
        alias: str | None = None,
    ) -> Node:
        """Name a new node and link it to its parents."""
        running = scope.outermost()
        name = running.name if running is not None else op
        told = {"exact": exact, "reason": reason, "path": path, "description": description}
        with self._lock:
            return self.register_as(self.next_id(), name, kind, op, parents, alias=alias, **told)

    def register_as(
        self,
        node_id: str,
        name: str,
        kind: Any,
        op: str,
        parents: Iterable[Node] = (),
        *,
        alias: str | None = None,
        **told: Any,
    ) -> Node:
        """:meth:`register` a node whose id was taken before, by :meth:`next_id`, and whose name is given."""
        running = scope.outermost()
        parents = tuple(parents)
        with self._lock:
            node = Node(node_id, parents, op)
            path_of_calls = f"{running.call_path}.{next(running.nodes)}" if running else ""
            description = told.pop("description", "")
            fields = {
                "kind": kind,
                "op": op,
                "call_site": running.call_site if running is not None else scope.call_site(),
                "call_path": path_of_calls,
                "alias": self._alias(alias, told.get("path")),
                "inputs": len(dict.fromkeys(parents)),
                **told,
            }
            node.detail = self.details.of(node.name, fields, name)
            self.guard(
                "register a node",
                lambda: self.api.register(node.name, name, description, **fields),
            )
            for parent in dict.fromkeys(parents):
                self.guard("link a node", functools.partial(self.api.link, parent.name, node.name))
        return node

    def next_id(self) -> str:
        """The name of the next node that is made."""
        with self._lock:
            self._nodes += 1
            return str(self._nodes - 1)

    def _alias(self, alias: str | None, path: str | None) -> str | None:
        """``read`` for the first source, ``read:flights`` for the next ones."""
        if alias is None:
            return None
        if alias in self._aliases:
            stem = os.path.basename((path or "").rstrip("/")).split(".")[0]
            stem = "".join(c if c.isalnum() or c in "_-" else "-" for c in stem)[:40]
            base, number = (f"{alias}:{stem}", 1) if stem else (f"{alias}:1", 1)
            alias = base
            while alias in self._aliases:
                number += 1
                alias = f"{base}-{number}" if stem else f"{base[:-1]}{number}"
        self._aliases.add(alias)
        return alias

    def refuse(
        self, what: str, reason: str, way_out: str, parents: Iterable[Node] | None = None
    ) -> Node | None:
        """An operator without lineage: an error, or a part of the graph that is unknown.

        ``reason`` says why it has none, ``way_out`` what the program can do instead.

        Raises:
            UnsupportedOperatorError: unless settings say to go on.
        """
        if self.settings.unsupported == "refuse":
            raise UnsupportedOperatorError(what, f"{reason}; {way_out}")
        return self.unknown(what, reason, parents)

    def unknown(self, what: str, reason: str, parents: Iterable[Node] | None = None) -> Node | None:
        """Note a part of the program that has no lineage; the verdict names it.

        With ``parents`` (there may be none) it is a node of the graph that reads from them.
        """
        running = scope.outermost()
        site = running.call_site if running is not None else scope.call_site()
        with self._lock:
            if (what, site) not in self._noted:
                node = None
                if parents is not None:
                    node = self.register("unknown", what, exact=False, reason=reason)
                self._noted[what, site] = node
                self.guard("note it", lambda: self.api.unknown(what, reason, site))
            node = self._noted[what, site]
            if node is not None:
                for parent in parents or ():
                    self.link(parent, node)
        return node

    def link(self, parent: Node, node: Node) -> None:
        """Show in the graph that a node reads from another; no action waits for it."""
        if parent is not node and (parent.name, node.name) not in self._linked:
            self._linked.add((parent.name, node.name))
            self.guard("link a node", lambda: self.api.link(parent.name, node.name))

    # -- jobs --------------------------------------------------------------------------------

    @contextmanager
    def action(
        self,
        name: str,
        sink: Node,
        partitions: Callable[[], Iterable[int]],
        *,
        limit: int | None = None,
    ) -> Iterator[None]:
        """The body runs an action; afterwards its lineage is linked.

        ``partitions`` is asked after the action which partitions of the sink had to be computed.
        ``limit``: just so many of their rows, in that order, reach the user; the sink's commits
        are held back until it is known which.
        """
        try:
            with self._holding(sink, partitions, limit):
                yield
        except Exception as problem:
            self.note_failure(name, sink, problem)
            raise
        self.guard("note a job", lambda: self._note_job(name, sink, tuple(partitions())))
        self.note_lazy()

    def note_failed(self, name: str, problem: Exception) -> None:
        """An action failed that gave no records of ours."""
        with contextlib.suppress(CaptureFailedError):
            self.unknown(name, f"the action failed: {error_type(problem)}")

    def note_failure(self, name: str, sink: Node, problem: Exception) -> None:
        """An action failed. Whatever else goes wrong: the program gets the error of its own action."""
        with contextlib.suppress(CaptureFailedError):
            culprits = culprits_in(problem)
            self.unknown(name, f"the action failed: {error_type(problem)}{_at(culprits)}")
            self.guard("note a failed action", lambda: self._after_failure(sink, culprits))

    def tell(self, what: Callable[[], None]) -> None:
        """Tell which records an action gave, before its job is noted."""
        self.guard("note what an action gave", what)

    def note_later(self, name: str, sink: Node, call_site: str) -> None:
        """Note the job of an action on partition 0 of its sink, behind its commit; waits for nothing."""
        self._queue.put(functools.partial(self._note_job, name, sink, (0,), call_site))

    def begin_lazy(self, name: str, sink: Node) -> None:
        """An action has returned whose tasks run later, in jobs that are not ours, if at all.

        Of each of its partitions that has run by then, the next job that is noted tells.
        """
        running = scope.outermost()
        site = running.call_site if running is not None else scope.call_site()
        self._lazy.add(LazySink(name, sink.name, site, sink))
        self.guard("note a job", lambda: self.api.job(name, [], sink.name, site))

    def keep(self, rows: KeptRows) -> None:
        """Hear what tasks say of rows that are kept."""
        self._kept[rows.name] = rows

    def kept_in(self, source: Source) -> KeptRows | None:
        """The kept rows that a recipe's source is; None: it is another one."""
        return next((one for one in self._kept.values() if one.path == source.name), None)

    def note_lazy(self) -> None:
        """Jobs that are not ours may have run tasks of ours: their lineage is linked."""
        if self._lazy:
            self.guard("note a job", self._note_lazy)

    def _note_lazy(self) -> None:
        self.drain()
        for lazy, partitions in self._lazy.taken():
            if lazy.sink is not None:
                sink, lazy.sink = lazy.sink, None
                lazy.above = tuple(self._expected_above(sink))
            expected = [Expected(node=lazy.node, partitions=partitions), *lazy.above]
            self.api.job(lazy.action, expected, lazy.node, lazy.call_site)

    @contextmanager
    def _holding(
        self, sink: Node, partitions: Callable[[], Iterable[int]], limit: int | None
    ) -> Iterator[None]:
        if limit is None:
            yield
            return
        release = Release(sink.name)
        self._queue.put(Hold(sink.name))
        try:
            yield
            release = Release(sink.name, limit, tuple(partitions()))
        finally:
            self._queue.put(release)

    def _note_job(
        self, name: str, sink: Node, partitions: tuple[int, ...], call_site: str | None = None
    ) -> None:
        self.drain()
        self.check()
        expected = [Expected(node=sink.name, partitions=partitions)]
        if partitions:
            expected += self._expected_above(sink)
        else:
            self.note_sources(_upstream(sink))
        running = scope.outermost()
        if call_site is None:
            call_site = running.call_site if running is not None else ""
        self.api.job(name, expected, sink.name, call_site)

    def _expected_above(self, sink: Node) -> Iterator[Expected]:
        """What a job that computes partitions of a sink needs besides; notes the files it reads."""
        above = _upstream(sink)
        self.note_sources(above)
        for node in above:
            if node.map_side is not None:
                if not node.expected:
                    node.expected = tuple(range(node.map_side.getNumPartitions()))
                yield Expected(node=node.name, partitions=node.expected)

    def _after_failure(self, sink: Node, culprits: list[list[Run]]) -> None:
        self.drain()
        # Before more is written: where the spool is gone, this says so best.
        self.api.dispatcher.sync()
        above = _upstream(sink)
        self.note_sources(above)
        for runs in culprits:
            names = {parse_space(space).name for space, _, _ in runs}
            crash = self.register(
                "sink", "crash", [node for node in above if node.name in names], alias="crash"
            )
            with self.api.task(crash.name):
                for space, first, last in runs:
                    self.api.capture_columns(
                        *(space, _column(first), f"{crash.name}#0", _column(0)),
                        in_last=_column(last),
                    )
            logger.warning(
                "a task failed while working on %s; lineage back %s#0#0 --app %s names the rows",
                *(as_text(runs), crash.name, self.app),
            )
        self.api.dispatcher.sync()
        self.api.linker.wake()

    def note_sources(self, nodes: Iterable[Node]) -> None:
        """Note once which files sources read; nothing for other nodes."""
        for node in nodes:
            if node.files is not None:
                source, node.files = node.files, None
                self._note_splits(node, source)

    def _note_splits(self, node: Node, source: FileSource) -> None:
        try:
            splits = hadoop.splits_of(self.sc, self.app, node.name, source)
        except Exception as problem:
            self.unknown(node.op, f"its files could not be listed: {problem!r:.200}")
            return
        if splits is not None:
            self._send(splits)

    def pin_files(self, node: Node) -> None:
        """A checkpoint will cut the source's RDD off from the files that it reads."""
        source = node.files
        if source is not None:

            def pin() -> None:
                node.files = hadoop.pinned(self.sc, source)

            self.guard("find the files of a source", pin)

    def note_sink_files(self, node: Node, path: str, unit: Unit = "line") -> None:
        """Register the files that a sink has written (before the job is noted).

        ``unit``: what its items are of these files.
        """

        def note() -> None:
            self.drain()
            files = tuple(
                file.model_copy(update={"rows": self._rows.get((node.name, file.partition))})
                for file in hadoop.sink_files(self.sc, path)
            )
            kind = SinkFiles if unit == "line" else RecordFiles
            self._send(kind(app=self.app, node=node.name, path=path, files=files))

        self.guard("note the files of a sink", note)

    # -- commits -----------------------------------------------------------------------------

    def drain(self) -> None:
        """Wait until every marker that has arrived is passed on, or held back by its action."""
        if threading.current_thread() is self._thread:
            return
        done = threading.Event()
        self._queue.put(done)
        give_up_at = time.monotonic() + DRAIN_S
        # Behind the end of the session nobody answers any more.
        while self._thread.is_alive() and time.monotonic() < give_up_at:
            if done.wait(timeout=0.1):
                return

    def _pass_on(self) -> None:
        heartbeat_at, beat = time.monotonic(), 0
        while True:
            item: Any = None
            with contextlib.suppress(Exception):
                item = self._queue.get(timeout=self.settings.heartbeat_s)
            if item is _STOP:
                # An action may be under way in another thread: what it read is not lost.
                self._commit_all(self._held.rest())
                return
            if isinstance(item, threading.Event):
                item.set()
            elif callable(item):
                self.guard("note a job", item)
            elif item is not None:
                self.guard("pass on a commit", functools.partial(self._take, item))
                if self._queue.empty():
                    self.guard("push commits", self.api.dispatcher.push)
            if time.monotonic() - heartbeat_at >= self.settings.heartbeat_s:
                heartbeat_at = time.monotonic()
                beat += 1
                self._send(Heartbeat(app=self.app, at=time.time(), beat=beat))
                self.guard("send a heartbeat", self.api.dispatcher.push)

    def _take(self, event: Marker | Hold | Release) -> None:
        self._commit_all(self._held.after(event))

    def _commit_all(self, markers: Iterable[Marker]) -> None:
        for marker in markers:
            self.guard("pass on a commit", functools.partial(self._commit, marker))

    def _commit(self, marker: Marker) -> None:
        self._rows[(marker["node"], marker["partition"])] = marker["rows"]
        fact = marker.pop("kept", None)
        if fact is not None:
            self._kept[marker["node"]].ran(marker["partition"], fact)
        self.api.committed(marker)
        self._lazy.ran(marker["node"], marker["partition"])
        self._unlinked_bytes += int(marker["bytes"])
        if self._unlinked_bytes >= LINK_BYTES:
            self._unlinked_bytes = 0
            self.api.dispatcher.push()
            self.api.linker.wake()
        if marker["failed"] and not self.problem:
            self.problem = marker["failed"]
            logger.warning("lineage of a task is incomplete: %s", marker["failed"])

    def _send(self, message: Message) -> None:
        self.guard("send a message", lambda: self.api.send(message))

    def guard(self, what: str, action: Callable[[], None]) -> None:
        """Do something of capture's, which never breaks the job, unless the user wants it to.

        Raises:
            CaptureFailedError: it failed, and ``on_error`` is ``fail``.
        """
        try:
            action()
        except UnfitExecutorsError:
            raise
        except Exception as problem:
            reason = f"could not {what}: {in_words(problem)}"
            if what != LINKING:
                self.lost = self.lost or reason
            if not self.problem:
                self.problem = reason
                logger.warning("lineage is incomplete: %s", self.problem)
                with contextlib.suppress(Exception):
                    self.api.unknown("capture", self.problem[:500])
            if self.settings.on_error == "fail" and threading.current_thread() is not self._thread:
                raise CaptureFailedError(self.problem) from problem

    def _count_writes(self) -> None:
        self._writes = SparkWrites(self.sc)

    def recorded(
        self, *, writes: bool = True, lasting: bool = False
    ) -> AbstractContextManager[None]:
        """What Spark writes for this thread in the body is recorded (else the verdict names it).

        ``writes``: False where nothing is written: then nothing is done, either. ``lasting``: what the
        body begins writes on when it is over, as streams do.
        """
        if self._writes is None or not writes:
            return nullcontext()
        return self._writes.recorded(lasting=lasting)

    def _note_writes(self) -> None:
        """Name what Spark wrote for nobody that told of it."""
        if self._writes is not None:
            for what in self._writes.close():
                self.api.unknown(what, NOT_RECORDED)

    def check(self) -> None:
        """Fail the program where capture has failed, if it is to.

        Raises:
            CaptureFailedError: capture has failed, and ``on_error`` is ``fail``.
        """
        if self.problem and self.settings.on_error == "fail":
            raise CaptureFailedError(self.problem)

    def push(self, *, durably: bool) -> None:
        """Hand on what was said so far. ``durably``: so that it is linked, too."""
        dispatcher = self.api.dispatcher
        self.guard("send a message", dispatcher.sync if durably else dispatcher.push)
        if durably:
            self.api.linker.wake()

    # -- end ---------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether nothing is captured any more."""
        return self._closed

    def close(self, status: EndStatus | None = None) -> None:
        """Send the end of the application and link what is left. May be called again.

        ``status``: how the program ended. Left out, it failed where an exception is under way (in a
        ``finally`` or an ``except``); an action that failed and was caught is not the program.
        """
        if os.getpid() != self._process:
            # A fork of the program: the program itself goes on.
            return
        for tell in list(self.open_ends):
            with contextlib.suppress(CaptureFailedError):
                tell()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        program_end.is_closed(self.close)
        _sessions.pop(self._spark_id, None)
        self.frames.close()
        self.drain()
        self._queue.put(_STOP)
        self._thread.join(timeout=60)
        for rows in self._kept.values():
            rows.close()
        ended = status or program_end.status_of(sys.exc_info()[1])
        with ExitStack() as stack:
            # The last one first: who is told hears of problems, too.
            stack.callback(self.api.linker.tell)
            stack.callback(self._note_problem)
            stack.callback(self.guard, LINKING, self.api.linker.close)
            stack.callback(self.guard, "write the end", functools.partial(self.api.end, ended))
            stack.callback(self.note_lazy)
            stack.callback(self.guard, COUNTING, self._note_writes)

    def _note_problem(self) -> None:
        """Say what went wrong, straight in the store where it is ours: the spool may be what failed.

        Not so when only linking failed: what is in the spool can still be linked.
        """
        if not self.lost or not self.settings.link:
            return
        unknown = Unknown(app=self.app, what="capture", reason=self.lost[:500])
        with contextlib.suppress(Exception):
            leave_note(self.settings, self.app, [self.api.beginning, unknown, *self._ending()])

    def _ending(self) -> list[Message]:
        return [] if self.api.ending is None else [self.api.ending]


def _at(culprits: list[list[Run]]) -> str:
    return f" while working on {as_text(culprits[0])[:200]}" if culprits else ""


def _column(position: int) -> U64:
    return np.array([position], dtype=np.uint64)


def _upstream(node: Node) -> list[Node]:
    found: dict[int, Node] = {}
    todo = [node]
    while todo:
        one = todo.pop()
        if id(one) not in found:
            found[id(one)] = one
            todo.extend(one.parents)
    return list(found.values())


_sessions: dict[str, Session | None] = {}
_begun: dict[str, int] = {}
"""How many sessions each SparkContext has had: a next one is an application of its own."""
_sessions_lock = threading.Lock()


def session_of(sc: SparkContext, **arguments: Any) -> Session | None:
    """The session of a SparkContext, begun on first use.

    None when capture is switched off, or when it can't begin: then the program goes on without
    lineage, says so on the log, and the store (if it can be written) names the reason.

    Raises:
        SettingsError: a setting can't be used.
        CaptureFailedError: capture can't begin, and ``on_error`` is ``fail``.
    """
    with _sessions_lock:
        if sc.applicationId in _sessions:
            begun = _sessions[sc.applicationId]
            if begun is not None and arguments:
                _compare(begun.settings, arguments)
            return begun
        settings = read_settings(dict(sc._conf.getAll()), **arguments)
        if not settings.enabled:
            note_uncaptured("capture is switched off (LINEAGE_ENABLED, spark.lineage.enabled)")
            return None
        details = Details(settings)
        if "PYSPARK_PYTHON" not in os.environ and not sc._conf.contains("spark.pyspark.python"):
            sc.pythonExec = sys.executable
        _begun[sc.applicationId] = _begun.get(sc.applicationId, 0) + 1
        app = latest_app(sc)
        try:
            if settings.dispatcher == "spool":
                app = claim(settings.spool_folder(), app)
            elif app.startswith("local-"):
                # Named by the millisecond, and no folder tells whether another driver has the name.
                app = f"{app}-{uuid.uuid4().hex[:8]}"
            session = Session(sc, settings, app, details)
        except CaptureFailedError:
            raise
        except Exception as problem:
            _note_uncaptured(sc, settings, app, problem)
            if settings.on_error == "fail":
                raise CaptureFailedError(f"capture can't begin: {problem}") from problem
            _sessions[sc.applicationId] = None
            return None
        _sessions[sc.applicationId] = session
        _close_before_stop(sc, session)
        return session


def _compare(settings: Settings, arguments: dict[str, Any]) -> None:
    """Warn of arguments that come too late: a context's capture has begun with other settings.

    Raises:
        SettingsError: an argument is none, or can't be used.
    """
    asked = read_settings(**arguments)
    late = [
        name
        for name, value in arguments.items()
        if value is not None and getattr(asked, name) != getattr(settings, name)
    ]
    if late:
        logger.warning(
            "capture of this SparkContext has begun with other settings: %s ignored; "
            "close() the LineageContext before it to begin anew",
            ", ".join(late),
        )


def latest_app(sc: SparkContext) -> str:
    """Spark's id of the application; with a number where an earlier session has closed."""
    number = _begun.get(sc.applicationId, 1)
    return sc.applicationId if number == 1 else f"{sc.applicationId}-{number}"


def _note_uncaptured(sc: SparkContext, settings: Settings, app: str, problem: Exception) -> None:
    logger.warning("no lineage is captured: %s", problem)
    kafka = settings.kafka if settings.dispatcher == "kafka" else ""
    note_application(app, settings.spool_folder() / app, kafka)
    begin = Begin(app=app, name=sc.appName or "", started_at=time.time())
    unknown = Unknown(app=app, what="capture", reason=f"it can't begin: {problem}")
    with contextlib.suppress(Exception):
        leave_note(settings, app, [begin, unknown])


def forget(sc: SparkContext) -> None:
    """Let capture begin anew where it could not begin."""
    with _sessions_lock:
        if sc.applicationId in _sessions and _sessions[sc.applicationId] is None:
            del _sessions[sc.applicationId]


def open_session_of(sc: SparkContext) -> Session | None:
    """The session of a SparkContext where one is open; none is begun."""
    return _sessions.get(sc.applicationId)


def open_sessions() -> list[Session]:
    """Sessions that have not ended."""
    return [session for session in _sessions.values() if session is not None]


def _close_before_stop(sc: SparkContext, session: Session) -> None:
    stop = sc.stop

    def stop_after_lineage() -> None:
        try:
            session.close()
        finally:
            stop()

    sc.stop = stop_after_lineage  # type: ignore[method-assign]
