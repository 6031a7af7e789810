"""Annotated relations: SQL text beside its rows, each with the source rows that it was made from.

Written for the test of `lineage_dataframes`, without looking at how that works: no plan, no optimiser, nested
loops over Python lists. A row's witnesses have bounds, since the optimiser may leave out what no result needs
(a window whose column nobody reads, say): the least that a trace must name, and the most that it may.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import count

from tests.oracle.frames_terms import Column, Term, Values, group_key, order_key

Item = tuple[str, int]
"""A row of a table, by its place."""


@dataclass(frozen=True)
class Bounds:
    """``must``: witnesses by any account; ``may``: those and more. ``soft``: left out with an outer join."""

    must: frozenset[Item] = frozenset()
    may: frozenset[Item] = frozenset()
    soft: frozenset[Item] = frozenset()

    def __or__(self, other: Bounds) -> Bounds:
        return Bounds(self.must | other.must, self.may | other.may, self.soft | other.soft)

    @property
    def loose(self) -> Bounds:
        """What may be a witness and need not."""
        return Bounds(may=self.may)

    @property
    def firm(self) -> Bounds:
        """Without the absent sides of outer joins, which leave no trace where duplicates don't count."""
        return Bounds(self.must - self.soft, self.may)


NONE = Bounds()


def joined(bounds: Iterable[Bounds]) -> Bounds:
    return reduce(Bounds.__or__, bounds, NONE)


@dataclass(frozen=True)
class Row:
    """``bounds``: the row's witnesses. ``marks``: for each column, those of its value alone (a window's)."""

    values: Values
    bounds: Bounds
    marks: tuple[Bounds, ...]

    def read(self, *terms: Term) -> Bounds:
        """The row's witnesses where these expressions decide."""
        found = self.bounds
        for term in terms:
            marks = joined(self.marks[n] for n in term.reads)
            found |= marks if term.plain else marks.loose
        return found | self.all_marks.loose

    @property
    def all_marks(self) -> Bounds:
        return joined(self.marks)

    @property
    def total(self) -> Bounds:
        """The witnesses of the row with all its values."""
        return self.bounds | self.all_marks


@dataclass(frozen=True)
class Relation:
    """``sql``: a query. ``monotone``: fewer source rows give a part of the rows (as a bag), none else.

    ``stable``: any part of the sources that holds a row's witnesses gives the row.
    ``cut``: its rows are the first of an order.
    """

    sql: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    stable: bool = True
    monotone: bool = True
    cut: bool = False

    @property
    def names(self) -> str:
        return ", ".join(one.name for one in self.columns)


class Namer:
    """Fresh names for columns and subqueries."""

    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers)}"

    def renamed(self, relation: Relation) -> Relation:
        """The relation under names of its own, so that it can stand beside any other."""
        columns = tuple(Column(self("c"), one.kind) for one in relation.columns)
        pairs = zip(relation.columns, columns, strict=True)
        listed = ", ".join(f"{old.name} AS {new.name}" for old, new in pairs)
        sql = f"SELECT {listed} FROM ({relation.sql}) AS {self('q')}"
        return replace(relation, sql=sql, columns=columns)


def grouped(rows: Iterable[Row], keys: Sequence[Term]) -> dict[Values, list[Row]]:
    """Rows by what grouping takes for their keys."""
    groups: dict[Values, list[Row]] = {}
    for row in rows:
        key = tuple(group_key(one.of(row.values)) for one in keys)
        groups.setdefault(key, []).append(row)
    return groups


def unmarked(values: Values, bounds: Bounds) -> Row:
    return Row(values, bounds, (NONE,) * len(values))


def project(name: Namer, below: Relation, terms: Sequence[Term]) -> Relation:
    columns = tuple(Column(name("c"), one.kind) for one in terms)
    pairs = zip(terms, columns, strict=True)
    listed = ", ".join(f"{term.sql} AS {column.name}" for term, column in pairs)
    rows = []
    for row in below.rows:
        marks = []
        for one in terms:
            held = joined(row.marks[n] for n in one.reads)
            marks.append(held if one.plain else held.loose)
        values = tuple(one.of(row.values) for one in terms)
        rows.append(Row(values, row.bounds | row.all_marks.loose, tuple(marks)))
    sql = f"SELECT {listed} FROM ({below.sql}) AS {name('q')}"
    return replace(below, sql=sql, columns=columns, rows=tuple(rows))


