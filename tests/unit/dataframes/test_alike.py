"""Nodes of a plan that give the same rows, and the order in which groups are asked for."""

from __future__ import annotations

import dataclasses

import pytest

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Call,
    Column,
    Expression,
    Filter,
    Join,
    Literal,
    Node,
    OpaqueExpression,
    Over,
    Project,
    Sample,
    Scan,
    Subquery,
    Window,
)
from lineage_dataframes.rewrite.common_subplans import (
    CommonSubplans,
    PendingGroups,
    find_common_subplans,
)
from lineage_dataframes.rewrite.named_query import Leaf

pytestmark = pytest.mark.unit


def scan(*ids: int) -> Scan:
    columns = tuple(Attribute(one, f"x{one}", "bigint") for one in ids)
    return Scan(columns, 0, ("city", "sales"))


def chosen(below: int, node: Scan, by: Expression) -> Filter:
    return Filter(node.columns, below, Call(">", (Column(node.columns[1].id), by)))


def total(below: int, key: int, what: int, own: int) -> Aggregate:
    columns = (Attribute(key, "city", "bigint"), Attribute(own, "total", "bigint"))
    return Aggregate(columns, below, (Column(key),), (Column(key), Call("sum", (Column(what),))))


ONE = Literal("1", "bigint")


def plan_of(by: Expression, by_again: Expression = ONE) -> tuple[Node, ...]:
    """The same total twice, under other numbers, joined."""
    left, right = scan(1, 2), scan(4, 5)
    joined = (*total(1, 1, 2, 3).columns, *total(4, 4, 5, 6).columns)
    return (
        left, chosen(0, left, by), total(1, 1, 2, 3),
        right, chosen(3, right, by_again), total(4, 4, 5, 6),
        Join(joined, 2, 5, "inner", Call("=", (Column(1), Column(4)))),
    )  # fmt: skip


def firsts(plan: tuple[Node, ...]) -> CommonSubplans:
    return find_common_subplans(Recipe("4.1.4", {}, (), plan))


def rows(plan: tuple[Node, ...]) -> tuple[int, ...]:
    return firsts(plan).rows


def test_nodes_are_alike_whatever_their_columns_are_called() -> None:
    assert rows(plan_of(ONE)) == (0, 1, 2, 0, 1, 2, 6)


def test_nodes_that_differ_below_are_not_alike() -> None:
    assert rows(plan_of(Literal("2", "bigint"))) == (0, 1, 2, 0, 4, 5, 6)
    swapped = list(plan_of(ONE))
    swapped[5] = total(4, 5, 4, 6)
    assert rows(tuple(swapped))[5] == 5
    other = list(plan_of(ONE))
    other[3] = dataclasses.replace(scan(4, 5), fields=("sales", "city"))
    assert rows(tuple(other)) == (0, 1, 2, 0, 4, 5, 6)


def test_columns_that_are_left_out_make_no_difference() -> None:
    right, counted = scan(4, 5), (Attribute(6, "n", "bigint"),)
    few = Aggregate(counted, 4, (Column(4),), (Call("count", (Column(4),)),))
    plan = (*plan_of(ONE)[:5], few)
    assert rows(plan) == (0, 1, 2, 0, 1, 2)
    fewer = (*plan[:3], Scan(right.columns[1:], 0, ("sales",)), *plan[4:])
    fewer = (*fewer[:4], chosen(3, right, ONE), total(4, 5, 5, 6))
    assert rows(fewer) == (0, 1, 2, 0, 1, 5)


def test_windows_have_the_groups_of_their_partitions() -> None:
    def window(below: int, key: int, of: int, own: int, fn: str) -> Window:
        over = Over(Call(fn, (Column(of),)), (Column(key),), (), None)
        columns = (*scan(key, of).columns, Attribute(own, fn, "bigint"))
        return Window(columns, below, (over,))

    plan = (scan(1, 2), window(0, 1, 2, 3, "sum"), scan(4, 5), window(2, 4, 5, 6, "max"))
    assert firsts(plan).groups[1:4:2] == (1, 1)
    other = (*plan[:3], window(2, 5, 4, 6, "max"))
    assert firsts(other).groups[1:4:2] == (1, 3)


def test_what_goes_by_chance_is_not_alike() -> None:
    drawn = OpaqueExpression("rand", "random", (), "bigint")
    assert rows(plan_of(drawn, drawn)) == (0, 1, 2, 0, 4, 5, 6)
    left, right = scan(1, 2), scan(4, 5)
    plan = (left, Sample(left.columns, 0), right, Sample(right.columns, 2))
    assert rows(plan) == (0, 1, 0, 3)


def test_a_group_is_asked_for_when_nothing_that_waits_leads_to_it() -> None:
    text = Project((Attribute(7, "n", "bigint"),), 2, (Column(3),))
    plan = (*plan_of(ONE), text, chosen(6, scan(1, 2), Subquery(7)))
    waiting: PendingGroups[str] = PendingGroups(plan, firsts(plan))
    waiting.add(Leaf(2, ("b5", "b5_0")), "from the join")
    waiting.add(Leaf(7, ("s8_7",), subquery=True), "from the filter")
    assert [[what for _, what in asked] for asked in waiting.ready()] == [["from the filter"]]
    waiting.add(Leaf(2, ("b2", "b2_0")), "from the subquery")
    assert [[what for _, what in asked] for asked in waiting.ready()] == [
        ["from the join", "from the subquery"]
    ]
    assert waiting.ready() == []
