"""``cartesian`` and ``zip``: each pair comes from just its two records."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from py4j.protocol import Py4JJavaError
from pyspark import RDD
from pyspark.errors import PySparkException

from lineage_core.contract.block import FlowBlock, Relation, Section
from lineage_emitter.worker import segment as segments
from lineage_emitter.worker.batches import (
    AS_PAIRED,
    AUTO,
    AddressedBatch,
    PairedBatches,
    addressed_batches,
    batch_size_of,
)
from lineage_emitter.worker.partition_inputs import NumberedRecords
from lineage_emitter.worker.recorders import FLOWS_MAX
from lineage_emitter.worker.segment import NOTHING_READ, Numbering, Segment
from lineage_emitter.worker.task_config import TaskConfig

if TYPE_CHECKING:
    from lineage_core.contract.block import U64
    from lineage_emitter.driver.captured import CapturedRDD
    from lineage_emitter.session.nodes import Node

NamedPairs = Iterable[tuple[AddressedBatch, AddressedBatch]]
ZIP_BATCH = 100
"""Records a batch where PySpark zips what has no batches of one size."""
UNEVEN = "Can not deserialize PairRDD with different number of items in batches: ({}, {})"
_UNEVEN = re.compile(re.escape(UNEVEN).replace(r"\{\}", r"\d+"))


class PairRecorder:
    """Flows from two items to each of the pairs that a segment numbers.

    A run of pairs begins at ordinal ``starts[i]``, from the item ``lefts[i]`` of one space and
    ``rights[i]`` of another. Along it the right item goes on one by one; the left one stays where it
    is, or goes on too (``pairwise``).
    """

    def __init__(
        self, segment: Segment, numbering: Numbering, node: str, space: str, pairwise: bool
    ) -> None:
        self.segment = segment
        self.numbering = numbering
        self.node = node
        self.space = space
        self.pairwise = pairwise
        self._starts, self._lefts, self._rights = array("Q"), array("Q"), array("Q")
        self._spaces: tuple[str, str] | None = None
        segment.on_flush(self.flush)

    def begin(self, left: AddressedBatch, right: AddressedBatch) -> None:
        """Pairs of two batches follow."""
        if self._spaces != (left.space, right.space) or len(self._starts) >= FLOWS_MAX:
            self.segment.guard(self.flush)
            self._starts, self._lefts, self._rights = array("Q"), array("Q"), array("Q")
            self._spaces = (left.space, right.space)

    def run(self, start: int, left: int, right: int) -> None:
        """A run begins at ordinal ``start``."""
        if self.pairwise and self._starts:
            passed = start - self._starts[-1]
            if (left, right) == (self._lefts[-1] + passed, self._rights[-1] + passed):
                return
        self._starts.append(start)
        self._lefts.append(left)
        self._rights.append(right)

    def last(self) -> list[tuple[str, int, int]]:
        """The two items of the pair now at work (runs)."""
        cell = self.numbering.cell[0]
        if self._spaces is None or not self._starts or cell == NOTHING_READ:
            return []
        passed = cell - self._starts[-1]
        left, right = self._lefts[-1] + (passed if self.pairwise else 0), self._rights[-1] + passed
        return [(self._spaces[0], left, left), (self._spaces[1], right, right)]

    def flush(self) -> None:
        """Emit the pairs up to the one at work; the last run may go on."""
        cell = self.numbering.cell[0]
        if not self._starts or cell == NOTHING_READ:
            return
        starts: U64 = np.array(self._starts, dtype=np.uint64)
        lefts: U64 = np.array(self._lefts, dtype=np.uint64)
        rights: U64 = np.array(self._rights, dtype=np.uint64)
        stops = np.append(starts[1:], np.uint64(cell + 1))
        counts = stops - starts
        self._starts, self._lefts, self._rights = (
            array("Q", [cell + 1]),
            array("Q", [int(lefts[-1]) + (int(counts[-1]) if self.pairwise else 0)]),
            array("Q", [int(rights[-1] + counts[-1])]),
        )
        nonempty = np.flatnonzero(counts)
        if not len(nonempty):
            return
        starts, lefts, rights = starts[nonempty], lefts[nonempty], rights[nonempty]
        more = counts[nonempty] - np.uint64(1)
        assert self._spaces is not None
        left_space, right_space = self._spaces
        self._emit(
            left_space, lefts, lefts + more if self.pairwise else None, starts, starts + more
        )
        self._emit(right_space, rights, rights + more, starts, starts + more)

    def _emit(
        self, in_space: str, first: U64, last: U64 | None, out_first: U64, out_last: U64
    ) -> None:
        """``last`` None: all pairs of a run are from its one item."""
        segment = self.segment
        for start in range(0, len(first), FLOWS_MAX):
            rows = slice(start, start + FLOWS_MAX)
            segment.emit(
                FlowBlock(
                    block_id=segment.next_block(self.node),
                    relation=Relation.ROWS if last is None else Relation.IDENTITY,
                    in_space=in_space,
                    out=(Section(self.space, 0, len(first[rows])),),
                    in_first=first[rows],
                    in_last=None if last is None else last[rows],
                    out_first=out_first[rows],
                    out_last=out_last[rows],
                    app=segment.config.app,
                )
            )


class ReadPairs:
    """Reads pairs of batches that the JVM made: begins a segment, numbers the pairs of records."""

    def __init__(self, config: TaskConfig, node: str, pairwise: bool) -> None:
        self.config = config
        self.node = node
        self.pairwise = pairwise
        """Record by record (``zip``), or every record with every other (``cartesian``)."""

    def __call__(self, split: int, iterator: NamedPairs) -> NumberedRecords:
        segment = segments.begin_segment(self.config, self.node, split)
        space = segment.space(self.node)
        numbering = segment.numbering = Numbering.of_space(space)
        recorder = PairRecorder(segment, numbering, self.node, space, self.pairwise)
        numbering.origin = recorder.last
        read = _zip_pairs if self.pairwise else _cartesian_pairs
        return NumberedRecords(
            read(_begin_batches(iterator, segment, recorder), recorder, numbering.cell), chain
        )


def _begin_batches(pairs: NamedPairs, segment: Segment, recorder: PairRecorder) -> NamedPairs:
    for left, right in pairs:
        segment.batches += 1
        recorder.begin(left, right)
        yield left, right


def _cartesian_pairs(
    pairs: NamedPairs, recorder: PairRecorder, cell: list[int]
) -> Iterator[tuple[Any, Any]]:
    ordinal = 0
    for left, right in pairs:
        for position, left_record in enumerate(left.items, left.base):
            recorder.run(ordinal, position, right.base)
            for right_record in right.items:
                cell[0] = ordinal
                ordinal += 1
                yield (left_record, right_record)


def _zip_pairs(
    pairs: NamedPairs, recorder: PairRecorder, cell: list[int]
) -> Iterator[tuple[Any, Any]]:
    ordinal = 0
    for left, right in pairs:
        if len(left.items) != len(right.items):
            raise ValueError(UNEVEN.format(len(left.items), len(right.items)))
        recorder.run(ordinal, left.base, right.base)
        for pair in zip(left.items, right.items, strict=True):
            cell[0] = ordinal
            ordinal += 1
            yield pair


def cartesian(rdd: CapturedRDD, other: CapturedRDD) -> RDD[Any]:
    """``cartesian``: PySpark's own batches, paired by the JVM."""
    left, left_node = addressed_batches(rdd, "cartesian", "left", None)
    right, right_node = addressed_batches(other, "cartesian", "right", None)
    paired = left._jrdd.cartesian(right._jrdd)
    return _read(rdd, "cartesian", paired, (left_node, right_node), pairwise=False)