def where(name: Namer, below: Relation, condition: Term) -> Relation:
    rows = tuple(
        replace(row, bounds=row.read(condition)) for row in below.rows if condition.of(row.values)
    )
    sql = f"SELECT * FROM ({below.sql}) AS {name('q')} WHERE {condition.sql}"
    return replace(below, sql=sql, rows=rows)


def _pair(left: Row, right: Row) -> Row:
    return Row(left.values + right.values, left.bounds | right.bounds, left.marks + right.marks)


def _absent(width: int) -> Row:
    return unmarked((None,) * width, NONE)


def join(name: Namer, how: str, left: Relation, right: Relation, on: Term) -> Relation:
    """Inner, left, right and full joins."""
    rows: list[Row] = []
    met: set[int] = set()
    keeps_left, keeps_right = how in {"LEFT", "FULL"}, how in {"RIGHT", "FULL"}
    for one in left.rows:
        found = False
        for n, other in enumerate(right.rows):
            pair = _pair(one, other)
            if on.of(pair.values):
                found = True
                met.add(n)
                soft = Bounds()
                if keeps_left:
                    soft |= Bounds(soft=other.bounds.must)
                if keeps_right:
                    soft |= Bounds(soft=one.bounds.must)
                rows.append(replace(pair, bounds=pair.read(on) | soft))
        if keeps_left and not found:
            alone = _pair(one, _absent(len(right.columns)))
            rows.append(replace(alone, bounds=alone.bounds | alone.read(on).loose))
    for n, other in enumerate(right.rows):
        if keeps_right and n not in met:
            alone = _pair(_absent(len(left.columns)), other)
            rows.append(replace(alone, bounds=alone.bounds | alone.read(on).loose))
    lefts, rights = name("q"), name("q")
    sql = f"SELECT * FROM ({left.sql}) AS {lefts} {how} JOIN ({right.sql}) AS {rights} ON {on.sql}"
    monotone = left.monotone and right.monotone
    stable = left.stable and right.stable
    if keeps_left:
        stable = stable and right.monotone
    if keeps_right:
        stable = stable and left.monotone
    return Relation(
        sql, left.columns + right.columns, tuple(rows), stable, monotone and how == "INNER"
    )


def half_join(
    left: Relation,
    right: Relation,
    on: Term,
    sql: str,
    keep: Callable[[Row, list[bool | None]], bool],
    *,
    negative: bool,
    other: Term | None = None,
) -> Relation:
    """Left rows by what the condition says of them beside each right row.

    ``negative``: rows are kept since there is no match, which names no right row. ``other``: a condition that
    lets rows through as well.
    """
    rows = []
    for one in left.rows:
        answers = [on.of(one.values + r.values) for r in right.rows]
        if not keep(one, answers):
            continue
        matches = [r for r, answer in zip(right.rows, answers, strict=True) if answer]
        pairs = joined(_pair(one, r).read(on) for r in matches)
        bounds = one.bounds | one.all_marks.loose
        if negative:
            bounds |= joined(r.total.loose for r in matches)
        elif other is not None and other.of(one.values):
            bounds |= pairs.loose
        else:
            bounds |= pairs
        rows.append(replace(one, bounds=bounds))
    stable = left.stable and (right.monotone if negative else right.stable)
    monotone = left.monotone and right.monotone and not negative
    return Relation(sql, left.columns, tuple(rows), stable, monotone)


def union_all(name: Namer, left: Relation, right: Relation) -> Relation:
    return Relation(
        f"({left.sql}) UNION ALL ({right.sql})",
        left.columns,
        left.rows + right.rows,
        left.stable and right.stable,
        left.monotone and right.monotone,
    )


def distinct(below: Relation, sql: str) -> Relation:
    """Each row once."""
    groups: dict[Values, list[Row]] = {}
    for row in below.rows:
        groups.setdefault(tuple(map(group_key, row.values)), []).append(row)
    rows = tuple(
        unmarked(rows[0].values, joined(one.total.firm for one in rows)) for rows in groups.values()
    )
    return replace(below, sql=sql, rows=rows)


