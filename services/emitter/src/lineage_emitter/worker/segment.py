"""A segment: what one Python worker runs for one task between two boundaries.

A segment is a stack of *numberings*. A numbering gives an ordinal to each record that flows through the
chain of functions: its ``cell`` holds the ordinal of the record now being worked on. Functions
that work record by record need nothing more: the cell is set before a record enters the chain and
read when a record leaves it. A function that groups, sorts or merges ends one numbering and begins
the next; the flows between the two numberings are its blocks.
"""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from lineage_core.contract.address import INCARNATION_MAX, ORDINAL_BITS
from lineage_core.contract.block import BlockId
from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.failures import in_words
from lineage_emitter.worker.culprits import report_culprits

if TYPE_CHECKING:
    from lineage_core.contract.block import U64, FlowBlock
    from lineage_core.contract.row_sums import RowSums
    from lineage_emitter.dispatch.port import TaskDispatcher
    from lineage_emitter.worker.row_files import RunRows
    from lineage_emitter.worker.task_config import TaskConfig

NOTHING_READ = 2**64 - 1
"""What a cell holds before the first record of its numbering."""
EXCLUDED = 2**64 - 2
"""What the cell of a limited numbering holds while a record without lineage is in the chain."""
ATTEMPT_BITS = 24
"""Task attempts below 16.7 million; the bits above tell apart the runs of one segment in one
task (``x.union(x).coalesce(1)``). An exchange position has room for 16 of them."""


