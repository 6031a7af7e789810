"""A Spark of one's own, for who has none."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_dataframes.errors import NoSparkError
from lineage_dataframes.sandbox import starting
from lineage_dataframes.sandbox.names import SANDBOX
from lineage_dataframes.spark.class_archive import class_archive
from lineage_dataframes.spark.connected import SCHEME, connect_to_server
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, is_connected


def start_spark(
    master: str,
    folder: Path,
    *,
    archived: bool = False,
    roots: Sequence[str] | None = None,
    confined: bool = True,
) -> SparkSession:
    """Spark's session of this process, or a new one, which is confined where the settings request it (`lineage_dataframes.sandbox`).

    Args:
        master: as Spark has it, or the address of a server of Spark Connect.
        folder: where Spark may write; one that is confined has a folder of its own.
        archived: where there is no archive of Spark's classes yet, its Java writes one when it ends.
        roots: folders, or prefixes, below which files are read; None: those of the settings, or nearly all.
        confined: false for what runs nothing of a job, and reads and writes tables wherever its user may.

    Raises:
        NoSparkError: Spark does not start, or can't be confined as it has to be.
    """
    if master.startswith(SCHEME):
        starting.prepare_sandbox(master, roots)
        return connect_to_server(master)
    settings = {"spark.app.name": "lineage trace", "spark.master": master}
    sandbox = None
    try:
        if SparkContext._active_spark_context is not None:
            starting.check_active()
        else:
            settings |= {**QUIET_SETTINGS, **EXACT_SETTINGS, "spark.sql.warehouse.dir": str(folder)}
            if master.startswith("local"):
                settings |= LOCAL_SETTINGS
            if master.startswith("local-cluster"):
                # Spark makes none for workers that are processes of their own.
                settings["spark.authenticate.secret"] = secrets.token_hex(32)
            if confined:
                sandbox = starting.prepare_sandbox(master, roots)
            else:
                starting.check_unconfined()
        if sandbox is not None:
            settings |= sandbox.settings()
        written = None if sandbox is None else sandbox.written
        with class_archive(archived=archived, confined=written):
            if sandbox is not None:
                starting.launch_java(sandbox, settings)
            session = SparkSession.builder.config(map=dict(settings)).getOrCreate()
    except (*SPARK_ERRORS, OSError) as problem:
        hint = "" if sandbox is None else UNCONFINED_HINT
        raise NoSparkError(str(problem), hint) from problem
    if sandbox is not None:
        starting.adapt_context(session.sparkContext)
    return session


def is_alive(spark: SparkSession) -> bool:
    """Whether a session's Spark still runs: a query that takes more memory than there is ends its Java. Of Spark Connect not known."""
    if is_connected(spark):
        return True
    context: Any = spark.sparkContext
    process = getattr(context._gateway, "proc", None)
    if process is not None and process.poll() is not None:
        return False
    try:
        return not context._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False


def leftover_tasks(spark: SparkSession) -> int:
    """Tasks that go on although their queries have ended: what a task computes of one row is not interrupted."""
    context: Any = spark.sparkContext
    try:
        tracker = context._jsc.sc().statusTracker()
        running = sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos())
        stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
        return int(
            running - sum(stage.get().numActiveTasks() for stage in stages if stage.isDefined())
        )
    except (Py4JError, OSError, AttributeError):
        # It has ended itself.
        return 0


def running_tasks(spark: SparkSession) -> tuple[int, int]:
    """Tasks of the stages that run now, and how many of them have ended; of Spark Connect not known, and none."""
    if is_connected(spark):
        return 0, 0
    try:
        tracker = spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (*SPARK_ERRORS, Py4JError, OSError, AttributeError):
        # It has ended itself.
        return 0, 0
    found = [stage for stage in stages if stage is not None]
    return sum(stage.numTasks for stage in found), sum(stage.numCompletedTasks for stage in found)


def kill_spark(spark: SparkSession) -> None:
    """End the Spark of this process and its Java, whatever they are busy with: what waits for an answer gets an error.

    :func:`start_spark` starts another one then.
    """
    starting.kill_java()
    context: Any = spark.sparkContext
    # Its Java does not answer any more.
    context._jsc = None
    context.stop()


UNCONFINED_HINT = (
    f"where it fails because it is confined, {SANDBOX}=off starts it with all rights of its user"
)
QUIET_SETTINGS = {
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
EXACT_SETTINGS = {
    # What a function changes in its process would change what functions of other applications give there later.
    "spark.python.worker.reuse": "false",
}
"""Settings by which a trace does not depend on those before it."""

LOCAL_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Its ports give rows and take Java's objects: other users reach them. Spark makes a secret for each start.
    "spark.authenticate": "true",
    # Of a task that gives more, Spark fetches the rows by a connection to itself, which is refused where it is confined: the result is lost.
    "spark.task.maxDirectResultSize": "2047m",
    "spark.rpc.message.maxSize": "2047",
}
"""Settings by which a Spark of this machine listens to itself alone."""
