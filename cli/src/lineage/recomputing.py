"""Recomputes rows of DataFrames for commands: in the background session, or in this process's own Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, TypeAlias

from lineage.background.client import answered
from lineage_core.tracing.trace_result import TraceError
from lineage_query.answers import Answer
from lineage_query.recipe_rows import RecipePlace
from lineage_query.recomputation import RecomputationBackend
from lineage_query.record_trace import RecordTrace
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from typing_extensions import Self

Sessions: TypeAlias = "Callable[[], AbstractContextManager[SparkSession]]"
"""Returns a context manager that provides a Spark session."""


class SparkSessionLease:
    """The Spark session of one query: started on first use, once.

    ``sessions``: provides it; None: this process's own session, or a new one.
    """

    def __init__(self, sessions: Sessions | None) -> None:
        self._sessions = sessions
        self._open = ExitStack()
        self._session: SparkSession | None = None
        self._problem: TraceError | None = None

    def session(self) -> SparkSession:
        """The session.

        Raises:
            TraceError: Spark does not start.
        """
        if self._problem is not None:
            raise self._problem
        if self._session is None:
            from lineage.frame_traces import spark_session

            try:
                self._session = self._open.enter_context((self._sessions or spark_session)())
            except TraceError as problem:
                self._problem = problem
                raise
        return self._session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


class LocalRecomputation:
    """Recomputes rows of DataFrames in the background session, or by a Spark of this process.

    Implements :class:`lineage_query.recomputation.RecomputationBackend`.
    """

    def __init__(
        self, store: GraphStore, reader: RowReader, lease: SparkSessionLease, background: str | None
    ) -> None:
        """``background``: the store whose background session is queried first; None: no session is."""
        self._store = store
        self._reader = reader
        self._lease = lease
        self._background = background

    def trace_rows(self, query: TraceQuery, place: RecipePlace) -> Answer:
        # The background session does not know what other applications wrote, or read elsewhere.
        is_alone = not place.uncertainties and place.held_in is None
        answer = self._in_background(query) if is_alone else None
        return self._here().trace_rows(query, place) if answer is None else answer

    def continue_trace(self, query: TraceQuery, records: RecordTrace) -> Answer | None:
        answer = self._in_background(query)
        return self._here().continue_trace(query, records) if answer is None else answer

    def _in_background(self, query: TraceQuery) -> Answer | None:
        return None if self._background is None else answered(self._background, query)

    def _here(self) -> RecomputationBackend:
        # This import loads PySpark, which traces of records and of the session do not need.
        from lineage_dataframes.trace.recomputation import SparkRecomputation

        return SparkRecomputation(self._store, self._reader, self._lease.session)
