"""A trace of many items at once in memory: parts of spaces are crossed as Spark's processes do, one after the other."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from lineage_core.contract.region import Region
from lineage_core.tracing.space_parts import ANY, PartTrace, block_parts, by_part
from lineage_core.tracing.tagged import TaggedRuns, concatenated
from lineage_core.tracing.tagged_plan import GroupLink, TaggedPlan, group_of
from lineage_core.tracing.topology import Topology
from tests.support.memory_graph import MemoryGraph

Pair = tuple[int, str, int]
"""Tag, space and position."""


@dataclass
class Traced:
    """``found``: pairs, and the texts of the reasons of the ways to each; empty: an exact way."""

    found: dict[Pair, set[str]] = field(default_factory=dict)
    dead: set[Pair] = field(default_factory=set)
    reasons: tuple[str, ...] = ()
    rows: int = 0


def tagged_start(items: list[tuple[str, int]], *, together: bool) -> dict[str, TaggedRuns]:
    """The k-th item with tag k, or all with tag 0."""
    by_space: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for tag, (space, position) in enumerate(items):
        by_space[space].append((0 if together else tag, position))
    start = {}
    for space, pairs in by_space.items():
        positions = np.array([position for _, position in pairs], np.uint64)
        tags = np.array([tag for tag, _ in pairs], np.int64)
        start[space] = TaggedRuns.of(tags, (positions, positions), False, 0)
    return start


def pairs_of(space: str, rows: TaggedRuns) -> list[tuple[Pair, int]]:
    """All pairs of rows, with the number of the reason of each."""
    pairs = []
    columns = (rows.tag, rows.first, rows.last, rows.each, rows.reason)
    for tag, first, last, each, reason in zip(*(c.tolist() for c in columns), strict=True):
        for step in range(last - first + 1):
            pairs.append(((tag + step if each else tag, space, first + step), reason))
    return pairs


def tagged_trace(graph: MemoryGraph, start: dict[str, TaggedRuns], *, backward: bool) -> Traced:
    """Trace through a graph."""
    blocks = graph.block_list
    links = {
        GroupLink(group_of(block.in_space), group_of(section.space), block.block_id.node)
        for block in blocks
        for section in block.out
    }
    supersets = {(b.block_id.node, b.reason) for b in blocks if not b.exact}
    topology = Topology(graph.nodes(), graph.links())
    plan = TaggedPlan(graph, topology, links, backward=backward, supersets=supersets)
    waiting: dict[str, dict[str, dict[str, list[TaggedRuns]]]] = {}

    def arrive(space: str, reader: str, rows: TaggedRuns) -> None:
        group = waiting.setdefault(group_of(space), {})
        group.setdefault(space, {}).setdefault(reader, []).append(rows)

    for space, rows in start.items():
        arrive(space, ANY, rows)
    traced = Traced()
    passed = []
    for group in plan.order(list(waiting)):
        spaces = waiting.pop(group, {})
        if not spaces:
            continue
        passed.append(group)
        kind = plan.kind(group)
        parts: dict[tuple[str, int], dict[str, list[TaggedRuns]]] = {}
        for space, readers in spaces.items():
            for reader, arrived in readers.items():
                for part, rows in by_part(space, concatenated(arrived)):
                    parts.setdefault((space, part), {}).setdefault(reader, []).append(rows)
        for (space, part), arrivals in parts.items():
            trace = PartTrace(space, {r: concatenated(rows) for r, rows in arrivals.items()}, kind)
            for block in sorted(blocks, key=lambda block: not len(block.in_first)):
                for of_space, of_part, slice_ in block_parts(block, spaces, backward=backward):
                    if (of_space, of_part) != (space, part):
                        continue
                    reason = 0
                    if not block.exact:
                        reason = plan.of_blocks[block.block_id.node, block.reason]
                    is_met, reached = trace.cross(slice_, reason)
                    for next_space, reader, rows in reached:
                        traced.rows += len(rows)
                        arrive(next_space, reader, rows)
                    if is_met:
                        plan.meet([reason])
            for pair, number in pairs_of(space, trace.ends()):
                if plan.is_found(group):
                    traced.found.setdefault(pair, set()).add(plan.reasons[number])
                elif plan.missing(group):
                    plan.meet_missing(group)
                    traced.dead.add(pair)
    traced.reasons = plan.verdict(passed)
    return traced


def region_of_items(items: list[tuple[str, int]]) -> dict[str, Region]:
    """Items as regions by space."""
    by_space: dict[str, list[int]] = defaultdict(list)
    for space, position in items:
        by_space[space].append(position)
    return {space: Region.from_positions(some) for space, some in by_space.items()}
