"""Tracing over a stored graph: where items came from, and where they went.

Items are sets of positions by space. A trace crosses blocks: backward from requested outputs to the
inputs of the rows that hold them, forward from requested inputs to outputs. Spaces are taken up in
topological order of their nodes, so all ways into a space are merged before it is crossed and no
block is crossed twice for the same positions. In sealed spaces the stored edges narrow down which
blocks to load, where these are many; what the blocks hold decides the answer.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping

from lineage_core.contract.address import parse_space
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import FlowGraph
from lineage_core.contract.region import Region
from lineage_core.contract.runs import Runs
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.topology import Topology
from lineage_core.tracing.trace_result import DeadEnd, Direction, NodeItems, TraceError, TraceResult
from lineage_core.tracing.walk import OPAQUE, Walk

__all__ = [
    "CACHE_BYTES_MAX",
    "DeadEnd",
    "Direction",
    "NodeItems",
    "TraceError",
    "TraceResult",
    "Tracer",
    "trace",
]

CACHE_BYTES_MAX = 192 << 20
"""Maximum size of the unpacked blocks that one tracer caches; a block is at most about 5 MiB."""


class Tracer:
    """Traces over one application's graph; keeps the blocks it unpacked last.

    May be shared by threads, if the graph may.
    """

    shows_joins = True
    """Whether which records were joined may be looked up beside a trace."""

    def __init__(self, graph: FlowGraph, *, cache_bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.graph = graph
        self.topology = Topology(graph.nodes(), graph.links())
        self._cache: OrderedDict[BlockId, FlowBlock] = OrderedDict()
        self._cache_bytes = 0
        self._cache_bytes_max = cache_bytes_max
        self._lock = threading.Lock()

    def trace(
        self,
        direction: Direction,
        start: Mapping[str, Region],
        *,
        until: str = "ends",
        steps: int | None = None,
        exact_only: bool = False,
        by_task: bool = False,
    ) -> TraceResult:
        """Trace the items of ``start`` (regions by space).

        ``until`` is ``ends`` or a node whose items are requested; ``steps`` stops after so many
        blocks instead. ``exact_only`` goes just along exact blocks of exact nodes: what it finds surely
        took part, whatever else may have. ``by_task`` records which tasks it reached the found items through.

        Raises:
            AddressError: a space that can't be read.
            TraceError: ``until`` names no node, or one that does not lie that way.
            BudgetError: the trace exceeds the limits of the query.
        """
        start_runs = {space: (region.first, region.last) for space, region in start.items()}
        goal = None if until == "ends" else until
        if goal is not None:
            self._check_goal(direction, start_runs, goal)
        walk = Walk(self, direction, goal, exact_only=exact_only, by_task=by_task)
        return walk.run(start_runs, steps)

    def load(self, block_ids: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        """Blocks from the cache or the graph.

        Raises:
            BudgetError: they exceed the limits of the query.
        """
        block_ids = list(block_ids)
        current_budget().count_blocks(len(block_ids))
        return self.reload(block_ids)

    def reload(self, block_ids: Iterable[BlockId]) -> dict[BlockId, FlowBlock]:
        """Blocks of a trace once more: the limits of the query counted them when it crossed them."""
        block_ids = list(block_ids)
        with self._lock:
            blocks = {block: self._cache[block] for block in block_ids if block in self._cache}
            for block_id in blocks:
                self._cache.move_to_end(block_id)
        uncached = [block for block in block_ids if block not in blocks]
        if uncached:
            loaded_blocks = self.graph.load(uncached)
            blocks.update(loaded_blocks)
            with self._lock:
                self._cache_blocks(loaded_blocks)
        return blocks

    def uncached(self, block_ids: Iterable[BlockId]) -> list[BlockId]:
        """Those of some blocks that are not in the cache."""
        with self._lock:
            return [block for block in block_ids if block not in self._cache]

    def _cache_blocks(self, loaded_blocks: Mapping[BlockId, FlowBlock]) -> None:
        for block_id, block in loaded_blocks.items():
            if block_id not in self._cache:
                self._cache_bytes += _bytes_of(block)
            self._cache[block_id] = block
        while self._cache_bytes > self._cache_bytes_max and self._cache:
            _, dropped = self._cache.popitem(last=False)
            self._cache_bytes -= _bytes_of(dropped)

    def _check_goal(self, direction: Direction, start_runs: Mapping[str, Runs], goal: str) -> None:
        if goal not in self.topology.by_id:
            raise TraceError(f"there is no node {goal} in this application")
        names = {parse_space(space).name for space in start_runs} - {OPAQUE}
        reaching = self.topology.reachable_from(goal, upstream=direction is Direction.FORWARD)
        if names and not names & reaching:
            side = "upstream" if direction is Direction.BACKWARD else "downstream"
            raise TraceError(f"node {goal} is not {side} of node {', '.join(sorted(names))}")


def trace(
    graph: FlowGraph,
    direction: Direction,
    start: Mapping[str, Region],
    *,
    until: str = "ends",
    steps: int | None = None,
) -> TraceResult:
    """One trace over ``graph``; see :meth:`Tracer.trace`. A :class:`Tracer` keeps its blocks."""
    return Tracer(graph).trace(direction, start, until=until, steps=steps)


def _bytes_of(block: FlowBlock) -> int:
    columns = (block.in_first, block.in_last, block.in_ptr, block.out_first, block.out_last)
    return sum(column.nbytes for column in columns if column is not None) + 1024
