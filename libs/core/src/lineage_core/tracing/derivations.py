"""Single derivations, item by item, from the stored flows.

A trace returns sets of items. This module returns which item was made from which, block by block:
a pair is returned only where a stored flow holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from lineage_core.contract.address import POSITION_MAX, SpaceKind, parse_space
from lineage_core.contract.block import I64, U64, BlockId, FlowBlock, Relation
from lineage_core.contract.graph import BlockRef, FlowGraph
from lineage_core.contract.region import Region
from lineage_core.contract.runs import (
    Runs,
    covering_ranges,
    intersect_runs,
    overlaps,
    spread,
    touching,
    union_runs,
)
from lineage_core.linking.attempts import READ_DIFFERENTLY, AttemptsRead, was_read
from lineage_core.tracing.block_lookup import RANGES_MAX, load_batches
from lineage_core.tracing.crossing import inputs_of_rows

PAIRS_AT_ONCE = 1 << 18
"""Pairs that are written out together, about: 4 MiB of columns."""
SIDE_AT_ONCE = 1 << 9
"""Items of each side where one flow alone has more pairs than that."""
ALL_POSITIONS: Runs = (np.zeros(1, np.uint64), np.full(1, ~np.uint64(0)))


@dataclass(frozen=True, slots=True, eq=False)
class Derivations:
    """Item ``outs[i]`` of ``out_space`` was made from item ``ins[i]`` of ``in_space``.

    ``ins`` and ``outs``: uint64, of one length. One pair may come more than once, of several blocks
    or flows. ``exact`` False: the pairs are a superset, and ``reason`` says why.
    """

    block_id: BlockId
    in_space: str
    out_space: str
    ins: U64
    outs: U64
    exact: bool
    reason: str


def derivations_among(
    graph: FlowGraph, items: Mapping[str, Region] | None = None
) -> Iterator[Derivations]:
    """Derivations between items (regions by space; None: of the whole application).

    Both ends of each pair are among the items. Given all items that a trace passed, these are just
    the pairs that the trace followed: of a requested item every input is on the way (backward), or
    every output (forward). Some at a time, however many there are.

    Raises:
        AddressError: a space that can't be read.
    """
    requested = None
    if items is not None:
        requested = {
            space: (region.first, region.last) for space, region in items.items() if region
        }
    reader_attempts = _ReaderAttempts(graph)
    for part in load_batches(_blocks(graph, requested)):
        blocks = graph.load(part)
        for block_id in part:
            for derivations in block_derivations(blocks[block_id], requested):
                yield from reader_attempts.restrict(derivations)


class _ReaderAttempts:
    """Which attempts' outputs the readers of keys have read."""

    def __init__(self, graph: FlowGraph) -> None:
        self._graph = graph
        self._by_space: dict[str, set[AttemptsRead]] = {}

    def restrict(self, pairs: Derivations) -> Iterator[Derivations]:
        """The pairs: none if no reader read the outputs of the attempt, a superset if only some readers did."""
        if parse_space(pairs.out_space).kind is not SpaceKind.KEYS:
            yield pairs
            return
        reader_attempts = self._by_space.get(pairs.out_space)
        if reader_attempts is None:
            reader_attempts = self._by_space[pairs.out_space] = set(self._readers(pairs.out_space))
        is_read = [was_read(attempts, pairs.block_id.attempt) for attempts in reader_attempts]
        if all(is_read):
            yield pairs
        elif any(is_read):
            yield replace(pairs, exact=False, reason=pairs.reason or READ_DIFFERENTLY)

    def _readers(self, space: str) -> Iterator[AttemptsRead]:
        for part in load_batches(self._graph.blocks_from(space, 0, POSITION_MAX)):
            for block in self._graph.load(part).values():
                yield block.attempts_read


def _blocks(graph: FlowGraph, requested: Mapping[str, Runs] | None) -> Iterable[BlockRef]:
    """Blocks that may hold pairs, by id."""
    if requested is None:
        return (ref for ref in graph.blocks() if ref.in_min <= ref.in_max)
    ranges = [
        (space, first, last)
        for space, runs in requested.items()
        for first, last in covering_ranges(runs, RANGES_MAX)
    ]
    refs_by_id: dict[BlockId, BlockRef] = {}
    for refs in graph.blocks_into_each(ranges):
        for ref in refs:
            if ref.in_space in requested and _may_hold(ref, requested[ref.in_space]):
                refs_by_id[ref.block_id] = ref
    return [refs_by_id[block_id] for block_id in sorted(refs_by_id)]


def _may_hold(ref: BlockRef, runs: Runs) -> bool:
    if ref.in_min > ref.in_max:
        return False
    low, high = np.array([ref.in_min], np.uint64), np.array([ref.in_max], np.uint64)
    return bool(touching(low, high, runs)[0])


def block_derivations(
    block: FlowBlock, requested: Mapping[str, Runs] | None = None
) -> Iterator[Derivations]:
    """The derivations of one block whose ends are both in ``requested`` (normal runs by space)."""
    ins = ALL_POSITIONS if requested is None else requested.get(block.in_space)
    if ins is None:
        return
    for section in block.out:
        outs = ALL_POSITIONS if requested is None else requested.get(section.space)
        if outs is None or section.row_first == section.row_stop:
            continue
        rows = np.arange(section.row_first, section.row_stop, dtype=np.int64)
        for of_ins, of_outs in _PAIRS_OF[block.relation](block, rows, ins, outs):
            yield Derivations(
                block.block_id,
                block.in_space,
                section.space,
                of_ins,
                of_outs,
                block.exact,
                block.reason,
            )


