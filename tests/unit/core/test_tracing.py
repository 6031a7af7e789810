import numpy as np
import pytest

from lineage_core.contract.block import BlockId, FlowBlock, Relation, Section
from lineage_core.contract.graph import LinkRecord
from lineage_core.contract.region import Region
from lineage_core.tracing.tracer import Direction, TraceError, Tracer, TraceResult, trace
from tests.support.memory_graph import MemoryGraph, node

pytestmark = pytest.mark.unit

Flows = list[tuple[list[int], str, int]]


def rows(
    block_id: BlockId, in_space: str, flows: Flows, *, exact: bool = True, reason: str = ""
) -> FlowBlock:
    """A block of single positions: (inputs, output space, output) row by row."""
    sections: list[Section] = []
    for row, (_, space, _) in enumerate(flows):
        if sections and sections[-1].space == space:
            sections[-1] = Section(space, sections[-1].row_first, row + 1)
        else:
            sections.append(Section(space, row, row + 1))
    return FlowBlock(
        block_id,
        Relation.ROWS,
        in_space,
        tuple(sections),
        np.array([p for ins, _, _ in flows for p in ins], np.uint64),
        np.array([out for _, _, out in flows], np.uint64),
        np.cumsum([0] + [len(ins) for ins, _, _ in flows], dtype=np.int64),
        exact=exact,
        reason=reason,
    )


def at(*points: int) -> Region:
    return Region.from_positions(points)


def pairs(result: TraceResult, which: str = "found") -> dict[str, dict[str, list[tuple[int, int]]]]:
    return {
        name: {
            space: list(zip(region.first.tolist(), region.last.tolist(), strict=True))
            for space, region in found.spaces.items()
        }
        for name, found in getattr(result, which).items()
    }


def word_count(*, exact: bool = True, reason: str = "") -> MemoryGraph:
    """Two map tasks, one reduce task, two words."""
    return MemoryGraph(
        [node("0", "source", "textFile"), node("1", "shuffle"), node("2", "sink")],
        [LinkRecord("0", "1"), LinkRecord("1", "2")],
        [
            rows(BlockId("1", 0, 1, 0), "0#0", [([0, 2], "1@0", 99), ([1], "1@0", 77)]),
            rows(BlockId("1", 1, 2, 0), "0#1", [([4], "1@0", 99)]),
            rows(
                BlockId("2", 0, 3, 0),
                "1@0",
                [([77], "2#0", 0), ([99], "2#0", 1)],
                exact=exact,
                reason=reason,
            ),
        ],
    )


def test_back_and_forth() -> None:
    back = trace(word_count(), Direction.BACKWARD, {"2#0": at(1)})
    assert pairs(back) == {"0": {"0#0": [(0, 0), (2, 2)], "0#1": [(4, 4)]}}
    assert (back.count, back.exact, back.reasons, back.blocks_crossed) == (3, True, (), 3)
    forth = trace(word_count(), Direction.FORWARD, {"0#0": at(1)})
    assert pairs(forth) == {"2": {"2#0": [(0, 0)]}}


def test_one_step_and_a_node_on_the_way() -> None:
    step = trace(word_count(), Direction.BACKWARD, {"2#0": at(1)}, steps=1)
    assert pairs(step) == {"1": {"1@0": [(99, 99)]}}
    keys = trace(word_count(), Direction.FORWARD, {"0#1": at(4)}, until="1")
    assert pairs(keys) == {"1": {"1@0": [(99, 99)]}}


def test_a_superset_is_said_to_be_one() -> None:
    graph = word_count(exact=False, reason="may buffer")
    result = trace(graph, Direction.BACKWARD, {"2#0": at(0)})
    assert not result.exact
    assert result.reasons == ("node 2 (map): may buffer",)


def test_lost_blocks_are_a_dead_end() -> None:
    graph = word_count()
    del graph.block_list[:2]
    result = trace(graph, Direction.BACKWARD, {"2#0": at(1)})
    assert not result.exact
    assert result.found == {}
    assert [(end.node, end.space) for end in result.dead_ends] == [("1", "1@0")]


