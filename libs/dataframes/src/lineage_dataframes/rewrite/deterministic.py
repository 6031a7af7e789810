"""Which columns of an output another run gives again, so that they identify rows."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lineage_core.recipe.document import Recipe
from lineage_dataframes.rewrite.building import Builder
from lineage_dataframes.rewrite.functions import NO_CODE, runnable
from lineage_dataframes.rewrite.orders import nondeterministic_columns


def deterministic_columns(spark: SparkSession, recipe: Recipe) -> list[int]:
    """Places of the output's columns that have the same values, row by row, in every run.

    Left out are columns that can't be computed anew (without the code of Python functions), and all that is
    made from sums of doubles.

    Raises:
        RefusedError: no row of the output can be traced.
    """
    without_code = runnable(spark, recipe, NO_CODE).recipe
    built = Builder(without_code).build(len(recipe.plan) - 1, ids=True, top=True)
    excluded = built.unknown | nondeterministic_columns(without_code, of_any_type=True)
    return [
        column_number
        for column_number, column in enumerate(recipe.columns)
        if column.id not in excluded
    ]
