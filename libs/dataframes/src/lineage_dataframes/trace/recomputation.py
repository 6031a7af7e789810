"""Traces of DataFrames' rows for a query engine, on a Spark that is started by the first that needs it."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import SparkSession

from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.trace.crossing import answer_through
from lineage_dataframes.trace.overwritten import check_files_of_query, check_files_of_trace
from lineage_dataframes.trace.query import trace_recipe_row
from lineage_query.answers import Answer
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore


class SparkRecomputation:
    """Implements :class:`lineage_query.recomputation.RecomputationBackend`."""

    def __init__(
        self,
        store: GraphStore,
        reader: RowReader,
        session: Callable[[], SparkSession],
        *,
        key: str | None = None,
    ) -> None:
        """A backend over one store.

        Args:
            store: has the recipes.
            reader: says which files may be read.
            session: gives Spark's session, in new ones beside which traces run; raises TraceError where there is none.
            key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.
        """
        self._store = store
        self._reader = reader
        self._session = session
        self._key = key

    def trace_rows(self, query: TraceQuery, recipe_place: RecipePlace) -> Answer:
        check_files_of_query(self._store, self._reader, query, recipe_place)
        return trace_recipe_row(
            self._session(), self._store, self._reader, query, recipe_place, key=self._key
        )

    def continue_trace(self, query: TraceQuery, records: RecordTrace) -> Answer | None:
        check_files_of_trace(self._store, self._reader, query, records)
        try:
            session = self._session()
        except TraceError:
            if not records.recipe_places:
                raise
            # What records tell needs no Spark; the answer says what is left out.
            return None
        return answer_through(session, self._store, self._reader, query, records, key=self._key)
