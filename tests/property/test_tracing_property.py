"""Traces over random block graphs equal a walk over all associations, one by one."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.address import parse_space
from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.graph import LinkRecord
from lineage_core.contract.region import Region
from lineage_core.tracing import block_lookup
from lineage_core.tracing.tracer import Direction, TraceResult, trace
from tests.support.memory_graph import MemoryGraph, associations, node

pytestmark = pytest.mark.property

POSITIONS = 12
Items = set[tuple[str, int]]


@st.composite
def regions(draw: st.DrawFn, most: int = 4) -> list[tuple[int, int]]:
    """Runs in order, disjoint and not adjacent."""
    points = draw(st.sets(st.integers(0, POSITIONS - 1), max_size=most))
    runs: list[tuple[int, int]] = []
    for point in sorted(points):
        if runs and runs[-1][1] == point - 1:
            runs[-1] = (runs[-1][0], point)
        else:
            runs.append((point, point))
    return runs


@st.composite
def flow_blocks(draw: st.DrawFn, block_id: BlockId, in_space: str, outs: list[str]) -> FlowBlock:
    relation = draw(st.sampled_from(Relation))
    rows = draw(st.integers(0, 5))
    sections, at = [], 0
    for space in outs:
        stop = rows if space == outs[-1] else draw(st.integers(at, rows))
        sections.append(Section(space, at, stop))
        at = stop
    runs = [draw(regions()) for _ in range(rows)]
    lengths = [draw(st.integers(1, 3)) for _ in range(rows)]
    if relation is Relation.IDENTITY:
        first = draw(
            st.lists(st.integers(0, POSITIONS - 3), min_size=rows, max_size=rows, unique=True)
        )
        runs = [[(f, f + n - 1)] for f, n in zip(first, lengths, strict=True)]
    out_first = [draw(st.integers(0, POSITIONS - 3)) for _ in range(rows)]
    flat = [run for row in runs for run in row]
    single_inputs = all(a == b for a, b in flat) and draw(st.booleans())
    single_outputs = all(n == 1 for n in lengths) and draw(st.booleans())
    one_each = all(len(row) == 1 for row in runs) and draw(st.booleans())
    out = np.array(out_first, np.uint64)
    return FlowBlock(
        block_id,
        relation,
        in_space,
        tuple(sections),
        np.array([a for a, _ in flat], np.uint64),
        out,
        None if one_each else np.cumsum([0] + [len(row) for row in runs], dtype=np.int64),
        None if single_inputs else np.array([b for _, b in flat], np.uint64),
        None if single_outputs else out + np.array(lengths, np.uint64) - np.uint64(1),
    )


@st.composite
def graphs(draw: st.DrawFn) -> MemoryGraph:
    """Sources 0 and 1, some operators with key, cached and exchange spaces, a sink."""
    spaces = ["0#0", "0#1", "1#0"]
    blocks: list[FlowBlock] = []
    middle = draw(st.integers(0, 3))
    owned = {"0", "1"}
    for number in range(2, 2 + middle + 1):
        name, last = str(number), number == 2 + middle
        own = draw(
            st.sampled_from(
                [[f"{name}@0", f"{name}@1"], [f"{name}#0.7", f"{name}#1.8"], [f"{name}#*"]]
            )
        )
        own = [f"{name}#0"] if last else own
        for seq in range(draw(st.integers(1, 4))):
            source = draw(st.sampled_from(spaces))
            blocks.append(draw(flow_blocks(BlockId(name, seq % 2, 7, seq), source, own)))
        spaces += own
        owned.add(name)
    sink = str(2 + middle)
    kinds = {"0": "source", "1": "source", sink: "sink"}
    nodes = [node(name, kinds.get(name, "shuffle")) for name in sorted(owned)]
    links = {(parse_space(b.in_space).name, b.block_id.node) for b in blocks}
    return MemoryGraph(nodes, [LinkRecord(*link) for link in sorted(links)], blocks)


def items(spaces: dict[str, Region]) -> Items:
    return {
        (space, p)
        for space, region in spaces.items()
        for a, b in zip(region.first.tolist(), region.last.tolist(), strict=True)
        for p in range(a, b + 1)
    }


def reach(
    graph: MemoryGraph, start: Items, direction: Direction, steps: int | None
) -> tuple[Items, Items]:
    """All items on the way, and the frontier after ``steps``."""
    near: dict[tuple[str, int], Items] = defaultdict(set)
    for block in graph.block_list:
        for in_space, i, out_space, o in associations(block):
            if direction is Direction.BACKWARD:
                near[out_space, o].add((in_space, i))
            else:
                near[in_space, i].add((out_space, o))
    met, frontier = set(start), set(start)
    while frontier and (steps is None or steps > 0):
        frontier = {n for item in frontier for n in near[item]}
        if steps is None:
            frontier -= met
        else:
            steps -= 1
        met |= frontier
    return met, frontier


def found_in(result: TraceResult) -> Items:
    return {item for found in result.found.values() for item in items(dict(found.spaces))}


def passed_in(result: TraceResult) -> Items:
    return {item for found in result.passed.values() for item in items(dict(found.spaces))}


def starts(graph: MemoryGraph, data: st.DataObject) -> dict[str, list[tuple[int, int]]]:
    spaces = {s.space for b in graph.block_list for s in b.out} | {
        b.in_space for b in graph.block_list
    }
    chosen = data.draw(st.sets(st.sampled_from(sorted(spaces)), min_size=1, max_size=2))
    return {space: data.draw(regions()) for space in sorted(chosen)}


def as_region(runs: list[tuple[int, int]]) -> Region:
    return Region(
        np.array([a for a, _ in runs], np.uint64), np.array([b for _, b in runs], np.uint64)
    )


@given(graphs(), st.sampled_from(Direction), st.data())
def test_a_trace_finds_what_single_associations_lead_to(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    chosen = starts(graph, data)
    begin = {(s, p) for s, runs in chosen.items() for a, b in runs for p in range(a, b + 1)}
    result = trace(graph, direction, {s: as_region(runs) for s, runs in chosen.items()})
    met, _ = reach(graph, begin, direction, None)
    ends = {"0", "1"} if direction is Direction.BACKWARD else {graph.node_list[-1].node}
    assert passed_in(result) == met
    assert found_in(result) == {item for item in met if parse_space(item[0]).name in ends}
    assert result.count == len(found_in(result))


@given(graphs(), st.sampled_from(Direction), st.integers(1, 2), st.data())
def test_steps_stop_after_so_many_blocks(
    graph: MemoryGraph, direction: Direction, steps: int, data: st.DataObject
) -> None:
    chosen = starts(graph, data)
    begin = {(s, p) for s, runs in chosen.items() for a, b in runs for p in range(a, b + 1)}
    begun = {s: as_region(runs) for s, runs in chosen.items()}
    result = trace(graph, direction, begun, steps=steps)
    met, last = reach(graph, begin, direction, steps)
    ends = {"0", "1"} if direction is Direction.BACKWARD else {graph.node_list[-1].node}
    assert last <= found_in(result)
    assert {parse_space(item[0]).name for item in found_in(result) - last} <= ends
    assert passed_in(result) == met


@given(graphs(), st.sampled_from(Direction), st.data())
def test_narrowing_by_edges_changes_nothing(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    begun = {s: as_region(runs) for s, runs in starts(graph, data).items()}
    plain = trace(graph, direction, begun)
    few = block_lookup.FEW_BLOCKS
    block_lookup.FEW_BLOCKS = 0
    try:
        narrowed = trace(graph, direction, begun)
    finally:
        block_lookup.FEW_BLOCKS = few
    assert found_in(plain) == found_in(narrowed)
    assert passed_in(plain) == passed_in(narrowed)


@given(graphs(), st.data())
def test_a_trace_to_a_node_gives_its_items_on_the_way(
    graph: MemoryGraph, data: st.DataObject
) -> None:
    chosen = starts(graph, data)
    begun = {s: as_region(runs) for s, runs in chosen.items()}
    above = trace(graph, Direction.BACKWARD, begun)
    goals = set(above.passed) - {parse_space(space).name for space in chosen}
    for goal in goals:
        result = trace(graph, Direction.BACKWARD, begun, until=goal)
        assert set(result.found) == {goal}
        assert items(dict(result.found[goal].spaces)) == items(dict(above.passed[goal].spaces))
