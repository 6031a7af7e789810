"""The framework-agnostic API: any Python program or engine can report its lineage.

    with LineageApi("nightly") as api:
        api.register("read", "orders.csv")
        api.register("total", "total per customer")
        api.link("read", "total")
        with api.task("total", partition=0):
            api.capture("f1", "read#0#6", "total#0#1", value="ann,12")

The PySpark capture is its first user: sessions name nodes and pass commits on through it.
"""

from __future__ import annotations

import getpass
import os
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lineage_core.contract.address import SpaceKind, parse_space
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    EndStatus,
    Expected,
    Fail,
    Job,
    Link,
    Message,
    NodeKind,
    Recipe,
    Register,
    Totals,
    Unknown,
)
from lineage_core.environment.redaction import redact_arguments
from lineage_core.errors import AddressError
from lineage_emitter.dispatch.linking import BackgroundLinker
from lineage_emitter.dispatch.opening import open_driver
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.settings import Settings, read_settings
from lineage_store.run_notes import note_application

if TYPE_CHECKING:
    from lineage_core.contract.block import I64, U64
    from lineage_emitter.dispatch.port import TaskDispatcher
    from lineage_emitter.sdk.task_capture import TaskCapture


NODE_MAX = 200
"""Characters of a node's name: it is part of file names."""
NO_TASK = "no task has begun: with api.task(node, partition): ..."


