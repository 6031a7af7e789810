"""Recorders: they gather flows in columns inside a task and emit them as bounded blocks."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lineage_core.contract.block import FlowBlock, Relation, Section
from lineage_core.contract.block_check import FLOWS_PER_BLOCK, RUNS_PER_BLOCK
from lineage_core.contract.limits import LIMITED_REASON
from lineage_core.contract.runs import sorted_unique
from lineage_emitter.worker.segment import EXCLUDED, NOTHING_READ

if TYPE_CHECKING:
    from lineage_core.contract.block import I64, U64
    from lineage_core.contract.region import Region
    from lineage_emitter.worker.segment import Numbering, Segment

T = TypeVar("T")

FLOWS_MAX = FLOWS_PER_BLOCK
RUNS_MAX = RUNS_PER_BLOCK
"""A block holds at most this many flows and runs (the contract's bound)."""

PREFIX_REASON = (
    "a function over whole partitions may buffer: every output depends on all read so far"
)


def _arange(start: int, count: int) -> U64:
    return np.arange(start, start + count, dtype=np.uint64)


class DenseRecorder:
    """Flows of records that leave one by one: input ordinal -> the next output position.

    ``buffer`` takes the input ordinal of each record; output positions are ``base``, ``base + 1``,
    ... of ``space``. Runs of consecutive ordinals become identity blocks of a few bytes.
    """

    def __init__(
        self, segment: Segment, numbering: Numbering, node: str, space: str, base: int = 0
    ) -> None:
        self.segment = segment
        self.numbering = numbering
        self.node = node
        self.space = space
        self.buffer = array("Q")
        self._out = base
        self._base = base
        self._identity: tuple[str, int, int, int] | None = None
        segment.on_flush(self.flush_all)

    @property
    def count(self) -> int:
        """Records so far."""
        return self._out - self._base + len(self.buffer)

    def record(self, records: Iterable[T]) -> Iterator[T]:
        """Pass records on, recording for each the ordinal it came from."""
        append, cell = self.buffer.append, self.numbering.cell
        records = iter(records)
        while True:
            for record in islice(records, FLOWS_MAX):
                append(cell[0])
                yield record
            if len(self.buffer) < FLOWS_MAX:
                return
            self.segment.guard(self.flush)

    def last(self) -> list[tuple[str, int, int]]:
        """The item that the record added last came from (a run)."""
        return self.numbering.item(self.buffer[-1]) if self.buffer else []

    def flush(self) -> None:
        """Emit what is buffered (an identity run may still be held back)."""
        ordinals: U64 = np.array(self.buffer, dtype=np.uint64)
        del self.buffer[:]
        out, self._out = self._out, self._out + len(ordinals)
        if self.numbering.unlimited is not None and bool((ordinals == EXCLUDED).any()):
            self._emit_limited(ordinals, out)
            return
        if self.numbering.opaque:
            self._emit_prefixes(ordinals, out)
            return
        for space, rows, positions in self.numbering.resolve(ordinals):
            if len(rows) == len(ordinals) and (
                len(rows) == 1 or bool((np.diff(positions) == 1).all())
            ):
                self._extend_identity(space, int(positions[0]), out, len(positions))
            else:
                self._emit_identity()
                self._emit_rows(space, positions, None, rows.astype(np.uint64) + np.uint64(out))

    def flush_all(self) -> None:
        """Emit everything."""
        while self.buffer:
            self.flush()
        self._emit_identity()

    def _extend_identity(self, space: str, first: int, out: int, count: int) -> None:
        held = self._identity
        if held is not None:
            held_space, held_first, held_out, held_count = held
            if (held_space, held_first + held_count, held_out + held_count) == (space, first, out):
                self._identity = (space, held_first, held_out, held_count + count)
                return
        self._emit_identity()
        self._identity = (space, first, out, count)

    def _emit_identity(self) -> None:
        if self._identity is None:
            return
        space, first, out, count = self._identity
        self._identity = None
        self._emit(
            FlowBlock(
                block_id=self.segment.next_block(self.node),
                relation=Relation.IDENTITY,
                in_space=space,
                out=(Section(self.space, 0, 1),),
                in_first=np.array([first], dtype=np.uint64),
                in_last=np.array([first + count - 1], dtype=np.uint64),
                out_first=np.array([out], dtype=np.uint64),
                out_last=np.array([out + count - 1], dtype=np.uint64),
                app=self.segment.config.app,
            )
        )

    def _emit_limited(self, ordinals: U64, out: int) -> None:
        """Rows of which rules exclude some: those have no inputs, and the reason says why."""
        self._emit_identity()
        outs = _arange(out, len(ordinals))
        is_excluded = ordinals == EXCLUDED
        self._emit_excluded(outs[is_excluded])
        captured, outs = ordinals[~is_excluded], outs[~is_excluded]
        for space, rows, positions in self.numbering.resolve(captured):
            self._emit_rows(space, positions, None, outs[rows])

    def _emit_excluded(self, outs: U64) -> None:
        _, first, last = runs_of(outs, np.array([len(outs)], dtype=np.int64))
        self._emit(
            FlowBlock(
                block_id=self.segment.next_block(self.node),
                relation=Relation.ROWS,
                in_space=fallback_space(self.segment, self.numbering),
                out=(Section(self.space, 0, len(first)),),
                in_ptr=np.zeros(len(first) + 1, dtype=np.int64),
                in_first=np.zeros(0, dtype=np.uint64),
                out_first=first,
                out_last=last,
                exact=False,
                reason=LIMITED_REASON,
                app=self.segment.config.app,
            )
        )

    def _emit_prefixes(self, ordinals: U64, out: int) -> None:
        """Rows whose inputs are everything from ``prefix_from`` up to their ordinal."""
        has_input = ordinals != np.uint64(NOTHING_READ)
        outs = _arange(out, len(ordinals))
        regions = [
            prefix_runs(self.numbering, int(o)) if ok else []
            for o, ok in zip(ordinals, has_input, strict=True)
        ]
        fallback = fallback_space(self.segment, self.numbering)
        emit_regions(self.segment, self.node, self.space, regions, outs, PREFIX_REASON, fallback)

    def _emit_rows(self, space: str, first: U64, last: U64 | None, outs: U64) -> None:
        self._emit(
            FlowBlock(
                block_id=self.segment.next_block(self.node),
                relation=Relation.ROWS,
                in_space=space,
                out=(Section(self.space, 0, len(outs)),),
                in_first=first,
                in_last=last,
                out_first=outs,
                app=self.segment.config.app,
            )
        )

    def _emit(self, block: FlowBlock) -> None:
        self.segment.emit(block)


def prefix_runs(numbering: Numbering, last: int) -> list[tuple[str, int, int]]:
    """Runs (space, first, last) of all items from the numbering's ``prefix_from`` to ordinal ``last``."""
    first = numbering.prefix_from
    if first is None:
        return []
    runs: list[tuple[str, int, int]] = []
    ends = [*numbering.starts[1:], last + 1]
    for start, end, space, base in zip(
        numbering.starts, ends, numbering.spaces, numbering.bases, strict=True
    ):
        low, high = max(start, first), min(end - 1, last)
        if low <= high:
            runs.append((space, base + low - start, base + high - start))
    return runs


def made_from(numbering: Numbering) -> list[tuple[str, int, int]]:
    """What the record now at a function was made from: runs (space, first, last)."""
    ordinal = numbering.cell[0]
    if ordinal >= EXCLUDED:
        # A function before made it without having read any.
        return []
    if numbering.opaque:
        return prefix_runs(numbering, ordinal)
    return [
        (space, int(position), int(position))
        for space, _, positions in numbering.resolve(np.array([ordinal], dtype=np.uint64))
        for position in positions
    ]


def fallback_space(segment: Segment, numbering: Numbering) -> str:
    """A space for regions that are empty: the one read, or the segment's own."""
    return numbering.spaces[0] if numbering.spaces else f"{segment.node}#{segment.partition}"


def emit_regions(
    segment: Segment,
    node: str,
    out_space: str,
    regions: Sequence[Sequence[tuple[str, int, int]]],
    outs: U64,
    reason: str,
    fallback: str,
) -> None:
    """Emit rows whose regions are given as Python runs; ``reason`` non-empty marks supersets.

    A row made of nothing (a function gives one for an empty partition) is an empty region of
    ``home``: without a flow it would look as if its lineage had been lost.
    """
    nothing = np.array([row for row, runs in enumerate(regions) if not runs], dtype=np.int64)
    if len(nothing):
        empty = np.zeros(0, dtype=np.uint64)
        runs_of_each = np.zeros(len(nothing), dtype=np.int64)
        empty_regions = FlowRegions(runs_of_each, empty, empty, outs[nothing], reason)
        emit_csr(segment, node, fallback, [(out_space, np.arange(len(nothing)))], empty_regions)
    spaces = sorted({space for runs in regions for space, _, _ in runs})
    for space in spaces:
        firsts: list[int] = []
        lasts: list[int] = []
        counts: list[int] = []
        rows: list[int] = []
        for row, runs in enumerate(regions):
            space_runs = sorted((first, last) for name, first, last in runs if name == space)
            if space_runs:
                rows.append(row)
                merged = merge_runs(space_runs)
                counts.append(len(merged))
                firsts.extend(first for first, _ in merged)
                lasts.extend(last for _, last in merged)
        emit_csr(
            segment,
            node,
            space,
            [(out_space, np.arange(len(rows)))],
            FlowRegions(
                np.array(counts, dtype=np.int64),
                np.array(firsts, dtype=np.uint64),
                np.array(lasts, dtype=np.uint64),
                outs[np.array(rows, dtype=np.int64)],
                reason,
            ),
        )


def merge_runs(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted runs made disjoint and not adjacent."""
    merged: list[tuple[int, int]] = []
    for first, last in runs:
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def runs_of(positions: U64, lengths: I64) -> tuple[I64, U64, U64]:
    """Runs of grouped positions.

    Args:
        positions: uint64[m], ascending within each group, repeats allowed.
        lengths: int64[n], how many positions each group has (at least 1).

    Returns:
        runs per group (int64[n]), firsts and lasts of the runs (uint64[r]).
    """
    begins = np.zeros(len(positions), dtype=bool)
    group_first = np.cumsum(lengths) - lengths
    step = np.empty(len(positions), dtype=np.uint64)
    step[0:1] = 2
    np.subtract(positions[1:], positions[:-1], out=step[1:])
    np.greater(step, 1, out=begins)
    begins[group_first] = True
    index = np.flatnonzero(begins)
    first = positions[index]
    last = positions[np.append(index[1:], len(positions)) - 1]
    per_group = np.add.reduceat(begins, group_first, dtype=np.int64)
    return per_group, first, last


@dataclass(frozen=True, slots=True, eq=False)
class FlowRegions:
    """Flows with regions in columns.

    ``counts`` int64[n]: runs per flow; ``first``, ``last`` uint64[r]: the runs of
    flow after flow; ``outs`` uint64[n]: output position per flow, the first of several where
    ``last_outs`` (uint64[n]) is given. ``reason`` non-empty marks them as supersets.
    """

    counts: I64
    first: U64
    last: U64
    outs: U64
    reason: str = ""
    last_outs: U64 | None = None


def emit_csr(
    segment: Segment,
    node: str,
    in_space: str,
    sections: Sequence[tuple[str, np.ndarray[Any, Any]]],
    regions: FlowRegions,
    attempts_read: Region | None = None,
) -> None:
    """Emit flows with regions as blocks within the bounds.

    ``sections``: (output space, indexes of flows), in the order in which rows are written.
    A flow with more runs than a block may hold is split into several flows of one output.
    ``attempts_read``: of a space of keys, whose outputs were read.
    """
    counts, first, last, outs = regions.counts, regions.first, regions.last, regions.outs
    reason, last_outs = regions.reason, regions.last_outs
    order = np.concatenate([rows for _, rows in sections]) if sections else np.zeros(0, np.int64)
    section_of = np.repeat(np.arange(len(sections)), [len(rows) for _, rows in sections])
    low = (np.cumsum(counts) - counts)[order]
    size = counts[order]
    if len(size) and int(size.max()) > RUNS_MAX:
        order, section_of, low, size = _split_wide(order, section_of, low, size)
    single = last is first or bool((first == last).all())
    ends = np.cumsum(size)
    start = 0
    while start < len(order):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + RUNS_MAX, side="right"))
        stop = min(max(stop, start + 1), start + FLOWS_MAX)
        sizes = size[start:stop]
        in_ptr = np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(sizes)))
        take = np.repeat(low[start:stop] - in_ptr[:-1], sizes) + np.arange(in_ptr[-1])
        segment.emit(
            FlowBlock(
                block_id=segment.next_block(node),
                relation=Relation.ROWS,
                in_space=in_space,
                out=_directory(sections, section_of[start:stop]),
                in_ptr=None if bool((sizes == 1).all()) else in_ptr,
                in_first=first[take],
                in_last=None if single else last[take],
                out_first=outs[order[start:stop]],
                out_last=None if last_outs is None else last_outs[order[start:stop]],
                exact=not reason,
                reason=reason,
                app=segment.config.app,
                attempts_read=attempts_read,
            )
        )
        start = stop


def _split_wide(order: I64, section_of: I64, low: I64, size: I64) -> tuple[I64, I64, I64, I64]:
    """Rows with more runs than a block may hold become several rows."""
    row, part, sizes = split_by_runs(size)
    return order[row], section_of[row], low[row] + part * RUNS_MAX, sizes


def split_by_runs(size: I64) -> tuple[I64, I64, I64]:
    """Rows of ``size`` runs each (int64[n]) as pieces of at most `RUNS_MAX` runs, one at least.

    Returns:
        the piece's row, its place among that row's pieces, its runs (each int64[pieces]).
    """
    pieces = np.maximum(-(-size // RUNS_MAX), 1)
    row = np.repeat(np.arange(len(size)), pieces)
    part = np.arange(len(row)) - (np.cumsum(pieces) - pieces)[row]
    return row, part, np.minimum(size[row] - part * RUNS_MAX, RUNS_MAX)


def _directory(
    sections: Sequence[tuple[str, np.ndarray[Any, Any]]], section_of: I64
) -> tuple[Section, ...]:
    """The directory of a block whose rows belong to the sections ``section_of`` (ascending)."""
    starts = np.flatnonzero(np.diff(section_of, prepend=-1))
    stops = [*starts[1:].tolist(), len(section_of)]
    return tuple(
        Section(sections[int(section_of[start])][0], int(start), stop)
        for start, stop in zip(starts, stops, strict=True)
    )


class AllRecorder:
    """One output item that depends on every record that passes (``count``, ``reduce``)."""

    def __init__(
        self, segment: Segment, numbering: Numbering, node: str, space: str, position: int
    ) -> None:
        self.segment = segment
        self.numbering = numbering
        self.node = node
        self.space = space
        self.position = position
        self.buffer = array("Q")
        self._has_emitted = False
        segment.on_flush(self.flush)

    def record(self, records: Iterable[T]) -> Iterator[T]:
        """Pass records on, recording the ordinal of each."""
        append, cell = self.buffer.append, self.numbering.cell
        records = iter(records)
        while True:
            for record in islice(records, RUNS_MAX):
                append(cell[0])
                yield record
            if len(self.buffer) < RUNS_MAX:
                return
            self.segment.guard(self.flush)

    def complete(self) -> None:
        """No record follows. An item that nothing went into is made of nothing."""
        self.flush()
        if not self._has_emitted:
            outs = np.array([self.position], dtype=np.uint64)
            fallback = fallback_space(self.segment, self.numbering)
            emit_regions(self.segment, self.node, self.space, [[]], outs, "", fallback)

    def flush(self) -> None:
        """Emit what is buffered as one flow a space."""
        if not self.buffer:
            return
        ordinals: U64 = sorted_unique(np.array(self.buffer, dtype=np.uint64))
        del self.buffer[:]
        outs = np.array([self.position], dtype=np.uint64)
        if self.numbering.unlimited is not None:
            ordinals = self._without_excluded(ordinals, outs)
            if not len(ordinals):
                return
        if self.numbering.opaque:
            ordinals = ordinals[ordinals != np.uint64(NOTHING_READ)]
            if len(ordinals):
                self._has_emitted = True
                runs = prefix_runs(self.numbering, int(ordinals[-1]))
                fallback = fallback_space(self.segment, self.numbering)
                emit_regions(
                    self.segment, self.node, self.space, [runs], outs, PREFIX_REASON, fallback
                )
            return
        self._has_emitted = True
        for space, _, unsorted in self.numbering.resolve(ordinals):
            positions = np.sort(unsorted)
            counts, first, last = runs_of(positions, np.array([len(positions)], dtype=np.int64))
            rows = np.zeros(1, dtype=np.int64)
            regions = FlowRegions(counts, first, last, outs)
            emit_csr(self.segment, self.node, space, [(self.space, rows)], regions)

    def _without_excluded(self, ordinals: U64, outs: U64) -> U64:
        captured: U64 = ordinals[ordinals != EXCLUDED]
        if len(captured) < len(ordinals):
            self._has_emitted = True
            fallback = fallback_space(self.segment, self.numbering)
            emit_regions(self.segment, self.node, self.space, [[]], outs, LIMITED_REASON, fallback)
        return captured


class PositionRecorder:
    """Flows from item positions that came with the data to this segment's next numbering.

    ``buffer``: input position (of ``in_space``) of the next output; ``skip`` marks outputs that
    have no input on this side (an outer join's missing side).
    """

    def __init__(self, segment: Segment, node: str, in_space: str, space: str) -> None:
        self.segment = segment
        self.node = node
        self.in_space = in_space
        self.space = space
        self.buffer = array("Q")
        self.outs = array("Q")
        segment.on_flush(self.flush)

    def last(self, ordinal: int) -> list[tuple[str, int, int]]:
        """The item that output ``ordinal`` came from (a run), if it was added last."""
        if not self.outs or self.outs[-1] != ordinal:
            return []
        return [(self.in_space, self.buffer[-1], self.buffer[-1])]

    def flush(self) -> None:
        """Emit what is buffered. ``outs`` is as long as ``buffer``."""
        while self.buffer:
            positions: U64 = np.array(self.buffer[:FLOWS_MAX], dtype=np.uint64)
            outs: U64 = np.array(self.outs[:FLOWS_MAX], dtype=np.uint64)
            del self.buffer[:FLOWS_MAX]
            del self.outs[:FLOWS_MAX]
            self.segment.emit(
                FlowBlock(
                    block_id=self.segment.next_block(self.node),
                    relation=Relation.ROWS,
                    in_space=self.in_space,
                    out=(Section(self.space, 0, len(outs)),),
                    in_first=positions,
                    out_first=outs,
                    app=self.segment.config.app,
                )
            )
