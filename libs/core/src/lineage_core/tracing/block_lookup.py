"""Selects the blocks that a trace loads next, with few calls to the graph, which may be remote."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from lineage_core.contract.address import Space, SpaceKind, parse_space
from lineage_core.contract.block import I64, BlockId
from lineage_core.contract.block_check import RUNS_PER_BLOCK
from lineage_core.contract.graph import BlockRef, FlowGraph
from lineage_core.contract.runs import Runs, covering_ranges, sorted_unique, touching

LOAD_BYTES = 32 << 20
"""Columns unpacked together: bounds the memory of a trace that crosses thousands of blocks."""
LOAD_BLOCKS = 256
RUN_BYTES = 16
RANGES_MAX = 16
"""Ranges requested per space: row ordinals form few clusters, and more ranges do not help for hashes."""
FEW_BLOCKS = 4
"""Up to this many blocks are loaded without narrowing them down by edges."""
FEW_CACHED = 32
"""Up to this many are crossed without narrowing, where at most `FEW_BLOCKS` of them have to be loaded."""


def reached_blocks(
    graph: FlowGraph,
    requested: Mapping[str, Runs],
    requesters: Mapping[str, Mapping[BlockId, list[I64]]],
    *,
    backward: bool,
    uncached: Callable[[Iterable[BlockId]], Sequence[BlockId]],
) -> dict[str, list[BlockRef]]:
    """Blocks that may hold requested positions, by space; narrowed down by edges where that saves time.

    Edges rule out other blocks only where a space is sealed. ``requesters``: by space, the block rows that
    requested positions in it. ``uncached``: returns which of some blocks are not in memory. Calls the graph
    at most three times, for any number of spaces.
    """
    refs_by_space = _in_reach(graph, requested, backward=backward)
    many = {
        space: requesters[space]
        for space, refs in refs_by_space.items()
        if _is_hashed(space) and requesters[space] and _are_many(refs, uncached)
    }
    sealed = graph.sealed(many) if many else ()
    narrowed = {space: many[space] for space in sealed}
    linked = _linked_blocks(graph, narrowed, backward=backward) if narrowed else {}
    return {
        space: [ref for ref in refs if space not in linked or ref.block_id in linked[space]]
        for space, refs in refs_by_space.items()
    }


def _are_many(
    refs: Sequence[BlockRef], uncached: Callable[[Iterable[BlockId]], Sequence[BlockId]]
) -> bool:
    """Whether reading edges costs less than crossing all of some blocks."""
    if len(refs) <= FEW_BLOCKS:
        return False
    return len(refs) > FEW_CACHED or len(uncached(ref.block_id for ref in refs)) > FEW_BLOCKS


def _in_reach(
    graph: FlowGraph, requested: Mapping[str, Runs], *, backward: bool
) -> dict[str, list[BlockRef]]:
    """Blocks whose range fits, by space."""
    ranges = [
        (space, first, last)
        for space, runs in requested.items()
        for first, last in covering_ranges(runs, 1 if _is_hashed(space) else RANGES_MAX)
    ]
    ask = graph.blocks_into_each if backward else graph.blocks_from_each
    refs_by_space: dict[str, dict[BlockId, BlockRef]] = {space: {} for space in requested}
    for (space, _, _), refs in zip(ranges, ask(ranges), strict=True):
        for ref in refs:
            if backward or _in_range(ref.in_min, ref.in_max, requested[space]):
                refs_by_space[space][ref.block_id] = ref
    return {space: list(refs.values()) for space, refs in refs_by_space.items()}


def _linked_blocks(
    graph: FlowGraph, requesters: Mapping[str, Mapping[BlockId, list[I64]]], *, backward: bool
) -> dict[str, set[BlockId]]:
    """Blocks that share an edge with the rows that requested positions of a space, by space."""
    rows = {
        space: {block: sorted_unique(np.concatenate(parts)) for block, parts in by_block.items()}
        for space, by_block in requesters.items()
    }
    linked: dict[str, set[BlockId]] = {space: set() for space in requesters}
    all_requesters = dict.fromkeys(block for by_block in requesters.values() for block in by_block)
    for batch in (graph.edges_into if backward else graph.edges_from)(all_requesters):
        requester, neighbour = batch.producer, batch.consumer
        columns = batch.rows_producer
        if backward:
            requester, neighbour = neighbour, requester
            columns = batch.rows_consumer
        for space, by_block in rows.items():
            if requester not in by_block or neighbour in linked[space]:
                continue
            if columns is None or bool(np.isin(by_block[requester], columns).any()):
                linked[space].add(neighbour)
    return linked


def load_batches(refs: Iterable[BlockRef]) -> Iterator[list[BlockId]]:
    """Blocks, so many at a time as may be in memory together."""
    part: list[BlockId] = []
    size = 0
    for ref in refs:
        part.append(ref.block_id)
        # A row has a run of outputs and at most as many runs of inputs as it has associations.
        size += RUN_BYTES * (ref.rows + min(ref.associations, RUNS_PER_BLOCK))
        if size >= LOAD_BYTES or len(part) >= LOAD_BLOCKS:
            yield part
            part, size = [], 0
    if part:
        yield part


@lru_cache(maxsize=1 << 16)
def cached_space(text: str) -> Space:
    """A space, read once."""
    return parse_space(text)


def _is_hashed(space: str) -> bool:
    """Whether the positions of a space come in no order."""
    return cached_space(space).kind in (SpaceKind.KEYS, SpaceKind.OPAQUE)


def _in_range(first: int, last: int, runs: Runs) -> bool:
    low, high = np.array([first], np.uint64), np.array([last], np.uint64)
    return bool(touching(low, high, runs)[0])
