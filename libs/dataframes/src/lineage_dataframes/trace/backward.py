"""Tracing output rows back to the rows of sources, query by query."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import SparkSession

from lineage_core.contract.runs import sorted_unique
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import Scan
from lineage_dataframes.errors import ChangedSourceError, RefusedError, RowError, TiedError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.common_subplans import (
    CommonSubplans,
    PendingGroups,
    find_common_subplans,
)
from lineage_dataframes.rewrite.functions import register, runnable
from lineage_dataframes.rewrite.group_queries import GroupQuery, group_query_of
from lineage_dataframes.rewrite.grouping import Grouping, grouping_of
from lineage_dataframes.rewrite.keys import distinct, has_key
from lineage_dataframes.rewrite.named_query import Leaf, NamedQuery
from lineage_dataframes.rewrite.orders import texts_of_sums
from lineage_dataframes.rewrite.values import (
    ColumnValues,
    NamedColumn,
    select_columns,
    values_condition,
)
from lineage_dataframes.sources.file_codes import FileCodes, file_codes
from lineage_dataframes.sources.jdbc import (
    live_sources,
    live_warnings,
    not_compared_reasons,
    shared_name_reasons,
)
from lineage_dataframes.sources.lossy_formats import loses_values, text_as_written
from lineage_dataframes.sources.witnesses import WitnessCollector, Witnesses
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import to_arrow
from lineage_dataframes.trace.given_rows import (
    GivenRow,
    RequestedRows,
    RowConditions,
    RowValues,
    row_values,
)
from lineage_dataframes.trace.joined_rows import JoinedCollector
from lineage_dataframes.trace.session import run_query, trace_session
from lineage_query.rows.typed_values import UnsureError, array_of


def trace_backward(
    spark: SparkSession,
    recipe: Recipe,
    rows: Sequence[GivenRow] | None = None,
    where: str | None = None,
    values: ColumnValues | None = None,
    *,
    is_in_output: bool = False,
    written: str | None = None,
    key: str | None = None,
) -> Witnesses:
    """The rows of sources that output rows were made from.

    Args:
        spark: any session; the trace runs in a new one beside it.
        recipe: recorded when the job ran.
        rows: output rows, as Spark or pandas give them: those with names (`given_rows`) by the names of columns, of
            which they may have some, others with the values of the recipe's columns in order.
        where: instead of rows, a condition in SQL over the output's columns by name.
        values: instead of rows, the values that some of the output's columns have. None of these: all rows.
        is_in_output: the rows are known to be of the output, with these very values: where they name their groups,
            the output is not computed anew to look for them.
        written: the format of the files that the rows were read from: others may have other values and stand there
            just so, such as texts that CSV trims. None: they are as Spark gave them.
        key: by which the recipe's Python functions were signed, so that they may be run. None: the key that the
            environment gives (``LINEAGE_FUNCTIONS_KEY``), if any.

    Raises:
        RefusedError: the plan does not allow a sound trace.
        RowError: no output row, computed anew, has these values; they are none of their columns, or there are no
            such columns.
        ChangedSourceError: a source is not what it was when the job ran.
        FunctionsKeyError: the key can't be used.
    """
    code, now = runnable(spark, recipe, key), live_warnings(recipe)
    session = trace_session(spark, recipe)
    register(session, code.recipe)
    files = file_codes(session, recipe)
    tracer = RowTracer(session, code.recipe, files, find_common_subplans(code.recipe), written)
    with code.explained():
        if rows is not None:
            # Whether rows that are read now give the row, its values alone don't say.
            grouping = grouping_of(code.recipe) if is_in_output and not now else None
            requested_rows = tracer.row_values(rows)
            matched = (
                tracer.trace_rows(requested_rows)
                if grouping is None
                else tracer.trace_grouped_rows(grouping, requested_rows)
            )
        else:
            matched = tracer.trace_condition(where, values)
            tracer.reasons += not_compared_reasons(recipe)
    tracer.reasons += shared_name_reasons(recipe)
    reasons = code.widened(tuple(dict.fromkeys(tracer.reasons)))
    return Witnesses(tracer.collector.rows(), matched, reasons, now, tracer.joined.joined())


@dataclass(frozen=True)
class NamedWitnesses:
    """What rows of an output, identified by their names, were made from.

    ``texts``: the rows' values as JSON, of as many as were requested.
    """

    witnesses: Witnesses
    texts: tuple[str, ...]


def trace_named(
    spark: SparkSession,
    recipe: Recipe,
    names: NDArray[np.int64],
    *,
    records: int | None = None,
    shown: int | None = None,
    key: str | None = None,
) -> NamedWitnesses:
    """The rows of sources that output rows were made from which became records of an RDD.

    Args:
        spark: any session; the trace runs in a new one beside it.
        recipe: recorded when the job ran; its last column names the rows (`Recipe.names_rows`).
        names: the records' names, each once, in order.
        records: how many records have these names, where that is known.
        shown: of how many names the rows' values are read; None: of all.
        key: of the recipe's Python functions, as in `trace_backward`.

    Raises:
        RefusedError: the plan does not allow a sound trace, or gives no row of one of the names now.
        ChangedSourceError: a source is not what it was.
        FunctionsKeyError: the key can't be used.
    """
    code = runnable(spark, recipe, key)
    session = trace_session(spark, recipe)
    register(session, code.recipe)
    tracer = RowTracer(
        session, code.recipe, file_codes(session, recipe), find_common_subplans(code.recipe)
    )
    with code.explained():
        matched, texts = tracer.trace_names(
            names, records, names if shown is None else names[:shown]
        )
    # Names are made of some columns; the values of others may be new.
    tracer.reasons += [*not_compared_reasons(recipe), *shared_name_reasons(recipe)]
    reasons = code.widened(tuple(dict.fromkeys(tracer.reasons)))
    witnesses = Witnesses(
        tracer.collector.rows(), matched, reasons, live_warnings(recipe), tracer.joined.joined()
    )
    return NamedWitnesses(witnesses, texts)


UNKNOWN_CHOICE = "which rows the job chose of these can't be known"


def _select(built: NamedQuery, relation: str) -> str:
    return f"SELECT {', '.join(built.ids) or 'true AS nothing'} FROM {relation}"


@dataclass
class RowTracer:
    """Traces output rows of one recipe, query by query, in a session that has its sources' views."""

    session: SparkSession
    recipe: Recipe
    files: FileCodes
    common_subplans: CommonSubplans
    written: str | None = None
    collector: WitnessCollector = field(default_factory=WitnessCollector)
    reasons: list[str] = field(default_factory=list)
    joined: JoinedCollector = field(init=False)

    def __post_init__(self) -> None:
        self.joined = JoinedCollector(self.recipe, self.files)

    def row_values(self, rows: Sequence[GivenRow]) -> list[RowValues]:
        """The values of some rows by the places of their columns.

        Raises:
            RowError: one is none of the output's.
        """
        names = [column.name for column in self.recipe.columns]
        return [row_values(row, names) for row in rows]

    def trace_rows(self, rows: Sequence[RowValues]) -> int:
        """Trace rows that are known to be in the output; how many rows match."""
        built, requested, table = self._find_rows(rows)
        if requested.missing and (texts := texts_of_sums(self.recipe)):
            built, requested, table = self._find_rows(rows, texts)
        if requested.missing and live_warnings(self.recipe):
            changed = ", ".join(source.name or "" for source in live_sources(self.recipe))
            raise ChangedSourceError(
                f"{changed} changed since: what it has now does not give the row"
            )
        if requested.missing:
            first_missing = f": {requested.missing[0]}" if len(rows) > 1 else ""
            raise RowError(f"no row of the output, computed anew, has these values{first_missing}")
        self.reasons += requested.reasons
        self.follow(built, table)
        return int(table.num_rows)

    def _find_rows(
        self, rows: Sequence[RowValues], ignored_columns: Collection[int] = ()
    ) -> tuple[NamedQuery, RequestedRows, pa.Table]:
        """The output's rows that have the values of some; ``left_out`` those of certain columns."""
        requested = RequestedRows(rows)

        def select(built: NamedQuery) -> str:
            requested.conditions = [
                self.row_conditions(built, row, ignored_columns) for row in rows
            ]
            select_list = ", ".join([*(built.ids or ["true AS nothing"]), *requested.marks])
            return f"SELECT {select_list} FROM {built.name} AS r WHERE {requested.condition}"

        builder, built, table = self._run_at_top(select)
        requested.check_counts(
            table, "rows, of which some were kept," if builder.with_candidates else "output rows"
        )
        return built, requested, table

    def _run_at_top(
        self, select: Callable[[NamedQuery], str]
    ) -> tuple[Builder, NamedQuery, pa.Table]:
        """The rows of a query over the output, whose rows are known to be there."""
        builder = self._builder()
        built = builder.build(self._top, ids=True, top=True)
        try:
            return builder, built, run_query(self.session, builder, select(built))
        except TiedError:
            builder = replace(self._builder(), tied=True)
            built = builder.build(self._top, ids=True, top=True)
            return builder, built, run_query(self.session, builder, select(built))

    def trace_grouped_rows(self, grouping: Grouping, rows: Sequence[RowValues]) -> int:
        """Trace output rows that name their groups themselves."""
        if not all(set(grouping.places) <= row.values.keys() for row in rows):
            return self.trace_rows(rows)
        columns = [self.recipe.columns[place] for place in grouping.places]
        names = grouping.leaf.columns[1:]
        key_values = [[row.values[place] for place in grouping.places] for row in rows]
        keys = (
            self._table(names, [column.type for column in columns], key_values)
            if columns
            else pa.table({})
        )
        pending = self._no_groups()
        if not self._trace_group(grouping.leaf, keys, pending) and columns:
            raise RowError("no row of the output, computed anew, has these values")
        self._trace_groups(pending)
        return len(rows)

    def _table(
        self, names: Sequence[str], kinds: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> pa.Table:
        """Rows of typed values; Spark, which takes a job for it, makes them of values that might else not be the same."""
        try:
            columns = zip(names, kinds, zip(*rows, strict=True), strict=True)
            return pa.table({name: array_of(values, kind) for name, kind, values in columns})
        except UnsureError:
            schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
            return to_arrow(self.session.createDataFrame([tuple(row) for row in rows], schema))

    def trace_names(
        self, names: NDArray[np.int64], records: int | None, shown: NDArray[np.int64]
    ) -> tuple[int, tuple[str, ...]]:
        """Trace output rows by their names: how many rows have them, and the values of some.

        The rows were all in the output. Where as many rows have the names as there were records, they are these.
        """
        *columns, name = self.recipe.columns
        term = f"c{name.id}"
        has_name = has_key(
            self.session, "lineage_rows", [term], pa.table({"name": pa.array(names)})
        )
        values = [
            f"c{column.id} AS {literals.quoted_name(column.name)}"
            for column in columns
            if column.type
        ]
        text = "CAST(NULL AS STRING)"
        if len(shown):
            is_shown = has_key(
                self.session, "lineage_shown", [term], pa.table({"name": pa.array(shown)})
            )
            text = f"CASE WHEN {is_shown} THEN to_json(struct({', '.join(values)})) END"

        def select(built: NamedQuery) -> str:
            if name.id in built.unknown:
                raise RefusedError("what names its rows can't be computed anew")
            select_list = ", ".join([f"{term} AS name", f"{text} AS text", *built.ids])
            return f"SELECT {select_list} FROM {built.name} AS r WHERE {has_name}"

        _, built, table = self._run_at_top(select)
        name_count = pc.count_distinct(table["name"]).as_py()
        if name_count < len(names):
            raise RefusedError(
                f"of {len(names)} rows {len(names) - name_count} come out otherwise when they are computed anew"
            )
        if table.num_rows not in (len(names), records):
            self.reasons.append(f"{table.num_rows} rows have the values of {len(names)}")
        self.follow(built, table)
        texts: list[Any] = table["text"].drop_null().to_pylist()
        return int(table.num_rows), tuple(sorted(texts))

    def trace_condition(self, where: str | None, values: ColumnValues | None) -> int:
        """Trace the output rows that fulfil a condition; how many do."""
        try:
            built, table = self._find_matching(where, values, top=False)
        except RefusedError:
            try:
                built, table = self._find_matching(where, values, top=True)
            except TiedError:
                built, table = self._find_matching(where, values, top=True, tied=True)
            self.reasons.append(UNKNOWN_CHOICE)
        if self.recipe.output.limit is not None:
            self.reasons.append(f"the program was given {self.recipe.output.limit} rows at most")
        self.follow(built, table)
        return int(table.num_rows)

    def _find_matching(
        self, where: str | None, values: ColumnValues | None, *, top: bool, tied: bool = False
    ) -> tuple[NamedQuery, pa.Table]:
        """``top``: with rows that the job may have left out where it can't be known which; ``tied``: see `Builder`."""
        builder = replace(self._builder(), tied=tied)
        built = builder.build(self._top, ids=True, top=top)
        if where is not None and built.unknown:
            raise RefusedError("the output holds columns that can't be computed anew")
        relation = built.name
        if where is not None:
            column_terms = [
                f"c{column.id} AS {literals.quoted_name(column.name)}"
                for column in self.recipe.columns
            ]
            inner = f"SELECT {', '.join([*column_terms, *built.ids])} FROM {built.name}"
            relation = f"({inner}) AS r WHERE ({where})"
        elif values is not None:
            relation = f"{built.name} AS r WHERE {self.values_condition(built, values)}"
        table = run_query(self.session, builder, _select(built, relation))
        self.reasons += builder.reasons
        return built, table

    def values_condition(self, built: NamedQuery, values: ColumnValues) -> str:
        """The condition that a row of the output has some values."""
        columns = [
            NamedColumn(column.name, f"c{column.id}", column.type) for column in self.recipe.columns
        ]
        terms = select_columns(columns, values)
        unknown = {f"c{column_id}" for column_id in built.unknown}
        for column, _ in terms:
            if column.text in unknown:
                raise RefusedError(f"{column.name} can't be computed anew")
        return values_condition(self.session, terms)

    def _builder(self) -> Builder:
        return Builder(self.recipe, self.files.terms, self.common_subplans)

    def _no_groups(self) -> PendingGroups[pa.Table]:
        return PendingGroups(self.recipe.plan, self.common_subplans)

    @property
    def _top(self) -> int:
        return len(self.recipe.plan) - 1

    def row_conditions(
        self, built: NamedQuery, row: RowValues, ignored_columns: Collection[int]
    ) -> RowConditions:
        """The conditions that a row of the output has the values of one, as far as they can be compared."""
        conditions = RowConditions(self.session, row.nan_is_null)
        for column_number, value in row.values.items():
            column = self.recipe.columns[column_number]
            if column.id in built.unknown or column.id in ignored_columns:
                conditions.not_compared.append(column.name)
            elif loses_values(column.type, self.written):
                constant = text_as_written(literals.string_constant(value or ""), self.written)
                conditions.terms.append(
                    f"{text_as_written(f'c{column.id}', self.written)} = {constant}"
                )
            else:
                conditions.add(NamedColumn(column.name, f"c{column.id}", column.type), value)
        return conditions

    def follow(self, built: NamedQuery, table: pa.Table) -> None:
        """Collect the rows of sources that ``table`` names, and trace the groups that it names."""
        pending = self._no_groups()
        self._follow_leaves(built, table, pending)
        self._trace_groups(pending)

    def _trace_groups(self, pending: PendingGroups[pa.Table]) -> None:
        while groups := pending.ready():
            for requests in groups:
                leaf = requests[0][0]
                key_tables = [keys.rename_columns(list(leaf.columns[1:])) for _, keys in requests]
                self._trace_group(leaf, pa.concat_tables(key_tables), pending)

    def _follow_leaves(
        self, built: NamedQuery, table: pa.Table, pending: PendingGroups[pa.Table]
    ) -> None:
        self.joined.add(built.leaves, table)
        for leaf in built.leaves:
            rows = table.filter(pc.is_valid(table[leaf.columns[-1 if leaf.stored else 0]]))
            if not rows.num_rows:
                continue
            if leaf.inexact_reason:
                self.reasons.append(leaf.inexact_reason)
            elif leaf.stored:
                self._collect(leaf, rows)
            else:
                pending.add(leaf, rows.select(list(leaf.columns[1:])))

    def _collect(self, leaf: Leaf, table: pa.Table) -> None:
        node = self.recipe.plan[leaf.of]
        ordinals = table[leaf.columns[1]].to_numpy().astype(np.uint64)
        if not isinstance(node, Scan):
            self.collector.add(None, f"plan:{leaf.of}", sorted_unique(ordinals))
            return
        paths, places = self.files.named(node.source, table[leaf.columns[0]])
        for place, path in enumerate(paths):
            self.collector.add(node.source, path, sorted_unique(ordinals[places == place]))

    def _trace_group(self, leaf: Leaf, table: pa.Table, pending: PendingGroups[pa.Table]) -> int:
        """Trace the groups of one node by the next query; how many rows they have."""
        keys = distinct(table)
        builder = self._builder()
        query: GroupQuery = group_query_of(self.session, builder, leaf, keys)
        self.reasons += query.reasons
        rows = run_query(self.session, builder, query.select)
        self.reasons += [*builder.reasons, *query.returned_keys(rows)]
        self._follow_leaves(query.built, rows, pending)
        return int(rows.num_rows)
