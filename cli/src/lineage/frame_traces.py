"""Traces on a Spark that this command starts."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lineage.background.sessions import MASTER
from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.errors import NoSparkError
from lineage_dataframes.sandbox.starting import missing_restrictions
from lineage_dataframes.spark.connected import SCHEME, stop_session
from lineage_dataframes.spark.own_spark import start_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STDERR = 2


@contextmanager
def spark_session(*, confined: bool = True) -> Iterator[SparkSession]:
    """Spark's session of this process, or one for the while. ``confined``: see `start_spark`.

    Raises:
        TraceError: it does not start.
    """
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    with tempfile.TemporaryDirectory() as folder:
        session = started_here(Path(folder), confined=confined)
        try:
            yield session
        finally:
            stop_session(session)


def started_here(folder: Path, *, archived: bool = False, confined: bool = True) -> SparkSession:
    """A Spark of this process that is started now. ``folder``: where it may write; ``archived``, ``confined``: see `start_spark`.

    Raises:
        TraceError: it does not start.
    """
    master = os.environ.get(MASTER, "local[*]")
    subject = "rows of DataFrames" if confined else "tables"
    with tempfile.TemporaryFile() as stderr_file:
        try:
            with _stderr_to(stderr_file):
                session = start_spark(master, folder, archived=archived, confined=confined)
        except NoSparkError as problem:
            if master.startswith(SCHEME):
                raise TraceError(
                    f"{subject} are traced by Spark Connect: {problem}; see {MASTER}"
                ) from problem
            stderr_file.seek(0)
            lines = stderr_file.read().decode(errors="replace").strip().splitlines() or [
                str(problem)
            ]
            # The last one that is no place in Java's stack.
            last = next(
                (line for line in reversed(lines) if not line.lstrip().startswith("at ")), ""
            )
            hint = f"; {problem.hint}" if problem.hint and problem.hint not in last else ""
            raise TraceError(
                f"{subject} are traced by Spark, which does not start: {last}; "
                f"see that Java is installed, or name a master by {MASTER}{hint}"
            ) from problem
    lacks = "; ".join(missing_restrictions())
    if lacks and confined:
        sys.stderr.write(f"lineage: the Spark that traces is not all confined: {lacks}\n")
    return session


@contextmanager
def _stderr_to(file: IO[bytes]) -> Iterator[None]:
    """Redirect stderr of this process and of those that it starts to a file, for the messages of Spark's JVM."""
    sys.stderr.flush()
    saved_stderr = os.dup(STDERR)
    os.dup2(file.fileno(), STDERR)
    try:
        yield
    finally:
        os.dup2(saved_stderr, STDERR)
        os.close(saved_stderr)
