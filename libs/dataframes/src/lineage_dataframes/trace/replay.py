"""Replays of a recipe: its plan over some rows of its sources, and what then becomes of output rows.

Output rows are found again by what they are made from (their *identity*): rows of scans and keys of groups, which
`rewrite.building` gives beside each row. Which rows of the sources the plan has to read follows from `rewrite.locality`:

- without some rows, a local plan gives the requested rows from what is left of their witnesses; any other plan is
  computed over all other rows of the sources, as the job would compute it;
- on the witnesses alone, every plan is computed, and each row is compared with the job's.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import File, Recipe
from lineage_core.recipe.names import KAFKA
from lineage_core.recipe.plan import Aggregate, Expression, Scan, expressions_of
from lineage_dataframes.errors import RefusedError, RowError
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.common_subplans import find_common_subplans
from lineage_dataframes.rewrite.expressions import opaque_in
from lineage_dataframes.rewrite.functions import register, runnable
from lineage_dataframes.rewrite.group_keys import key_terms
from lineage_dataframes.rewrite.grouping import LOSSLESS_FORMATS, grouping_of
from lineage_dataframes.rewrite.keys import distinct, has_key
from lineage_dataframes.rewrite.locality import nonlocal_reasons
from lineage_dataframes.rewrite.orders import nondeterministic_columns, texts_of_sums
from lineage_dataframes.rewrite.values import ColumnValues
from lineage_dataframes.sources.file_changes import check_local, check_unchanged
from lineage_dataframes.sources.file_codes import file_codes
from lineage_dataframes.sources.jdbc import live_sources
from lineage_dataframes.sources.lossy_formats import loses_values
from lineage_dataframes.sources.views import (
    ROW_COLUMN,
    replace_views,
    view_name,
    view_of,
)
from lineage_dataframes.sources.witnesses import WitnessCollector
from lineage_dataframes.spark import literals
from lineage_dataframes.spark.pyspark_parts import from_arrow, is_connected, to_arrow
from lineage_dataframes.trace.backward import RowTracer
from lineage_dataframes.trace.chosen_rows import matching_rows, write_rows
from lineage_dataframes.trace.exact_values import as_written, exact, is_near, taken
from lineage_dataframes.trace.given_rows import GivenRow
from lineage_dataframes.trace.held_rows import (
    HeldRows,
    ReadRow,
    SourceRows,
    hold_rows,
    ordinals_of,
    suspects_first,
)
from lineage_dataframes.trace.rows import output_of, parquet_values
from lineage_dataframes.trace.session import (
    run_checks,
    session_with_settings,
    trace_session,
    translate_spark_errors,
)
from lineage_query.showing import rows_text

ROWS_MAX = 10_000
"""Output rows that are replayed at once, and new ones that a replay lists."""

COMBINED_MAX = 1_000_000
"""Rows of a group whose values are read."""

State: TypeAlias = Literal["same", "nearly the same", "changed", "gone"]
STATE_TEXTS: Mapping[str, str] = MappingProxyType({"same": "the same", "gone": "no row"})
"""What stands for the values of a row of some states."""

AddedRows: TypeAlias = "Mapping[int, pa.Table]"
"""Rows that sources have besides: by the source's place in the recipe, with all columns of its view."""
NO_ROWS: AddedRows = MappingProxyType({})
OTHER_VALUES = (
    "rows of the sources have other values there, and may go into other rows of the output"
)

REPLAYED = "lineage_replayed"
"""The view of rows of a replay."""


@dataclass(frozen=True)
class ReplayedRow:
    """An output row as the job gave it, and as the replay gives it (None: it does not)."""

    before: tuple[Any, ...]
    after: tuple[Any, ...] | None
    state: State


