"""Tracing rows of sources forward to the output rows that were made from them.

The queries are those of tracing back, run from the other end: in each group's input, which keys do rows
have that were made from the given ones? The rows that name such a group, or a given row itself, are affected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from lineage_core.recipe.document import Recipe, Source
from lineage_core.recipe.plan import Aggregate, Join, PythonRows, Scan, Window
from lineage_dataframes.errors import RefusedError, TiedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.expressions import columns_in, matched_by
from lineage_dataframes.rewrite.functions import Runnable, register, runnable
from lineage_dataframes.rewrite.group_keys import COARSE_GROUPS, key_terms, recomputable_keys
from lineage_dataframes.rewrite.group_queries import build_inputs
from lineage_dataframes.rewrite.keys import arrow_types, distinct, has_key, matches_key
from lineage_dataframes.rewrite.named_query import Leaf, NamedQuery
from lineage_dataframes.rewrite.windows import (
    is_running,
    reads_some_rows,
    window_functions,
    window_rank,
)
from lineage_dataframes.sources.jdbc import live_warnings
from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_dataframes.sources.views import files_of
from lineage_dataframes.spark import literals
from lineage_dataframes.trace.backward import UNKNOWN_CHOICE
from lineage_dataframes.trace.rows import OutputPlaces, maybe_written
from lineage_dataframes.trace.session import run_query, trace_session

EQUAL_RECORDS = "equal rows, of which some were made from others, became records of an RDD"


@dataclass(frozen=True)
class ForwardRows:
    """Output rows that were made from given rows of sources; ``columns``: their names.

    ``exact``: just these; else ``reasons`` say why they may be too many (never too few). Rows have `UNKNOWN` in
    columns whose values can't be computed anew; ``warnings`` name these.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.rows)

    @property
    def exact(self) -> bool:
        return not self.reasons

    @property
    def are_candidates(self) -> bool:
        """Whether the job may have left some of them out."""
        return UNKNOWN_CHOICE in self.reasons

    def missing(
        self, recipe: Recipe, source: Source, standing: OutputPlaces
    ) -> tuple[Sequence[Any], ...]:
        """The rows that stand nowhere in an output's files, without those that the job has left out."""
        if not self.are_candidates:
            return standing.missing
        return maybe_written(recipe, source, standing.missing)


def trace_forward(
    spark: SparkSession,
    recipe: Recipe,
    rows: Mapping[str, Sequence[int]],
    key: str | None = None,
) -> ForwardRows:
    """The output rows that were made from rows of sources.

    Args:
        spark: any session; the trace runs in a new one beside it.
        recipe: recorded when the job ran.
        rows: by file (its address as in the recipe's sources), ordinals of rows from 0.
        key: of the recipe's Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        RefusedError: the plan does not allow a sound trace.
        ChangedSourceError: a source is not what it was.
        FunctionsKeyError: the key can't be used.
    """
    source_files = {path for source in recipe.sources for path in files_of(source)}
    unknown = set(rows) - source_files
    if unknown:
        raise RefusedError(f"the job read no file {min(unknown)}")
    code = runnable(spark, recipe, key)
    forward = _Forward(trace_session(spark, recipe), code.recipe, rows)
    register(forward.session, code.recipe)
    with code.explained():
        return forward.outcome(code)


