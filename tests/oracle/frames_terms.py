"""Typed SQL expressions over a row, drawn together with what they are worth in plain Python."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

Draw = Callable[..., Any]
Values = tuple[Any, ...]

DECIMAL = "decimal(5,2)"
KINDS = ("bigint", "double", "string", DECIMAL, "date")

EPOCH = datetime.date(2020, 1, 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": st.integers(-2, 3),
    "double": st.sampled_from([0.0, -0.0, 0.5, 1.5, -2.0, math.nan]),
    "string": st.sampled_from(["", "a", "b", "Ab", "it's", "x\\\n%"]),
    DECIMAL: st.sampled_from([Decimal(one) for one in ("0.00", "0.25", "1.50", "-3.75")]),
    "date": st.integers(0, 2).map(lambda days: EPOCH + datetime.timedelta(days)),
}
"""Few values, so that rows meet: keys match, groups have several rows, orders have ties."""


@dataclass(frozen=True)
class Column:
    name: str
    kind: str


@dataclass(frozen=True)
class Term:
    """``reads``: places of columns. ``plain``: the optimiser can't drop a column that it reads."""

    sql: str
    kind: str
    of: Callable[[Values], Any]
    reads: frozenset[int] = frozenset()
    plain: bool = True


TRUE = Term("true", "boolean", lambda row: True)


def literal(value: Any, kind: str) -> str:
    """A constant in Spark SQL."""
    if value is None:
        return f"CAST(NULL AS {kind})"
    if kind == "string":
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        return f"'{escaped}'"
    return f"CAST('{value}' AS {kind})"