def set_operation(kind: str, left: Relation, right: Relation) -> Relation:
    """INTERSECT and EXCEPT, ALL or not."""
    sql = f"({left.sql}) {kind} ({right.sql})"
    first = {key: list(rows) for key, rows in _by_values(left).items()}
    second = _by_values(right)
    rows: list[Row] = []
    for key, held in first.items():
        there = second.get(key, [])
        ours, theirs = (joined(one.total.firm for one in some) for some in (held, there))
        both = ours | theirs
        many = {
            "INTERSECT": min(1, len(there)),
            "EXCEPT": int(not there),
            "INTERSECT ALL": min(len(held), len(there)),
            "EXCEPT ALL": max(0, len(held) - len(there)),
        }[kind]
        # EXCEPT ALL counts both sides: the right rows that took some away may be named.
        bounds = {"EXCEPT": ours, "EXCEPT ALL": ours | theirs.loose}.get(kind, both)
        rows += [unmarked(held[0].values, bounds)] * many
    monotone = kind == "INTERSECT" and left.monotone and right.monotone
    stable = left.stable and (right.monotone if kind == "EXCEPT" else right.stable)
    if kind.endswith("ALL"):
        stable = stable and left.monotone and right.monotone
    return Relation(sql, left.columns, tuple(rows), stable, monotone)


def _by_values(relation: Relation) -> dict[Values, list[Row]]:
    groups: dict[Values, list[Row]] = {}
    for row in relation.rows:
        groups.setdefault(tuple(map(group_key, row.values)), []).append(row)
    return groups


def explode(name: Namer, below: Relation, terms: Sequence[Term], *, outer: bool) -> Relation:
    """A row for each of the terms' values that is greater than 0."""
    made = Column(name("c"), "bigint")
    listed = ", ".join(one.sql for one in terms)
    sql = (
        f"SELECT {name('q')}.*, {made.name} FROM ({below.sql}) AS {{}} LATERAL VIEW "
        f"{'OUTER ' if outer else ''}explode(filter(array({listed}), v -> v > 0)) x AS {made.name}"
    )
    alias = sql.split(".", 1)[0].rpartition(" ")[2]
    rows = []
    for row in below.rows:
        marks = joined(row.marks[n] for one in terms for n in one.reads).loose
        values = [value for one in terms if (value := one.of(row.values)) and value > 0]
        rows += [
            Row((*row.values, value), row.bounds | marks, (*row.marks, NONE))
            for value in values or ([None] if outer else [])
        ]
    return replace(
        below,
        sql=sql.format(alias),
        columns=(*below.columns, made),
        rows=tuple(rows),
        monotone=below.monotone,
    )


def limited(
    name: Namer,
    below: Relation,
    order: Sequence[tuple[Term, bool, bool]],
    count_: int,
    offset: int,
) -> Relation | None:
    """ORDER BY with LIMIT and OFFSET; None where it would cut between equals."""
    ways = [(descending, last) for _, descending, last in order]
    keyed = [
        (order_key(tuple(term.of(row.values) for term, _, _ in order), ways), row)
        for row in below.rows
    ]
    keyed.sort(key=lambda pair: pair[0])
    for cut in (offset, offset + count_):
        if 0 < cut < len(keyed) and keyed[cut - 1][0] == keyed[cut][0]:
            return None
    listed = ", ".join(sort_text(*one) for one in order)
    terms = [one for one, _, _ in order]
    rows = tuple(
        replace(row, bounds=row.bounds | row.read(*terms).loose)
        for _, row in keyed[offset : offset + count_]
    )
    sql = f"SELECT * FROM ({below.sql}) AS {name('q')} ORDER BY {listed} LIMIT {count_}"
    sql += f" OFFSET {offset}" if offset else ""
    stable = below.stable and below.monotone and not offset
    return replace(below, sql=sql, rows=rows, stable=stable, monotone=False, cut=True)


def sort_text(term: Term, descending: bool, nulls_last: bool) -> str:
    return f"{term.sql} {'DESC' if descending else 'ASC'} NULLS {'LAST' if nulls_last else 'FIRST'}"
