"""The query that traces groups, given their keys.

aggregate
    The input rows whose grouping expressions equal a group's (NULLs equal). Where some can't be computed anew, those
    whose others do, a superset.
window
    The input rows of the partition. Where no function looks past the current row and its peers, just those
    that do not rank after the row; where some look at certain rows (lag, sliding frames), the whole
    partition, a superset.
semi and existence join
    The right rows for which the condition holds with the left row's values.
Python function over partitions or groups
    All rows of its inputs, a superset.
scalar subquery
    The subquery's row.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from lineage_core.recipe.plan import Aggregate, Join, PythonRows, Window
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.expressions import matched_by
from lineage_dataframes.rewrite.group_keys import COARSE_GROUPS, key_terms, recomputable_keys
from lineage_dataframes.rewrite.keys import arrow_types, distinct, has_key, matches_key
from lineage_dataframes.rewrite.named_query import Leaf, NamedQuery
from lineage_dataframes.rewrite.windows import (
    is_running,
    reads_some_rows,
    window_functions,
    window_rank,
)
from lineage_dataframes.spark.literals import FLOATING_TYPES, RELATIVE_TOLERANCE

KEYS_VIEW = "lineage_keys"
"""The view of a stage's keys."""


@dataclass(frozen=True)
class GroupQuery:
    """``select`` gives the ids of ``built``'s rows that groups were made from.

    ``near``: the keys among which it compares doubles; ``select`` gives those of its rows, too (`NEAR_KEY_PREFIX`).
    """

    select: str
    built: NamedQuery
    reasons: tuple[str, ...] = ()
    near: pa.Table | None = None

    def returned_keys(self, rows: pa.Table) -> tuple[str, ...]:
        """What the keys of the rows say of the witnesses: reasons why they may be too many.

        Raises:
            RefusedError: a group has no row now.
        """
        if self.near is None:
            return ()
        names = [f"{NEAR_KEY_PREFIX}{n}" for n in range(self.near.num_columns)]
        row_keys, requested_keys = (
            distinct(rows.select(names)).num_rows,
            distinct(self.near).num_rows,
        )
        if row_keys < requested_keys:
            raise RefusedError("rows are grouped by a number that comes out differently each time")
        return (
            (f"groups whose keys differ by less than {RELATIVE_TOLERANCE:g} of their value",)
            if row_keys > requested_keys
            else ()
        )


NEAR_KEY_PREFIX = "lineage_key_"


def group_query_of(
    session: SparkSession, builder: Builder, leaf: Leaf, keys: pa.Table
) -> GroupQuery:
    """The query for the groups that ``keys`` name, one a row."""
    if leaf.subquery:
        built = builder.build(leaf.of, ids=True)
        return GroupQuery(f"SELECT {_id_list(built)} FROM {built.name}", built)
    node = builder.recipe.plan[leaf.of]
    if isinstance(node, Aggregate):
        built = builder.build(node.input, ids=True)
        usable_keys = recomputable_keys(node, built)
        terms = key_terms(builder.writer(), usable_keys, built)
        reasons = () if len(usable_keys) == len(node.keys) else (COARSE_GROUPS,)
        return _query_with_keys(session, built, built.name, terms, keys, reasons)
    if isinstance(node, Window):
        return _window_query(session, builder, node, keys)
    if isinstance(node, PythonRows):
        return _python_rows_query(builder, node)
    assert isinstance(node, Join)
    return _matching_rows_query(session, builder, node, keys)


