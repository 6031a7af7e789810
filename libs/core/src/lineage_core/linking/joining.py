"""Join columns of a block, and the join of one block's outputs with another's inputs.

A *side* is what one block holds of one space: runs of positions and the row that each belongs to.
Hashes of keys come in no order, so sides are sorted once and joined by binary search; a side whose
positions count up with its rows (*dense*) is three numbers and joins in no time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_core.contract.address import Space, SpaceKind, parse_space
from lineage_core.contract.block import I64, U64, BlockId, FlowBlock, Section
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.runs import (
    EMPTY,
    Runs,
    count_positions,
    intersect_runs,
    normalise,
    sorted_unique,
    spread,
    subtract_runs,
)
from lineage_core.linking.attempts import AttemptsRead, was_read

U32: TypeAlias = npt.NDArray[np.uint32]

PAIRS_MAX = 1 << 20
"""Pairs that one edge batch writes out: some 4 MiB of rows, which fits a Kafka record. Two full
blocks that are nothing but one position in 65,536 flows each would make 4 billion; they are counted
and left implied."""
RUNS_COUNTED_MAX = 1 << 19
"""Of two blocks with more runs than this together, which no writer makes, a pair of rows that is met twice is
counted twice."""

_GATHER_RUNS = 1 << 20
"""Producer runs that are taken off a consumer's inputs at a time: 16 MiB of columns."""
_ROW_BITS = np.uint64(32)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Runs of one space in one block, sorted by first position.

    ``first``/``last``: uint64, ``last is first`` when every run is one position. ``row``: uint32,
    the block's row of each run. ``dense``: positions ``low..high`` belong to rows ``row_low``
    onwards, one each; the arrays are then empty. ``distinct``: single positions, none twice.
    ``attempts``: of inputs, the attempts at their producers' tasks whose outputs were read.
    """

    first: U64
    last: U64
    row: U32
    low: int
    high: int
    row_low: int = -1
    distinct: bool = False
    attempts: AttemptsRead = None

    @property
    def dense(self) -> bool:
        """Whether row = ``row_low`` + position - ``low`` for every position."""
        return self.row_low >= 0

    @property
    def nbytes(self) -> int:
        """Bytes that the side keeps in memory."""
        shared = self.last is self.first
        runs = self.first.nbytes + self.row.nbytes + (0 if shared else self.last.nbytes)
        attempts = self.attempts
        return int(runs) + (0 if attempts is None else attempts.first.nbytes + attempts.last.nbytes)

    def positions(self) -> Runs:
        """All runs, sorted by first position; overlaps possible."""
        if self.dense:
            ends = np.array([self.low], np.uint64), np.array([self.high], np.uint64)
            return ends
        return self.first, self.last

    def one_run_per_row(self) -> Side:
        """The same without ``dense``: one run a row."""
        if not self.dense:
            return self
        count = self.high - self.low + 1
        first = np.arange(count, dtype=np.uint64) + np.uint64(self.low)
        row = np.arange(self.row_low, self.row_low + count, dtype=np.uint32)
        return replace(self, first=first, last=first, row=row, row_low=-1)


@dataclass(frozen=True, slots=True, eq=False)
class JoinEntry:
    """What linking needs of a block.

    ``inputs`` is None when there is nothing to link: the block has no input positions, or its
    input space is a source's. ``outputs``: by space.
    """

    block_id: BlockId
    in_space: str
    inputs: Side | None
    outputs: Mapping[str, Side]

    @property
    def nbytes(self) -> int:
        """Bytes that the entry keeps in memory."""
        input_bytes = 0 if self.inputs is None else self.inputs.nbytes
        return 512 + input_bytes + sum(side.nbytes for side in self.outputs.values())


def join_entry_of(
    block: FlowBlock, is_source: Callable[[str], bool] = lambda node: False
) -> JoinEntry:
    """The join columns of a block. ``is_source(node)``: no block produces into that node's spaces.

    Raises:
        AddressError: a space of the block can't be read.
    """
    outputs = {}
    parts: dict[str, list[Section]] = {}
    for section in block.out:
        if section.row_stop > section.row_first:
            parts.setdefault(section.space, []).append(section)
    for space, sections in parts.items():
        outputs[space] = _outputs(block, sections)
    inputs = None if is_source_space(block.in_space, is_source) else _inputs(block)
    if inputs is not None and block.attempts_read is not None:
        inputs = replace(inputs, attempts=block.attempts_read)
    return JoinEntry(block.block_id, block.in_space, inputs, outputs)


def is_source_space(space: str, is_source: Callable[[str], bool]) -> bool:
    """Whether items of a space come from outside: rows of a source, by their place or by their name."""
    parsed = parse_space(space)
    return parsed.kind in (SpaceKind.PARTITION, SpaceKind.KEYS) and is_source(parsed.name)


def may_be_root(space: str) -> bool:
    """Whether items of the space need no producer: opaque strings and rows of no incarnation.

    The latter are rows of a source, or items of an SDK program; there, a producer that exists
    must have produced them all.
    """
    parsed = parse_space(space)
    return parsed.kind is SpaceKind.OPAQUE or _has_no_incarnation(parsed)


def join_sides(
    producer: BlockId, outputs: Side, consumer: BlockId, inputs: Side
) -> EdgeBatch | None:
    """All pairs of rows that share a position of the one space that both sides are of.

    None when there are none, also because another attempt at the producer's task was read.
    """
    if outputs.high < inputs.low or inputs.high < outputs.low:
        return None
    if not was_read(inputs.attempts, producer.attempt):
        return None
    if outputs.dense:
        pairs = _shared_positions(outputs, inputs)
        return EdgeBatch(producer, consumer, pairs) if pairs else None
    return _join_runs(producer, consumer, outputs, inputs.one_run_per_row())


class ProducedPositions:
    """Which positions of a consumer's inputs are put out by some producer.

    Where every row has one position and no two the same, the rows in the edges tell; elsewhere the
    producers' positions are taken off the inputs', some at a time.
    """

    def __init__(self, inputs: Side) -> None:
        self._inputs = inputs
        self._matched = _unmarked_rows(inputs)
        self._row_low = np.uint32(inputs.row_low if inputs.dense else inputs.row.min())
        self._unmatched_runs: Runs | None = None
        self._parts: list[Runs] = []
        self._size = 0

    def add(self, outputs: Side, edge: EdgeBatch | None) -> None:
        """A producer, and what :func:`join_sides` found of it."""
        if edge is None:
            return
        if self._matched is None or edge.rows_consumer is None:
            self.add_positions(outputs)
        else:
            self._matched[edge.rows_consumer - self._row_low] = True

    def add_producer(self, producer: BlockId, outputs: Side) -> None:
        """A producer that was not joined; it has nothing where another attempt was read."""
        if was_read(self._inputs.attempts, producer.attempt):
            self.add_positions(outputs)

    def add_positions(self, outputs: Side) -> None:
        """What was read of a producer that was not joined."""
        runs = outputs.positions()
        self._parts.append(runs)
        self._size += len(runs[0])
        if self._size >= _GATHER_RUNS:
            self._subtract_producers()

    def unmatched(self) -> int:
        """Number of positions that no producer has."""
        if self._matched is not None and not self._parts and self._unmatched_runs is None:
            return len(self._matched) - int(np.count_nonzero(self._matched))
        self._subtract_producers()
        remaining = self._unmatched_runs
        assert remaining is not None
        if self._matched is not None and len(remaining[0]):
            side = self._inputs.one_run_per_row()
            missed = ~self._matched[side.row - self._row_low]
            remaining = intersect_runs(remaining, normalise(side.first[missed], side.first[missed]))
        return count_positions(remaining)

    def _subtract_producers(self) -> None:
        remaining = (
            normalise(*self._inputs.positions())
            if self._unmatched_runs is None
            else self._unmatched_runs
        )
        if self._parts:
            first = np.concatenate([part[0] for part in self._parts])
            last = np.concatenate([part[1] for part in self._parts])
            remaining = subtract_runs(remaining, normalise(first, last))
        self._unmatched_runs, self._parts, self._size = remaining, [], 0


def _unmarked_rows(side: Side) -> npt.NDArray[np.bool_] | None:
    """A place for each row, all False; None: some row has several positions, or some position rows."""
    if side.dense:
        return np.zeros(side.high - side.low + 1, np.bool_)
    if not side.distinct:
        return None
    marked = np.zeros(len(side.row), np.bool_)
    row_index = side.row - side.row.min()
    if int(row_index.max()) >= len(marked):
        return None
    marked[row_index] = True
    if not marked.all():
        return None
    marked[:] = False
    return marked


def _has_no_incarnation(space: Space) -> bool:
    return space.kind is SpaceKind.PARTITION and space.incarnation is None


def _outputs(block: FlowBlock, parts: Sequence[Section]) -> Side:
    first = np.concatenate([block.out_first[part.row_first : part.row_stop] for part in parts])
    last = first
    if block.out_last is not None:
        last = np.concatenate([block.out_last[part.row_first : part.row_stop] for part in parts])
    row = np.concatenate(
        [np.arange(part.row_first, part.row_stop, dtype=np.uint32) for part in parts]
    )
    # Two sections of one space are one run of rows only when nothing stands between them.
    return _side(first, last, row, consecutive=int(row[-1]) - int(row[0]) + 1 == len(row))


def _inputs(block: FlowBlock) -> Side | None:
    first = block.in_first
    if len(first) == 0:
        return None
    last = first if block.in_last is None else block.in_last
    if block.in_ptr is None:
        return _side(first, last, np.arange(block.rows, dtype=np.uint32), consecutive=True)
    counts = np.diff(block.in_ptr)
    row = np.repeat(np.arange(block.rows, dtype=np.uint32), counts)
    return _side(first, last, row, consecutive=bool((counts == 1).all()))


def _side(first: U64, last: U64, row: U32, *, consecutive: bool) -> Side:
    """``consecutive``: rows count up by one."""
    if last is not first and bool((last == first).all()):
        last = first
    low, single_positions = int(first[0]), last is first
    rising = bool((first[1:] > first[:-1]).all())
    if single_positions and consecutive and rising and int(first[-1]) - low == len(first) - 1:
        no_positions = EMPTY[0]
        return Side(
            no_positions, no_positions, row[:0], low, int(first[-1]), int(row[0]), distinct=True
        )
    if not rising:
        # Rows of one position may come in any order; what depends on it sorts them itself.
        order = np.argsort(first)
        first, row = first[order], row[order]
        last = first if single_positions else last[order]
        rising = bool((first[1:] > first[:-1]).all())
    return Side(
        first, last, row, int(first[0]), int(last.max()), distinct=single_positions and rising
    )


def _shared_positions(dense: Side, runs: Side) -> int:
    """Pairs of a row and a position: each position of ``dense`` is one row."""
    low, high = max(dense.low, runs.low), min(dense.high, runs.high)
    if low > high:
        return 0
    if runs.dense:
        return high - low + 1
    stop = int(np.searchsorted(runs.first, np.uint64(high), side="right"))
    if runs.last is runs.first:
        return stop - int(np.searchsorted(runs.first, np.uint64(low), side="left"))
    first = np.maximum(runs.first[:stop], np.uint64(low))
    last = np.minimum(runs.last[:stop], np.uint64(high))
    overlapping = last >= first
    return int((last[overlapping] - first[overlapping]).sum(dtype=np.uint64)) + int(
        np.count_nonzero(overlapping)
    )


def _join_runs(
    producer: BlockId, consumer: BlockId, outputs: Side, inputs: Side
) -> EdgeBatch | None:
    points = outputs.last is outputs.first and inputs.last is inputs.first
    if points and (outputs.distinct or inputs.distinct):
        keys = _equal_points(outputs, inputs)
    else:
        matches = _Matches(outputs, inputs)
        if matches.total > PAIRS_MAX:
            return EdgeBatch(producer, consumer, matches.distinct())
        keys = matches.keys()
    if len(keys) == 0:
        return None
    return EdgeBatch(
        producer,
        consumer,
        len(keys),
        (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32),
        (keys >> _ROW_BITS).astype(np.uint32),
    )


def _equal_points(outputs: Side, inputs: Side) -> U64:
    """:meth:`_Matches.keys` where no pair can be found twice: half the searches, on fewer keys."""
    smaller, larger = sorted((outputs, inputs), key=lambda side: len(side.first))
    if not larger.distinct:
        smaller, larger = larger, smaller
    at = np.searchsorted(larger.first, smaller.first)
    at[at == len(larger.first)] = 0
    matched = larger.first[at] == smaller.first
    smaller_rows, larger_rows = smaller.row[matched], larger.row[at[matched]]
    pairs = (
        _keys(smaller_rows, larger_rows) if smaller is inputs else _keys(larger_rows, smaller_rows)
    )
    return np.sort(pairs)


class _Matches:
    """Pairs of intersecting runs, found from the size of the result.

    Two runs intersect when the output's first position lies in the input run, or else the input's
    first position lies within the output run, past its first: each pair is found exactly once, and
    only runs that are in a pair are visited.
    """

    def __init__(self, outputs: Side, inputs: Side) -> None:
        self.outputs, self.inputs = outputs, inputs
        self.starts_in_input = (
            np.searchsorted(outputs.first, inputs.first, side="left"),
            np.searchsorted(outputs.first, inputs.last, side="right"),
        )
        self.starts_in_output = None
        if outputs.last is not outputs.first:
            self.starts_in_output = (
                np.searchsorted(inputs.first, outputs.first, side="right"),
                np.searchsorted(inputs.first, outputs.last, side="right"),
            )
        self.total = _size(self.starts_in_input) + _size(self.starts_in_output)

    def keys(self) -> U64:
        """``row of input << 32 | row of output``, sorted, each pair once (uint64)."""
        low, high = self.starts_in_input
        owner, step = spread(high - low)
        parts = [_keys(self.inputs.row[owner], self.outputs.row[low[owner] + step])]
        if self.starts_in_output is not None:
            low, high = self.starts_in_output
            owner, step = spread(high - low)
            parts.append(_keys(self.inputs.row[low[owner] + step], self.outputs.row[owner]))
        if len(parts) == 1:
            # A row's runs are disjoint, so one output position meets it once.
            return np.sort(parts[0])
        return sorted_unique(np.concatenate(parts))

    def distinct(self) -> int:
        """Number of pairs of rows (see ``RUNS_COUNTED_MAX``), without making any of them."""
        outputs, inputs = self.outputs, self.inputs
        if self.starts_in_output is None or len(inputs.row) + len(outputs.row) > RUNS_COUNTED_MAX:
            return self.total
        # Runs of one input row are disjoint, so those that an output meets stand side by side: a pair is met
        # once more for each gap between two of them that lies within the output.
        order = np.argsort(inputs.row, kind="stable")
        row = inputs.row[order]
        neighbours = row[1:] == row[:-1]
        gap_first = inputs.last[order][:-1][neighbours]
        gap_last = inputs.first[order][1:][neighbours]
        return self.total - _count_covering(outputs, gap_first, gap_last)


def _count_covering(outputs: Side, first: U64, last: U64) -> int:
    """Pairs of an output and a range ``first`` to ``last`` (the latter is larger) that lies within it."""
    ends = np.sort(outputs.last)
    earlier = np.searchsorted(ends, last, side="left")
    beginning = np.searchsorted(outputs.first, first, side="right")
    # Outputs that begin in time, minus those of them that end too early: all that end too early, except those that begin late.
    ranks = np.argsort(np.argsort(outputs.last, kind="stable"), kind="stable")
    return int(
        beginning.sum() - earlier.sum() + _count_smaller_after(ranks, beginning, earlier).sum()
    )


def _count_smaller_after(ranks: I64, begin: I64, below: I64) -> I64:
    """For each pair of ``begin`` and ``below``, how many of ``ranks[begin:]`` are smaller than ``below``.

    ``ranks``: 0 to their number, each once. They are parted by one digit after the other (a wavelet matrix).
    """
    count, stop = np.zeros_like(begin), np.full_like(begin, len(ranks))
    for digit in reversed(range(len(ranks).bit_length())):
        has_digit = ranks >> digit & 1 == 1
        zeros = np.concatenate((np.zeros(1, np.int64), np.cumsum(~has_digit)))
        zeros_begin, zeros_stop = zeros[begin], zeros[stop]
        goes_right = below >> digit & 1 == 1
        count += np.where(goes_right, zeros_stop - zeros_begin, 0)
        begin = np.where(goes_right, zeros[-1] + begin - zeros_begin, zeros_begin)
        stop = np.where(goes_right, zeros[-1] + stop - zeros_stop, zeros_stop)
        ranks = np.concatenate((ranks[~has_digit], ranks[has_digit]))
    return count


def _size(span: tuple[I64, I64] | None) -> int:
    return 0 if span is None else int((span[1] - span[0]).sum())


def _keys(input_rows: U32, output_rows: U32) -> U64:
    keys: U64 = input_rows.astype(np.uint64) << _ROW_BITS | output_rows
    return keys
