"""The query that traces groups, given their keys.

aggregate
    The input rows whose grouping expressions equal a group's (NULLs equal).
window
    The input rows of the partition. Where no function looks past the current row and its peers, just those
    that do not rank after the row; where some look at certain rows (lag, sliding frames), the whole
    partition, a superset.
semi and existence join
    The right rows for which the condition holds with the left row's values.
scalar subquery
    The subquery's row.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from lineage_core.recipe_plan import Aggregate, Join, Window
from lineage_frames import literals
from lineage_frames.building import Builder, matched_by
from lineage_frames.built import Built, Leaf
from lineage_frames.windows import looks_at_some, overs, running, window_rank

LITERAL_KEYS_MAX = 40
"""Up to this many keys stand in the query as constants, which Spark pushes down to the files."""


@dataclass(frozen=True)
class Stage:
    """``select`` gives the ids of ``built``'s rows that groups were made from."""

    select: str
    built: Built
    reasons: tuple[str, ...] = ()


def stage_of(session: SparkSession, builder: Builder, leaf: Leaf, keys: pa.Table) -> Stage:
    """The query for the groups that ``keys`` name, one a row."""
    if leaf.subquery:
        built = builder.build(leaf.of, ids=True)
        return Stage(f"SELECT {_ids(built)} FROM {built.name}", built)
    node = builder.recipe.plan[leaf.of]
    if isinstance(node, Aggregate):
        built = builder.build(node.input, ids=True)
        terms = [builder.text().of(key) for key in node.keys]
        return Stage(_restricted(session, built, built.name, terms, keys), built)
    if isinstance(node, Window):
        return _window(session, builder, node, keys)
    assert isinstance(node, Join)
    return _matches(session, builder, node, keys)


def _window(session: SparkSession, builder: Builder, node: Window, keys: pa.Table) -> Stage:
    built = builder.build(node.input, ids=True)
    terms = [builder.text().of(one) for one in overs(node)[0].partition]
    if not running(node):
        reasons = (
            ("a window function looks at some rows of its partition",)
            if looks_at_some(node)
            else ()
        )
        return Stage(_restricted(session, built, built.name, terms, keys), built, reasons)
    # The frame of a row that ranks higher holds that of a lower one: the highest rank does for all.
    names = keys.column_names
    highest = keys.group_by(names[:-1], use_threads=False).aggregate([(names[-1], "max")])
    highest = highest.select([*names[:-1], f"{names[-1]}_max"]).rename_columns(names)
    ranked = f"(SELECT *, {window_rank(builder.text(), node)} AS lineage_rank FROM {built.name})"
    return Stage(
        _restricted(session, built, ranked, [*terms, "lineage_rank"], highest, up_to=True), built
    )


def _restricted(
    session: SparkSession,
    built: Built,
    of: str,
    terms: list[str],
    keys: pa.Table,
    *,
    up_to: bool = False,
) -> str:
    """The rows of ``of`` whose ``terms`` equal a row of ``keys`` (the last: at most that, where ``up_to``)."""
    select = f"SELECT {_ids(built)} FROM {of} AS r"
    if not terms:
        return select
    kinds = arrow_types(keys)
    if keys.num_rows <= LITERAL_KEYS_MAX:
        rows = [
            literals.all_of(
                [
                    f"{term} <= {value}"
                    if up_to and n == len(terms) - 1
                    else literals.same(term, value, kind)
                    for n, (term, value, kind) in enumerate(
                        zip(terms, row.values(), kinds, strict=True)
                    )
                ]
            )
            for row in keys.to_pylist()
        ]
        return f"{select} WHERE {literals.any_of(rows)}"
    names = [f"k{n}" for n in range(len(terms))]
    _view(session, keys.rename_columns(names))
    matches = [
        f"{term} <= k.{name}" if up_to and name == names[-1] else equal(term, f"k.{name}", kind)
        for term, name, kind in zip(terms, names, kinds, strict=True)
    ]
    return f"{select} LEFT SEMI JOIN {KEYS} k ON {' AND '.join(matches)}"


def _matches(session: SparkSession, builder: Builder, node: Join, keys: pa.Table) -> Stage:
    built = builder.build(node.right, ids=True)
    select = f"SELECT {_ids(built)} FROM {built.name} AS r"
    if node.condition is None:
        return Stage(select, built)
    columns = matched_by(builder.recipe, node)
    kinds = arrow_types(keys)
    if keys.num_rows <= LITERAL_KEYS_MAX:
        conditions = []
        for row in keys.to_pylist():
            values = {
                column: literals.of_value(value, kind)
                for column, value, kind in zip(columns, row.values(), kinds, strict=True)
            }
            conditions.append(builder.text(values).of(node.condition))
        return Stage(f"{select} WHERE {literals.any_of(conditions)}", built)
    names = [f"k{n}" for n in range(len(columns))]
    _view(session, keys.rename_columns(names))
    named = {column: f"k.{name}" for column, name in zip(columns, names, strict=True)}
    condition = builder.text(named).of(node.condition)
    return Stage(f"{select} LEFT SEMI JOIN {KEYS} k ON {condition}", built)


KEYS = "lineage_keys"


def _view(session: SparkSession, keys: pa.Table) -> None:
    session.createDataFrame(keys).createOrReplaceTempView(KEYS)


def arrow_types(keys: pa.Table) -> list[str]:
    """The Spark types of a table's columns, as DDL text."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return [field.dataType.simpleString() for field in from_arrow_schema(keys.schema)]


def equal(left: str, right: str, kind: str) -> str:
    """The condition that two columns of a type hold the same value, or both NULL."""
    if kind not in {"float", "double"}:
        return f"{left} <=> {right}"
    near = f"abs({left} - {right}) <= {literals.NEAR!r} * greatest(abs({left}), abs({right}))"
    return f"({left} <=> {right} OR {near})"


def _ids(built: Built) -> str:
    return ", ".join(built.ids) or "true AS nothing"
