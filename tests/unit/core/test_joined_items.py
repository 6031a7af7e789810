"""Which items were joined: against brute force over drawn graphs, and what is refused by name."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import LinkRecord, NodeRecord
from lineage_core.contract.region import Region
from lineage_core.tracing import joined_items as joining
from lineage_core.tracing.joined_items import JoinedItems, joined_items
from lineage_core.tracing.tracer import Direction, Tracer
from lineage_emitter.driver.rdd import REDUCING
from lineage_emitter.driver.saving import SAVES
from tests.support.memory_graph import MemoryGraph, node
from tests.unit.core.test_tracing import rows

pytestmark = pytest.mark.unit


def asked(graph: MemoryGraph, space: str, *positions: int, steps: int | None = None) -> JoinedItems:
    tracer = Tracer(graph)
    start = {space: Region.from_positions(positions)}
    result = tracer.trace(Direction.BACKWARD, start, steps=steps)
    return joined_items(tracer.topology, tracer.reload, start, result)


def joined(left: list[int], right: list[int], *then: list[int], op: str = "join") -> MemoryGraph:
    """Items of two sources side by side, and aggregates of these."""
    nodes = [node("0", "source"), node("1", "source"), node("2", "operator", op)]
    nodes += [node("3", "operator", "glom")]
    links = [LinkRecord("0", "2"), LinkRecord("1", "2"), LinkRecord("2", "3")]
    blocks = [
        rows(BlockId("2", 0, 0, side), f"{side}#0", [([used], "2#0", n) for n, used in enumerate(of)])
        for side, of in enumerate((left, right))
    ]  # fmt: skip
    if then:
        flows = [(ins, "3#0", n) for n, ins in enumerate(then)]
        blocks.append(rows(BlockId("3", 0, 0, 0), "2#0", flows))
    return MemoryGraph(nodes, links, blocks)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=9),
    st.data(),
)
def test_an_aggregate_has_the_combinations_of_its_rows(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    groups = data.draw(st.lists(st.sets(st.sampled_from(range(len(pairs))), min_size=1), min_size=1, max_size=4))  # fmt: skip
    graph = joined(*map(list, zip(*pairs, strict=True)), *map(sorted, groups))
    for at, group in enumerate(groups):
        wanted = {(("0#0", pairs[row][0]), ("1#0", pairs[row][1])) for row in group}
        assert asked(graph, "3#0", at) == JoinedItems(tuple(sorted(wanted)))
    everything = asked(graph, "3#0", *range(len(groups)))
    assert set(everything.rows) == set(itertools.chain.from_iterable(asked(graph, "3#0", at).rows for at in range(len(groups))))  # fmt: skip


def test_a_side_that_is_a_group_is_not_taken_apart() -> None:
    graph = joined([0, 1], [5, 6], [0, 1])
    graph.node_list += [node("4", "source"), node("5", "operator", "join")]
    graph.link_list += [LinkRecord("3", "5"), LinkRecord("4", "5")]
    graph.block_list += [
        rows(BlockId("5", 0, 0, 0), "3#0", [([0], "5#0", 0)]),
        rows(BlockId("5", 0, 0, 1), "4#0", [([8], "5#0", 0)]),
    ]
    found = asked(graph, "5#0", 0)
    assert found.rows == ((("0#0", 0), ("1#0", 5)), (("0#0", 1), ("1#0", 6)))
    assert found.unknown == (joining.OF_GROUPS,)


@pytest.mark.parametrize("op", ["cartesian", "zip"])
def test_an_item_that_meets_itself_is_there_twice(op: str) -> None:
    graph = joined([0, 1], [0, 0], op=op)
    blocks = [rows(BlockId("2", 0, 0, side), "0#0", [([a], "2#0", 0), ([b], "2#0", 1)]) for side, (a, b) in enumerate([(0, 1), (0, 0)])]  # fmt: skip
    graph.block_list[:] = blocks
    assert asked(graph, "2#0", 0) == JoinedItems(((("0#0", 0), ("0#0", 0)),))
    assert asked(graph, "2#0", 1) == JoinedItems(((("0#0", 0), ("0#0", 1)),))
    # A node that names the rows of one side pairs nothing.
    graph.node_list[2] = dataclasses.replace(graph.node_list[2], description="left side")
    assert asked(graph, "2#0", 0) == JoinedItems()


def test_what_an_outer_join_has_of_one_side_is_joined_with_nothing() -> None:
    graph = joined([0, 1], [5])
    assert asked(graph, "2#0", 1) == JoinedItems()
    assert asked(graph, "2#0", 0, 1).rows == ((("0#0", 0), ("1#0", 5)),)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (node("2", "operator", "weave"), "which rows weave (node 2) joined is not recorded"),
        (node("two", "operator", "join"), "which rows join (node two) joined is not recorded"),
    ],
)
def test_operators_that_are_not_known_are_named(changed: NodeRecord, reason: str) -> None:
    graph = joined([0], [5])
    graph.node_list[2] = changed
    blocks = [
        rows(BlockId(changed.node, 0, 0, side), f"{side}#0", [([used], f"{changed.node}#0", 0)])
        for side, used in enumerate((0, 5))
    ]
    graph.block_list[:] = blocks
    graph.link_list[:] = [LinkRecord("0", changed.node), LinkRecord("1", changed.node)]
    assert asked(graph, f"{changed.node}#0", 0) == JoinedItems((), (reason,))


def test_supersets_and_traces_that_stop_on_the_way_say_nothing() -> None:
    graph = joined([0], [5])
    graph.block_list[0] = rows(BlockId("2", 0, 0, 0), "0#0", [([0, 1], "2#0", 0)], exact=False)
    assert asked(graph, "2#0", 0) == JoinedItems((), (joining.NOT_EXACT,))
    # A row is reached in one step, and made from another one that is reached in two.
    graph = joined([0], [5], [0])
    graph.block_list.append(rows(BlockId("3", 0, 0, 1), "0#0", [([0], "3#0", 0)]))
    assert asked(graph, "3#0", 0, steps=1) == JoinedItems((), ())
    graph.block_list.append(rows(BlockId("2", 0, 0, 2), "3#0", [([0], "2#0", 7)]))
    graph.block_list.append(rows(BlockId("2", 0, 0, 3), "2#0", [([0], "2#0", 7)]))
    assert asked(graph, "2#0", 7, steps=2).unknown == (joining.STOPPED_ON_THE_WAY,)


def test_a_loop_of_items_ends() -> None:
    graph = joined([0], [5])
    graph.block_list.append(rows(BlockId("2", 0, 0, 4), "2#0", [([1], "2#0", 2), ([2], "2#0", 1)]))
    (reason,) = asked(graph, "2#0", 1).unknown
    assert reason == "join (node 2) reads what was made from its own rows"


def test_of_several_attempts_at_a_shuffle_those_count_that_were_read() -> None:
    def graph(*attempts_read: Region | None) -> MemoryGraph:
        of = joined([0, 1], [5, 6])
        of.node_list[3] = node("3", "shuffle", "combineByKey")
        of.node_list.append(node("4", "operator", "combineByKey"))
        of.link_list.append(LinkRecord("3", "4"))
        for attempt, row in enumerate((0, 1)):
            of.block_list.append(rows(BlockId("3", 0, attempt, 0), "2#0", [([row], "3@0", 9)]))
        of.block_list += [
            _reading(rows(BlockId("4", 0, n, 0), "3@0", [([9], "4#0", n)]), attempts)
            for n, attempts in enumerate(attempts_read)
        ]
        return of

    first, second = Region.from_positions([0]), Region.from_positions([1])
    assert asked(graph(first), "4#0", 0).rows == ((("0#0", 0), ("1#0", 5)),)
    assert asked(graph(first, second), "4#0", 1).rows == ((("0#0", 1), ("1#0", 6)),)
    assert asked(graph(first, second), "4#0", 0, 1).unknown == (joining.READ_DIFFERENTLY,)
    assert asked(graph(first), "3@0", 9).unknown == (joining.INSIDE_A_SHUFFLE,)


def _reading(block: FlowBlock, attempts: Region | None) -> FlowBlock:
    return dataclasses.replace(block, attempts_read=attempts)


def test_large_traces_are_refused_unless_nothing_joins_in_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = joined([0, 1, 2], [5, 6, 7], [0, 1, 2])
    for bound, reason in {
        "JOINED_MAX": joining.TOO_MANY,
        "WORK_MAX": joining.TOO_MANY,
        "PAIRS_MAX": joining.TOO_LARGE,
        "ITEMS_MAX": joining.TOO_LARGE,
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(joining, bound, 2)
            assert asked(graph, "3#0", 0) == JoinedItems((), (reason,))
    monkeypatch.setattr(joining, "ITEMS_MAX", 0)
    graph.node_list[2] = node("2", "operator", "union")
    assert asked(graph, "3#0", 0) == JoinedItems()


def test_operators_have_the_names_that_capture_gives_them() -> None:
    assert set(REDUCING) <= joining.AGGREGATES
    assert set(SAVES) <= joining.RECORD_BY_RECORD
