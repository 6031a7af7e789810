"""Single derivations equal all associations of random graphs, and those that a trace went along."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.region import Region
from lineage_core.tracing import derivations
from lineage_core.tracing.derivations import block_derivations, derivations_among
from lineage_core.tracing.trace_result import TraceResult
from lineage_core.tracing.tracer import Direction, trace
from tests.property.test_tracing_property import as_region, graphs, items, passed_in, starts
from tests.support.memory_graph import Association, MemoryGraph, associations

pytestmark = pytest.mark.property


@pytest.fixture(params=[1, 3, 1 << 18], autouse=True)
def at_once(request: pytest.FixtureRequest) -> Iterator[None]:
    """The same whether much or little is written out together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(derivations, "PAIRS_AT_ONCE", request.param)
        patch.setattr(derivations, "SIDE_AT_ONCE", min(request.param, 512))
        yield


def told(graph: MemoryGraph, regions: dict[str, Region] | None = None) -> set[Association]:
    found = set()
    for pairs in derivations_among(graph, regions):
        assert pairs.ins.dtype == pairs.outs.dtype == np.uint64
        for one, two in zip(pairs.ins.tolist(), pairs.outs.tolist(), strict=True):
            found.add((pairs.in_space, one, pairs.out_space, two))
    return found


def taking_part(result: TraceResult) -> dict[str, Region]:
    spaces: dict[str, list[Region]] = {}
    for of_node in result.passed.values():
        for space, region in of_node.spaces.items():
            spaces.setdefault(space, []).append(region)
    return {space: Region.union(regions) for space, regions in spaces.items()}


@given(graphs())
def test_all_of_an_application(graph: MemoryGraph) -> None:
    assert told(graph) == {pair for block in graph.block_list for pair in associations(block)}


@given(graphs(), st.sampled_from(Direction), st.data())
def test_a_trace_went_along_just_these(
    graph: MemoryGraph, direction: Direction, data: st.DataObject
) -> None:
    chosen = {space: as_region(runs) for space, runs in starts(graph, data).items()}
    result = trace(graph, direction, chosen)
    near = 3 if direction is Direction.BACKWARD else 1
    met = passed_in(result)
    expected = {
        pair
        for block in graph.block_list
        for pair in associations(block)
        if (pair[near - 1], pair[near]) in met
    }
    assert told(graph, taking_part(result)) == expected


@given(graphs(), st.data())
def test_both_ends_are_among_the_items(graph: MemoryGraph, data: st.DataObject) -> None:
    chosen = {space: as_region(runs) for space, runs in starts(graph, data).items()}
    there = items(chosen)
    expected = {
        pair
        for block in graph.block_list
        for pair in associations(block)
        if pair[:2] in there and pair[2:] in there
    }
    assert told(graph, chosen) == expected


def test_what_nobody_could_hold_is_given_in_parts() -> None:
    far = 2**40
    block = FlowBlock(
        BlockId("4", 0, 0, 0),
        Relation.ROWS,
        "1#0",
        (Section("4#0", 0, 1),),
        np.array([5], np.uint64),
        np.array([7], np.uint64),
        in_last=np.array([far], np.uint64),
        out_last=np.array([far], np.uint64),
    )
    first = next(block_derivations(block))
    assert (int(first.ins[0]), int(first.outs[0])) == (5, 7)
    assert len(first.ins) <= 1 << 18