class Numbering:
    """One numbering of the records of a segment.

    ``cell[0]``: ordinal (from 0, of this numbering) of the record now in the chain,
    ``NOTHING_READ`` before the first. Ordinals map to items by ranges: from ``starts[i]`` on,
    ordinal ``o`` is the item ``bases[i] + o - starts[i]`` of space ``spaces[i]``. ``unlimited``: of a
    numbering behind a rule that limits capture, the same numbering without the limit. ``origin``: of a
    numbering that starts again, which items of an earlier stage (or a source) its record came from.
    ``base``: of a numbering of one step of a chain, the numbering of the step before.
    ``sums``: of lines of a text source, their checksums.
    """

    __slots__ = (
        "_opaque",
        "_prefix",
        "base",
        "bases",
        "cell",
        "exhausted",
        "origin",
        "rows",
        "spaces",
        "starts",
        "sums",
        "unlimited",
    )

    def __init__(self) -> None:
        self.cell: list[int] = [NOTHING_READ]
        self.starts = array("Q")
        self.bases = array("Q")
        self.spaces: list[str] = []
        self._opaque = [False]
        self._prefix: list[int | None] = [None]
        self.rows = 0
        self.exhausted = False
        self.sums: RowSums | None = None
        self.unlimited: Numbering | None = None
        self.origin: Callable[[], list[tuple[str, int, int]]] | None = None
        self.base: Numbering | None = None

    @property
    def prefix_from(self) -> int | None:
        """Behind a function that may buffer: the first ordinal that it read, once it did."""
        return self._prefix[0]

    @prefix_from.setter
    def prefix_from(self, ordinal: int | None) -> None:
        self._prefix[0] = ordinal

    @property
    def opaque(self) -> bool:
        """Whether a function before this numbering may have buffered: outputs are supersets."""
        return self._opaque[0]

    def become_opaque(self, first: int) -> None:
        """From now on every output may depend on all records from ordinal ``first`` on."""
        self._opaque[0] = True
        if self.prefix_from is None or self.prefix_from > first:
            self.prefix_from = first

    @classmethod
    def of_space(cls, space: str, base: int = 0) -> Numbering:
        """A numbering whose ordinals are the positions of one space, from ``base``."""
        numbering = cls()
        numbering.add_range(0, space, base)
        return numbering

    def add_range(self, start: int, space: str, base: int) -> None:
        """From ordinal ``start`` on, records are items of ``space`` from position ``base``."""
        self.starts.append(start)
        self.bases.append(base)
        self.spaces.append(space)

    def derived(self) -> Numbering:
        """The same numbering after a function that may buffer.

        Every output then depends on all records from ``prefix_from`` up to the cell.
        """
        numbering = Numbering.__new__(Numbering)
        numbering.cell, numbering.starts, numbering.bases = self.cell, self.starts, self.bases
        numbering.spaces, numbering.rows, numbering.exhausted = (
            self.spaces,
            self.rows,
            self.exhausted,
        )
        numbering.sums = self.sums
        numbering._prefix = [self.prefix_from]
        numbering.unlimited, numbering.origin, numbering.base = None, self.origin, self.base
        numbering._opaque = [True]
        return numbering

    def reads_with(self, before: Numbering) -> None:
        """The function behind this numbering gets what the one behind ``before`` returned, as it is."""
        self._prefix = before._prefix

    def limited(self) -> Numbering:
        """The same numbering with a cell of its own, which is ``EXCLUDED`` where records are."""
        numbering = self.derived()
        numbering.cell = [self.cell[0]]
        numbering._prefix = self._prefix
        numbering._opaque = self._opaque
        numbering.unlimited = self.unlimited or self
        return numbering

    def current(self) -> list[tuple[str, int, int]]:
        """Items (runs: space, first, last) that the record now in the chain came from."""
        if self.base is not None:
            return self.base.current()
        if self.origin is not None:
            return self.origin()
        ordinal = self.cell[0] if self.unlimited is None else self.unlimited.cell[0]
        return self.item(ordinal)

    def item(self, ordinal: int) -> list[tuple[str, int, int]]:
        """The item that an ordinal names, if it is one that outlives a failure of the task."""
        has_origin = self.origin is not None or self.base is not None
        if has_origin or ordinal >= EXCLUDED or not self.starts:
            return []
        ((space, _, positions),) = self.resolve(np.array([ordinal], dtype=np.uint64))
        return [(space, int(positions[0]), int(positions[0]))]

    def read(self) -> dict[str, Any]:
        """How many records were read so far, and the checksums of lines."""
        if self.sums is None:
            return {"rows": self.rows}
        return {"rows": self.sums.rows, "sums": self.sums.text()}

    def all_read(self) -> list[tuple[str, int, int]]:
        """Items (runs) of all records up to the one read last."""
        if self.base is not None:
            return self.base.all_read()
        if self.origin is not None or self.cell[0] >= EXCLUDED:
            return []
        stops = [*self.starts[1:], self.cell[0] + 1]
        pieces = zip(self.starts, stops, self.spaces, self.bases, strict=True)
        return [(name, base, base + b - a - 1) for a, b, name, base in pieces if b > a]

    def numbers(self, space: str) -> bool:
        """Whether ordinals are the positions of ``space`` themselves."""
        is_single = len(self.spaces) == 1 and self.spaces[0] == space
        return is_single and not self.opaque and self.starts[0] == 0 and self.bases[0] == 0

    def resolve(self, ordinals: U64) -> list[tuple[str, np.ndarray[Any, Any], U64]]:
        """Map ordinals to items: per space (space, indexes into ``ordinals``, positions)."""
        if not len(ordinals):
            return []
        if not self.starts:
            raise CaptureFailedError("records came from another worker without their names")
        if len(self.starts) == 1:
            shift = np.uint64(self.bases[0]) - np.uint64(self.starts[0])
            everything = np.arange(len(ordinals))
            return [(self.spaces[0], everything, ordinals + shift)]
        starts = np.array(self.starts, dtype=np.uint64)
        add_range = np.searchsorted(starts, ordinals, side="right") - 1
        positions = ordinals - starts[add_range] + np.array(self.bases, dtype=np.uint64)[add_range]
        names = sorted(set(self.spaces))
        if len(names) == 1:
            return [(names[0], np.arange(len(ordinals)), positions)]
        index = {name: i for i, name in enumerate(names)}
        of_piece = np.array([index[name] for name in self.spaces])
        of_row = of_piece[add_range]
        resolved = []
        for i, name in enumerate(names):
            rows = np.flatnonzero(of_row == i)
            if len(rows):
                resolved.append((name, rows, positions[rows]))
        return resolved


