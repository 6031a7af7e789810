"""The JVM's classes and methods that recording a plan leans on, in one place: their paths differ between Sparks.

Tested with Spark 3.5.9, 4.0.5, 4.1.4, 4.2.1 and 4.3.0 (classic).
"""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lineage_dataframes.spark.pyspark_parts import jvm_session_classes
from lineage_emitter.dataframes import delta, iceberg
from lineage_emitter.dataframes.plan_text import said, without_watches
from lineage_emitter.pyspark_parts import SINCE_4_1

_SEPARATOR = "\u0001"


def optimised_plan(frame: DataFrame) -> Any:
    """The plan that Spark runs for the frame, before it chooses how, without what lets its rows be watched."""
    return without_watches(frame._jdf.queryExecution().optimizedPlan())


def optimised_plainly(frame: DataFrame) -> Any:
    """The plan by Spark's own rules alone."""
    return _optimised_plainly(frame.sparkSession, frame._jdf.queryExecution().withCachedData())


def planned_anew(frame: DataFrame) -> DataFrame:
    """The same rows by a plan that Spark makes from now on, with what is cached now."""
    # A command has run by then, and does not do so again.
    anew = frame_of(frame.sparkSession, frame._jdf.queryExecution().commandExecuted())
    anew._jdf.queryExecution().withCachedData()
    return anew


def reads_delta(frame: DataFrame) -> bool:
    """Whether the frame reads a table of Delta Lake: what its rules make of the plan is no plan of rows."""
    return delta.reads(frame._jdf.queryExecution().withCachedData())


def analysed_text(frame: DataFrame) -> str:
    """The frame's plan as the program said it, as text for people, nothing left out."""
    plan: Any = frame._jdf.queryExecution().analyzed()
    every_field = 2**31 - 1
    more = (False, False) if SINCE_4_1 else (False,)
    return said(plan, "treeString", True, False, every_field, *more)


def optimised(spark: SparkSession, plan: Any) -> Any:
    """What the optimiser makes of an analysed plan, whatever is cached."""
    if iceberg.reads(plan):
        return iceberg.optimised_table_plan(spark, plan)
    if delta.reads(plan):
        return _optimised_plainly(spark, plan)
    return spark._jsparkSession.sessionState().optimizer().execute(plan)


def _optimised_plainly(spark: SparkSession, plan: Any) -> Any:
    """By Spark's own rules: Delta Lake's put figures of a table's log in the place of its rows."""
    jvm: Any = spark._jvm
    session = spark._jsparkSession
    state = session.sessionState()
    rules = jvm.org.apache.spark.sql.execution.SparkOptimizer(
        state.catalogManager(), state.catalog(), session.experimental()
    )
    return rules.execute(plan)


def frame_of(spark: SparkSession, plan: Any) -> DataFrame:
    """The rows of a plan."""
    rows = jvm_session_classes(spark).Dataset.ofRows(spark._jsparkSession, plan)
    return DataFrame(rows, spark)


def activate(spark: SparkSession) -> None:
    """Make the session the one that Spark takes for this thread's."""
    jvm_session_classes(spark).SparkSession.setActiveSession(spark._jsparkSession)


def explicit_settings(spark: SparkSession) -> dict[str, str]:
    """All that is set in the session, in one call for all."""
    text = spark._jsparkSession.sessionState().conf().getAllConfs().mkString(_SEPARATOR)
    pairs = (line.partition(" -> ") for line in str(text).split(_SEPARATOR) if line)
    return {name: value for name, _, value in pairs}


def pairs_of(properties: Any) -> dict[str, str]:
    """A map of Scala's."""
    pairs: dict[str, str] = {}
    each = properties.iterator()
    while each.hasNext():
        pair = each.next()
        pairs[str(pair._1())] = str(pair._2())
    return pairs


def default_setting(spark: SparkSession, name: str) -> str | None:
    """What a setting is where it is not set; None where this Spark does not know it."""
    jvm: Any = spark._jvm
    try:
        # A configuration of its own holds nothing that anybody has set.
        return str(jvm.org.apache.spark.sql.internal.SQLConf().getConfString(name))
    except (PySparkException, Py4JJavaError):
        return None
