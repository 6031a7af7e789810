"""The files of an index of triples as frames, and tables that are written of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any, Final

import numpy as np
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_dataframes.errors import FramesError, NoSparkError
from lineage_dataframes.spark.connected import new_session
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, is_connected, spark_reason
from lineage_store.triples.columns import COLUMNS, TEXT, Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.files import Numbers, PartFile

PARTITION_TRIPLES: Final = 1 << 20
MOST_PARTITIONS: Final = 4_096
PARTITIONS: Final = "spark.sql.shuffle.partitions"
SETTINGS: Final = {
    # A frame that was cached or cut off keeps its partitions, so that the next join sends one side alone.
    "spark.sql.adaptive.enabled": "false",
    # What is missing or damaged is an error, and never left out.
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
}
NO_GLOB: Final = "__globPaths__"
"""Paths are names: brackets and stars in them stand for themselves."""
SPARK_SCHEMES: Final = {"s3": "s3a", "gcs": "gs"}
"""How Spark calls object storage that the lake calls otherwise."""


def session_for(spark: SparkSession) -> SparkSession:
    """A session beside another, whose settings leave out nothing that is read.

    Raises:
        NoSparkError: it is one of Spark Connect, which reads and writes where its server is.
    """
    if is_connected(spark):
        raise NoSparkError(
            "triples are traced by the Spark of a cluster or of this machine, not by Spark Connect"
        )
    session = new_session(spark)
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    return session


def spark_address(location: str) -> str:
    """A folder as Spark names it."""
    if location.startswith("/"):
        # Whatever Spark's default file system is.
        return f"file://{location}"
    scheme, colon, rest = location.partition("://")
    return f"{SPARK_SCHEMES.get(scheme, scheme)}{colon}{rest}"


class IndexFrames:
    """Frames of files of a table of triples. ``partitions``: of a shuffle.

    Args:
        spark: of `session_for`.
        store: whose files they are.
    """

    def __init__(self, spark: SparkSession, store: TripleStore) -> None:
        self._spark = spark
        self._place = spark_address(store.table.address.location)
        self.partitions = 1

    def size_for(self, triples: int) -> None:
        """Have so many partitions that a task takes some million triples."""
        least = max(self._spark.sparkContext.defaultParallelism, -(-triples // PARTITION_TRIPLES))
        self.partitions = min(least, MOST_PARTITIONS)
        self._spark.conf.set(PARTITIONS, str(self.partitions))

    def frame(
        self,
        part: Part,
        files: Sequence[PartFile],
        firsts: Numbers | None = None,
        lasts: Numbers | None = None,
    ) -> DataFrame:
        """The rows of some files of one part, with all of its columns; null are those that files leave out.

        Args:
            part: which.
            files: of this part; these alone are read.
            firsts: where ranges of the first column begin; None: all rows.
            lasts: where they end.
        """
        columns = COLUMNS[part]
        types = {name: "STRING" if kind == TEXT else "BIGINT" for name, kind in columns.items()}
        schema = ", ".join(f"{name} {kind}" for name, kind in types.items())
        reader = self._spark.read.schema(schema).option(NO_GLOB, "false")
        # A file says all of its rows: nothing of them stands in the names of folders.
        reader = reader.option("recursiveFileLookup", "true")
        rows = reader.parquet(*(f"{self._place}/{file.file.path}" for file in files))
        if firsts is not None and lasts is not None:
            rows = rows.where(_within(F.col(next(iter(columns))), firsts, lasts))
        return rows

    def check_free(self, folder: str) -> None:
        """See that a folder is not there.

        Args:
            folder: an absolute path, or a URL that Spark knows.

        Raises:
            FramesError: it is there, or its file system can't be reached.
        """
        jvm: Any = self._spark._jvm
        session: Any = self._spark._jsparkSession
        try:
            path = jvm.org.apache.hadoop.fs.Path(spark_address(folder))
            files = path.getFileSystem(session.sessionState().newHadoopConf())
            is_there = files.exists(path)
        except SPARK_ERRORS as error:
            raise FramesError(f"can't write to {folder}: {spark_reason(error)}") from error
        if is_there:
            raise FramesError(f"{folder} is there already; name a folder that is not")

    def write(self, rows: DataFrame, folder: str, count: int) -> None:
        """Write rows as files of Parquet, and see that they are all there.

        Args:
            rows: of the table.
            folder: an absolute path, or a URL that Spark knows; it is not there yet.
            count: how many rows there are.

        Raises:
            FramesError: the folder can't be written, or is not the same everywhere in the cluster.
        """
        place = spark_address(folder)
        try:
            rows.write.parquet(place)
            written = (
                self._spark.read.schema(rows.schema).option(NO_GLOB, "false").parquet(place).count()
            )
        except SPARK_ERRORS as error:
            raise FramesError(f"can't write to {folder}: {spark_reason(error)}") from error
        if written != count:
            raise FramesError(
                f"{folder} has {written:,} of {count:,} rows: it has to be a place that all of Spark's machines share"
            )


def _within(number: Column, firsts: Numbers, lasts: Numbers) -> Column:
    ranges = zip(firsts.tolist(), lasts.tolist(), strict=True)
    return reduce(or_, (number.between(first, last) for first, last in ranges))


def coarse(firsts: Numbers, lasts: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """At most so many ranges that hold all of some.

    Args:
        firsts: where the ranges begin; they are in order and apart.
        lasts: where they end; both ends belong to them.
        most: ranges; at least one.
    """
    gaps = firsts[1:] - lasts[:-1]
    cuts = np.sort(np.argsort(gaps, kind="stable")[max(len(gaps) - most + 1, 0) :])
    return firsts[np.r_[0, cuts + 1]], lasts[np.r_[cuts, len(lasts) - 1]]


def union_of(frames: Sequence[DataFrame]) -> DataFrame:
    """All rows of some frames."""
    return reduce(DataFrame.union, frames)
