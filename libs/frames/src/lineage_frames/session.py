"""The Spark session that a trace runs in: a session of its own, under the settings of the job."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lineage_core.recipe import Recipe
from lineage_core.recipe_plan import Scan
from lineage_frames.building import view_name
from lineage_frames.changed import check_unchanged
from lineage_frames.sources import WHOLE_FILES, view_of, whole_files

WRITTEN_FOR = {
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.shuffle.partitions": "4",
}
"""Settings that the statements of a trace are written for."""


def trace_session(spark: SparkSession, recipe: Recipe) -> SparkSession:
    """A new session of the same Spark, with the recipe's settings and a view for each source.

    Raises:
        RefusedError: rows of a source have no names.
        ChangedSourceError: a source is not what it was.
    """
    session = spark.newSession()
    for name, value in {**recipe.settings, **WRITTEN_FOR}.items():
        session.conf.set(name, value)
    if whole_files(recipe.sources):
        for name, value in WHOLE_FILES.items():
            session.conf.set(name, value)
    for place in sorted({node.source for node in recipe.plan if isinstance(node, Scan)}):
        check_unchanged(session, recipe.sources[place])
        view_of(session, recipe.sources[place]).createOrReplaceTempView(view_name(place))
    return session