def zip_with(rdd: CapturedRDD, other: CapturedRDD) -> RDD[Any]:
    """``zip``: batches of the sizes that PySpark makes equal."""
    sizes = [
        1 if size == AS_PAIRED else size for size in (batch_size_of(rdd), batch_size_of(other))
    ]
    size: int | None = None
    if sizes[0] != sizes[1] or sizes[0] == AUTO:
        size = min(sizes) if min(sizes) > 0 else ZIP_BATCH
    if rdd.getNumPartitions() != other.getNumPartitions():
        raise ValueError("Can only zip with RDD which has the same number of partitions")
    left, left_node = _zip_side(rdd, "left", size)
    right, right_node = _zip_side(other, "right", size)
    paired = left._jrdd.zip(right._jrdd)
    return _read(rdd, "zip", paired, (left_node, right_node), pairwise=True)


def _zip_side(rdd: CapturedRDD, side: str, size: int | None) -> tuple[RDD[Any], Node]:
    """PySpark leaves a side as it is that has batches of the size already."""
    return addressed_batches(rdd, "zip", side, None if batch_size_of(rdd) == size else size)


def _read(
    rdd: CapturedRDD, op: str, paired: Any, sides: tuple[Node, Node], *, pairwise: bool
) -> RDD[Any]:
    session = rdd.session
    node = session.nodes.register("operator", op, sides)
    pairs: RDD[Any] = RDD(paired, rdd.ctx, PairedBatches(rdd.ctx._unbatched_serializer))
    read = ReadPairs(session.config, node.name, pairwise)
    pair_rdd = rdd.piped(pairs, node.detail.observe(read), False, node)
    pair_rdd.batch_size = AS_PAIRED
    return pair_rdd


@contextmanager
def raising_driver_errors(rdd: CapturedRDD) -> Iterator[None]:
    """PySpark itself pairs up on the driver what is collected right behind a ``zip``."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as problem:
        match = _UNEVEN.search(str(problem)) if rdd.batch_size == AS_PAIRED else None
        if match is None:
            raise
        raise ValueError(match[0]) from problem
