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
from lineage_dataframes.rewrite.built import Leaf, NamedQuery
from lineage_dataframes.rewrite.common_subplans import (
    CommonSubplans,
    PendingGroups,
    find_common_subplans,
)
from lineage_dataframes.rewrite.functions import register, runnable
from lineage_dataframes.rewrite.grouping import Grouping, grouping_of
from lineage_dataframes.rewrite.keys import distinct, has_key
from lineage_dataframes.rewrite.orders import texts_of_sums
from lineage_dataframes.rewrite.stages import GroupQuery, group_query_of
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
from lineage_dataframes.sources.witnesses import WitnessCollector, Witnesses
from lineage_dataframes.sources.written import loses_values, text_as_written
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import to_arrow
from lineage_dataframes.trace.given_rows import Asked, GivenRow, Matching, Placed, placed
from lineage_dataframes.trace.session import run, trace_session
from lineage_query.rows.typed_values import UnsureError, array_of


def trace_backward(
    spark: SparkSession,
    recipe: Recipe,
    rows: Sequence[GivenRow] | None = None,
    where: str | None = None,
    values: ColumnValues | None = None,
    *,
    there: bool = False,
    written: str | None = None,
    key: str | None = None,
) -> Witnesses:
    """The rows of sources that output rows were made from.

    Args:
        spark: any session; the trace runs in a new one beside it.
        recipe: noted when the job ran.
        rows: output rows, as Spark or pandas give them: those with names (`given_rows`) by the names of columns, of
            which they may have some, others with the values of the recipe's columns in order.
        where: instead of rows, a condition in SQL over the output's columns by name.
        values: instead of rows, the values that some of the output's columns have. None of these: all rows.
        there: the rows are known to be of the output, with these very values: where they name their groups,
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
    tracer = _Tracer(session, code.recipe, files, find_common_subplans(code.recipe), written)
    with code.explained():
        if rows is not None:
            # Whether rows that are read now give the row, its values alone don't say.
            grouping = grouping_of(code.recipe) if there and not now else None
            given = tracer.placed(rows)
            matched = (
                tracer.of_rows(given) if grouping is None else tracer.of_groups(grouping, given)
            )
        else:
            matched = tracer.of_condition(where, values)
            tracer.reasons += not_compared_reasons(recipe)
    tracer.reasons += shared_name_reasons(recipe)
    reasons = code.widened(tuple(dict.fromkeys(tracer.reasons)))
    return Witnesses(tracer.found.rows(), matched, reasons, now)


@dataclass(frozen=True)
class NamedWitnesses:
    """What rows of an output were made from that are told by their names.

    ``texts``: the rows' values as JSON, of as many as were asked for.
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
        recipe: noted when the job ran; its last column names the rows (`Recipe.names_rows`).
        names: the records' names, each once, in order.
        records: how many records have these names, where that is known.
        shown: of so many names the rows' values are told; None: of all.
        key: of the recipe's Python functions, as in `trace_backward`.

    Raises:
        RefusedError: the plan does not allow a sound trace, or gives no row of one of the names now.
        ChangedSourceError: a source is not what it was.
        FunctionsKeyError: the key can't be used.
    """
    code = runnable(spark, recipe, key)
    session = trace_session(spark, recipe)
    register(session, code.recipe)
    tracer = _Tracer(
        session, code.recipe, file_codes(session, recipe), find_common_subplans(code.recipe)
    )
    with code.explained():
        matched, texts = tracer.of_names(names, records, names if shown is None else names[:shown])
    # Names are made of some columns; the values of others may be new.
    tracer.reasons += [*not_compared_reasons(recipe), *shared_name_reasons(recipe)]
    reasons = code.widened(tuple(dict.fromkeys(tracer.reasons)))
    found = Witnesses(tracer.found.rows(), matched, reasons, live_warnings(recipe))
    return NamedWitnesses(found, texts)


NOT_KNOWN = "which rows the job chose of these can't be known"


def _select(built: NamedQuery, of: str) -> str:
    return f"SELECT {', '.join(built.ids) or 'true AS nothing'} FROM {of}"


@dataclass
class _Tracer:
    session: SparkSession
    recipe: Recipe
    files: FileCodes
    find_common_subplans: CommonSubplans
    written: str | None = None
    found: WitnessCollector = field(default_factory=WitnessCollector)
    reasons: list[str] = field(default_factory=list)

    def placed(self, rows: Sequence[GivenRow]) -> list[Placed]:
        """The values of some rows by the places of their columns.

        Raises:
            RowError: one is none of the output's.
        """
        names = [one.name for one in self.recipe.columns]
        return [placed(row, names) for row in rows]

    def of_rows(self, rows: Sequence[Placed]) -> int:
        """Trace rows that are known to be in the output; how many rows match."""
        built, asked, table = self._with_rows(rows)
        if asked.missing and (texts := texts_of_sums(self.recipe)):
            built, asked, table = self._with_rows(rows, texts)
        if asked.missing and live_warnings(self.recipe):
            changed = ", ".join(source.name or "" for source in live_sources(self.recipe))
            raise ChangedSourceError(
                f"{changed} changed since: what it has now does not give the row"
            )
        if asked.missing:
            which = f": {asked.missing[0]}" if len(rows) > 1 else ""
            raise RowError(f"no row of the output, computed anew, has these values{which}")
        self.reasons += asked.reasons
        self.follow(built, table)
        return int(table.num_rows)

    def _with_rows(
        self, rows: Sequence[Placed], without: Collection[int] = ()
    ) -> tuple[NamedQuery, Asked, pa.Table]:
        """The output's rows that have the values of some; ``without`` those of certain columns."""
        asked = Asked(rows)

        def select(built: NamedQuery) -> str:
            asked.matching = [self._matching(built, row, without) for row in rows]
            listed = ", ".join([*(built.ids or ["true AS nothing"]), *asked.marks])
            return f"SELECT {listed} FROM {built.name} AS r WHERE {asked.condition}"

        builder, built, table = self._at_top(select)
        asked.count(table, "rows, of which some were kept," if builder.kept else "output rows")
        return built, asked, table

    def _at_top(self, select: Callable[[NamedQuery], str]) -> tuple[Builder, NamedQuery, pa.Table]:
        """The rows of a query over the output, whose rows are known to be there."""
        builder = self._builder()
        built = builder.build(self._last, ids=True, top=True)
        try:
            return builder, built, run(self.session, builder, select(built))
        except TiedError:
            builder = replace(self._builder(), tied=True)
            built = builder.build(self._last, ids=True, top=True)
            return builder, built, run(self.session, builder, select(built))

    def of_groups(self, grouping: Grouping, rows: Sequence[Placed]) -> int:
        """Trace output rows that name their groups themselves."""
        if not all(set(grouping.places) <= row.values.keys() for row in rows):
            return self.of_rows(rows)
        columns = [self.recipe.columns[place] for place in grouping.places]
        names = grouping.leaf.columns[1:]
        held = [[row.values[place] for place in grouping.places] for row in rows]
        keys = self._table(names, [one.type for one in columns], held) if columns else pa.table({})
        waiting = self._waiting()
        if not self._stage(grouping.leaf, keys, waiting) and columns:
            raise RowError("no row of the output, computed anew, has these values")
        self._trace(waiting)
        return len(rows)

    def _table(
        self, names: Sequence[str], kinds: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> pa.Table:
        """Rows of typed values; Spark, which takes a job for it, makes them of values that might else not be the same."""
        try:
            held = zip(names, kinds, zip(*rows, strict=True), strict=True)
            return pa.table({name: array_of(values, kind) for name, kind, values in held})
        except UnsureError:
            schema = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
            return to_arrow(self.session.createDataFrame([tuple(row) for row in rows], schema))

    def of_names(
        self, names: NDArray[np.int64], records: int | None, shown: NDArray[np.int64]
    ) -> tuple[int, tuple[str, ...]]:
        """Trace output rows by their names: how many rows have them, and the values of some.

        The rows were all in the output. Where as many rows have the names as there were records, they are these.
        """
        *columns, name = self.recipe.columns
        term = f"c{name.id}"
        wanted = has_key(self.session, "lineage_rows", [term], pa.table({"name": pa.array(names)}))
        values = [f"c{one.id} AS {literals.quoted_name(one.name)}" for one in columns if one.type]
        text = "CAST(NULL AS STRING)"
        if len(shown):
            told = has_key(
                self.session, "lineage_shown", [term], pa.table({"name": pa.array(shown)})
            )
            text = f"CASE WHEN {told} THEN to_json(struct({', '.join(values)})) END"

        def select(built: NamedQuery) -> str:
            if name.id in built.unknown:
                raise RefusedError("what names its rows can't be computed anew")
            listed = ", ".join([f"{term} AS name", f"{text} AS text", *built.ids])
            return f"SELECT {listed} FROM {built.name} AS r WHERE {wanted}"

        _, built, table = self._at_top(select)
        found = pc.count_distinct(table["name"]).as_py()
        if found < len(names):
            raise RefusedError(
                f"of {len(names)} rows {len(names) - found} come out otherwise when they are computed anew"
            )
        if table.num_rows not in (len(names), records):
            self.reasons.append(f"{table.num_rows} rows have the values of {len(names)}")
        self.follow(built, table)
        texts: list[Any] = table["text"].drop_null().to_pylist()
        return int(table.num_rows), tuple(sorted(texts))

    def of_condition(self, where: str | None, values: ColumnValues | None) -> int:
        """Trace the output rows that fulfil a condition; how many do."""
        try:
            built, table = self._fulfilling(where, values, top=False)
        except RefusedError:
            try:
                built, table = self._fulfilling(where, values, top=True)
            except TiedError:
                built, table = self._fulfilling(where, values, top=True, tied=True)
            self.reasons.append(NOT_KNOWN)
        if self.recipe.output.limit is not None:
            self.reasons.append(f"the program was given {self.recipe.output.limit} rows at most")
        self.follow(built, table)
        return int(table.num_rows)

    def _fulfilling(
        self, where: str | None, values: ColumnValues | None, *, top: bool, tied: bool = False
    ) -> tuple[NamedQuery, pa.Table]:
        """``top``: with rows that the job may have left out where it can't be known which; ``tied``: see `Builder`."""
        builder = replace(self._builder(), tied=tied)
        built = builder.build(self._last, ids=True, top=top)
        if where is not None and built.unknown:
            raise RefusedError("the output holds columns that can't be computed anew")
        of = built.name
        if where is not None:
            named = [
                f"c{one.id} AS {literals.quoted_name(one.name)}" for one in self.recipe.columns
            ]
            inner = f"SELECT {', '.join([*named, *built.ids])} FROM {built.name}"
            of = f"({inner}) AS r WHERE ({where})"
        elif values is not None:
            of = f"{built.name} AS r WHERE {self._with_values(built, values)}"
        table = run(self.session, builder, _select(built, of))
        self.reasons += builder.reasons
        return built, table

    def _with_values(self, built: NamedQuery, values: ColumnValues) -> str:
        columns = [NamedColumn(one.name, f"c{one.id}", one.type) for one in self.recipe.columns]
        terms = select_columns(columns, values)
        unknown = {f"c{one}" for one in built.unknown}
        for column, _ in terms:
            if column.text in unknown:
                raise RefusedError(f"{column.name} can't be computed anew")
        return values_condition(self.session, terms)

    def _builder(self) -> Builder:
        return Builder(self.recipe, self.files.terms, self.find_common_subplans)

    def _waiting(self) -> PendingGroups[pa.Table]:
        return PendingGroups(self.recipe.plan, self.find_common_subplans)

    @property
    def _last(self) -> int:
        return len(self.recipe.plan) - 1

    def _matching(self, built: NamedQuery, row: Placed, without: Collection[int]) -> Matching:
        """The conditions that a row of the output has the values of one, as far as they can be compared."""
        found = Matching(self.session, row.loose)
        for place, value in row.values.items():
            column = self.recipe.columns[place]
            if column.id in built.unknown or column.id in without:
                found.left.append(column.name)
            elif loses_values(column.type, self.written):
                given = text_as_written(literals.string_constant(value or ""), self.written)
                found.terms.append(f"{text_as_written(f'c{column.id}', self.written)} = {given}")
            else:
                found.add(NamedColumn(column.name, f"c{column.id}", column.type), value)
        return found

    def follow(self, built: NamedQuery, table: pa.Table) -> None:
        """Collect the rows of sources that ``table`` names, and trace the groups that it names."""
        waiting = self._waiting()
        self._take(built, table, waiting)
        self._trace(waiting)

    def _trace(self, waiting: PendingGroups[pa.Table]) -> None:
        while groups := waiting.ready():
            for asked in groups:
                leaf = asked[0][0]
                named = [keys.rename_columns(list(leaf.columns[1:])) for _, keys in asked]
                self._stage(leaf, pa.concat_tables(named), waiting)

    def _take(self, built: NamedQuery, table: pa.Table, waiting: PendingGroups[pa.Table]) -> None:
        for leaf in built.leaves:
            there = table.filter(pc.is_valid(table[leaf.columns[-1 if leaf.stored else 0]]))
            if not there.num_rows:
                continue
            if leaf.doubt:
                self.reasons.append(leaf.doubt)
            elif leaf.stored:
                self._collect(leaf, there)
            else:
                waiting.add(leaf, there.select(list(leaf.columns[1:])))

    def _collect(self, leaf: Leaf, table: pa.Table) -> None:
        node = self.recipe.plan[leaf.of]
        ordinals = table[leaf.columns[1]].to_numpy().astype(np.uint64)
        if not isinstance(node, Scan):
            self.found.add(None, f"plan:{leaf.of}", sorted_unique(ordinals))
            return
        paths, places = self.files.named(node.source, table[leaf.columns[0]])
        for place, path in enumerate(paths):
            self.found.add(node.source, path, sorted_unique(ordinals[places == place]))

    def _stage(self, leaf: Leaf, table: pa.Table, waiting: PendingGroups[pa.Table]) -> int:
        """Trace the groups of one node by the next query; how many rows they have."""
        keys = distinct(table)
        builder = self._builder()
        stage: GroupQuery = group_query_of(self.session, builder, leaf, keys)
        self.reasons += stage.reasons
        found = run(self.session, builder, stage.select)
        self.reasons += [*builder.reasons, *stage.keys_found(found)]
        self._take(stage.built, found, waiting)
        return int(found.num_rows)
