"""The JVM's classes and methods that noting a plan leans on, in one place: their paths differ between Sparks.

Tested with Spark 4.1.4 (classic). In 3.5 ``Dataset.ofRows`` is in ``org.apache.spark.sql``.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession


def optimised_plan(frame: DataFrame) -> Any:
    """The plan that Spark runs for the frame, before it chooses how."""
    return frame._jdf.queryExecution().optimizedPlan()


def optimised(spark: SparkSession, plan: Any) -> Any:
    """What the optimiser makes of an analysed plan, whatever is cached."""
    return spark._jsparkSession.sessionState().optimizer().execute(plan)


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """The rows of a plan."""
    jvm: Any = spark._jvm
    rows = jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(rows, spark)


def one_expression(expressions: Any) -> Any:
    """Several expressions as the children of one, so that they travel in one call. It is never evaluated."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    jvm: Any = spark._jvm
    return jvm.org.apache.spark.sql.catalyst.expressions.Coalesce(expressions)