def test_a_row_that_does_not_exist_is_a_dead_end() -> None:
    result = trace(word_count(), Direction.BACKWARD, {"2#0": at(1, 8)})
    assert [(end.space, end.region.first.tolist()) for end in result.dead_ends] == [("2#0", [8])]


def test_an_unknown_node_downstream_is_named() -> None:
    graph = word_count()
    graph.node_list.append(node("3", "operator", "map"))
    graph.node_list.append(node("4", "unknown", "pipe", reason="not captured"))
    graph.link_list += [LinkRecord("0", "3"), LinkRecord("3", "4")]
    result = trace(graph, Direction.FORWARD, {"0#0": at(1)})
    assert result.count == 1
    assert not result.exact
    assert "pipe (node 4)" in result.reasons[0]
    assert trace(graph, Direction.BACKWARD, {"2#0": at(0)}).exact


def test_an_unknown_node_upstream_is_a_dead_end() -> None:
    graph = word_count()
    graph.node_list[0] = node("0", "unknown", "pipe", reason="not captured")
    result = trace(graph, Direction.BACKWARD, {"2#0": at(0)})
    assert result.found == {}
    assert "pipe" in result.reasons[0]


def test_opaque_positions_belong_to_the_node_that_put_them_out() -> None:
    graph = MemoryGraph(
        [node("in", "source"), node("a"), node("b"), node("out", "sink")],
        [LinkRecord("in", "a"), LinkRecord("a", "b"), LinkRecord("b", "out")],
        [
            rows(BlockId("a", 0, 0, 0), "*@0", [([1], "*@0", 10), ([2], "*@0", 10)]),
            rows(BlockId("b", 0, 0, 0), "*@0", [([10], "*@0", 20)]),
        ],
    )
    back = trace(graph, Direction.BACKWARD, {"*@0": at(20)})
    assert pairs(back) == {"in": {"*@0": [(1, 2)]}}
    assert set(back.passed) == {"in", "a", "b"}
    forth = trace(graph, Direction.FORWARD, {"*@0": at(2)})
    assert pairs(forth) == {"out": {"*@0": [(20, 20)]}}
    assert pairs(trace(graph, Direction.FORWARD, {"*@0": at(2)}, until="a")) == {
        "a": {"*@0": [(10, 10)]}
    }
    assert pairs(trace(graph, Direction.BACKWARD, {"*@0": at(20)}, until="a")) == {
        "a": {"*@0": [(10, 10)]}
    }
    lost = trace(graph, Direction.BACKWARD, {"*@0": at(55)})
    assert len(lost.dead_ends) == 1


def test_an_opaque_item_named_like_its_input_still_ends() -> None:
    graph = MemoryGraph(
        [node("a", "source")], [], [rows(BlockId("a", 0, 0, 0), "*@0", [([1], "*@0", 1)])]
    )
    assert pairs(trace(graph, Direction.BACKWARD, {"*@0": at(1)})) == {"a": {"*@0": [(1, 1)]}}


def test_goals_that_do_not_lie_that_way_are_refused() -> None:
    with pytest.raises(TraceError, match="no node 9"):
        trace(word_count(), Direction.BACKWARD, {"2#0": at(0)}, until="9")
    with pytest.raises(TraceError, match="not upstream"):
        trace(word_count(), Direction.BACKWARD, {"1@0": at(77)}, until="2")


def test_blocks_are_kept_within_a_bound() -> None:
    graph = word_count()
    tracer = Tracer(graph)
    tracer.trace(Direction.BACKWARD, {"2#0": at(1)})
    tracer.trace(Direction.BACKWARD, {"2#0": at(1)})
    assert len(graph.loaded) == 3
    forgetful = Tracer(graph, cache_bytes_max=0)
    forgetful.trace(Direction.BACKWARD, {"2#0": at(1)})
    forgetful.trace(Direction.BACKWARD, {"2#0": at(1)})
    assert len(graph.loaded) == 9