def group_key(value: Any) -> Any:
    """What grouping takes for one value: NULLs, NaNs, and zeros of both signs."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def rank_key(value: Any) -> Any:
    """Where a value stands among others of its type; NaN is the greatest number."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def order_key(values: Values, ways: Sequence[tuple[bool, bool]]) -> list[Any]:
    """A key by which Python sorts as ORDER BY does. ``ways``: of each value, descending and nulls last."""
    return [
        _Ordered(value, descending, nulls_last)
        for value, (descending, nulls_last) in zip(values, ways, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Ordered:
    value: Any
    descending: bool
    nulls_last: bool

    def __lt__(self, other: _Ordered) -> bool:
        if self.value is None or other.value is None:
            first = other.value if self.nulls_last else self.value
            second = self.value if self.nulls_last else other.value
            return first is None and second is not None
        mine, theirs = rank_key(self.value), rank_key(other.value)
        return bool(theirs < mine if self.descending else mine < theirs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Ordered) and group_key(self.value) == group_key(other.value)

    def __hash__(self) -> int:
        return hash(group_key(self.value))


def compared(sign: str, left: Any, right: Any) -> bool | None:
    """``left sign right`` in SQL's logic."""
    if sign == "<=>":
        return bool(group_key(left) == group_key(right))
    if left is None or right is None:
        return None
    a, b = rank_key(left), rank_key(right)
    answer = {
        "=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b,
    }[sign]  # fmt: skip
    return bool(answer)


def all_true(values: Sequence[bool | None]) -> bool | None:
    """AND in SQL's logic."""
    return False if False in values else None if None in values else True


def any_true(values: Sequence[bool | None]) -> bool | None:
    """OR in SQL's logic."""
    return True if True in values else None if None in values else False


def column_at(columns: Sequence[Column], place: int) -> Term:
    one = columns[place]
    return Term(one.name, one.kind, lambda row: row[place], frozenset({place}))


def draw_column(draw: Draw, columns: Sequence[Column], kind: str | None = None) -> Term | None:
    """A column of a type (None: of any in `KINDS`); None where there is none."""
    places = [
        n for n, one in enumerate(columns) if one.kind == kind or (not kind and one.kind in KINDS)
    ]
    return column_at(columns, draw(st.sampled_from(places))) if places else None


def draw_literal(draw: Draw, kind: str) -> Term:
    value = draw(VALUES[kind])
    return Term(literal(value, kind), kind, lambda row: value)


def _of(terms: Sequence[Term], sql: str, kind: str, function: Callable[..., Any]) -> Term:
    """A function that is NULL where an argument is."""

    def value(row: Values) -> Any:
        values = [one.of(row) for one in terms]
        return None if None in values else function(*values)

    return _over(terms, sql, kind, value)


def _over(
    terms: Sequence[Term],
    sql: str,
    kind: str,
    value: Callable[[Values], Any],
    *,
    plain: bool = True,
) -> Term:
    reads = frozenset(n for one in terms for n in one.reads)
    return Term(sql, kind, value, reads, plain and all(one.plain for one in terms))


def draw_term(draw: Draw, columns: Sequence[Column], kind: str, depth: int = 2) -> Term:
    """An expression of a type."""
    column = draw_column(draw, columns, kind)
    if column is None:
        column = draw_literal(draw, kind)
    if depth == 0 or draw(st.booleans()):
        return column
    choice = draw(st.sampled_from(["case", "coalesce", "own", "own"]))
    if choice == "case":
        when = draw_condition(draw, columns, depth - 1)
        other = draw_term(draw, columns, kind, depth - 1)
        return _over(
            [when, column, other], f"(CASE WHEN {when.sql} THEN {column.sql} ELSE {other.sql} END)",
            kind, lambda row: column.of(row) if when.of(row) else other.of(row), plain=False,
        )  # fmt: skip
    if choice == "coalesce":
        other = draw_literal(draw, kind)
        return _over(
            [column, other], f"coalesce({column.sql}, {other.sql})", kind,
            lambda row: other.of(row) if column.of(row) is None else column.of(row), plain=False,
        )  # fmt: skip
    return _own(draw, columns, kind, column, depth)


def _own(draw: Draw, columns: Sequence[Column], kind: str, first: Term, depth: int) -> Term:
    """An expression by a function that the type has."""
    if kind == "date":
        return _of([first], f"date_add({first.sql}, 1)", kind, lambda a: a + datetime.timedelta(1))
    if kind == DECIMAL:
        return first
    if kind == "string":
        second = draw_term(draw, columns, kind, depth - 1)
        if draw(st.booleans()):
            return _of([first], f"upper({first.sql})", kind, str.upper)
        return _of([first, second], f"({first.sql} || {second.sql})", kind, lambda a, b: a + b)
    second = draw_term(draw, columns, kind, depth - 1)
    if kind == "double" or draw(st.booleans()):
        return _of([first, second], f"({first.sql} + {second.sql})", kind, lambda a, b: a + b)
    texts = draw_column(draw, columns, "string")
    if texts is not None and draw(st.booleans()):
        return _of([texts], f"CAST(length({texts.sql}) AS bigint)", kind, len)
    return _of([first], f"({first.sql} % 3)", kind, lambda a: int(math.fmod(a, 3)))


def draw_condition(draw: Draw, columns: Sequence[Column], depth: int = 1) -> Term:
    """A condition over one row."""
    choice = draw(st.sampled_from(["compare", "compare", "null", "in", "like", "and", "or", "not"]))
    if depth > 0 and choice in {"and", "or"}:
        parts = [draw_condition(draw, columns, depth - 1) for _ in range(2)]
        sql = "(" + f" {choice} ".join(one.sql for one in parts) + ")"
        joined = all_true if choice == "and" else any_true
        return _over(
            parts, sql, "boolean", lambda row: joined([one.of(row) for one in parts]), plain=False
        )
    if depth > 0 and choice == "not":
        part = draw_condition(draw, columns, depth - 1)
        return _of([part], f"(NOT {part.sql})", "boolean", lambda a: not a)
    column = draw_column(draw, columns)
    if column is None:
        return TRUE
    if choice == "null":
        negated = draw(st.booleans())
        return _over(
            [column], f"({column.sql} IS {'NOT ' if negated else ''}NULL)", "boolean",
            lambda row: (column.of(row) is None) != negated, plain=False,
        )  # fmt: skip
    if choice == "in":
        listed = [draw_literal(draw, column.kind) for _ in range(2)]
        sql = f"({column.sql} IN ({', '.join(one.sql for one in listed)}))"
        return _of(
            [column], sql, "boolean",
            lambda a: any_true([compared("=", a, one.of(())) for one in listed]),
        )  # fmt: skip
    if choice == "like" and column.kind == "string":
        pattern = draw(st.sampled_from(["a%", "%b", "_", "%'%"]))
        regex = re.escape(pattern).replace("%", ".*").replace("_", ".")
        sql = f"({column.sql} LIKE {literal(pattern, 'string')})"
        return _of([column], sql, "boolean", lambda a: bool(re.fullmatch(regex, a, re.DOTALL)))
    return draw_comparison(draw, column, draw_term(draw, columns, column.kind, depth))


def draw_comparison(draw: Draw, left: Term, right: Term) -> Term:
    sign = draw(st.sampled_from(["=", "=", "<>", "<", "<=", ">", ">=", "<=>"]))
    # Of a column with itself, the optimiser knows the answer.
    plain = not left.reads & right.reads and bool(left.reads)
    return _over(
        [left, right], f"({left.sql} {sign} {right.sql})", "boolean",
        lambda row: compared(sign, left.of(row), right.of(row)), plain=plain,
    )  # fmt: skip
