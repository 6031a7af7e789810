"""Blocks of a graph, few in memory at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from lineage_core.block import BlockId, FlowBlock
from lineage_core.graph import FlowGraph

LOAD_AT_ONCE = 8
"""Blocks in memory together."""


def loaded(graph: FlowGraph, blocks: Iterable[BlockId]) -> Iterator[FlowBlock]:
    """Blocks with their columns; who has seen enough stops, and no more are loaded."""
    left = iter(blocks)
    while part := list(islice(left, LOAD_AT_ONCE)):
        yield from graph.load(part).values()