@dataclass
class _Forward:
    session: SparkSession
    recipe: Recipe
    rows: Mapping[str, Sequence[int]]
    reasons: list[str] = field(default_factory=list)

    def outcome(self, code: Runnable) -> ForwardRows:
        """The rows of the output that were made from the given rows."""
        builder, built = self._output()
        try:
            return self._outcome(code, builder, built)
        except TiedError:
            builder = Builder(self.recipe, tied=True)
            built = builder.build(len(self.recipe.plan) - 1, ids=True, top=True)
            self.reasons.append(UNKNOWN_CHOICE)
            return self._outcome(code, builder, built)

    def _output(self) -> tuple[Builder, NamedQuery]:
        """The output's rows; where these can't be computed as the job computed them, at least all of them."""
        top = len(self.recipe.plan) - 1
        builder = Builder(self.recipe)
        try:
            built = builder.build(top, ids=True)
            if not self.recipe.names_rows or self.recipe.columns[-1].id not in built.unknown:
                return builder, built
        except RefusedError:
            pass
        self.reasons.append(UNKNOWN_CHOICE)
        builder = Builder(self.recipe)
        return builder, builder.build(top, ids=True, top=True)

    def _outcome(self, code: Runnable, builder: Builder, built: NamedQuery) -> ForwardRows:
        select_list = ", ".join(f"c{column.id}" for column in self.recipe.columns)
        condition = self.affected_condition(builder, built)
        is_stand_in = literals.any_of(
            [f"{leaf.columns[0]} IS NOT NULL" for leaf in self.stand_ins(built)]
        )
        select = f"SELECT {select_list}, {is_stand_in} AS many{_inexact_columns(built)} FROM {built.name} AS r WHERE {condition}"
        rows = self._without_inexact_columns(built, run_query(self.session, builder, select))
        if any(rows["many"].to_pylist()):
            names = [self.recipe.plan[leaf.of] for leaf in self.stand_ins(built)]
            causes = "; ".join(
                f"{stand_in.name}, {stand_in.why}"
                for stand_in in names
                if isinstance(stand_in, PythonRows)
            )
            raise RefusedError(f"any row of the output may have been made from it by {causes}")
        rows = rows.drop_columns(["many"])
        if self.recipe.names_rows:
            self._check_shared_names(builder, built, rows)
        unknown = [column.id in built.unknown for column in self.recipe.columns]
        column_values = [
            [UNKNOWN] * rows.num_rows if is_unknown else column.to_pylist()
            for column, is_unknown in zip(rows.columns, unknown, strict=True)
        ]
        values = tuple(zip(*column_values, strict=True))
        self.reasons += live_warnings(self.recipe)
        if self.recipe.output.limit is not None:
            self.reasons.append(f"the program was given {self.recipe.output.limit} rows at most")
        columns = tuple(column.name for column in self.recipe.columns)
        hidden = ", ".join(
            column_name
            for column_name, is_unknown in zip(columns, unknown, strict=True)
            if is_unknown
        )
        warnings = (f"values are unknown, for they can't be computed anew: {hidden}", *code.why)
        reasons = code.widened(tuple(dict.fromkeys(self.reasons)))
        return ForwardRows(columns, values, reasons, warnings if hidden else ())

    def _check_shared_names(self, builder: Builder, built: NamedQuery, rows: pa.Table) -> None:
        """Rows that share their name with affected ones: what was made of these can't be distinguished."""
        name = f"c{self.recipe.columns[-1].id}"
        names = distinct(rows.select([name]))
        has_name = has_key(self.session, "lineage_rows", [name], names)
        count = f"SELECT count(1) AS n FROM {built.name} AS r WHERE {has_name}"
        if run_query(self.session, builder, count)["n"][0].as_py() > rows.num_rows:
            self.reasons.append(EQUAL_RECORDS)

    def _without_inexact_columns(self, built: NamedQuery, rows: pa.Table) -> pa.Table:
        """The rows without the columns that say of which ones witnesses may be too many."""
        inexact_leaves = [leaf for leaf in built.leaves if leaf.inexact_reason]
        for leaf in inexact_leaves:
            if rows[leaf.columns[0]].null_count < rows.num_rows:
                self.reasons.append(leaf.inexact_reason)
        return rows.drop_columns([leaf.columns[0] for leaf in inexact_leaves])

    def stand_ins(self, built: NamedQuery) -> list[Leaf]:
        """What marks rows that stand for unknown many."""
        plan = self.recipe.plan
        return [
            leaf
            for leaf in built.leaves
            if isinstance(plan[leaf.of], PythonRows) and not leaf.subquery
        ]

    def affected_condition(self, builder: Builder, built: NamedQuery) -> str:
        """The condition for rows of ``built`` that were made from the given rows."""
        return literals.any_of(
            [
                self._leaf_condition(builder, leaf)
                for leaf in built.leaves
                if not leaf.inexact_reason
            ]
        )

    def _leaf_condition(self, builder: Builder, leaf: Leaf) -> str:
        node = self.recipe.plan[leaf.of]
        if isinstance(node, Scan) and not leaf.subquery:
            files = set(files_of(self.recipe.sources[node.source]))
            file, row = leaf.columns
            return literals.any_of(
                [
                    f"({file} = {literals.string_constant(path)} AND {row} IN ({', '.join(map(str, ordinals))}))"
                    for path, ordinals in self.rows.items()
                    if path in files and ordinals
                ]
            )
        if leaf.stored:
            return "false"
        inner = Builder(self.recipe)
        if leaf.subquery:
            below = inner.build(leaf.of, ids=True)
            table = self._affected_keys(inner, below, below.name, ["true"])
            return leaf.columns[0] if table.num_rows else "false"
        if isinstance(node, Aggregate):
            below = inner.build(node.input, ids=True)
            usable_keys = recomputable_keys(node, below)
            if len(usable_keys) < len(node.keys):
                self.reasons.append(COARSE_GROUPS)
            terms = key_terms(inner.writer(), usable_keys, below)
            return self._group_condition(leaf, self._affected_keys(inner, below, below.name, terms))
        if isinstance(node, Window):
            return self._window_condition(inner, leaf, node)
        if isinstance(node, PythonRows):
            inputs = build_inputs(inner, node)
            has_affected_rows = any(
                self._affected_keys(inner, query, query.name, ["true"]).num_rows for query in inputs
            )
            return leaf.columns[0] if has_affected_rows else "false"
        assert isinstance(node, Join)
        return self._match_condition(inner, leaf, node)

    def _affected_keys(
        self, builder: Builder, below: NamedQuery, relation: str, terms: list[str]
    ) -> pa.Table:
        """The distinct values of ``terms`` among the affected rows; without terms, a row if there are any."""
        condition = self.affected_condition(builder, below)
        select_list = ", ".join(f"{term} AS k{n}" for n, term in enumerate(terms or ["true"]))
        select = f"SELECT DISTINCT {select_list}{_inexact_columns(below)} FROM {relation} AS r WHERE {condition}"
        return distinct(
            self._without_inexact_columns(below, run_query(self.session, builder, select))
        )

    def _group_condition(self, leaf: Leaf, keys: pa.Table, *, from_rank: bool = False) -> str:
        """The condition that a row names one of the groups; ``from_rank``: the last key is the least."""
        names = list(leaf.columns[1:])
        if not names:
            return leaf.columns[0] if keys.num_rows else "false"
        if literals.FLOATING_TYPES & set(arrow_types(keys)):
            self.reasons.append("rows are grouped by numbers that are compared with a tolerance")
        view = f"lineage_keys_{leaf.of}"
        return has_key(self.session, view, names, keys, last_operator=">=" if from_rank else "<=>")

    def _window_condition(self, inner: Builder, leaf: Leaf, node: Window) -> str:
        below = inner.build(node.input, ids=True)
        terms = [inner.writer().of(term) for term in window_functions(node)[0].partition]
        if not is_running(node):
            if reads_some_rows(node):
                self.reasons.append("a window function looks at some rows of its partition")
            return self._group_condition(leaf, self._affected_keys(inner, below, below.name, terms))
        ranked = (
            f"(SELECT *, {window_rank(inner.writer(), node)} AS lineage_rank FROM {below.name})"
        )
        keys = self._affected_keys(inner, below, ranked, [*terms, "lineage_rank"])
        names = keys.column_names
        least = keys.group_by(names[:-1], use_threads=False).aggregate([(names[-1], "min")])
        least = least.select([*names[:-1], f"{names[-1]}_min"]).rename_columns(names)
        return self._group_condition(leaf, least, from_rank=True)

    def _match_condition(self, inner: Builder, leaf: Leaf, node: Join) -> str:
        """Left rows whose match is affected: the join's condition with the right row's values."""
        below = inner.build(node.right, ids=True)
        left_columns = matched_by(self.recipe, node)
        condition_columns = set() if node.condition is None else columns_in(node.condition)
        right_columns = sorted(condition_columns - set(left_columns))
        keys = self._affected_keys(
            inner, below, below.name, [f"c{column_id}" for column_id in right_columns]
        )
        if node.condition is None or not right_columns:
            return leaf.columns[0] if keys.num_rows else "false"
        names = dict(zip(left_columns, leaf.columns[1:], strict=True))
        outer, view = Builder(self.recipe), f"lineage_keys_{leaf.of}"
        matches = matches_key(self.session, view, outer, node.condition, right_columns, keys, names)
        return f"({leaf.columns[0]} AND {matches})"


def _inexact_columns(built: NamedQuery) -> str:
    """The columns that say of which rows witnesses may be too many, to be selected beside others."""
    return "".join(f", {leaf.columns[0]}" for leaf in built.leaves if leaf.inexact_reason)
