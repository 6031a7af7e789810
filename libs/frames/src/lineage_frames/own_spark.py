"""A Spark of one's own, for who has none."""

from __future__ import annotations

from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_frames.class_archive import class_archive
from lineage_frames.connected import SCHEME, connect
from lineage_frames.errors import NoSparkError
from lineage_frames.pyspark_parts import SPARK_ERRORS


def start_spark(master: str, folder: Path, *, archived: bool = False) -> SparkSession:
    """Spark's session of this process, or a new one.

    Args:
        master: as Spark has it, or the address of a server of Spark Connect.
        folder: where Spark may write.
        archived: where there is no archive of Spark's classes yet, its Java writes one when it ends.

    Raises:
        NoSparkError: Spark does not start.
    """
    if master.startswith(SCHEME):
        return connect(master)
    builder = SparkSession.builder.appName("lineage trace").master(master)
    if SparkContext._active_spark_context is None:
        builder = builder.config(map={**QUIET, "spark.sql.warehouse.dir": str(folder)})
        if master.startswith("local"):
            builder = builder.config(map=dict.fromkeys(LOCAL, "127.0.0.1"))
    try:
        with class_archive(archived=archived):
            return builder.getOrCreate()
    except (*SPARK_ERRORS, OSError) as problem:
        raise NoSparkError(str(problem)) from problem


QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

LOCAL = ("spark.driver.bindAddress", "spark.driver.host")
"""Settings by which a Spark of this machine listens to this machine alone."""