def _outputs_of(block: FlowBlock, rows: I64) -> Runs:
    first = block.out_first[rows]
    return first, first if block.out_last is None else block.out_last[rows]


def _of_rows(block: FlowBlock, rows: I64, ins: Runs, outs: Runs) -> Iterator[tuple[U64, U64]]:
    """Every output of a row from every input of it."""
    rows = rows[touching(*_outputs_of(block, rows), outs)]
    if len(rows) == 0:
        return
    counts = np.ones(len(rows), np.int64)
    if block.in_ptr is not None:
        counts = block.in_ptr[rows + 1] - block.in_ptr[rows]
    owner = np.repeat(np.arange(len(rows), dtype=np.int64), counts)
    at, in_first, in_last = overlaps(*inputs_of_rows(block, rows), ins)
    in_side = _Side(owner[at], in_first, in_last)
    at, out_first, out_last = overlaps(*_outputs_of(block, rows), outs)
    out_side = _Side(at, out_first, out_last)
    # In floats: a count may exceed 64 bits where the pairs are never written out.
    pairs = in_side.sizes(len(rows)) * out_side.sizes(len(rows))
    for start, stop in _groups(pairs):
        if pairs[start:stop].sum() > PAIRS_AT_ONCE:
            yield from _product(in_side.region(start), out_side.region(start))
        else:
            yield _row_products(in_side.part(start, stop), out_side.part(start, stop), stop - start)


def _of_all(block: FlowBlock, rows: I64, ins: Runs, outs: Runs) -> Iterator[tuple[U64, U64]]:
    """Every output of the block from every input of it."""
    everything = (block.in_first, block.in_first if block.in_last is None else block.in_last)
    yield from _product(
        intersect_runs(union_runs([everything]), ins),
        intersect_runs(union_runs([_outputs_of(block, rows)]), outs),
    )


def _of_identity(block: FlowBlock, rows: I64, ins: Runs, outs: Runs) -> Iterator[tuple[U64, U64]]:
    """The k-th output of a row from the k-th input of it."""
    at, first, last = overlaps(*_outputs_of(block, rows), outs)
    shift = (block.in_first[rows] - block.out_first[rows])[at]
    at, first, last = overlaps(first + shift, last + shift, ins)
    shift = shift[at]
    for low, high, by in zip(first.tolist(), last.tolist(), shift, strict=True):
        for start in range(low, high + 1, PAIRS_AT_ONCE):
            size = min(PAIRS_AT_ONCE, high + 1 - start)
            positions = np.uint64(start) + np.arange(size, dtype=np.uint64)
            yield positions, positions - by


_PAIRS_OF = {
    Relation.ROWS: _of_rows,
    Relation.ALL: _of_all,
    Relation.IDENTITY: _of_identity,
}


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Runs of some rows: ``owner`` (int64, never decreasing) is the row of each."""

    owner: I64
    first: U64
    last: U64

    def sizes(self, rows: int) -> npt.NDArray[np.float64]:
        """Positions of each row."""
        lengths = (self.last - self.first).astype(np.float64) + 1.0
        return np.bincount(self.owner, lengths, minlength=rows).astype(np.float64)

    def part(self, start: int, stop: int) -> tuple[I64, U64]:
        """Owner (from 0) and position of each position of some rows, in order."""
        low, high = np.searchsorted(self.owner, (start, stop))
        first, last = self.first[low:high], self.last[low:high]
        at, step = spread((last - first + np.uint64(1)).astype(np.int64))
        return self.owner[low:high][at] - start, first[at] + step.astype(np.uint64)

    def region(self, row: int) -> Runs:
        """The runs of one row."""
        low, high = np.searchsorted(self.owner, (row, row + 1))
        return self.first[low:high], self.last[low:high]


def _groups(pairs: npt.NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Neighbouring rows whose pairs are written out together; one with too many is alone."""
    start, group_pairs = 0, 0.0
    for row, count in enumerate(pairs.tolist()):
        if row > start and group_pairs + count > PAIRS_AT_ONCE:
            if group_pairs:
                yield start, row
            start, group_pairs = row, 0.0
        group_pairs += count
    if group_pairs:
        yield start, len(pairs)


def _row_products(ins: tuple[I64, U64], outs: tuple[I64, U64], rows: int) -> tuple[U64, U64]:
    """Each output beside each input of its row."""
    (in_owner, in_at), (out_owner, out_at) = ins, outs
    counts = np.bincount(in_owner, minlength=rows).astype(np.int64)
    starts = np.cumsum(counts) - counts
    owner, step = spread(counts[out_owner])
    return in_at[starts[out_owner[owner]] + step], out_at[owner]


def _product(ins: Runs, outs: Runs) -> Iterator[tuple[U64, U64]]:
    """Each of two sets of positions beside each of the other."""
    in_region, out_region = Region(*ins), Region(*outs)
    for out_at in range(0, out_region.count, SIDE_AT_ONCE):
        of_outs = out_region.slice(out_at, SIDE_AT_ONCE).positions()
        for in_at in range(0, in_region.count, SIDE_AT_ONCE):
            of_ins = in_region.slice(in_at, SIDE_AT_ONCE).positions()
            yield np.tile(of_ins, len(of_outs)), np.repeat(of_outs, len(of_ins))