class Segment:
    """The capture of one segment of one task.

    Capture never raises into the job: the first failure is stored in ``failed``, later blocks are
    dropped and counted as undelivered, and the end marker says so.
    """

    def __init__(self, config: TaskConfig, node: str, partition: int, attempt: int) -> None:
        self.config = config
        self.node = node
        self.end_node = node
        """Names the task."""
        self.partition = partition
        self.attempt = attempt
        self.stage: int | None = None
        """Spark's stage of the task, if a task runs it."""
        self.numbering = Numbering()
        self.failed = ""
        self.undelivered = 0
        self.rows_out = 0
        self.collisions = 0
        self.digest = 0
        self.names_attempts = False
        """Whether who reads its keys says which attempt's they are."""
        self.newlines: list[tuple[int, int]] = []
        self.reasons: list[str] = []
        self.reads: list[Numbering] = []
        self.limits: dict[str, list[int]] = {}
        """By node: records seen, and captured, where rules limit capture."""
        self.set_aside: dict[str, int] = {}
        """By node: records that its function failed on, and that were set aside."""
        self.repaired: dict[str, int] = {}
        """By node: records that its function failed on, and that others stand in the place of."""
        self.batches = 0
        """Batches that its reader has started, where it counts them."""
        self.stored_rows: RunRows | None = None
        """Of a sink that stores its rows: the rows of this run."""
        self.capture_s = 0.0
        """Seconds that its thread has spent in :meth:`capturing`."""
        self.thread = threading.get_ident()
        self.lock = threading.RLock()
        """Held by what flushes, and by a function that reads in a thread of its own."""
        self._flushers: list[Callable[[], None]] = []
        self._enders: list[Callable[[], None]] = []
        self._out: TaskDispatcher | None = None
        self._incarnation: int | None = None
        self._finished = False

    # -- names -------------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        """Unique number of this run of the segment: the task attempt, made unique in the task."""
        if self._incarnation is None:
            self._incarnation = self._open()
        return self._incarnation

    def space(self, node: str) -> str:
        """The space of the records that ``node`` numbers in this run."""
        return f"{node}#{self.partition}.{self.incarnation}"

    def exchange_base(self) -> int:
        """First exchange position of this run."""
        if self.incarnation > INCARNATION_MAX:
            self.fail(CaptureFailedError("more than 16 runs of one segment in one task"))
        base: int = (self.incarnation & INCARNATION_MAX) << ORDINAL_BITS
        return base

    def _open(self) -> int:
        from lineage_emitter.dispatch.opening import open_task

        try:
            if self.attempt >= 1 << ATTEMPT_BITS:
                raise CaptureFailedError(
                    f"task attempt {self.attempt} is beyond what fits a position"
                )
            name = f"{self.node}-{self.partition}-{self.attempt}"
            self._out, run = open_task(self.config, name, self.partition)
            return self.attempt | run << ATTEMPT_BITS
        except Exception as problem:
            self.fail(problem)
            return self.attempt & ((1 << ATTEMPT_BITS) - 1)

    # -- numberings and recorders ------------------------------------------------------------

    def on_flush(self, flush: Callable[[], None]) -> None:
        """Call ``flush`` before records leave through the JVM, and when the segment ends."""
        self._flushers.append(flush)

    def on_end(self, action: Callable[[], None]) -> None:
        """Call ``action`` once, when the segment ends."""
        self._enders.append(action)

    def guard(self, action: Callable[[], None]) -> None:
        """Run a piece of capture so that its failure never reaches the job.

        After a failure pieces still run, and :meth:`emit` drops what they give: buffers are
        emptied as before, so they neither grow nor stop the loops that wait for it.
        """
        try:
            with self.capturing(), self.lock:
                action()
        except Exception as problem:
            self.fail(problem)

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """The body is capture's: what it takes is not the program's time."""
        if threading.get_ident() != self.thread:
            yield
            return
        before, began = self.capture_s, time.perf_counter()
        try:
            yield
        finally:
            # The time of a body within it is part of it.
            self.capture_s = before + time.perf_counter() - began

    def fail(self, problem: BaseException) -> None:
        """Record why capture stopped; with ``on_error=fail`` this ends the task."""
        if not self.failed:
            self.failed = in_words(problem, 500)
        if self.config.fail_job:
            raise CaptureFailedError(
                f"lineage could not be captured ({self.failed}); on_error=continue lets the job go on"
            ) from problem

    def emit(self, block: FlowBlock) -> None:
        """Dispatch one block (called from within :meth:`guard`)."""
        if self.failed:
            self.undelivered += 1
            return
        assert self.incarnation >= 0
        if self.stored_rows is not None:
            self.stored_rows.add_block(block)
        if self._out is not None:
            self._out.write(block, self.end_node)

    def next_block(self, node: str) -> BlockId:
        """The id of the next block, which holds flows of ``node``."""
        incarnation = self.incarnation
        seq = self._out.next_seq() if self._out is not None else 0
        return BlockId(node, self.partition, incarnation, seq)

    # -- end ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """Dispatch what the recorders still hold, so that it outlives this process."""
        self.flush_recorders()
        self.push()

    def flush_recorders(self) -> None:
        """Dispatch what the recorders still hold."""
        for flush in self._flushers:
            self.guard(flush)

    def push(self) -> None:
        """What was dispatched outlives this process from now on."""
        if self._out is not None:
            self.guard(self._out.push)

    def finish(self) -> None:
        """Flush, make durable, then send the end marker: the task's last act."""
        if self._finished:
            return
        self._finished = True
        for action in self._enders:
            self.guard(action)
        self.flush()
        out = self._out
        if out is not None:
            self.guard(out.sync)
            if out.spooled and self.config.fail_job:
                raise CaptureFailedError(
                    f"{out.spooled} blocks of lineage could not be sent ({out.spooled_reason}); "
                    "on_error=continue lets the job go on"
                )
        if self.failed and not self.undelivered:
            self.undelivered = 1
        self.config.markers.add([self._marker()])

    def _marker(self) -> dict[str, Any]:
        out = self._out
        stored = {} if self.stored_rows is None else {"kept": self.stored_rows.end_fact()}
        return stored | {
            "node": self.end_node,
            "partition": self.partition,
            "attempt": self.attempt if self._incarnation is None else self._incarnation,
            "file": out.file if out is not None else "",
            "spooled": out.spooled if out is not None else 0,
            "spooled_reason": out.spooled_reason[:500] if out is not None else "",
            "blocks": out.blocks if out is not None else 0,
            "flows": out.flows if out is not None else 0,
            "associations": out.associations if out is not None else 0,
            "bytes": out.bytes if out is not None else 0,
            "rows": self.rows_out,
            "digest": f"{self.digest:016x}",
            "attempts_named": self.names_attempts,
            "undelivered": self.undelivered,
            "failed": self.failed,
            "reads": [
                {"space": f.spaces[0], "exhausted": f.exhausted, **f.read()}
                for f in self.reads
                if len(f.spaces) == 1
            ],
            "superset_reasons": sorted(set(self.reasons)),
            "newlines": self.newlines,
            "collisions": self.collisions,
            "stage": self.stage,
            "limited": [
                {"node": node, "seen": seen, "captured": captured}
                for node, (seen, captured) in self.limits.items()
            ],
            "set_aside": [
                {"node": node, "records": records} for node, records in self.set_aside.items()
            ],
            "repaired": [
                {"node": node, "records": records} for node, records in self.repaired.items()
            ],
        }


