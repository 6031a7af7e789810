"""Questions about rows of DataFrames: by place, by values, by a condition."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import SparkSession

from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_dataframes.trace.crossing import DataFrameCrossing
from lineage_dataframes.trace.late_rows import late_rows
from lineage_dataframes.trace.session import translate_spark_errors
from lineage_dataframes.trace.steps import narrow
from lineage_query.answers import Answer
from lineage_query.recipe_rows import RecipePlace
from lineage_query.rows.reader import RowReader, reading_by
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore


def trace_recipe_row(
    spark: SparkSession,
    store: GraphStore,
    reader: RowReader,
    query: TraceQuery,
    recipe_place: RecipePlace,
    *,
    key: str | None = None,
) -> Answer:
    """Answer a question about rows of a DataFrame.

    Args:
        spark: any session; traces run in new ones beside it.
        store: has the recipes.
        reader: says which files may be read.
        query: of one place, or of several whole files of sources; with ``where`` of all rows of an output that fulfil it.
        recipe_place: what the place names.
        key: of recipes' Python functions, as in `lineage_dataframes.trace.backward.trace_backward`.

    Raises:
        TraceError: the query requests what such traces don't have.
        ForbiddenRowsError: a file of the trace may not be read.
        FramesError: no sound trace, or the files are not what they were.
    """
    if (len(query.places) != 1 and not recipe_place.files) or query.regions:
        raise TraceError("rows of DataFrames are traced one place at a time")
    crossing = DataFrameCrossing(spark, store, reader, recipe_place.app, query, key)
    with reading_by(reader), translate_spark_errors():
        if query.where:
            answer = crossing.answer_condition(recipe_place, query.where)
        elif recipe_place.valued is not None:
            answer = crossing.answer_values(recipe_place, recipe_place.valued)
        else:
            answer = crossing.answer_row(recipe_place)
            if query.direction is Direction.FORWARD and not recipe_place.files:
                app, location = recipe_place.app, recipe_place.location
                late = late_rows(lambda: spark, store, reader, app, location, key)
                answer = replace(answer, warnings=(*answer.warnings, *late))
        answer = crossing.mark_answer(answer)
    return narrow(answer, query, store.graph(recipe_place.app), recipe_place.nodes)
