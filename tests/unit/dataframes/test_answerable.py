"""Whether rows can be traced, told from recipes alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lineage_core.contract.graph import NodeRecord
from lineage_core.contract.verdict import StoreCounts, Verdict, judge
from lineage_core.recipe.document import Output, Recipe, Source
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
    PythonRows,
    Sample,
    Scan,
)
from lineage_dataframes.trace.answerable import refusals, with_answerable
from lineage_store.port import GraphStore

pytestmark = pytest.mark.unit

COLUMNS = (Attribute(1, "k", "bigint"), Attribute(2, "v", "bigint"))
SCHEMA = '{"type":"struct","fields":[]}'
PARQUET = Source("parquet", ("/in",), SCHEMA)
SCAN = Scan(COLUMNS, 0, ("k", "v"))
RANDOM = OpaqueExpression("rand", "random", (), "double")
BY_CHANCE = Call(">", (RANDOM, Literal("0.5", "double")))


def filtered(below: int) -> Filter:
    return Filter(COLUMNS, below, BY_CHANCE)


def grouped(below: int, key: Expression) -> Aggregate:
    return Aggregate(COLUMNS, below, (key,), (Column(1), Call("sum", (Column(2),))))


def recipe(*plan: Node, source: Source = PARQUET) -> Recipe:
    return Recipe("4.1.4", {}, (source,), plan)


def refused(*plan: Node) -> list[str]:
    """The operators that refuse."""
    return [operator for operator, _ in refusals(recipe(*plan))]


UDF = OpaqueExpression("clean", "a Python function", (Column(1),), "bigint")
TABLE = PythonRows(COLUMNS, (0,), "Split", "over partitions")


def test_what_can_be_traced_is_not_refused() -> None:
    assert refused(SCAN) == []
    assert refused(SCAN, grouped(0, Column(1))) == []
    # Above all groups such rows are known to be in the output: a superset, and an answer.
    assert refused(SCAN, filtered(0)) == []
    assert refused(SCAN, Sample(COLUMNS, 0)) == []
    assert refused(SCAN, TABLE) == []


def test_what_refuses_is_named_with_its_reason() -> None:
    ((operator, reason),) = refusals(recipe(SCAN, filtered(0), grouped(1, Column(1))))
    assert operator == "filter"
    assert reason == "rows are chosen by rand, which is random"
    # Of the last aggregate such a key makes the answer wider.
    assert refused(SCAN, grouped(0, UDF)) == []
    ((operator, reason),) = refusals(recipe(SCAN, grouped(0, UDF), grouped(1, Column(2))))
    assert (operator, reason) == (
        "aggregate",
        "rows are grouped by clean, which is a Python function",
    )
    assert refused(SCAN, Sample(COLUMNS, 0), grouped(1, Column(1))) == ["sample"]
    assert refused(SCAN, TABLE, grouped(1, Column(1))) == ["python rows"]
    of_env = replace(recipe(SCAN), settings={"spark.sql.columnNameOfCorruptRecord": "${env:HOME}"})
    ((operator, reason),) = refusals(of_env)
    assert operator == ""
    assert "columnNameOfCorruptRecord" in reason


def test_what_the_next_queries_of_a_trace_refuse_is_found_too() -> None:
    """The right side of a semi join is traced by a query of its own."""
    other = replace(SCAN, columns=(Attribute(3, "k", "bigint"), Attribute(4, "v", "bigint")))
    chosen = Filter(other.columns, 1, BY_CHANCE)
    condition = Call("=", (Column(1), Column(3)))
    joined = Join(COLUMNS, 0, 2, "semi", condition)
    assert refused(SCAN, other, chosen, joined) == ["filter"]


def test_rows_without_names_are_refused_where_they_are_read() -> None:
    avro = replace(PARQUET, format="avro")
    ((operator, reason),) = refusals(recipe(SCAN, source=avro))
    assert (operator, reason) == ("scan", "rows of avro sources have no names yet")


# -- the verdict -----------------------------------------------------------------------------------

NODES = ("0", "1", "2")
COUNTS = StoreCounts(0, 0, 0, 0, recipes=frozenset(NODES))


class Store:
    """A store with recipes by node."""

    def __init__(self, *recipes: Recipe | str) -> None:
        self._texts = {
            str(n): one if isinstance(one, str) else one.to_json() for n, one in enumerate(recipes)
        }
        self.read = 0

    def graph(self, app: str) -> Store:
        return self

    def nodes(self) -> list[NodeRecord]:
        made = (
            SimpleNamespace(node=n, kind="frame", name="count", op="count") for n in self._texts
        )
        return [cast(NodeRecord, one) for one in made]

    def recipe(self, node: str) -> str:
        self.read += 1
        return self._texts[node]


def answered(store: Store, **more: Any) -> Verdict:
    received = judge([], COUNTS, now=0.0)
    return with_answerable(cast(GraphStore, store), "app", received, **more)


GOOD = recipe(SCAN)
BAD = recipe(SCAN, filtered(0), grouped(1, Column(1)))


def test_one_output_that_is_refused_makes_the_verdict() -> None:
    found = answered(Store(GOOD, BAD))
    assert (found.answerable, found.unchecked) == (False, 0)
    (one,) = found.refusals
    assert one.text == "node 1 (count): filter: rows are chosen by rand, which is random"
    assert answered(Store(GOOD, GOOD)).answerable is True
    assert Verdict.from_json(found.to_json()) == found


def test_outputs_of_one_plan_are_told_apart_by_their_settings() -> None:
    other = replace(GOOD, settings={"spark.sql.extensions": "some.Code"})
    assert [one.node for one in answered(Store(GOOD, other)).refusals] == ["1"]


def test_time_is_bounded_and_what_is_left_is_said() -> None:
    ticks: Iterator[float] = iter(range(100))
    found = answered(Store(GOOD, GOOD, GOOD), timeout_s=1.5, clock=lambda: next(ticks))
    assert (found.answerable, found.unchecked) == (None, 2)


def test_a_recipe_that_cannot_be_read_allows_no_trace() -> None:
    found = answered(Store('{"version": 99}'))
    assert found.answerable is False
    assert "can't be read" in found.refusals[0].reason


def test_records_are_always_looked_up() -> None:
    none = judge([], StoreCounts(0, 0, 0, 0), now=0.0)
    assert none.answerable is True
    assert judge([], COUNTS, now=0.0).answerable is None


def test_an_older_server_does_not_say() -> None:
    older = judge([], COUNTS, now=0.0).to_json()
    for key in ("answerable", "received", "refusals", "unchecked"):
        del older[key]
    assert Verdict.from_json(older).answerable is None


def test_rows_that_become_records_need_a_name() -> None:
    named = (Attribute(1, "k", "bigint"), Attribute(2, "lineage_row", "bigint"))
    plan = Scan(named, 0, ("k", "lineage_row"))
    output = Output(action="DataFrame.rdd")
    assert refusals(replace(recipe(plan), output=output)) == ()
