"""Traces of DataFrames' rows: answers of queries on the server's Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

from lineage_core.tracing.trace_result import TraceError
from lineage_query.answers import Answer, Group, Item
from lineage_query.conditions import parse_condition
from lineage_query.recipe_rows import RecipePlace, columns_of
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.reader import RootedReader, RowReader, reading_by
from lineage_query.trace import Trace
from lineage_query.trace_query import TraceQuery
from lineage_query_api.errors import ProblemError, hidden_parts_error, rows_refused_error
from lineage_query_api.masking import masked_answer, masked_group
from lineage_query_api.settings import QueryApiSettings
from lineage_query_api.spark_session_holder import (
    TRACE_ELSEWHERE,
    SparkProgress,
    SparkSessionHolder,
)
from lineage_query_api.visibility import VisibleApplication
from lineage_query_api.visible_store import VisibleReader
from lineage_store.port import GraphStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_dataframes.trace.listed_rows import RowsPage
    from lineage_dataframes.trace.ranked_influence import InfluenceAnswer
    from lineage_dataframes.trace.requested_recipes import RequestedRecipe

Computed = TypeVar("Computed")
NO_MASTER = "LINEAGE_SPARK_MASTER is not set"
INFLUENCE_ROWS_MAX = 100_000
"""Rows that a row whose influence is computed may be made from: their values are held."""
LISTED_ITEMS_MAX = 10_000
"""Items of each node that a recomputed answer lists."""
CUT_WARNING = (f"of each node the first {LISTED_ITEMS_MAX:,} items are listed",)


class RecipeTraces:
    """Recomputes rows of DataFrames on the server's Spark. May be shared by threads."""

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        settings: QueryApiSettings,
        shared: RecipeTraces | None = None,
        visible_app: VisibleApplication | None = None,
    ) -> None:
        """``shared``: recipe traces of the whole store, with which it shares Spark.

        ``visible_app``: of the one application that the store holds, where something of it is hidden or masked.
        """
        self._visible_app = visible_app
        self._store = store
        self._reader = reader
        self._spark: SparkSessionHolder | None
        if shared is None:
            roots = reader.roots if isinstance(reader, RootedReader) else None
            self._spark = SparkSessionHolder(settings, roots) if settings.spark_master else None
        else:
            self._spark = shared._spark

    def for_caller(self, *, rows: bool) -> CallerRecomputation:
        """The recomputation backend for a caller. ``rows``: they may read the text of rows."""
        return CallerRecomputation(self, rows)

    @property
    def reader(self) -> RowReader:
        """Reads rows of files."""
        return self._reader

    def run(self, work: Callable[[SparkSession], Computed]) -> Computed:
        """The result of ``work`` on the server's Spark.

        Raises:
            TraceError: this server has no Spark.
            ProblemError: Spark does not start, all turns are taken, or the work takes too long.
        """
        if self._spark is None:
            raise TraceError(NO_MASTER)
        return self._spark.run(work)

    def check_traceable(self) -> None:
        """Refuse traces of an application if they may reveal its hidden parts.

        Raises:
            ProblemError: 403.
        """
        if self._visible_app is not None and not self._visible_app.traceable:
            raise hidden_parts_error()

    def continue_trace(
        self, query: TraceQuery, records: RecordTrace, *, rows: bool
    ) -> Answer | None:
        """The answer to a query about records, through the DataFrames whose rows they are; None: there is no Spark.

        Raises:
            LineageError, ProblemError: as :meth:`trace_rows`.
        """
        if self._spark is None or self._spark.missing():
            return None
        reader = self._reader.of_application(records.app)
        _check_recorded_files(query, reader)

        def continue_records(session: SparkSession, limited: TraceQuery) -> Answer:
            from lineage_dataframes.rewrite.functions import NO_CODE
            from lineage_dataframes.trace.crossing import answer_through

            return answer_through(session, self._store, reader, limited, records, key=NO_CODE)

        from lineage_dataframes.trace.overwritten import check_files_of_trace

        check_files_of_trace(self._store, reader, query, records)
        return self._spark.run(lambda session: _answer(session, query, continue_records, rows=rows))

    def trace_rows(self, query: TraceQuery, place: RecipePlace, *, rows: bool) -> Answer:
        """The answer to a query for rows of DataFrames. ``rows``: the caller may read the text of rows.

        Raises:
            TraceError: this server has no Spark.
            LineageError: no sound trace, or a file of it may not be read.
            ProblemError: 403 if the query names values and the caller may not read them; Spark does not start or
                takes too long.
        """
        by_values = place.valued is not None or bool(query.where)
        if by_values and not rows:
            raise rows_refused_error()
        if self._visible_app is not None:
            if by_values or not (self._visible_app.traceable and self._visible_app.of_frames):
                raise hidden_parts_error()
            # Spark's error for a row that it can't compute may contain the row's values.
            rows = False
        if self._spark is None:
            raise TraceError(
                f"{place.place} names rows of a DataFrame (node {place.nodes[0]} of {place.app}): they are traced "
                f"by Spark, which this server has not ({NO_MASTER}): {TRACE_ELSEWHERE}"
            )

        if query.where:
            query = self._with_condition(query, place)
        reader = self._reader.of_application(place.app)
        _check_recorded_files(query, reader)
        computing = _computing(reader)

        def trace(session: SparkSession, limited: TraceQuery) -> Answer:
            from lineage_dataframes.rewrite.functions import NO_CODE
            from lineage_dataframes.trace.query import trace_recipe_row

            return trace_recipe_row(session, self._store, computing, limited, place, key=NO_CODE)

        if find_spec("lineage_dataframes") is not None and find_spec("pyspark") is not None:
            from lineage_dataframes.trace.overwritten import check_files_of_query

            check_files_of_query(self._store, reader, query, place)
        answer = self._spark.run(lambda session: _answer(session, query, trace, rows=rows))
        if self._visible_app is None:
            return answer
        assert isinstance(self._reader, VisibleReader)
        return masked_answer(answer, self._visible_app, self._reader.header)

    def list_rows(
        self, app: str, node: str, limit: int, cursor: str | None
    ) -> tuple[tuple[Item, ...], str | None]:
        """Rows of a DataFrame's output or source, and the cursor of the next page; for callers who may read rows.

        Raises:
            TraceError: this server has no Spark.
            LineageError: the rows are in no file, a file is not what it was, or may not be read.
            ProblemError: 403 if they may reveal hidden parts; Spark does not start or takes too long.
        """
        visible_app = self._visible_app
        if visible_app is not None and not (visible_app.traceable and visible_app.of_frames):
            raise hidden_parts_error()
        if self._spark is None:
            raise TraceError(
                f"rows of a DataFrame are read by Spark, which this server has not ({NO_MASTER})"
            )
        reader = _computing(self._reader.of_application(app))

        def read(session: SparkSession) -> RowsPage:
            from lineage_dataframes.trace.listed_rows import list_rows

            return list_rows(session, self._store, reader, app, node, limit, cursor)

        page = self._spark.run(
            lambda session: _computed(lambda: read(session), rows=visible_app is None)
        )
        if visible_app is None:
            return page.items, page.following
        assert isinstance(self._reader, VisibleReader)
        group = Group(node, node, "", None, len(page.items), page.items)
        shown = masked_group(group, visible_app, self._reader.header, is_result=False)
        return shown.items, page.following

    def requested_row(self, place: str, app: str | None) -> RequestedRecipe:
        """The row of a DataFrame's output that a place names, as people type it, in an application or in the one that has it.

        Raises:
            TraceError: it is no such row, or this server has not what reads it.
            LineageError: there is none, or a file is not what it was, or may not be read.
        """
        if find_spec("lineage_dataframes") is None or find_spec("pyspark") is None:
            raise TraceError(
                f"rows of DataFrames are computed by Spark, which this server has not: {TRACE_ELSEWHERE}"
            )
        from lineage_dataframes.trace.requested_recipes import requested_recipe

        return requested_recipe(self._store, self._reader, (place,), app)

    def influence(self, requested: RequestedRecipe, limit: int) -> InfluenceAnswer:
        """What a row would be without each row that it was made from, where that has a closed form; for callers who may read rows.

        No code of the job is run, and the plan no second time.

        Raises:
            TraceError: this server has no Spark.
            LineageError: there is no closed form, the row can't be computed, or a file is not what it was.
            ProblemError: 403 if something of the application is hidden; Spark does not start or takes too long.
        """
        if self._visible_app is not None:
            raise hidden_parts_error()
        if self._spark is None:
            raise TraceError(
                f"the influence of rows is computed by Spark, which this server has not ({NO_MASTER})"
            )
        reader = self._reader.of_application(requested.app)

        def compute(session: SparkSession) -> InfluenceAnswer:
            from lineage_dataframes.rewrite.functions import NO_CODE
            from lineage_dataframes.trace.influence import influences_in_closed_form
            from lineage_dataframes.trace.ranked_influence import answer_influence

            with reading_by(reader):
                return answer_influence(
                    session,
                    requested,
                    limit,
                    lambda replayer: influences_in_closed_form(replayer, INFLUENCE_ROWS_MAX),
                    key=NO_CODE,
                )

        return self._spark.run(compute)

    def _with_condition(self, query: TraceQuery, place: RecipePlace) -> TraceQuery:
        """The query with its condition as parsed: no other text of the caller gets into a statement.

        Raises:
            ConditionError: it is more than is taken, or an output has no such columns.
        """
        condition = parse_condition(query.where)
        graph = self._store.graph(place.app)
        nodes = graph.nodes()
        for node in place.nodes:
            condition.check_columns(name for name, _ in columns_of(graph, nodes, node))
        return replace(query, where=condition.sql)

    def detached(self, trace: Trace, *, rows: bool) -> Trace:
        """The answer of a trace along materialised flows, as that of the application they belong to."""
        if self._visible_app is not None:
            raise hidden_parts_error()
        query = trace.query
        limit = LISTED_ITEMS_MAX if query.limit is None else min(query.limit, LISTED_ITEMS_MAX)
        alone = trace.as_answer_of(query.app or trace.app, limit, texts=query.texts and rows)
        return alone.warned(CUT_WARNING if alone.is_cut else ())

    def missing(self) -> str:
        """Why rows of DataFrames can't be traced here, with what is to be done; empty: nothing is known to be missing."""
        return NO_MASTER if self._spark is None else self._spark.missing()

    def progress(self) -> SparkProgress | None:
        """What Spark does now; None: this server has none."""
        return None if self._spark is None else self._spark.progress()

    def unmet_restrictions(self) -> str:
        """Why its Spark is not confined as the settings require; empty: it is, or there is no Spark."""
        return "" if self._spark is None else self._spark.unmet_restrictions()

    def close(self) -> None:
        """Stop Spark."""
        if self._spark is not None:
            self._spark.close()