@dataclass(frozen=True)
class Replay:
    """What a replay gave.

    ``new``: rows that the job did not give, up to `ROWS_MAX`; where the plan read the witnesses alone, those that are made from
    what requested rows are made from. ``witnesses``: rows of sources that the requested rows were made from. ``left_out``: rows
    that were left out, ``unused`` of them no witness. ``reads_all_rows``: the plan read all rows of the sources but these. ``reasons``:
    why rows may depend on others than their witnesses. ``uncertain``: why they may come out otherwise in any case.
    """

    columns: tuple[str, ...]
    rows: tuple[ReplayedRow, ...]
    new: tuple[tuple[Any, ...], ...]
    witnesses: int
    left_out: int
    unused: int
    reads_all_rows: bool
    reasons: tuple[str, ...]
    uncertain: tuple[str, ...]

    @property
    def reproduced(self) -> bool:
        """Whether each requested row came out with the very values of the job's."""
        return all(row.state == "same" for row in self.rows)

    @property
    def heading(self) -> str:
        """What the plan read, in words."""
        made = rows_text(self.witnesses)
        if self.reads_all_rows:
            return f"replayed without {rows_text(self.left_out)} of the sources"
        if self.left_out:
            used = self.left_out - self.unused
            return f"replayed without {used:,} of the {made} that the output is made from"
        return f"replayed on the {made} that the output is made from"

    @property
    def differences(self) -> tuple[str, ...]:
        """Why rows may differ from the job's, where the plan read the witnesses alone."""
        differs = any(row.state in {"changed", "gone"} for row in self.rows)
        return (*(self.reasons if differs else ()), *self.uncertain)


@dataclass(frozen=True)
class RequestedOutput:
    """Output rows: at places of its files, or given as `trace.given_rows` has them, or by values or a condition; else all."""

    places: tuple[tuple[File, int], ...] = ()
    rows: tuple[GivenRow, ...] = ()
    values: ColumnValues | None = None
    where: str = ""


@dataclass(frozen=True)
class CombinedRows:
    """The rows that a group combined: a table of one column for each term, and the rows of sources that each was made from."""

    terms: tuple[pa.Table, ...]
    made_from: tuple[tuple[tuple[str, int], ...], ...]


@dataclass(frozen=True)
class OperatorRows:
    """Rows of an operator of the plan, the first ones of ``count``. ``places``: of a scan, the file and ordinal of each."""

    count: int
    rows: tuple[tuple[Any, ...], ...]
    places: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class OutputRow:
    """A row: its values, and these and its identity in a form in which they are compared bit by bit."""

    values: tuple[Any, ...]
    exact: tuple[Any, ...]
    identity: tuple[Any, ...]


