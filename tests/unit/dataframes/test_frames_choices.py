"""Which aggregates keep a row of each group, and how keys are compared."""

from __future__ import annotations

import pytest

from lineage_core.recipe.plan import (
    Aggregate,
    Attribute,
    Call,
    Column,
    Expression,
    Literal,
    OpaqueExpression,
)
from lineage_dataframes.rewrite.choices import keeps_some_rows, row_expressions
from lineage_dataframes.rewrite.expressions import SqlWriter
from lineage_dataframes.rewrite.group_keys import key_terms, struct_fields
from lineage_dataframes.rewrite.named_query import NamedQuery

pytestmark = pytest.mark.unit

KEY, VALUE = Column(1), Column(2)


def opaque(name: str, *args: Expression) -> OpaqueExpression:
    return OpaqueExpression(name, "depends on the order of rows", args, "int")


def aggregate(*expressions: Expression) -> Aggregate:
    columns = tuple(Attribute(10 + n, f"e{n}", "int") for n in range(len(expressions)))
    return Aggregate(columns, 0, (KEY,), expressions)


FIRST, LAST = opaque("first", VALUE), opaque("last", VALUE)


@pytest.mark.parametrize(
    ("expressions", "of_a_row", "some"),
    [
        ((KEY, FIRST), (KEY, VALUE), True),
        ((Call("+", (FIRST, Literal("1", "int"))),), (Call("+", (VALUE, Literal("1", "int"))),), True),
        ((opaque("loud", FIRST),), (opaque("loud", VALUE),), True),
        ((KEY, LAST, Literal("1", "int")), (KEY, VALUE, Literal("1", "int")), True),
        # Of two rows; of rows that are not NULL, or where a recipe is too old to say.
        ((FIRST, LAST), None, True),
        ((FIRST, opaque("First", VALUE)), None, True),
        ((opaque("First", VALUE),), None, True),
        # What a recipe can't say of keys may be an aggregate.
        ((FIRST, opaque("mask", KEY)), None, True),
        # Beside these all rows count.
        ((FIRST, Call("count", (Literal("1", "int"),))), None, False),
        ((FIRST, opaque("CollectList", VALUE)), None, False),
        ((KEY,), None, False),
    ],
)  # fmt: skip
def test_an_aggregate_that_keeps_a_row(
    expressions: tuple[Expression, ...], of_a_row: tuple[Expression, ...] | None, some: bool
) -> None:
    node = aggregate(*expressions)
    assert row_expressions(node) == of_a_row
    assert keeps_some_rows(node) == some


def test_structs_are_compared_field_by_field() -> None:
    kind = "struct<`a,b`: struct<`x``y`: decimal(7,2), `z`: array<int>>, `c`: timestamp>"
    assert struct_fields(kind) == [
        ("a,b", "struct<`x``y`: decimal(7,2), `z`: array<int>>"),
        ("c", "timestamp"),
    ]
    below = NamedQuery("o0", (Attribute(1, "w", kind), Attribute(2, "n", "int")))
    assert key_terms(SqlWriter(lambda _: ""), (KEY, VALUE), below) == [
        "(c1 IS NULL)", "(c1.`a,b` IS NULL)", "c1.`a,b`.`x``y`", "c1.`a,b`.`z`", "c1.`c`", "c2",
    ]  # fmt: skip
