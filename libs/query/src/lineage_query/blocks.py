"""Blocks of a graph, few in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import BlockRef, FlowGraph
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import current_budget

LOAD_AT_ONCE = 8
"""Blocks in memory together."""


def iter_blocks(graph: FlowGraph, blocks: Iterable[BlockId]) -> Iterator[FlowBlock]:
    """Iterate over blocks with their columns. They are loaded lazily: a caller that stops early loads no more.

    Raises:
        BudgetError: the query takes too long.
    """
    block_ids = iter(blocks)
    while part := list(islice(block_ids, LOAD_AT_ONCE)):
        current_budget().check()
        yield from graph.load(part).values()


def output_region(graph: FlowGraph, space: str, refs: Iterable[BlockRef]) -> Region:
    """The positions of a space that some blocks put out."""
    regions: list[Region] = []
    for block in iter_blocks(graph, (ref.block_id for ref in refs)):
        last = block.out_first if block.out_last is None else block.out_last
        for section in block.out:
            if section.space == space:
                rows = slice(section.row_first, section.row_stop)
                regions.append(Region.of_runs(block.out_first[rows], last[rows]))
    return Region.union(regions)


def input_region(graph: FlowGraph, space: str, refs: Iterable[BlockRef]) -> Region:
    """The positions of a space that some blocks read."""
    regions: list[Region] = []
    for block in iter_blocks(graph, (ref.block_id for ref in refs)):
        if block.in_space == space:
            last = block.in_first if block.in_last is None else block.in_last
            regions.append(Region.of_runs(block.in_first, last))
    return Region.union(regions)