class Replayer:
    """Replays of rows of one recipe's output, in a session beside ``spark``.

    Args:
        spark: any session of a Spark of this machine.
        recipe: recorded when the job ran.
        requested: output rows.
        key: of the recipe's Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        RefusedError: the plan, or a column of its rows, can't be computed anew.
        RowError: there is no such output row.
        ChangedSourceError: a source or the output is not what it was.
        FunctionsKeyError: the key can't be used.
    """

    def __init__(
        self,
        spark: SparkSession,
        recipe: Recipe,
        requested: RequestedOutput,
        key: str | None = None,
    ) -> None:
        for source in live_sources(recipe):
            raise RefusedError(
                f"rows of {source.name} are as they are now: what the job read can't be replayed"
            )
        for source in recipe.sources:
            if source.format == KAFKA:
                raise RefusedError(f"records of {source.name} are not replayed")
        if is_connected(spark):
            raise RefusedError("a replay needs a Spark of this machine, not one of Spark Connect")
        code = runnable(spark, recipe, key)
        self.recipe = code.recipe
        self._spark = spark
        self._session = trace_session(spark, recipe)
        register(self._session, self.recipe)
        self._scanned = sorted({n.source for n in self.recipe.plan if isinstance(n, Scan)})
        self._complete = {n: self._session.table(view_name(n)) for n in self._scanned}
        self._held: dict[int, HeldRows] = {}
        files, subplans = file_codes(self._session, recipe), find_common_subplans(self.recipe)
        with code.explained():
            self._builder = Builder(self.recipe, files.terms, subplans)
            self._built = self._builder.build(len(self.recipe.plan) - 1, ids=True)
            self._check_columns()
            tracer = RowTracer(self._session, self.recipe, files, subplans, recipe.output.format)
            self.reasons = nonlocal_reasons(self.recipe)
            self.witnesses: SourceRows = {}
            self._request(tracer, requested)
        self.uncertain = tuple(self._uncertain())

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the output's columns."""
        return tuple(column.name for column in self.recipe.columns)

    @property
    def _comparable(self) -> bool:
        """Whether Spark compares the output's rows as a whole."""
        kinds = [column.type for column in self.recipe.columns]
        return not any(part in kind for kind in kinds for part in ("map<", "variant", "interval"))

    @cached_property
    def _nondeterministic_ids(self) -> frozenset[int]:
        """Columns whose last digits each run decides: rows are compared by them one by one."""
        return nondeterministic_columns(self.recipe)

    # What is requested

    def _check_columns(self) -> None:
        unknown = [c.name for c in self.recipe.columns if c.id in self._built.unknown]
        if not unknown:
            return
        opaque = filter(None, (opaque_in(e) for n in self.recipe.plan for e in expressions_of(n)))
        whys = dict.fromkeys(f"{part.name}: {part.why}" for part in opaque)
        because = f" ({'; '.join(whys)})" if whys else ""
        raise RefusedError(f"values of {', '.join(unknown)} can't be computed anew{because}")

    def _uncertain(self) -> Iterator[str]:
        nondeterministic_ids = nondeterministic_columns(self.recipe, of_any_type=True)
        names = [column.name for column in self.recipe.columns if column.id in nondeterministic_ids]
        if names:
            yield f"{', '.join(names)}: the last digits of sums of doubles depend on the order of the rows"
        if not self._comparable:
            yield "new rows are those made from the same rows alone: Spark does not compare values of maps"
        if self.recipe.output.limit is not None:
            yield (
                f"the program was given {self.recipe.output.limit} rows at most: whether these are "
                "among them is not known"
            )

    def _request(self, tracer: RowTracer, requested: RequestedOutput) -> None:
        """Find the requested rows in the output computed anew, and trace them.

        Rows that name their groups are traced first, and found in what the plan makes of their witnesses, where it is local.
        """
        stored = [self._stored_row(file, ordinal) for file, ordinal in requested.places]
        grouping = None if self.reasons or not stored else grouping_of(self.recipe)
        if grouping is not None and self.recipe.output.format in LOSSLESS_FORMATS:
            with suppress(RowError):
                tracer.trace_grouped_rows(grouping, tracer.row_values([row for row, _ in stored]))
                self.witnesses = _of_sources(tracer.collector)
                with self.holding_witnesses():
                    self._requested_rows(tracer, requested, stored)
                return
            # What is said of rows that are not found is said of the whole output.
            tracer.collector = WitnessCollector()
        tracer.follow(self._built, self._requested_rows(tracer, requested, stored))
        self.witnesses = _of_sources(tracer.collector)

    def _requested_rows(
        self,
        tracer: RowTracer,
        requested: RequestedOutput,
        stored: Sequence[tuple[tuple[Any, ...], tuple[Any, ...]]],
    ) -> pa.Table:
        """Find the requested rows in the output, computed of the rows of sources that the views give now."""
        ignored: frozenset[int] = frozenset()
        table = self._find(tracer, requested, stored, ignored)
        if requested.places and not table.num_rows and (ignored := texts_of_sums(self.recipe)):
            table = self._find(tracer, requested, stored, ignored)
        computed = self._rows(table)
        if not computed and not stored:
            raise RowError("no row of the output, computed anew, is one of these")
        places = {n for n, column in enumerate(self.recipe.columns) if column.id in ignored}
        self.requested = [self._as_stored(row, stored, places) for row in computed]
        """The rows as the job gave them."""
        for given, values in stored:
            if not any(row.values == values for row in self.requested):
                shown = ", ".join(f"{value!r}" for value in given)
                raise RowError(f"no row of the output, computed anew, has these values: {shown}")
        self._identities = distinct(table.select(self._id_names))
        return table

    def _stored_row(self, file: File, ordinal: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """A row of the output's files, as Spark gives it to programs and as it is compared."""
        output = replace(output_of(self._spark, self.recipe), files=(file,))
        check_unchanged(self._spark, output)
        values = parquet_values(self.recipe, output, file, ordinal)
        if values is not None:
            return values, values
        session = session_with_settings(self._spark, self.recipe, [output])
        columns = [
            F.col(literals.quoted_name(column.name)).alias(f"v{n}")
            for n, column in enumerate(self.recipe.columns)
        ]
        with translate_spark_errors():
            row = view_of(session, output).where(F.col(ROW_COLUMN) == ordinal).select(*columns)
            given = row.collect()
            if not given:
                raise RowError(f"{file.path} has no row {ordinal}")
            return tuple(given[0]), values_of_rows(to_arrow(row))[0]

    def _find(
        self,
        tracer: RowTracer,
        requested: RequestedOutput,
        stored: Sequence[tuple[tuple[Any, ...], tuple[Any, ...]]],
        ignored: frozenset[int],
    ) -> pa.Table:
        if requested.where:
            return self._collected(self._frame_where(requested.where))
        condition = "true"
        if requested.values is not None:
            condition = tracer.values_condition(self._built, requested.values)
        elif rows := (*(given for given, _ in stored), *requested.rows):
            conditions = [
                tracer.row_conditions(self._built, row, ignored) for row in tracer.row_values(rows)
            ]
            condition = literals.any_of([literals.all_of(row.terms) for row in conditions])
        return self._collected(self._frame(condition))

    def _as_stored(
        self,
        row: OutputRow,
        stored: Sequence[tuple[tuple[Any, ...], tuple[Any, ...]]],
        ignored: set[int],
    ) -> OutputRow:
        """A row that was computed anew with the values that the output's files have."""
        for _, values in stored:
            as_stored = tuple(map(exact, values))
            if self.state(as_stored, row.exact, ignored) != "changed":
                return OutputRow(values, as_stored, row.identity)
        return row

    # Queries

    @property
    def _id_names(self) -> list[str]:
        leaves = [leaf for leaf in self._built.leaves if not leaf.inexact_reason]
        return list(dict.fromkeys(name for leaf in leaves for name in leaf.columns))

    def _frame(self, condition: str) -> DataFrame:
        """Rows of the plan over the rows of sources that the views give now."""
        values = [f"r.c{column.id} AS v{n}" for n, column in enumerate(self.recipe.columns)]
        ids = [f"r.{name}" for name in dict.fromkeys(self._built.ids)]
        select_list = ", ".join([*values, *ids])
        return self._run(f"SELECT {select_list} FROM {self._built.name} AS r WHERE {condition}")

    def _frame_where(self, condition: str) -> DataFrame:
        """Rows that fulfil a condition over the program's names of columns."""
        terms = [f"c{c.id} AS {literals.quoted_name(c.name)}" for c in self.recipe.columns]
        values = [f"c{column.id} AS v{n}" for n, column in enumerate(self.recipe.columns)]
        ids = list(dict.fromkeys(self._built.ids))
        inner = f"SELECT {', '.join([*terms, *values, *ids])} FROM {self._built.name}"
        outer = ", ".join([*(f"v{n}" for n in range(len(values))), *ids])
        return self._run(f"SELECT {outer} FROM ({inner}) AS r WHERE ({condition})")

    def _run(self, select: str) -> DataFrame:
        with translate_spark_errors():
            run_checks(self._session, self._builder)
            return self._session.sql(self._builder.statement(select))

    def _collected(self, frame: DataFrame) -> pa.Table:
        with translate_spark_errors():
            table = to_arrow(frame.limit(ROWS_MAX + 1))
        if table.num_rows > ROWS_MAX:
            raise RefusedError(f"these are more than {ROWS_MAX:,} output rows: request fewer")
        return table

    def _rows(self, table: pa.Table) -> list[OutputRow]:
        values = values_of_rows(table.select([f"v{n}" for n in range(len(self.recipe.columns))]))
        identities = values_of_rows(table.select(self._id_names))
        return [
            OutputRow(row, tuple(map(exact, row)), tuple(map(exact, identity)))
            for row, identity in zip(values, identities, strict=True)
        ]

    def _has_identity(self) -> str:
        """The condition that a row is made from what one of the requested rows is made from."""
        terms = [f"r.{name}" for name in self._id_names]
        return has_key(self._session, "lineage_identities", terms, self._identities)

    # Which rows of the sources the plan reads

    @contextmanager
    def _reading(
        self, rows: SourceRows, *, others: bool = False, added: AddedRows = NO_ROWS
    ) -> Iterator[None]:
        """In the body the plan reads these rows of the sources alone; ``others``: all but these, and those ``added``."""
        how = "leftanti" if others else "leftsemi"
        try:
            for n, complete in self._complete.items():
                if n in self._held:
                    replace_views(n, self._held[n].chosen(ordinals_of(rows, n), others=others))
                    continue
                read = self._matching(complete, n, rows, how)
                if n in added:
                    read = read.unionByName(self._as_frame(added[n], complete))
                replace_views(n, read)
            yield
        finally:
            # Of held rows those of the next run take their place.
            for n in self._complete.keys() - self._held.keys():
                replace_views(n, self._complete[n])

    def _as_frame(self, rows: pa.Table, like: DataFrame) -> DataFrame:
        """Rows of a table as a frame with the columns of another."""
        frame = from_arrow(self._session, rows)
        types = {field.name: field.dataType for field in like.schema.fields}
        if {field.name: field.dataType for field in frame.schema.fields} != types:
            raise RefusedError(
                f"rows of types that change on the way: {frame.schema.simpleString()}"
            )
        return frame

    @contextmanager
    def holding_witnesses(self) -> Iterator[None]:
        """In the body the witnesses are in memory, for many replays of some of them, and there are no other rows.

        Raises:
            ChangedSourceError: a source was written meanwhile.
        """
        nothing: NDArray[np.uint64] = np.empty(0, np.uint64)
        try:
            for n, complete in self._complete.items():
                with translate_spark_errors(), self._unchanged_sources():
                    source, rows = self.recipe.sources[n], ordinals_of(self.witnesses, n)
                    self._held[n] = hold_rows(self._session, source, complete, rows)
                replace_views(n, self._held[n].chosen({"": nothing}, others=True))
            self._check_sources()
            yield
        finally:
            held, self._held = self._held, {}
            for n, rows_in_memory in held.items():
                replace_views(n, self._complete[n])
                rows_in_memory.frame.unpersist()

    @contextmanager
    def _unchanged_sources(self) -> Iterator[None]:
        """Where rows are not found in the body, see first whether that is because a source was written meanwhile."""
        try:
            yield
        except RowError:
            self._check_sources()
            raise

    def suspects_first(self, elements: Sequence[ReadRow]) -> list[int]:
        """The numbers of witnesses that are held, as `held_rows.suspects_first` orders them.

        Raises:
            RefusedError: Spark can't tell.
        """
        return suspects_first(elements, self._held.values())

    def _check_sources(self) -> None:
        """See that what was read was not written meanwhile, as far as this machine has the files."""
        for n in self._scanned:
            check_local(self.recipe.sources[n])

    def _matching(self, rows: DataFrame, source: int, selected: SourceRows, how: str) -> DataFrame:
        return matching_rows(self._session, rows, ordinals_of(selected, source), how)

    # Replays

    def outcome(self, rows: SourceRows, *, others: bool = False) -> list[OutputRow]:
        """The rows that the plan makes from what the requested ones are made from, over these rows of sources alone.

        ``others``: over all rows but these.

        Raises:
            RefusedError: the plan can't be computed over these rows, or gives too many.
        """
        with self._reading(rows, others=others):
            return self._rows(self._collected(self._frame(self._has_identity())))

    def combined(
        self, aggregate: int, terms: Sequence[Expression], rows_max: int = COMBINED_MAX
    ) -> CombinedRows:
        """The rows that the group of the requested row combined, from the witnesses.

        Args:
            aggregate: the plan's node, whose groups the output's rows are, one for one.
            terms: what is computed of each row.
            rows_max: how many rows the group may combine.

        Raises:
            RefusedError: a row was made from what is no row of a source, or there are too many.
        """
        node = self.recipe.plan[aggregate]
        assert isinstance(node, Aggregate)
        builder = Builder(self.recipe)
        below = builder.build(node.input, ids=True)
        leaves = [leaf for leaf in below.leaves if leaf.stored]
        if len(leaves) < len(below.leaves):
            raise RefusedError("the group combines rows that are made from groups themselves")
        writer = builder.writer()
        keys = ["true", *key_terms(writer, node.keys, below)]
        names = [f"b{aggregate}", *(f"b{aggregate}_{n}" for n in range(len(keys) - 1))]
        if names != self._id_names:
            raise RefusedError("the row is not a group of the aggregate alone")
        condition = has_key(self._session, "lineage_group", keys, self._identities.select(names))
        places = [f"{name} AS p{n}" for n, name in enumerate(below.ids)]
        values = [f"{writer.of(term)} AS t{n}" for n, term in enumerate(terms)]
        select = f"SELECT {', '.join([*places, *values])} FROM {below.name} WHERE {condition}"
        with self._reading(self.witnesses), translate_spark_errors():
            run_checks(self._session, builder)
            frame = self._session.sql(builder.statement(select))
            table = to_arrow(frame.limit(rows_max + 1))
        self._check_sources()
        if table.num_rows > rows_max:
            raise RefusedError(f"the group combines more than {rows_max:,} rows")
        pairs = [
            list(zip(table[f"p{n}"].to_pylist(), table[f"p{n + 1}"].to_pylist(), strict=True))
            for n in range(0, len(places), 2)
        ]
        made_from = tuple(
            tuple(place for place in row if place[0]) for row in zip(*pairs, strict=True)
        )
        return CombinedRows(
            tuple(table.select([f"t{n}"]) for n in range(len(values))),
            made_from if pairs else ((),) * table.num_rows,
        )

    @contextmanager
    def reading_witnesses(self) -> Iterator[None]:
        """In the body the plan reads the witnesses alone.

        Raises:
            ChangedSourceError: a source was written meanwhile.
        """
        with self._reading(self.witnesses):
            yield
        self._check_sources()

    def rows_of_operator(self, node_number: int, limit: int) -> OperatorRows:
        """Rows that an operator of the plan gives over the rows of sources that the views give now.

        Args:
            node_number: its place in the plan.
            limit: the most rows that are read; they are counted all the same.

        Raises:
            RefusedError: they can't be computed.
        """
        node, builder = self.recipe.plan[node_number], Builder(self.recipe)
        is_scan = isinstance(node, Scan)
        built = builder.build(node_number, ids=is_scan)
        unknown = [column.name for column in node.columns if column.id in built.unknown]
        if unknown:
            raise RefusedError(f"values of {', '.join(unknown)} can't be computed anew")
        values = [f"c{column.id} AS v{n}" for n, column in enumerate(node.columns)]
        places = built.ids if is_scan else []
        order = f" ORDER BY {', '.join(places)}" if places else ""
        select = f"SELECT {', '.join([*values, *places]) or '1'} FROM {built.name}{order}"
        with translate_spark_errors():
            run_checks(self._session, builder)
            frame = self._session.sql(builder.statement(select))
            table = to_arrow(frame.limit(limit + 1))
            # All of them are there, mostly.
            count = frame.count() if table.num_rows > limit else table.num_rows
        table = table.slice(0, limit)
        rows = values_of_rows(table.select([f"v{n}" for n in range(len(values))]))
        stored_at = values_of_rows(table.select(places)) if places else ()
        return OperatorRows(count, tuple(rows), tuple((path, n) for path, n in stored_at))

    def all_rows_without(self, left_out: SourceRows, added: AddedRows = NO_ROWS) -> list[OutputRow]:
        """All rows that the plan gives over all rows of the sources but these, and those ``added``; raises as `outcome`."""
        with self._reading(left_out, others=True, added=added):
            return self._rows(self._collected(self._frame("true")))

    def table_of(self, rows: Sequence[OutputRow]) -> pa.Table:
        """Rows of the output as a table with columns ``v0`` and so on."""
        names = [f"v{n}" for n in range(len(self.recipe.columns))]
        with translate_spark_errors():
            schema = to_arrow(self._frame("false").select(*names)).schema
        columns = [
            pa.array([row.values[n] for row in rows], field.type) for n, field in enumerate(schema)
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    def replay(
        self,
        left_out: SourceRows,
        written_to: Path | None = None,
        added: AddedRows | None = None,
    ) -> Replay:
        """Replay the requested rows.

        Args:
            left_out: rows of sources that are left out; none, and no ``added``: the plan reads the witnesses alone.
            written_to: a folder that Spark makes and writes rows to: where the plan reads all other rows of the sources all
                rows that it gives, else those that are made from what the requested ones are made from.
            added: rows that the sources have besides, if any; the plan reads all rows of the sources then, or where nothing is left out.

        Raises:
            RowError: a source has no such row.
            RefusedError: the plan can't be computed over these rows, or gives too many.
        """
        is_without = bool(left_out) or added is not None
        reads_all_rows = is_without and bool(self.reasons or added or not left_out)
        of_job: Sequence[OutputRow]
        remaining, used = without(self.witnesses, left_out)
        self._check_rows(without(left_out, self.witnesses)[0])
        if reads_all_rows:
            everything = self._frame("true") if self._comparable else None
            of_job = self._rows(self._collected(self._frame(self._has_identity())))
            reading = self._reading(left_out, others=True, added=added or NO_ROWS)
        else:
            # A local plan gives all rows of an identity from the witnesses.
            everything = None
            of_job = self.outcome(self.witnesses) if left_out else self.requested
            reading = self._reading(remaining)
        with reading:
            frame = self._frame("true" if reads_all_rows else self._has_identity()).persist()
            try:
                with translate_spark_errors():
                    rows, new = self._compared(frame, of_job, everything)
                    if written_to is not None:
                        write_rows(frame, self.recipe, written_to)
            finally:
                frame.unpersist()
        self._check_sources()
        count = sum(len(ordinals) for ordinals in left_out.values())
        return Replay(
            columns=self.columns,
            rows=rows,
            new=new,
            witnesses=sum(len(ordinals) for ordinals in self.witnesses.values()),
            left_out=count,
            unused=count - used,
            reads_all_rows=reads_all_rows,
            reasons=(*self.reasons, OTHER_VALUES) if added else self.reasons,
            uncertain=self.uncertain,
        )

    def _check_rows(self, rows: SourceRows) -> None:
        """See that the sources have some rows: what leaves out a row that is none would leave out nothing."""
        for n, complete in self._complete.items():
            selected = {place: ordinals for place, ordinals in rows.items() if place[0] == n}
            count = sum(len(ordinals) for ordinals in selected.values())
            if not count:
                continue
            with translate_spark_errors():
                there = self._matching(complete, n, selected, "leftsemi").count()
            if there != count:
                paths = ", ".join(path for (_, path), ordinals in selected.items() if len(ordinals))
                raise RowError(
                    f"{paths}: {count - there} of the rows that are left out are not there"
                )

    def _compared(
        self, frame: DataFrame, of_job: Sequence[OutputRow], everything: DataFrame | None
    ) -> tuple[tuple[ReplayedRow, ...], tuple[tuple[Any, ...], ...]]:
        """The requested rows beside those of a replay, and the replay's new rows.

        ``of_job``: all rows that the job made from what the requested ones are made from; ``everything``: all of its rows.
        """
        frame.createOrReplaceTempView(REPLAYED)
        condition = self._has_identity()
        select = f"SELECT r.* FROM {REPLAYED} AS r WHERE {condition}"
        replayed = self._rows(self._collected(self._session.sql(select)))
        rows = self._paired(replayed, of_job)
        # A new row may have the values of one that came out as it was.
        after = Counter(
            tuple(map(exact, row.after))
            for row in rows
            if row.after is not None and row.state != "same"
        )
        if everything is not None:
            names = [f"v{n}" for n in range(len(self.recipe.columns))]
            more = frame.select(*names).exceptAll(everything.select(*names)).limit(ROWS_MAX)
            candidates = values_of_rows(to_arrow(more))
        else:
            before = Counter(row.exact for row in of_job)
            candidates = [row.values for row in replayed if not taken(before, row.exact)]
        return rows, tuple(row for row in candidates if not taken(after, tuple(map(exact, row))))

    def _paired(
        self, replayed: Sequence[OutputRow], of_job: Sequence[OutputRow]
    ) -> tuple[ReplayedRow, ...]:
        """The requested rows, each with the one that the replay gives in its place.

        A row of other values is in a row's place where the job, and the replay, made nothing else from the same rows.
        """
        candidates: dict[tuple[Any, ...], list[OutputRow]] = defaultdict(list)
        for row in replayed:
            candidates[row.identity].append(row)
        lone = {
            identity
            for identity, count in Counter(row.identity for row in of_job).items()
            if count == len(candidates[identity]) == 1
        }
        pairs: list[ReplayedRow] = []
        for row in self.requested:
            others = candidates[row.identity]
            states = [(self.state(row.exact, other.exact), other) for other in others]
            best = min(states, key=lambda pair: _STATES.index(pair[0]), default=None)
            if best is None or (best[0] == "changed" and row.identity not in lone):
                pairs.append(ReplayedRow(row.values, None, "gone"))
                continue
            state, match = best
            others.remove(match)
            pairs.append(ReplayedRow(row.values, match.values, state))
        return tuple(pairs)

    def state(
        self, before: Sequence[Any], after: Sequence[Any], ignored: set[int] | None = None
    ) -> State:
        """How the values of a row, as `OutputRow.exact` has them, compare with those that the job gave."""
        state = "same"
        for n, column in enumerate(self.recipe.columns):
            first, second = before[n], after[n]
            if loses_values(column.type, self.recipe.output.format):
                first, second = (as_written(v, self.recipe.output.format) for v in (first, second))
            if first == second:
                continue
            if not (
                n in (ignored or ())
                or (column.id in self._nondeterministic_ids and is_near(first, second))
            ):
                return "changed"
            state = "nearly the same"
        return "same" if state == "same" else "nearly the same"


_STATES: tuple[State, ...] = ("same", "nearly the same", "changed", "gone")
"""The best first."""


def _of_sources(collector: WitnessCollector) -> SourceRows:
    return {
        (source, path): ordinals
        for (source, path), ordinals in collector.rows().items()
        if source is not None
    }


def without(rows: SourceRows, left_out: SourceRows) -> tuple[SourceRows, int]:
    """Rows without others, and how many of the others are among them."""
    remaining = {
        place: np.setdiff1d(ordinals, left_out.get(place, ordinals[:0]), assume_unique=True)
        for place, ordinals in rows.items()
    }
    used = sum(len(rows[place]) - len(remaining[place]) for place in rows)
    return remaining, used


def values_of_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table whose columns may be none.

    Raises:
        RefusedError: Python has no form for a value, such as a date after 9999.
    """
    if not table.num_columns:
        return [()] * table.num_rows
    try:
        columns = [column.to_pylist() for column in table.columns]
    except (ValueError, OverflowError) as problem:
        raise RefusedError(f"a value has no form in Python: {problem}") from problem
    return list(zip(*columns, strict=True))