_current: Segment | None = None
_end_node = ""
"""The node whose records leave the segment that begins next, as its outermost function says."""


def set_end_node(node: str) -> None:
    """Name the node that ends the next segment: its task's name, before the first block is made."""
    global _end_node  # noqa: PLW0603  as for begin
    _end_node = node


def begin_segment(config: TaskConfig, node: str, partition: int) -> Segment:
    """Begin a segment in this worker process; it stays current until the next one begins."""
    from pyspark import TaskContext

    global _current, _end_node  # noqa: PLW0603  a worker process runs one segment at a time
    context = TaskContext.get()
    attempt = context.taskAttemptId() if context is not None else 0
    _current = Segment(config, node, partition, attempt)
    _current.stage = None if context is None else context.stageId()
    if _end_node:
        _current.end_node, _end_node = _end_node, ""
    report_culprits(_at_work)
    if config.kafka is not None:
        from lineage_emitter.dispatch.kafka import warm

        warm(config.kafka)
    return _current


def _at_work(attempt: int) -> list[tuple[str, int, int]]:
    """The items at work in the segment that began last; none where that was another attempt's.

    A worker runs task after task, and not all are captured.
    """
    if _current is None or _current.attempt != attempt:
        return []
    return _current.numbering.current()


def current_segment() -> Segment:
    """The segment that this worker runs now.

    Raises:
        CaptureFailedError: no segment has started (a captured function outside of a captured chain).
    """
    if _current is None:
        raise CaptureFailedError("no segment has begun in this worker")
    return _current
