"""Tables of Delta Lake that a streaming query reads beside its streams: each batch reads their latest versions anew.

Versions of a table only grow, and a table that is made anew at its path has another id. Where a table had a version before a batch
began, and has it when the batch has been committed, the batch has read that one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from lineage_emitter.dataframes import delta
from lineage_emitter.dataframes.jvm import explicit_settings
from lineage_emitter.dataframes.walking import leaves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOKS_KEPT = 1_000
"""Times of which it is remembered which versions tables had: some minutes of them."""


@dataclass(slots=True)
class SeenVersions:
    """Versions of the tables that a query reads, and when they were looked at.

    ``tables``: the leaves of its plan that read them, and what lists their files (Spark's objects); None: not known yet. ``looks``:
    when each look had ended, in unix seconds, and the versions by path.
    """

    tables: list[tuple[Any, Any]] | None = None
    looks: deque[tuple[float, delta.Versions]] = field(
        default_factory=lambda: deque(maxlen=LOOKS_KEPT)
    )

    def look(self) -> delta.Versions:
        """Look at them now; none where Spark can't tell."""
        if not self.tables:
            return {}
        try:
            versions = delta.latest_of(index for _, index in self.tables)
        except (Py4JError, PySparkException):
            # What is then read of them is not traced.
            return {}
        self.looks.append((time.time(), versions))
        return versions

    def look_in(self, spark: SparkSession, plan: Any) -> delta.Versions:
        """Look now at those that the plan of a query that runs (Spark's object) has."""
        if self.tables is None:
            is_used = delta.is_used(explicit_settings(spark))
            self.tables = delta.followed(plan) if is_used else []
        return self.look()

    def before(self, at: float) -> delta.Versions:
        """The versions that they had, or later ones had not come yet, before a time in unix seconds."""
        found = (versions for ended, versions in reversed(list(self.looks)) if ended <= at)
        return next(found, {})

    def changed(
        self,
        spark: SparkSession,
        before: delta.Versions,
        now: delta.Versions,
        reads_cached: Callable[[], bool] = lambda: False,
    ) -> list[tuple[Any, Any]]:
        """Leaves that read another version than when the query was made, where it is known which: with plans that read that one.

        ``before``, ``now``: the versions before the batch and after it. ``reads_cached``: says whether it reads rows of frames that are kept in memory: these
        are of the version that was kept.
        """
        found: list[tuple[Any, Any]] = []
        for leaf, index in self.tables or ():
            path = str(index.path().toString())
            version = now.get(path)
            if version is None or version != before.get(path):
                continue
            if version == delta.version_of(index):
                continue
            if reads_cached():
                return []
            try:
                rows = delta.rows_of_version(spark, path, version)
            except delta.UnknownVersionError:
                # What is then read of it is not traced.
                continue
            # The query's columns are those of the version that it was made with.
            if str(rows.schema().json()) == str(leaf.schema().json()):
                found.append((leaf, rows))
        return found


def reads_cached(execution: Any) -> bool:
    """Whether the last batch of a query (Spark's object) has read rows of frames that are kept in memory."""
    last = execution.lastExecution()
    return last is None or any(
        leaf.getClass().getSimpleName() == "InMemoryRelation"
        for leaf in leaves(last.withCachedData())
    )


def tables_of(frame: DataFrame) -> SeenVersions:
    """The versions that tables have now which a frame of streams reads, for the query over it."""
    seen = SeenVersions()
    try:
        seen.look_in(frame.sparkSession, frame._jdf.queryExecution().analyzed())
    except (Py4JError, PySparkException):
        # The program's own call says what is wrong.
        return SeenVersions()
    # The query has a plan of its own.
    seen.tables = None
    return seen