class LineageApi:
    """One application that reports its lineage. Thread-safe; tasks are each one thread's.

    Args:
        name: what people call the program.
        app: the application's id; made up when left out.
        settings: where lineage goes; from the environment when left out.
        **arguments: single settings, e.g. ``store="sqlite:///lineage.db"``.

    Raises:
        SettingsError: a setting can't be used.
        OSError: the spool can't be written.
    """

    def __init__(
        self,
        name: str,
        *,
        app: str | None = None,
        settings: Settings | None = None,
        spark_version: str = "",
        **arguments: Any,
    ) -> None:
        self.settings = settings or read_settings(**arguments)
        self.app = app or f"app-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
        self.dispatcher = open_driver(self.settings, self.app)
        self.linker = BackgroundLinker(self.settings, self.dispatcher.folder)
        self._lock = threading.RLock()
        self._local = threading.local()
        self._totals = {"blocks": 0, "flows": 0, "tasks": 0, "recipes": 0}
        self._attempts: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._sinks: set[str] = set()
        self._nodes: set[str] = set()
        self._unknown: set[Unknown] = set()
        self._jobs = 0
        self._closed = False
        self.beginning = Begin(
            app=self.app,
            name=name,
            started_at=time.time(),
            spark_version=spark_version,
            user=_user(),
            cwd=os.getcwd(),
            argv=redact_arguments(sys.argv, _split_words(self.settings.secret_words)),
            earlier=_earlier(self.app, self.settings),
        )
        self.ending: End | None = None
        kafka = self.settings.kafka if self.dispatcher.target is not None else ""
        note_application(self.app, self.dispatcher.folder, kafka)
        self.send(self.beginning)

    # -- the coarse-grained graph --------------------------------------------------------------

    def register(
        self,
        node_id: str,
        name: str = "",
        description: str = "",
        *,
        kind: NodeKind = "operator",
        **fields: Any,
    ) -> None:
        """Name a node. ``kind``: source, operator, shuffle or sink; ``fields`` as in the contract.

        Raises:
            AddressError: ``node_id`` can't be part of an address.
            pydantic.ValidationError: a field is not of the contract.
        """
        _check_name(node_id)
        fields.setdefault("op", name or node_id)
        if kind == "sink":
            self._sinks.add(node_id)
        self.send(
            Register(
                app=self.app,
                node=node_id,
                kind=kind,
                name=name or node_id,
                description=description,
                **fields,
            )
        )

    def link(self, src_node_id: str, dest_node_id: str) -> None:
        """The records of one node go to another."""
        self.send(Link(app=self.app, src=src_node_id, dest=dest_node_id))

    def unknown(self, what: str, reason: str, call_site: str = "") -> None:
        """A part of the program that has no lineage: the verdict names it."""
        self.send(Unknown(app=self.app, what=what, reason=reason, call_site=call_site))

    def recipe(self, node_id: str, recipe: str) -> None:
        """How rows of a node of kind ``frame`` are computed: a document of lineage_core.recipe.document.

        Raises:
            pydantic.ValidationError: it is no recipe, or too long.
        """
        message = Recipe(app=self.app, node=node_id, recipe=recipe)
        with self._lock:
            self._totals["recipes"] += 1
        self.send(message)

    # -- flows -----------------------------------------------------------------------------------

    def begin(self, node_id: str, partition: int = 0) -> TaskCapture:
        """Begin a task of this thread: captures that follow belong to it.

        Raises:
            AddressError: ``node_id`` can't be part of an address.
            OSError: the spool can't be written.
        """
        from lineage_emitter.sdk.task_capture import TaskCapture

        _check_name(node_id)
        with self._lock:
            attempt = self._attempts[(node_id, partition)]
            self._attempts[(node_id, partition)] += 1
        self._local.task = TaskCapture(self, node_id, partition, attempt)
        return self._task()

    task = begin
    """``with api.task(node, partition):`` commits at the end, or fails on an exception."""

    def capture(self, flow_id: str, hash_in: str, hash_out: str, value: str | None = None) -> None:
        """One flow of the current task (see :meth:`TaskCapture.capture`)."""
        try:
            task: TaskCapture = self._local.task
        except AttributeError:
            raise CaptureFailedError(NO_TASK) from None
        task.capture(flow_id, hash_in, hash_out, value)

    def capture_columns(
        self,
        in_space: str,
        in_first: U64,
        out_space: str,
        out: U64,
        *,
        in_ptr: I64 | None = None,
        in_last: U64 | None = None,
        values: Sequence[str | None] | None = None,
        reason: str = "",
    ) -> None:
        """Many flows of the current task (see :meth:`TaskCapture.capture_columns`)."""
        self._task().capture_columns(
            in_space,
            in_first,
            out_space,
            out,
            in_ptr=in_ptr,
            in_last=in_last,
            values=values,
            reason=reason,
        )

    def commit(self) -> None:
        """Make the current task's flows durable and visible."""
        self._task().commit()

    def fail(self, reason: str = "") -> None:
        """Drop the current task: what it captured counts for nothing."""
        self._task().fail(reason)

    def open_task(self, node: str, partition: int, attempt: int) -> TaskDispatcher:
        """The way out of a task's blocks.

        Raises:
            OSError: the spool can't be written.
        """
        name = f"{node}-{partition}-{attempt}"
        folder = str(self.dispatcher.blocks_dir)
        if self.dispatcher.target is None:
            from lineage_emitter.dispatch.spool import TaskSpool

            return TaskSpool.create(folder, name)[0]
        from lineage_emitter.dispatch.kafka import TaskKafka

        path = os.path.join(folder, f"{name}.lmf")
        memory_bytes = self.settings.memory_mb << 20
        return TaskKafka(self.dispatcher.target, self.app, partition, path, memory_bytes)

    def _task(self) -> TaskCapture:
        task: TaskCapture | None = getattr(self._local, "task", None)
        if task is None or task.ended:
            raise CaptureFailedError(NO_TASK)
        return task

    # -- messages --------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Dispatch a message.

        Raises:
            OSError: the spool can't be written.
        """
        with self._lock:
            self._count(message)
        self.dispatcher.write(message)

    def _count(self, message: Message) -> None:
        """The end says how many there were: what is lost on the way is missed."""
        match message:
            case Register():
                self._nodes.add(message.node)
            case Unknown():
                self._unknown.add(message)
            case _:
                pass

    def committed(self, fields: dict[str, Any]) -> None:
        """A task attempt ended: ``fields`` of the contract's ``commit`` message."""
        with self._lock:
            self._totals["tasks"] += 1
            self._totals["blocks"] += fields["blocks"]
            self._totals["flows"] += fields["flows"]
        self.send(Commit(app=self.app, **fields))

    def failed(self, node: str, partition: int, attempt: int, reason: str) -> None:
        """A task attempt failed."""
        self.send(
            Fail(app=self.app, node=node, partition=partition, attempt=attempt, reason=reason[:500])
        )

    def job(
        self,
        action: str,
        expected: Sequence[Expected],
        sink: str | None = None,
        call_site: str = "",
    ) -> None:
        """A piece of work returned; ``expected`` are the tasks that its lineage needs."""
        with self._lock:
            self._jobs += 1
            number = self._jobs
        self.send(
            Job(
                app=self.app,
                job=number,
                action=action,
                sink=sink,
                call_site=call_site,
                expected=tuple(expected),
            )
        )
        self.dispatcher.sync()
        self.linker.wake()

    @property
    def jobs(self) -> int:
        """Pieces of work that have returned."""
        return self._jobs

    # -- end ---------------------------------------------------------------------------------------

    def close(self, status: EndStatus = "ok") -> None:
        """End the application and link what is left. May be called again.

        Raises:
            OSError: the spool can't be written; what is in it is linked all the same.
            StoreError: the store can't be written; ``lineage link`` goes on from here.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            self.end(status)
        finally:
            self.linker.close()
        self.linker.publish()

    def end(self, status: EndStatus) -> None:
        """Write the end of the application; no more can be said.

        Raises:
            OSError: the spool can't be written.
        """
        with self._lock:
            counts = {"nodes": len(self._nodes), "unknown": len(self._unknown)}
            totals = Totals(**self._totals, **counts)
        self.ending = End(app=self.app, ended_at=time.time(), status=status, totals=totals)
        try:
            for expected in self._expected():
                sink = expected.node if expected.node in self._sinks else None
                self.job("close", [expected], sink)
            self.send(self.ending)
        finally:
            self.dispatcher.close()

    def _expected(self) -> list[Expected]:
        partitions: defaultdict[str, list[int]] = defaultdict(list)
        for node, partition in sorted(self._attempts):
            partitions[node].append(partition)
        return [Expected(node=node, partitions=tuple(ps)) for node, ps in partitions.items()]

    def __enter__(self) -> LineageApi:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close("ok" if problem is None else "failed")


_apps_of_process: dict[tuple[int, str], list[str]] = {}
"""Applications of this process (a fork is another), by where their lineage goes."""
EARLIER_MAX = 1_000


def _earlier(app: str, settings: Settings) -> tuple[str, ...]:
    """The latest applications that this process began before, into the same store."""
    apps = _apps_of_process.setdefault(
        (os.getpid(), f"{settings.dispatcher} {settings.kafka} {settings.store}"), []
    )
    earlier = tuple(apps[-EARLIER_MAX:])
    apps.append(app)
    return earlier


def _check_name(node: str) -> None:
    try:
        is_valid = len(node) <= NODE_MAX and parse_space(f"{node}#0").kind is SpaceKind.PARTITION
    except AddressError:
        is_valid = False
    if not is_valid:
        raise AddressError(
            f"{node[:80]!r} can't name a node: 1 to {NODE_MAX} letters, digits and _ . : - of ASCII"
        )


def _split_words(listed: str) -> frozenset[str]:
    return frozenset(word.strip().lower() for word in listed.split(",") if word.strip())


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""
