"""Small tables and SQL programs over them, drawn together with the answer (`frames_relations`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.oracle.frames_groups import (
    WINDOWS,
    Aggregate,
    correlated,
    group_by,
    grouping_sets,
    of_table,
    scalar,
    window,
)
from tests.oracle.frames_relations import (
    Namer,
    Relation,
    distinct,
    explode,
    half_join,
    join,
    limited,
    project,
    set_operation,
    union_all,
    where,
)
from tests.oracle.frames_terms import (
    DECIMAL,
    KINDS,
    TRUE,
    VALUES,
    Column,
    Draw,
    Term,
    column_at,
    compared,
    draw_column,
    draw_comparison,
    draw_condition,
    draw_literal,
    draw_term,
)

ROWS_MAX = 120
"""Rows of an intermediate result; the interpreter's loops are nested."""
COLUMNS_MAX = 8


@dataclass(frozen=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Program:
    tables: tuple[Table, ...]
    relation: Relation

    def __repr__(self) -> str:
        tables = "".join(
            f"\n{one.name}({', '.join(f'{c.name} {c.kind}' for c in one.columns)})"
            + "".join(f"\n  {row}" for row in one.rows)
            for one in self.tables
        )
        return f"{tables}\n{self.relation.sql}"


@st.composite
def programs(draw: Draw, steps_max: int = 4) -> Program:
    """Programs over one to three tables."""
    tables = tuple(_table(draw, f"t{n}") for n in range(draw(st.integers(1, 3))))
    drawing = _Drawing(draw, tables, Namer())
    return Program(tables, drawing.relation(draw(st.integers(1, steps_max)), filled=True))


def _table(draw: Draw, name: str) -> Table:
    """A table; most have a number that tells its rows apart."""
    kinds = ["bigint", *draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))]
    columns = tuple(Column(f"{name}_{n}", kind) for n, kind in enumerate(kinds))
    values = [VALUES[kind] if kind == "bigint" else st.none() | VALUES[kind] for kind in kinds]
    rows = draw(
        st.lists(st.tuples(*values), min_size=0 if draw(st.integers(0, 7)) == 0 else 2, max_size=6)
    )
    if draw(st.integers(0, 3)):
        rows = [(n, *row[1:]) for n, row in enumerate(rows)]
    return Table(name, columns, tuple(rows))


