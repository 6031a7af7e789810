"""What a query engine needs to trace rows of DataFrames, of which nothing was recorded but recipes."""

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
            query: of one place; with ``where`` of all rows of an output that fulfil it.
            place: what the query's place names.

        Raises:
            LineageError: no sound trace, or none that can be computed here.
        """

    def continue_trace(self, query: TraceQuery, records: RecordTrace) -> Answer | None:
        """The answer to a query about records, through the DataFrames that they came from or went into.

        Args:
            query: about records.
            records: what it came to in the graph; it goes on (`RecordTrace.crosses`).

        Returns:
            None where it can't go on here: the answer of the records says what is left out.

        Raises:
            LineageError: the files are not what they were, or may not be read.
        """