@dataclass(frozen=True, slots=True)
class CallerRecomputation:
    """Implements :class:`lineage_query.recomputation.RecomputationBackend` for one caller of the API.

    ``rows``: they may read the text of rows.
    """

    traces: RecipeTraces
    rows: bool

    def trace_rows(self, query: TraceQuery, place: RecipePlace) -> Answer:
        return self.traces.trace_rows(query, place, rows=self.rows)

    def continue_trace(self, query: TraceQuery, records: RecordTrace) -> Answer | None:
        return self.traces.continue_trace(query, records, rows=self.rows)


def _check_recorded_files(query: TraceQuery, reader: RowReader) -> None:
    """See that rows of files that lie in the place of others now are read for callers without rules for datasets alone.

    What callers see of an application is decided by the files that it recorded.

    Raises:
        ProblemError: 403, they may be of other files.
    """
    if query.as_now and isinstance(reader, VisibleReader):
        raise hidden_parts_error()


def _computing(reader: RowReader) -> RowReader:
    """A reader that opens masked files, too: its rows are masked in the answer."""
    return reader.computing() if isinstance(reader, VisibleReader) else reader


def _answer(
    session: SparkSession,
    query: TraceQuery,
    trace: Callable[[SparkSession, TraceQuery], Answer],
    *,
    rows: bool,
) -> Answer:
    """What ``trace`` answers, as much of it as is listed."""
    limit = LISTED_ITEMS_MAX if query.limit is None else min(query.limit, LISTED_ITEMS_MAX)
    return _bounded(_computed(lambda: trace(session, replace(query, limit=limit)), rows=rows))


def _computed(compute: Callable[[], Computed], *, rows: bool) -> Computed:
    """What Spark computes; its error, which may contain values of rows, is for callers who may read ``rows``."""
    from lineage_dataframes.errors import NotComputedError

    try:
        return compute()
    except NotComputedError as error:
        if rows:
            raise
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Spark can't compute the plan anew",
            hint="why may hold values of rows: ask for a token with the right to read rows",
        ) from error


def _bounded(answer: Answer) -> Answer:
    """The answer, with a warning if it does not list all items that would be kept."""
    if all(group.count <= LISTED_ITEMS_MAX for group in answer.groups):
        return answer
    return replace(answer, warnings=(*answer.warnings, *CUT_WARNING))