def _window_query(
    session: SparkSession, builder: Builder, node: Window, keys: pa.Table
) -> GroupQuery:
    built = builder.build(node.input, ids=True)
    terms = [builder.writer().of(term) for term in window_functions(node)[0].partition]
    if not is_running(node):
        reasons = (
            ("a window function looks at some rows of its partition",)
            if reads_some_rows(node)
            else ()
        )
        return _query_with_keys(session, built, built.name, terms, keys, reasons)
    # The frame of a row that ranks higher holds that of a lower one: the highest rank does for all.
    names = keys.column_names
    highest = keys.group_by(names[:-1], use_threads=False).aggregate([(names[-1], "max")])
    highest = highest.select([*names[:-1], f"{names[-1]}_max"]).rename_columns(names)
    ranked = f"(SELECT *, {window_rank(builder.writer(), node)} AS lineage_rank FROM {built.name})"
    return _query_with_keys(
        session, built, ranked, [*terms, "lineage_rank"], highest, is_upper_bound=True
    )


def _query_with_keys(
    session: SparkSession,
    built: NamedQuery,
    relation: str,
    terms: list[str],
    keys: pa.Table,
    reasons: tuple[str, ...] = (),
    *,
    is_upper_bound: bool = False,
) -> GroupQuery:
    """The rows of ``relation`` whose ``terms`` equal a row of ``keys`` (the last: at most that, where ``is_upper_bound``)."""
    if not terms:
        return GroupQuery(f"SELECT {_id_list(built)} FROM {relation} AS r", built, reasons)
    condition = has_key(
        session, KEYS_VIEW, terms, keys, last_operator="<=" if is_upper_bound else "<=>"
    )
    select_list, floating_keys = _id_list(built), None
    compared = keys.drop_columns(keys.column_names[-1:]) if is_upper_bound else keys
    if FLOATING_TYPES & set(arrow_types(compared)):
        # Zeros of both signs are one key.
        key_columns = [
            f"{f'{term} + 0' if kind in FLOATING_TYPES else term} AS {NEAR_KEY_PREFIX}{n}"
            for n, (term, kind) in enumerate(
                zip(terms[: compared.num_columns], arrow_types(compared), strict=True)
            )
        ]
        select_list, floating_keys = ", ".join([select_list, *key_columns]), compared
    return GroupQuery(
        f"SELECT {select_list} FROM {relation} AS r WHERE {condition}",
        built,
        reasons,
        floating_keys,
    )


def _matching_rows_query(
    session: SparkSession, builder: Builder, node: Join, keys: pa.Table
) -> GroupQuery:
    built = builder.build(node.right, ids=True)
    select = f"SELECT {_id_list(built)} FROM {built.name} AS r"
    if node.condition is None:
        return GroupQuery(select, built)
    columns = matched_by(builder.recipe, node)
    condition = matches_key(session, KEYS_VIEW, builder, node.condition, columns, keys, {})
    return GroupQuery(f"{select} WHERE {condition}", built)


def build_inputs(builder: Builder, node: PythonRows) -> list[NamedQuery]:
    """All rows that may have had a part in what a Python function made, of each input."""
    try:
        # Tried apart: what a refused attempt leaves in a builder is not to be checked.
        for node_number in node.inputs:
            Builder(builder.recipe).build(node_number, ids=True)
    except RefusedError:
        # More rows than the job's are no harm where all of them are witnesses.
        return [builder.build(node_number, ids=True, top=True) for node_number in node.inputs]
    return [builder.build(node_number, ids=True) for node_number in node.inputs]


def _python_rows_query(builder: Builder, node: PythonRows) -> GroupQuery:
    inputs = build_inputs(builder, node)
    id_names = list(dict.fromkeys(name for query in inputs for name in query.ids))
    parts = []
    for query in inputs:
        own_ids = set(query.ids)
        id_terms = [name if name in own_ids else f"NULL AS {name}" for name in id_names]
        parts.append(f"SELECT {', '.join(id_terms) or 'true AS nothing'} FROM {query.name}")
    built = NamedQuery("", (), tuple(leaf for query in inputs for leaf in query.leaves))
    reason = f"which rows {node.name} used of those it was given, {node.why}, can't be known"
    return GroupQuery(" UNION ALL ".join(parts), built, (reason,))


def _id_list(built: NamedQuery) -> str:
    return ", ".join(built.ids) or "true AS nothing"
