"""The framework-agnostic API: any Python program or engine can report its lineage.

    with LineageApi("nightly") as api:
        api.register("read", "orders.csv")
        api.register("total", "total per customer")
        api.link("read", "total")
        with api.task("total", partition=0):
            api.capture("f1", "read#0#6", "total#0#1", value="ann,12")  # inputs and outputs apart
            api.add_input("read#0#7", tag="bob")  # or paired, in the order of the work
            api.add_output("total#0#2", tag="bob", reset=True)

The PySpark capture is its first user: sessions name nodes and pass commits on through it.
"""

from __future__ import annotations

import getpass
import logging
import os
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

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
    Split,
    Totals,
    Unknown,
)
from lineage_core.environment.redaction import redact_arguments
from lineage_core.errors import AddressError
from lineage_emitter.dispatch.linking import BackgroundLinker
from lineage_emitter.dispatch.opening import open_driver
from lineage_emitter.errors import CaptureFailedError, DeliveryError
from lineage_emitter.failures import in_words
from lineage_emitter.sdk.checksums import BYTES_MAX, FilesRead, FilesWritten
from lineage_emitter.sdk.containers import Containers, TooManyLinksError
from lineage_emitter.sdk.file_messages import FileMessages
from lineage_emitter.sdk.files import FileSpaces
from lineage_emitter.sdk.functions import Function, Keeps, TracedFunction, traced
from lineage_emitter.sdk.inert import InertDispatcher, InertTask
from lineage_emitter.sdk.line_files import changed, files_read, files_written
from lineage_emitter.settings import Settings, read_settings
from lineage_store.run_notes import note_application

if TYPE_CHECKING:
    from lineage_core.contract.block import I64, U64
    from lineage_emitter.dispatch.port import DriverDispatcher, TaskDispatcher
    from lineage_emitter.sdk.pairing import Spaces
    from lineage_emitter.sdk.task_capture import TaskCapture


logger = logging.getLogger(__name__)
NODE_MAX = 200
"""Characters of a node's name: it is part of file names."""
NO_TASK = "no task has begun: with api.task(node, partition): ..."
PROBLEMS_MAX = 100
"""Different problems that the verdict lists."""
LOCATING_SETTINGS = ("LINEAGE_STORE", "LINEAGE_SPOOL", "LINEAGE_KAFKA", "LINEAGE_DISPATCHER")


