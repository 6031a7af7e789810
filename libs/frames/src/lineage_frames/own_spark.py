"""A Spark of one's own, for who has none."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_frames.class_archive import class_archive
from lineage_frames.connected import SCHEME, connect
from lineage_frames.errors import NoSparkError
from lineage_frames.pyspark_parts import SPARK_ERRORS
from lineage_frames.sandbox import starting
from lineage_frames.sandbox.names import SANDBOX


def start_spark(
    master: str, folder: Path, *, archived: bool = False, roots: Sequence[str] | None = None
) -> SparkSession:
    """Spark's session of this process, or a new one, which is confined where the settings ask for it (`lineage_frames.sandbox`).

    Args:
        master: as Spark has it, or the address of a server of Spark Connect.
        folder: where Spark may write; one that is confined has a folder of its own.
        archived: where there is no archive of Spark's classes yet, its Java writes one when it ends.
        roots: folders, or prefixes, below which files are read; None: those of the settings, or nearly all.

    Raises:
        NoSparkError: Spark does not start, or can't be confined as it has to be.
    """
    if master.startswith(SCHEME):
        starting.prepare(master, roots)
        return connect(master)
    settings = {"spark.app.name": "lineage trace", "spark.master": master}
    sandbox = None
    try:
        if SparkContext._active_spark_context is not None:
            starting.check_active()
        else:
            settings |= {**QUIET, "spark.sql.warehouse.dir": str(folder)}
            if master.startswith("local"):
                settings |= dict.fromkeys(LOCAL, "127.0.0.1")
            sandbox = starting.prepare(master, roots)
        if sandbox is not None:
            settings |= sandbox.settings()
        with class_archive(archived=archived, confined=None if sandbox is None else sandbox.folder):
            if sandbox is not None:
                starting.launch(sandbox, settings)
            session = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    except (*SPARK_ERRORS, OSError) as problem:
        hint = "" if sandbox is None else UNCONFINED
        raise NoSparkError(str(problem), hint) from problem
    if sandbox is not None:
        starting.settle(session.sparkContext)
    return session


UNCONFINED = (
    f"where it fails because it is confined, {SANDBOX}=off starts it with all rights of its user"
)
QUIET = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

LOCAL = ("spark.driver.bindAddress", "spark.driver.host")
"""Settings by which a Spark of this machine listens to this machine alone."""
