"""One step of a trace of many items at once: tagged positions across one block, see :mod:`lineage_core.tracing.tagged`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from lineage_core.contract.block import I64, U64, FlowBlock, Relation
from lineage_core.contract.runs import Runs, sorted_unique, spread, union_runs
from lineage_core.tracing.crossing import inputs_of_rows
from lineage_core.tracing.tagged import Hits, TaggedIndex, TaggedRuns, each_tag

PAIRS_AT_ONCE = 1 << 18
"""Rows that are put out together, about: some ten MiB with what they are made from."""
Reached: TypeAlias = tuple[str, TaggedRuns]
"""A space, and what was reached in it; runs in any order, overlaps possible."""


@dataclass(slots=True, eq=False)
class TaggedCrossing:
    """Crosses blocks from the tagged positions of one space.

    Backward from outputs to the inputs of the rows that hold them, forward from inputs to outputs. ``seen``: the positions that some block
    held; runs in any order.
    """

    index: TaggedIndex
    space: str
    backward: bool
    seen: list[Runs] = field(default_factory=list)

    def cross(self, block: FlowBlock, reason: int) -> Iterator[Reached] | None:
        """What one block leads to; None where it holds none of the positions.

        ``reason``: the number of the reason why its flows are a superset; 0: they are exact.

        Raises:
            TooMuchError: rows of the question share too many others.
        """
        rows, first, last = self._near_runs(block)
        hits = self.index.hits(first, last)
        if not len(hits.run):
            return None
        self.seen.append((hits.first, hits.last))
        if len(self.seen) > 64:
            self.seen[:] = [union_runs(self.seen)]
        return self._across(block, rows, hits, reason)

    def _near_runs(self, block: FlowBlock) -> tuple[I64, U64, U64]:
        """The runs of a block in the space that it is crossed from, and the row of each."""
        if not self.backward:
            first, last = _inputs(block)
            if block.in_ptr is None:
                return np.arange(len(first), dtype=np.int64), first, last
            return spread(np.diff(block.in_ptr))[0], first, last
        parts = [
            np.arange(section.row_first, section.row_stop, dtype=np.int64)
            for section in block.out
            if section.space == self.space
        ]
        rows = np.concatenate(parts) if parts else np.empty(0, np.int64)
        first, last = _outputs(block)
        return rows, first[rows], last[rows]

    def _across(self, block: FlowBlock, rows: I64, hits: Hits, reason: int) -> Iterator[Reached]:
        for start, stop in hits.batches(PAIRS_AT_ONCE):
            run, held = self.index.parts(hits, start, stop)
            if reason:
                held = TaggedRuns(
                    held.tag,
                    held.first,
                    held.last,
                    held.each,
                    np.where(held.reason == 0, reason, held.reason),
                )
            match block.relation:
                case Relation.IDENTITY:
                    yield from self._identity(block, rows[run], held)
                case Relation.ROWS:
                    row, tag, why = each_tag(held, rows[run])
                    yield from self._far_of_rows(block, row, tag, why)
                case Relation.ALL:
                    _, tag, why = each_tag(held, np.zeros(len(held), np.int64))
                    yield from self._far_of_all(block, tag, why)

    def _identity(self, block: FlowBlock, row: I64, held: TaggedRuns) -> Iterator[Reached]:
        shift = (block.in_first - block.out_first)[row]
        shift = shift if self.backward else np.uint64(0) - shift
        runs = (held.first + shift, held.last + shift)
        reached = TaggedRuns(held.tag, *runs, held.each, held.reason)
        if self.backward:
            yield block.in_space, reached
        else:
            yield from _by_section(block, row, reached)

    def _far_of_rows(self, block: FlowBlock, row: I64, tag: I64, why: I64) -> Iterator[Reached]:
        if not self.backward:
            first, last = _outputs(block)
            reached = TaggedRuns.of(tag, (first[row], last[row]), False, why)
            yield from _by_section(block, row, reached)
            return
        counts = np.ones(len(row), np.int64)
        if block.in_ptr is not None:
            counts = block.in_ptr[row + 1] - block.in_ptr[row]
        for start, stop in _batches(counts):
            some = slice(start, stop)
            owner = spread(counts[some])[0]
            runs = inputs_of_rows(block, row[some])
            reached = TaggedRuns.of(tag[some][owner], runs, False, why[some][owner])
            yield block.in_space, reached

    def _far_of_all(self, block: FlowBlock, tag: I64, why: I64) -> Iterator[Reached]:
        for space, (first, last) in self._all_far(block):
            for start, stop in _batches(np.full(len(tag), len(first), np.int64)):
                some = slice(start, stop)
                times = stop - start
                runs = (np.tile(first, times), np.tile(last, times))
                tags, reasons = np.repeat(tag[some], len(first)), np.repeat(why[some], len(first))
                yield space, TaggedRuns.of(tags, runs, False, reasons)

    def _all_far(self, block: FlowBlock) -> Iterator[tuple[str, Runs]]:
        if self.backward:
            yield block.in_space, union_runs([_inputs(block)])
            return
        first, last = _outputs(block)
        for section in block.out:
            rows = slice(section.row_first, section.row_stop)
            yield section.space, union_runs([(first[rows], last[rows])])


def _inputs(block: FlowBlock) -> Runs:
    return block.in_first, block.in_first if block.in_last is None else block.in_last


def _outputs(block: FlowBlock) -> Runs:
    return block.out_first, block.out_first if block.out_last is None else block.out_last


def _by_section(block: FlowBlock, row: I64, reached: TaggedRuns) -> Iterator[Reached]:
    """What was reached (of one row of the block each), by the space of the row."""
    if len(block.out) == 1:
        yield block.out[0].space, reached
        return
    stops = np.array([section.row_stop for section in block.out], np.int64)
    section_of = np.searchsorted(stops, row, side="right")
    order = np.argsort(section_of, kind="stable")
    numbers = sorted_unique(section_of)
    starts = np.searchsorted(section_of[order], numbers)
    for number, some in zip(numbers.tolist(), np.split(order, starts[1:]), strict=True):
        yield block.out[number].space, reached.take(some)


def _batches(counts: I64) -> Iterator[tuple[int, int]]:
    """Slices of items that come to about so many rows together as are put out at once; ``counts``: of each."""
    start = 0
    total = np.cumsum(counts)
    while start < len(counts):
        before = int(total[start - 1]) if start else 0
        stop = int(np.searchsorted(total, before + PAIRS_AT_ONCE, side="left")) + 1
        stop = min(max(stop, start + 1), len(counts))
        yield start, stop
        start = stop
