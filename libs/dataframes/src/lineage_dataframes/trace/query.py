"""Questions about rows of DataFrames: by place, by values, by a condition."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.trace.crossing import Crossing
from lineage_dataframes.trace.session import told
from lineage_query.answers import Answer
from lineage_query.engine import TraceQuery
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.reader import RowReader, reading_by
from lineage_store.port import GraphStore


def trace_recipe_row(
    spark: SparkSession,
    store: GraphStore,
    reader: RowReader,
    question: TraceQuery,
    noted: RecipePlace,
    where: str = "",
    *,
    key: str | None = None,
) -> Answer:
    """Answer a question about rows of a DataFrame.

    Args:
        spark: any session; traces run in new ones beside it.
        store: has the recipes.
        reader: says which files may be read.
        question: of one place.
        noted: what the place names.
        where: instead of a row, all that fulfil this condition in Spark's SQL.
        key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        TraceError: the question asks for what such traces don't have.
        ForbiddenRowsError: a file of the trace may not be read.
        FramesError: no sound trace, or the files are not what they were.
    """
    if len(question.places) != 1 or question.regions:
        raise TraceError("rows of DataFrames are traced one place at a time")
    if question.until is not None or question.steps is not None:
        raise TraceError("a DataFrame's steps keep no rows: leave out --step and --to")
    frames = Crossing(spark, store, reader, noted.app, question, key)
    with reading_by(reader), told():
        if where:
            return frames.told(frames.where(noted, where))
        if noted.valued is not None:
            return frames.told(frames.valued(noted, noted.valued))
        return frames.told(frames.row(noted))
