"""Expressions of Catalyst, given as trees, in recipes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lineage_core.recipe.plan import Call, Column, Literal, OpaqueExpression
from lineage_dataframes.rewrite.stream_states import reason_of_state
from lineage_emitter.dataframes.expressions import Expressions
from lineage_emitter.dataframes.plan_text import Tree

NOTHING: Any = None
FUNCTIONS: Any = SimpleNamespace(flag_columns=())
SECONDS = "interval day to second"


def tree(kind: str, *children: Tree, **fields: Any) -> Tree:
    return Tree(kind, fields, children, NOTHING)


def expressions() -> Expressions:
    return Expressions({1: "timestamp", 2: "timestamp_ntz"}, NOTHING, FUNCTIONS)


@pytest.mark.parametrize("kind", ["TimestampAddInterval", "TimeAdd"])
def test_a_time_some_hours_away_is_one_of_microseconds(kind: str) -> None:
    moved = tree(
        kind,
        tree("AttributeReference", exprId=1),
        tree("Literal", dataType=SECONDS, value="-5000000"),
    )
    micros = Call("+", (Call("unix_micros", (Column(1),)), Literal("-5000000", "bigint")))
    assert expressions().one(moved) == Call("timestamp_micros", (micros,))


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("2 seconds", "2000000"),
        ("1 hours 30 minutes", "5400000000"),
        ("-1.5 seconds", "-1500000"),
        ("-1 minutes -0.000001 seconds", "-60000001"),
    ],
)
def test_an_interval_of_a_clock_is_one_of_microseconds(text: str, micros: str) -> None:
    moved = tree(
        "TimestampAddInterval",
        tree("AttributeReference", exprId=1),
        tree("Literal", dataType="interval", value=text),
    )
    added = Call("+", (Call("unix_micros", (Column(1),)), Literal(micros, "bigint")))
    assert expressions().one(moved) == Call("timestamp_micros", (added,))


@pytest.mark.parametrize(
    ("column", "interval", "value"),
    [
        (1, "interval", "1 days 2 hours"),
        (1, "interval", "25 hours"),
        (1, "interval", None),
        # Clocks may change within a day.
        (1, SECONDS, "86400000000"),
        (1, "interval", "1 months"),
        (1, "interval year to month", "1"),
        (1, SECONDS, None),
        (2, SECONDS, "5000000"),
    ],
)
def test_a_time_otherwise_away_is_not_computed(column: int, interval: str, value: Any) -> None:
    moved = tree(
        "TimeAdd",
        tree("AttributeReference", exprId=column),
        tree("Literal", dataType=interval, value=value),
    )
    assert isinstance(expressions().one(moved), OpaqueExpression)


def test_what_a_stream_holds_is_a_condition_that_says_so() -> None:
    state = expressions().one(tree("ScalaUDF", udfName="lineage.state"))
    assert isinstance(state, OpaqueExpression)
    assert (state.name, state.type) == ("state", "boolean")
    groups = expressions().one(tree("ScalaUDF", udfName="lineage.state.groups"))
    assert reason_of_state(groups)
    assert not reason_of_state(state)
    other = expressions().one(tree("ScalaUDF", udfName="lineage", dataType="boolean"))
    assert isinstance(other, OpaqueExpression)
    assert other.name == "ScalaUDF"