class _Drawing:
    """Draws one program. Each method of `STEPS` makes a relation of one that is there, or gives it back."""

    def __init__(self, draw: Draw, tables: tuple[Table, ...], name: Namer) -> None:
        self.draw = draw
        self.tables = tables
        self.name = name

    def relation(self, steps: int, *, filled: bool = False) -> Relation:
        """``filled``: steps that would leave no row are left out."""
        one = self.draw(st.sampled_from(self.tables))
        made = self.name.renamed(of_table(one.name, one.columns, one.rows))
        for _ in range(steps):
            step: Callable[[_Drawing, Relation], Relation | None] = self.draw(
                st.sampled_from(STEPS)
            )
            after = step(self, made)
            if after is None or len(after.rows) > ROWS_MAX or len(after.columns) > COLUMNS_MAX:
                continue
            if after.rows or not filled:
                made = after
        return made

    def other(self) -> Relation:
        """Another relation, of up to one step."""
        return self.relation(self.draw(st.sampled_from([0, 0, 1])))

    def project(self, below: Relation) -> Relation:
        places = self.draw(
            st.lists(st.sampled_from(range(len(below.columns))), min_size=1, max_size=4)
        )
        kinds = [below.columns[n].kind for n in places]
        terms = [
            draw_term(self.draw, below.columns, kind)
            if kind in KINDS
            else column_at(below.columns, place)
            for place, kind in zip(places, kinds, strict=True)
        ]
        return project(self.name, below, terms)

    def where(self, below: Relation) -> Relation:
        return where(self.name, below, self.condition(below))

    def condition(self, below: Relation) -> Term:
        if self.draw(st.integers(0, 3)) == 0:
            return column_test(self.draw, below)
        return draw_condition(self.draw, below.columns)

    def pair(self, left: Relation, right: Relation) -> Term | None:
        """A condition between a column of each."""
        pairs = [
            (column_at(left.columns + right.columns, n), column_at(left.columns + right.columns, m))
            for n, one in enumerate(left.columns)
            for m, other in enumerate(right.columns, len(left.columns))
            if one.kind == other.kind and one.kind in KINDS
        ]
        return draw_comparison(self.draw, *self.draw(st.sampled_from(pairs))) if pairs else None

    def join(self, below: Relation) -> Relation | None:
        right = self.self_or_other(below)
        on = self.pair(below, right)
        how = self.draw(st.sampled_from(["INNER", "INNER", "LEFT", "LEFT", "RIGHT", "FULL"]))
        if on is None:
            on = TRUE
            how = "INNER" if how == "FULL" else how
        return join(self.name, how, below, right, on)

    def self_or_other(self, below: Relation) -> Relation:
        if self.draw(st.integers(0, 3)) == 0:
            return self.name.renamed(below)
        return self.other()

    def half(self, below: Relation) -> Relation | None:
        """IN, NOT IN, EXISTS, NOT EXISTS, EXISTS beside another condition."""
        right = self.other()
        kind = self.draw(
            st.sampled_from(["SEMI", "ANTI", "EXISTS", "NOT EXISTS", "OR", "IN", "NOT IN"])
        )
        on = self.pair(below, right)
        if on is None:
            return None
        of, inner = self.name("q"), self.name("q")
        head = f"SELECT * FROM ({below.sql}) AS {of}"
        if kind in {"SEMI", "ANTI"}:
            sql = f"{head} LEFT {kind} JOIN ({right.sql}) AS {inner} ON {on.sql}"
            negative = kind == "ANTI"
        elif kind in {"IN", "NOT IN"}:
            return self.listed(below, right, negative=kind == "NOT IN")
        else:
            negative = kind == "NOT EXISTS"
            exists = f"EXISTS (SELECT 1 FROM ({right.sql}) AS {inner} WHERE {on.sql})"
            other = self.condition(below) if kind == "OR" else None
            if other is not None:
                sql = f"{head} WHERE {exists} OR {other.sql}"
                return half_join(
                    below, right, on, sql, negative=False, other=other,
                    keep=lambda row, answers: True in answers or bool(other.of(row.values)),
                )  # fmt: skip
            sql = f"{head} WHERE {'NOT ' if negative else ''}{exists}"
        return half_join(
            below, right, on, sql, negative=negative,
            keep=lambda row, answers: (True in answers) != negative,
        )  # fmt: skip

    def listed(self, below: Relation, right: Relation, *, negative: bool) -> Relation | None:
        pairs = [
            (n, m)
            for n, one in enumerate(below.columns)
            for m, other in enumerate(right.columns)
            if one.kind == other.kind
        ]
        if not pairs:
            return None
        n, m = self.draw(st.sampled_from(pairs))
        width = len(below.columns)
        on = Term(
            "",
            "boolean",
            lambda row: compared("=", row[n], row[width + m]),
            frozenset({n, width + m}),
        )
        one, other = below.columns[n], right.columns[m]
        sql = (
            f"SELECT * FROM ({below.sql}) AS {self.name('q')} WHERE {one.name} "
            f"{'NOT ' if negative else ''}IN (SELECT {other.name} FROM ({right.sql}) AS {self.name('q')})"
        )

        def keep(row: Any, answers: list[bool | None]) -> bool:
            return all(one is False for one in answers) if negative else True in answers

        return half_join(below, right, on, sql, keep, negative=negative)

    def keys(self, below: Relation, least: int, most: int) -> list[Term]:
        places = self.draw(
            st.lists(
                st.sampled_from(range(len(below.columns))),
                min_size=least,
                max_size=most,
                unique=True,
            )
        )
        return [column_at(below.columns, n) for n in places]

    def aggregate(self, below: Relation, *, plain: bool = False) -> Aggregate:
        fn = self.draw(st.sampled_from(["count", "sum", "sum", "min", "max", "avg", "rows"]))
        of = draw_column(self.draw, below.columns)
        if of is None:
            return Aggregate("max", column_at(below.columns, 0))
        if fn in {"sum", "avg"} and of.kind not in {"bigint", "double", DECIMAL}:
            fn = "count"
        if fn == "avg" and of.kind == "bigint":
            fn = "sum"
        filtered = not plain and self.draw(st.integers(0, 4)) == 0
        condition = self.condition(below) if filtered else None
        if fn == "rows":
            return Aggregate("count", None, where=condition)
        unique = not plain and fn in {"count", "sum"} and self.draw(st.integers(0, 3)) == 0
        return Aggregate(fn, of, unique, condition)

    def aggregates(self, below: Relation) -> list[Aggregate]:
        return [self.aggregate(below) for _ in range(self.draw(st.integers(1, 3)))]

    def group(self, below: Relation) -> Relation:
        keys = self.keys(below, 0, 2)
        if keys and keys[0].kind in KINDS and self.draw(st.integers(0, 3)) == 0:
            keys[0] = draw_term(self.draw, below.columns, keys[0].kind)
            if not keys[0].reads:
                keys = keys[1:]
        made = group_by(self.name, below, keys, self.aggregates(below))
        if self.draw(st.integers(0, 3)) == 0:
            return where(self.name, made, column_test(self.draw, made))
        return made

    def cubes(self, below: Relation) -> Relation | None:
        if len(below.columns) < 2:
            return None
        how = self.draw(st.sampled_from(["ROLLUP", "CUBE", "SETS"]))
        keys = self.keys(below, 2, 2)
        return grouping_sets(self.name, below, how, keys, self.aggregates(below))

    def distinct(self, below: Relation) -> Relation:
        return distinct(below, f"SELECT DISTINCT * FROM ({below.sql}) AS {self.name('q')}")

    def set_operation(self, below: Relation) -> Relation | None:
        """A set operation between one or two columns of each side."""
        right = self.other()
        pairs = of_one_kind(below, right)
        if not pairs:
            return None
        chosen = self.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2))
        left, right = (
            project(self.name, side, terms)
            for side, terms in zip((below, right), zip(*chosen, strict=True), strict=True)
        )
        kind = self.draw(
            st.sampled_from(
                ["UNION ALL", "UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"]
            )
        )
        if kind.startswith("UNION"):
            made = union_all(self.name, left, right)
            return made if kind == "UNION ALL" else self.distinct(made)
        return set_operation(kind, left, right)

    def explode(self, below: Relation) -> Relation | None:
        terms = [draw_term(self.draw, below.columns, "bigint", 1) for _ in range(2)]
        if not any(one.reads for one in terms):
            return None
        return explode(self.name, below, terms, outer=self.draw(st.booleans()))

    def order(self, below: Relation) -> list[tuple[Term, bool, bool]]:
        """An ORDER BY over all columns, from a drawn one on."""
        places = self.draw(st.permutations(range(len(below.columns))))
        ways = st.tuples(st.booleans(), st.booleans())
        return [(column_at(below.columns, n), *self.draw(ways)) for n in places]

    def limit(self, below: Relation) -> Relation | None:
        offset = self.draw(st.sampled_from([0, 0, 1]))
        return limited(self.name, below, self.order(below), self.draw(st.integers(1, 4)), offset)

    def window(self, below: Relation) -> Relation | None:
        kind = self.draw(st.sampled_from(WINDOWS))
        order = self.order(below)
        if kind in {"running", "rank", "dense_rank"} and self.draw(st.booleans()):
            order = order[:1]
        return window(
            self.name, below, kind, self.keys(below, 0, 1), order, self.aggregate(below, plain=True)
        )

    def scalar(self, below: Relation) -> Relation:
        inner = self.self_or_other(below)
        made = scalar(self.name, below, inner, self.aggregate(inner))
        return self.compared_to_last(made)

    def correlated(self, below: Relation) -> Relation | None:
        if below.cut:
            # Spark 4.1.4 loses the order of a limit below a correlated subquery: it gives other rows.
            return None
        inner = self.self_or_other(below)
        pairs = of_one_kind(below, inner)
        if not pairs:
            return None
        pair = self.draw(st.sampled_from(pairs))
        made = correlated(self.name, below, inner, pair, self.aggregate(inner, plain=True))
        return self.compared_to_last(made)

    def compared_to_last(self, made: Relation) -> Relation:
        """The relation, or its rows that compare with its last column."""
        last = column_at(made.columns, len(made.columns) - 1)
        same = draw_column(self.draw, made.columns[:-1], last.kind)
        if same is None or self.draw(st.booleans()):
            return made
        return where(self.name, made, draw_comparison(self.draw, same, last))

    def cte(self, below: Relation) -> Relation | None:
        """A named subquery that is read twice."""
        copy = self.name("w")
        body = below.sql
        left, right = (
            self.name.renamed(
                Relation(
                    f"SELECT * FROM {copy}", below.columns, below.rows, below.stable, below.monotone
                )
            )
            for _ in range(2)
        )
        on = self.pair(left, right)
        if on is None:
            return None
        made = join(self.name, "INNER", left, right, on)
        return Relation(
            f"WITH {copy} AS ({body}) {made.sql}",
            made.columns,
            made.rows,
            made.stable,
            made.monotone,
        )


def of_one_kind(left: Relation, right: Relation) -> list[tuple[Term, Term]]:
    """The columns of two relations that have one kind, each with each."""
    return [
        (column_at(left.columns, n), column_at(right.columns, m))
        for n, one in enumerate(left.columns)
        for m, other in enumerate(right.columns)
        if one.kind == other.kind
    ]


def column_test(draw: Draw, below: Relation) -> Term:
    """A condition over one column, of any type."""
    n = draw(st.sampled_from(range(len(below.columns))))
    column = column_at(below.columns, n)
    kind = (
        column.kind if column.kind in KINDS else DECIMAL if "decimal" in column.kind else "bigint"
    )
    return draw_comparison(draw, column, draw_literal(draw, kind))


STEPS = (
    _Drawing.project, _Drawing.where, _Drawing.join, _Drawing.join, _Drawing.half, _Drawing.group,
    _Drawing.group, _Drawing.cubes, _Drawing.distinct, _Drawing.set_operation, _Drawing.explode,
    _Drawing.limit, _Drawing.window, _Drawing.window, _Drawing.scalar, _Drawing.correlated, _Drawing.cte,
)  # fmt: skip
