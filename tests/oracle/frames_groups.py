"""Groups of annotated relations: aggregates, windows, scalar subqueries."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tests.oracle.frames_relations import (
    NONE,
    Bounds,
    Namer,
    Relation,
    Row,
    grouped,
    joined,
    sort_text,
    unmarked,
)
from tests.oracle.frames_terms import DECIMAL, Column, Term, group_key, order_key, rank_key

Sorted = Sequence[tuple[Term, bool, bool]]


@dataclass(frozen=True)
class Aggregate:
    """``fn``: count(*) without ``of``. ``agnostic``: duplicates of rows do not change it."""

    fn: str
    of: Term | None
    distinct: bool = False
    where: Term | None = None

    @property
    def sql(self) -> str:
        of = "*" if self.of is None else self.of.sql
        where = "" if self.where is None else f" FILTER (WHERE {self.where.sql})"
        return f"{self.fn}({'DISTINCT ' if self.distinct else ''}{of}){where}"

    @property
    def kind(self) -> str:
        if self.fn == "count":
            return "bigint"
        assert self.of is not None
        if self.fn in {"sum", "avg"} and self.of.kind == DECIMAL:
            return "decimal(15,2)" if self.fn == "sum" else "decimal(9,6)"
        return "double" if self.fn == "avg" else self.of.kind

    @property
    def agnostic(self) -> bool:
        return self.distinct or self.fn in {"min", "max"}

    def reads(self) -> list[Term]:
        return [one for one in (self.of, self.where) if one is not None]

    def value(self, rows: Sequence[Row]) -> Any:
        kept = [row for row in rows if self.where is None or self.where.of(row.values)]
        if self.of is None:
            return len(kept)
        values = [v for row in kept if (v := self.of.of(row.values)) is not None]
        if self.distinct:
            values = list({group_key(v): v for v in values}.values())
        return FUNCTIONS[self.fn](values)


def _average(values: list[Any]) -> Any:
    if not values:
        return None
    if isinstance(values[0], Decimal):
        exact = sum(values, Decimal(0)) / len(values)
        return exact.quantize(Decimal("0.000001"), ROUND_HALF_UP)
    return sum(values) / len(values)


FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "sum": lambda values: sum(values[1:], values[0]) if values else None,
    "min": lambda values: min(values, key=rank_key, default=None),
    "max": lambda values: max(values, key=rank_key, default=None),
    "avg": _average,
}


def _group(
    rows: Sequence[Row],
    keys: Sequence[Term],
    values: Sequence[Any],
    aggregates: Sequence[Aggregate],
) -> Row:
    """The row of a group."""
    bounds = joined(row.read(*keys) for row in rows)
    if all(one.agnostic for one in aggregates):
        bounds = bounds.firm
    marks = [joined(row.read(*one.reads()) for row in rows) for one in aggregates]
    if all(one.agnostic for one in aggregates):
        marks = [one.firm for one in marks]
    made = [one.value(rows) for one in aggregates]
    return Row((*values, *made), bounds, (*(NONE for _ in values), *marks))


def group_by(
    name: Namer, below: Relation, keys: Sequence[Term], aggregates: Sequence[Aggregate]
) -> Relation:
    """GROUP BY; without keys one row at all."""
    groups = grouped(below.rows, keys)
    if not keys:
        groups = {(): list(below.rows)}
    rows = tuple(
        _group(rows, keys, [one.of(rows[0].values) for one in keys], aggregates)
        for rows in groups.values()
    )
    listed, columns = _selected(name, keys, aggregates)
    sql = f"SELECT {listed} FROM ({below.sql}) AS {name('q')}"
    if keys:
        sql += f" GROUP BY {', '.join(one.sql for one in keys)}"
    stable = below.stable and below.monotone
    return Relation(sql, columns, rows, stable, monotone=False)


def _selected(
    name: Namer, keys: Sequence[Term], aggregates: Sequence[Aggregate]
) -> tuple[str, tuple[Column, ...]]:
    every: list[Term | Aggregate] = [*keys, *aggregates]
    columns = tuple(Column(name("c"), one.kind) for one in every)
    pairs = zip(every, columns, strict=True)
    return ", ".join(f"{one.sql} AS {column.name}" for one, column in pairs), columns


def grouping_sets(
    name: Namer, below: Relation, how: str, keys: Sequence[Term], aggregates: Sequence[Aggregate]
) -> Relation:
    """ROLLUP, CUBE and GROUPING SETS over two columns: a key is NULL in the sets that leave it out."""
    places = {
        "ROLLUP": [(0, 1), (0,), ()],
        "CUBE": [(0, 1), (0,), (1,), ()],
        "SETS": [(0, 1), (1,)],
    }[how]
    rows = [
        _group(
            held, [keys[n] for n in some],
            [keys[n].of(held[0].values) if n in some else None for n in range(2)], aggregates,
        )
        for some in places
        for held in grouped(below.rows, [keys[n] for n in some]).values()
    ]  # fmt: skip
    listed, columns = _selected(name, keys, aggregates)
    both = ", ".join(one.sql for one in keys)
    grouping = f"{how}({both})"
    if how == "SETS":
        grouping = f"GROUPING SETS (({both}), ({keys[1].sql}))"
    sql = f"SELECT {listed} FROM ({below.sql}) AS {name('q')} GROUP BY {grouping}"
    return Relation(sql, columns, tuple(rows), below.stable and below.monotone, monotone=False)


def scalar(name: Namer, below: Relation, inner: Relation, aggregate: Aggregate) -> Relation:
    """One more column: an aggregate of another relation."""
    made = group_by(name, inner, [], [aggregate])
    row, column = made.rows[0], Column(name("c"), aggregate.kind)
    rows = tuple(
        Row((*one.values, row.values[0]), one.bounds, (*one.marks, row.total)) for one in below.rows
    )
    sql = f"SELECT *, ({made.sql}) AS {column.name} FROM ({below.sql}) AS {name('q')}"
    stable = below.stable and made.stable
    return Relation(sql, (*below.columns, column), rows, stable, monotone=False)


def correlated(
    name: Namer, below: Relation, inner: Relation, pair: tuple[Term, Term], aggregate: Aggregate
) -> Relation:
    """One more column: an aggregate of the other relation's rows whose key is the row's."""
    outer_key, inner_key = pair
    column, rows = Column(name("c"), aggregate.kind), []
    for one in below.rows:
        key = outer_key.of(one.values)
        matches = [
            row
            for row in inner.rows
            if key is not None
            and (value := inner_key.of(row.values)) is not None
            and group_key(value) == group_key(key)
        ]
        bounds = joined(row.read(inner_key, *aggregate.reads()) for row in matches)
        if aggregate.agnostic:
            bounds = bounds.firm
        marks = joined(one.marks[n] for n in outer_key.reads)
        rows.append(
            Row((*one.values, aggregate.value(matches)), one.bounds | marks.loose,
                (*one.marks, bounds | marks.loose))
        )  # fmt: skip
    of, within = name("q"), name("q")
    sql = (
        f"SELECT *, (SELECT {aggregate.sql} FROM ({inner.sql}) AS {within} "
        f"WHERE {inner_key.sql} = {of}.{outer_key.sql}) AS {column.name} FROM ({below.sql}) AS {of}"
    )
    stable = below.stable and inner.stable and inner.monotone
    return Relation(sql, (*below.columns, column), tuple(rows), stable, monotone=False)


WINDOWS = (
    "running", "rank", "dense_rank", "whole", "row_number", "sliding", "lag", "following", "ntile",
)  # fmt: skip
BY_PLACE = {"row_number", "sliding", "lag", "following", "ntile"}


def window(
    name: Namer,
    below: Relation,
    kind: str,
    partition: Sequence[Term],
    order: Sorted,
    aggregate: Aggregate,
) -> Relation | None:
    """One more column, of a window function; None where it would number rows that are equal in its order."""
    ways = [(descending, last) for _, descending, last in order]
    made: dict[int, tuple[Any, Bounds]] = {}
    numbered = {id(row): n for n, row in enumerate(below.rows)}
    if len(numbered) < len(below.rows):
        below = replace(below, rows=tuple(replace(row) for row in below.rows))
        numbered = {id(row): n for n, row in enumerate(below.rows)}
    terms = [*partition, *(term for term, _, _ in order), *aggregate.reads()]
    for rows in grouped(below.rows, partition).values():
        keyed = [
            (order_key(tuple(term.of(row.values) for term, _, _ in order), ways), row)
            for row in rows
        ]
        keyed.sort(key=lambda pair: pair[0])
        keys = [key for key, _ in keyed]
        if kind in BY_PLACE and any(a == b for a, b in itertools.pairwise(keys)):
            return None
        sorted_rows = [row for _, row in keyed]
        for at, row in enumerate(sorted_rows):
            frame = _frame(kind, keys, at)
            value = _windowed(kind, keys, sorted_rows, at, frame, aggregate)
            bounds = joined(sorted_rows[n].read(*terms) for n in {*frame, at})
            if kind in BY_PLACE or kind == "whole":
                bounds |= joined(one.read(*terms).loose for one in rows)
            made[numbered[id(row)]] = value, bounds
    column = Column(name("c"), _window_kind(kind, aggregate))
    result = tuple(
        Row((*row.values, made[n][0]), row.bounds, (*row.marks, made[n][1]))
        for n, row in enumerate(below.rows)
    )
    sql = f"SELECT *, {_window_text(kind, partition, order, aggregate)} AS {column.name} FROM ({below.sql}) AS {name('q')}"
    return Relation(
        sql, (*below.columns, column), result, below.stable and below.monotone and kind in STABLE, False
    )  # fmt: skip


STABLE = {"running", "rank", "dense_rank", "whole", "row_number"}
"""Windows whose frame, and nothing else of the partition, decides the value."""


def _window_kind(kind: str, aggregate: Aggregate) -> str:
    if kind in {"rank", "dense_rank", "row_number", "ntile"}:
        return "int"
    if kind == "lag":
        assert aggregate.of is not None
        return aggregate.of.kind
    return aggregate.kind


def _frame(kind: str, keys: list[Any], at: int) -> range:
    """Places of the rows that a value is made from."""
    peers = max(n for n, key in enumerate(keys) if key == keys[at]) + 1
    return {
        "whole": range(len(keys)),
        "ntile": range(len(keys)),
        "sliding": range(max(0, at - 1), min(len(keys), at + 2)),
        "following": range(at, len(keys)),
        "lag": range(max(0, at - 1), at + 1),
    }.get(kind, range(peers))


def _windowed(
    kind: str, keys: list[Any], rows: list[Row], at: int, frame: range, aggregate: Aggregate
) -> Any:
    if kind == "rank":
        return 1 + keys.index(keys[at])
    if kind == "dense_rank":
        return 1 + sum(1 for n in range(1, at + 1) if keys[n] != keys[n - 1])
    if kind == "row_number":
        return at + 1
    if kind == "ntile":
        size, more = divmod(len(keys), 2)
        return 1 if at < size + more else 2
    if kind == "lag":
        assert aggregate.of is not None
        return aggregate.of.of(rows[at - 1].values) if at else None
    return aggregate.value([rows[n] for n in frame])


def _window_text(kind: str, partition: Sequence[Term], order: Sorted, aggregate: Aggregate) -> str:
    over = f"PARTITION BY {', '.join(one.sql for one in partition)} " if partition else ""
    if kind == "whole":
        return f"{aggregate.sql} OVER ({over.strip()})"
    over += "ORDER BY " + ", ".join(sort_text(*one) for one in order)
    of = aggregate.of.sql if aggregate.of is not None else "1"
    called = {
        "rank": "rank()", "dense_rank": "dense_rank()", "row_number": "row_number()",
        "ntile": "ntile(2)", "lag": f"lag({of})",
    }.get(kind, aggregate.sql)  # fmt: skip
    frames = {
        "sliding": " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
        "following": " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    }
    return f"{called} OVER ({over}{frames.get(kind, '')})"


def of_table(table: str, columns: Sequence[Column], values: Sequence[tuple[Any, ...]]) -> Relation:
    """The rows of a table."""
    rows = tuple(
        unmarked(one, Bounds(frozenset({(table, n)}), frozenset({(table, n)})))
        for n, one in enumerate(values)
    )
    return Relation(f"SELECT * FROM {table}", tuple(columns), rows)
