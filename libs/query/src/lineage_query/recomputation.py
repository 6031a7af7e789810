"""The interface by which the query engine traces rows of DataFrames, for which only recipes are recorded."""

from __future__ import annotations

from typing import Protocol

from lineage_query.answers import Answer
from lineage_query.recipe_rows import RecipePlace
from lineage_query.record_trace import RecordTrace
from lineage_query.trace_query import TraceQuery


class RecomputationBackend(Protocol):
    """Traces rows of DataFrames of one application by computing their recipes again."""

    def trace_rows(self, query: TraceQuery, place: RecipePlace) -> Answer:
        """Trace rows of a DataFrame.

        Args:
            query: with one place; with ``where``, for all rows of an output that fulfil it.
            place: the rows that the query's place names.

        Raises:
            LineageError: no sound trace, or none that can be computed here.
        """

    def continue_trace(self, query: TraceQuery, records: RecordTrace) -> Answer | None:
        """The answer to a query for records, through the DataFrames that they came from or went into.

        Args:
            query: for records.
            records: their trace in the graph, which continues in DataFrames (`RecordTrace.crosses`).

        Returns:
            None if it can't continue here: the answer of the records lists what is left out.

        Raises:
            LineageError: the files have changed, or may not be read.
        """