class LineageApi:
    """One application that reports its lineage. Thread-safe; tasks are each one thread's.

    It does not break its host: what can't be captured or delivered becomes a reason of the verdict. With
    ``on_error="fail"`` it is raised instead. A node, link or container that can't be named is an error at once, and so is a
    setting that can't be used. With ``enabled=False`` nothing is done.

    Args:
        name: what people call the program.
        app: the application's id; made up when left out.
        settings: where lineage goes; from the environment when left out.
        raising: whether problems are raised; where ``on_error`` is ``fail`` when left out.
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
        raising: bool | None = None,
        **arguments: Any,
    ) -> None:
        self.settings = settings or read_settings(**arguments)
        self.raising = self.settings.on_error == "fail" if raising is None else raising
        self.app = app or f"app-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
        self.dispatcher: DriverDispatcher = InertDispatcher()
        links = self.settings
        if self.settings.enabled:
            self.dispatcher = open_driver(self.settings, self.app)
        else:
            links = self.settings.model_copy(update={"link": False})
        self.linker = BackgroundLinker(links, self.dispatcher.folder)
        self._lock = threading.RLock()
        self._local = threading.local()
        self._totals = {"blocks": 0, "flows": 0, "tasks": 0, "recipes": 0}
        self._attempts: defaultdict[tuple[str, int], int] = defaultdict(int)
        self._sinks: set[str] = set()
        self._nodes: set[str] = set()
        self._unknown: set[Unknown] = set()
        self._containers = Containers()
        self._files = FileSpaces()
        checksums_max = BYTES_MAX if self.settings.checksums else 0
        self._file_messages = FileMessages(self._send_or_note, checksums_max)
        self._lines_read: list[Split] = []
        self._sources_of: defaultdict[str, set[str]] = defaultdict(set)
        """By node those that link to it."""
        self._open: set[tuple[str, int, int]] = set()
        self._dropped: set[tuple[str, int, int]] = set()
        """Attempts that were open when their container was committed."""
        self._settled: set[tuple[str, int]] = set()
        """Partitions of which an attempt was committed or failed."""
        self._traced: list[TracedFunction] = []
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
        if not self.settings.enabled:
            return
        kafka = self.settings.kafka if self.dispatcher.target is not None else ""
        note_application(self.app, self.dispatcher.folder, kafka)
        self.send(self.beginning)

    @classmethod
    def if_configured(cls, name: str, **arguments: Any) -> LineageApi:
        """The API for an engine that is instrumented for good: it does nothing until somebody says where lineage goes.

        That is a setting of ``LOCATING_SETTINGS`` in the environment, or an argument of that name. Where the spool
        can't be written the engine runs on without lineage, and a warning is logged.

        Raises:
            SettingsError: a setting can't be used.
        """
        named = {f"LINEAGE_{argument.upper()}" for argument in arguments} | set(os.environ)
        if not named & set(LOCATING_SETTINGS):
            arguments["enabled"] = False
        try:
            return cls(name, **arguments)
        except (OSError, DeliveryError) as problem:
            if read_settings(**arguments).on_error == "fail":
                raise
            logger.warning("%s runs without lineage: %s", name, in_words(problem))
            return cls(name, **arguments | {"enabled": False})

    # -- the coarse-grained graph --------------------------------------------------------------

    def register(
        self,
        node_id: str,
        name: str = "",
        description: str = "",
        *,
        kind: NodeKind | Literal["container"] = "operator",
        parent: str = "",
        node_type: str = "",
        **fields: Any,
    ) -> str:
        """Name a node, or a container of nodes.

        Args:
            node_id: the node, as addresses have it; inside a container its name there.
            name: what people call it.
            description: what it does.
            kind: source, operator, shuffle, sink, or container.
            parent: the handle of the container that it is in.
            node_type: what archetypes (:meth:`flow_link`) know it by, and what answers of traces know a container
                by (``--by stage``); ``node_id`` when left out.
            **fields: as in the contract.

        Returns:
            The handle: ``node_id`` behind the handle of the parent. It is the same in each run, and the node's
            name in addresses.

        Raises:
            AddressError: the handle can't be part of an address, or the parent is no container.
            pydantic.ValidationError: a field is not of the contract.
        """
        with self._lock:
            handle = self._containers.handle(node_id, parent)
            _check_name(handle)
            if kind == "container":
                self._containers.add_container(handle, parent, node_type or node_id)
                return handle
            around = self._containers.types_around(parent)
        fields.setdefault("op", name or node_id)
        if kind == "sink":
            self._sinks.add(handle)
        register = Register(
            app=self.app,
            node=handle,
            kind=kind,
            name=name or handle,
            description=description,
            containers=tuple(around),
            container_types=tuple(around.values()),
            **fields,
        )
        self._send_or_note(register)
        with self._lock:
            self._link_all(self._containers.add_node(handle, parent, node_type or node_id))
        return handle

    def flow_link(self, src: str, dest: str, within: str = "") -> None:
        """The records of one node go to another.

        Args:
            src: the node that sends.
            dest: the node that receives.
            within: the handle of a container. Then ``src`` and ``dest`` are types, and all their nodes inside the
                container are linked, those that are registered later, too.

        Raises:
            AddressError: ``within`` is no container.
        """
        with self._lock:
            if within:
                self._link_all(self._containers.add_archetype(src, dest, within))
            else:
                self._link(src, dest)

    link = flow_link

    def _link_all(self, links: Iterable[tuple[str, str]]) -> None:
        try:
            for src, dest in links:
                self._link(src, dest)
        except TooManyLinksError as problem:
            self.unknown("links between nodes", str(problem))

    def _link(self, src: str, dest: str) -> None:
        self._sources_of[dest].add(src)
        self._send_or_note(Link(app=self.app, src=src, dest=dest))
        if (inputs := inputs_node(dest)) in self._nodes:
            self._link(src, inputs)

    def link_once(self, src: str, dest: str) -> None:
        """Link two nodes that may be linked already.

        Raises:
            CaptureFailedError: the link would lead back to where it begins.
        """
        with self._lock:
            if src in self._sources_of[dest]:
                return
            if dest in self._upstream(src):
                raise CaptureFailedError(
                    f"{src} and {dest} both read and write the same file: its versions can't be distinguished"
                )
            self._link(src, dest)

    def _upstream(self, node: str) -> set[str]:
        found, pending = {node}, [node]
        while pending:
            for src in self._sources_of.get(pending.pop(), ()):
                if src not in found:
                    found.add(src)
                    pending.append(src)
        return found

    def number_inputs(self, node: str) -> str:
        """The node that holds numbers of a node's inputs, registered when it is needed."""
        inputs = inputs_node(node)
        with self._lock:
            if inputs not in self._nodes:
                self.send(
                    Register(
                        app=self.app,
                        node=inputs,
                        kind="operator",
                        op="inputs",
                        name=f"inputs of {node}",
                    )
                )
                for src in list(self._sources_of[node]):
                    self._link(src, inputs)
                self._link(inputs, node)
        return inputs

    def location(self, path: str, offset: int, length: int) -> str:
        """The address of bytes of a file, for any call that takes an item.

        Where the bytes of an input and those of an output share some, the two are linked: within this application, and between
        applications where the one read the version of the file that the other wrote. The state of the file is noted here, when a
        part of it is first named, and when a task is committed that read or wrote parts of it: read a file after that, and
        have it written, flushed and in its place before.

        Args:
            path: of the file; a relative one is of the working directory.
            offset: of the first byte, from 0.
            length: how many bytes.

        Returns:
            The address.

        Raises:
            AddressError: there are no such bytes.
        """
        if not 0 <= offset < 2**63 or not 0 < length < 2**63:
            raise AddressError(f"{length} bytes from byte {offset}: not a part of a file")
        with self._lock:
            try:
                node, is_new = self._files.node_of(path)
            except CaptureFailedError as problem:
                self.problem("parts of files", problem)
                return f"{path}, {length} bytes from {offset}"
            if is_new:
                self._send_or_note(
                    Register(app=self.app, node=node, kind="operator", op="file", name=path)
                )
        last = offset + length - 1
        return f"{node}#0#{offset}" if length == 1 else f"{node}#0#{offset}-{last}"

    def read_lines(self, node: str, files: Mapping[int, str]) -> None:
        """Say that the items of a source are lines: position ``n`` of a partition is line ``n + 1`` of its file.

        Traces through all jobs go on from there, to the application that wrote the file. Call it before the files are read. That a file changed
        until the application ended is a reason of the verdict.

        Args:
            node: the source.
            files: by partition the path of a local file of text, which is not compressed.
        """
        if not self.settings.enabled:
            return
        try:
            message = files_read(self.app, node, files)
        except (OSError, CaptureFailedError) as problem:
            self.problem("files that were read", problem)
            return
        with self._lock:
            self._lines_read.extend(message.splits)
        if message.splits:
            self.send_files(message)

    def wrote_lines(self, node: str, files: Mapping[int, str]) -> None:
        """The same of the items of a sink. Call it once, when its files are written and in their place."""
        if not self.settings.enabled:
            return
        try:
            message = files_written(self.app, node, files) if files else None
        except (OSError, CaptureFailedError) as problem:
            self.problem("files that were written", problem)
            return
        if message is not None:
            self.send_files(message)

    def send_files(self, message: FilesRead | FilesWritten) -> None:
        """Dispatch which files are read, when a task commits, or were written, at once; each with its checksum.

        A file that is no more what ``message`` says of it has none.
        """
        self._file_messages.add(message)

    def task_began(self) -> int:
        """The number of a task that begins now."""
        with self._lock:
            return self._files.began()

    def check_parts_read(self, files: Iterable[str], task: int) -> None:
        """See that what a task read of files (nodes) can be told from what this application wrote to them.

        Raises:
            CaptureFailedError: it can't.
        """
        with self._lock:
            self._files.check_read(files, task)

    def parts_committed(self, read: Iterable[str], written: Iterable[str]) -> None:
        """A task is about to be committed that read parts of some files (nodes), and wrote parts of others."""
        with self._lock:
            messages = list(self._files.committed(self.app, read, written))
        for message in messages:
            self.send_files(message)

    def is_file(self, node: str) -> bool:
        """Whether a node is a file that :meth:`location` named."""
        return self._files.is_file(node)

    def link_written(self, node: str, file: str) -> None:
        """Link a node to a file of which it writes parts.

        Raises:
            CaptureFailedError: whether what was read of the file was written before is not known.
        """
        with self._lock:
            self._files.check_written(file)
            self.link_once(node, file)

    def unknown(self, what: str, reason: str, call_site: str = "") -> None:
        """A part of the program that has no lineage: the verdict names it."""
        self.send(Unknown(app=self.app, what=what, reason=reason, call_site=call_site))

    def problem(self, what: str, problem: Exception) -> None:
        """Something could not be captured or delivered: the verdict says so.

        Raises:
            Exception: the problem, where ``on_error`` is ``fail``.
        """
        if self.raising:
            raise problem
        logger.warning("%s: %s", what, in_words(problem))
        if len(self._unknown) >= PROBLEMS_MAX:
            return
        try:
            self.unknown(what, in_words(problem))
        except Exception as second:
            # It is counted: the end says that a note never arrived.
            logger.warning("%s could not be recorded: %s", what, in_words(second))

    def _send_or_note(self, message: Message) -> None:
        try:
            self.send(message)
        except Exception as problem:
            self.problem(f"a message of type {message.type}", problem)

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
        """
        _check_name(node_id)
        inert = self._local.task = _inert_task()
        if not self.settings.enabled:
            return inert
        try:
            if self._containers.is_committed(node_id):
                raise CaptureFailedError("its container is committed: no task may begin")
            self._local.task = self.open_capture(node_id, partition)
        except Exception as problem:
            self.problem(f"task {node_id}#{partition}", problem)
        task: TaskCapture = self._local.task
        return task

    def open_capture(self, node: str, partition: int) -> TaskCapture:
        """A task that is no thread's.

        Raises:
            OSError: the spool can't be written.
        """
        from lineage_emitter.sdk.task_capture import TaskCapture

        with self._lock:
            attempt = self._attempts[(node, partition)]
            self._attempts[(node, partition)] += 1
            self._open.add((node, partition, attempt))
        return TaskCapture(self, node, partition, attempt)

    task = begin
    """``with api.task(node, partition):`` commits at the end, or fails on an exception."""

    def capture(self, flow_id: str, hash_in: str, hash_out: str, value: str | None = None) -> None:
        """One flow of the current task (see :meth:`TaskCapture.capture`)."""
        self._task().capture(flow_id, hash_in, hash_out, value)

    def add_input(self, item: str, tag: Hashable = "", *, reset: bool = False) -> None:
        """An input that the current task works on now (see :meth:`TaskCapture.add_input`)."""
        task = getattr(self._local, "task", None)
        if task is None or task.ended:
            task = self._task()
        task.add_input(item, tag, reset=reset)

    def add_output(
        self, item: str, tag: Hashable = "", *, reset: bool = False, value: str | None = None
    ) -> None:
        """An output of the current task (see :meth:`TaskCapture.add_output`)."""
        task = getattr(self._local, "task", None)
        if task is None or task.ended:
            task = self._task()
        task.add_output(item, tag, reset=reset, value=value)

    def add_inputs(
        self,
        space: str | Spaces,
        first: U64,
        *,
        last: U64 | None = None,
        tags: I64 | None = None,
        reset: bool = False,
    ) -> None:
        """Many inputs of the current task at once (see :meth:`TaskCapture.add_inputs`)."""
        self._task().add_inputs(space, first, last=last, tags=tags, reset=reset)

    def add_outputs(
        self,
        space: str,
        first: U64,
        *,
        last: U64 | None = None,
        tags: I64 | None = None,
        reset: bool = False,
        values: Sequence[str | None] | None = None,
    ) -> None:
        """Many outputs of the current task at once (see :meth:`TaskCapture.add_outputs`)."""
        self._task().add_outputs(space, first, last=last, tags=tags, reset=reset, values=values)

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

    def commit(self, container: str = "") -> None:
        """Make the current task's flows durable and visible; or commit a container.

        A container is committed when the engine takes its results. Attempts at tasks inside that are still
        open are dropped then, and so is what they captured. Those that failed are kept: where no other attempt
        was committed, lineage is not complete.

        Args:
            container: its handle; the current task when left out.

        Raises:
            AddressError: it is no container.
        """
        if not container:
            self._task().commit()
            return
        with self._lock:
            self._containers.commit(container)
            dropped = [
                task for task in self._open if self._containers.is_inside(task[0], container)
            ]
            self._open.difference_update(dropped)
            self._dropped.update(dropped)
        for node, partition, attempt in sorted(dropped):
            reason = f"it was open when {container} was committed"
            self._send_or_note(
                Fail(app=self.app, node=node, partition=partition, attempt=attempt, reason=reason)
            )

    def fail(self, reason: str = "", inputs: Sequence[str] = ()) -> None:
        """Drop the current task: what it captured counts for nothing (see :meth:`TaskCapture.fail`)."""
        self._task().fail(reason, inputs)

    def keep_crash(self, node: str, partition: int, inputs: Sequence[str]) -> None:
        """Keep the inputs of a task that failed as those of a sink: a trace of it leads to the rows of the sources."""
        crash = f"{node}:crash"
        with self._lock:
            if crash not in self._nodes:
                self.register(crash, f"failure of {node}", kind="sink", op="crash", alias="crash")
                for src in list(self._sources_of[node]):
                    self._link(src, crash)
            number = self._attempts[(crash, partition)]
        task = self.open_capture(crash, partition)
        for item in inputs:
            task.add_input(item)
        task.add_output(f"{crash}#{partition}#{number}")
        task.commit()

    def settle(self, node: str, partition: int, attempt: int) -> bool:
        """An attempt ends; whether it counts, because its container was not committed without it."""
        with self._lock:
            self._open.discard((node, partition, attempt))
            if (node, partition, attempt) in self._dropped:
                return False
            self._settled.add((node, partition))
            return True

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
            self.problem("capture outside of a task", CaptureFailedError(NO_TASK))
            task = _inert_task()
        return task

    def traced(
        self,
        node_id: str,
        *,
        name_of: Callable[[Any], str | None],
        keeps: Keeps = "proof",
    ) -> Callable[[Function], Function]:
        """Make a function or a generator report its lineage, as a decorator.

        A function's result is made from the records among the arguments of that call. A generator reads records from
        its first argument. An output that it yields is made from the record read last, where its code proves that it
        keeps nothing; else from all records read so far, a superset with the reason.

        Args:
            node_id: the node; it is registered where it is not.
            name_of: names a record, of arguments and results; equal names are one item. None: the value is no record.
            keeps: of a generator, what its author declares: ``nothing`` of earlier records, or what it read
                ``since yield``, the last one; ``proof`` when left out.

        Returns:
            The decorator. What it captures is committed when the API is closed.

        Raises:
            AddressError: ``node_id`` can't be part of an address.
        """
        _check_name(node_id)

        def decorate(function: Function) -> Function:
            if not self.settings.enabled:
                return function
            if node_id not in self._nodes:
                self.register(node_id, getattr(function, "__qualname__", node_id), kind="sink")
            wrapper, captured = traced(self, node_id, function, name_of, keeps)
            self._traced.append(captured)
            return wrapper

        return decorate

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
        self._file_messages.send_read()
        with self._lock:
            self._totals["tasks"] += 1
            self._totals["blocks"] += fields.get("blocks", 0)
            self._totals["flows"] += fields.get("flows", 0)
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
            OSError: the spool can't be written, and ``on_error`` is ``fail``; what is in it is linked all the same.
            StoreError: the store can't be written, and ``on_error`` is ``fail``; ``lineage link`` goes on from here.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if not self.settings.enabled:
            return
        try:
            for function in self._traced:
                function.close()
            for message in self._files.closed(self.app):
                self.send_files(message)
            self._file_messages.send_read()
            for path in changed(self._lines_read):
                self.unknown("a source", f"{path} changed while it was read")
            try:
                self.end(status)
            finally:
                self.linker.close()
        except Exception as problem:
            if self.raising:
                raise
            logger.warning("lineage of %s was not closed: %s", self.app, in_words(problem))
        self.linker.publish()
        self.linker.hand_over()

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
        dropped = {task[:2] for task in self._dropped} - {task[:2] for task in self._open}
        for node, partition in sorted(self._attempts):
            # Without a link to it the dropped node would be taken for a source: then it is missed.
            is_forgotten = (node, partition) in dropped - self._settled and self._sources_of.get(
                node
            )
            if not is_forgotten:
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


def _inert_task() -> TaskCapture:
    """A task that captures nothing, for callers who need not know."""
    return cast("TaskCapture", InertTask())


def inputs_node(node: str) -> str:
    """The node that holds numbers of another's inputs."""
    return f"{node}:inputs"


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
