"""Files of Parquet that Spark reads and writes for traces: these files and no others, and all of their rows."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from lineage_dataframes.errors import FramesError, NoSparkError
from lineage_dataframes.spark.connected import new_session
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, is_connected, spark_reason

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
WHOLE: Final = "_SUCCESS"
"""The mark of a table that is whole, as Spark writes it."""
SENT_BYTES: Final = 1 << 20
"""Bytes of a file that are sent to Java at a time."""
SPARK_SCHEMES: Final = {"s3": "s3a", "gcs": "gs"}
"""How Spark calls object storage that the lake calls otherwise."""


def session_for(spark: SparkSession) -> SparkSession:
    """A session beside another, whose settings leave out nothing that is read.

    Raises:
        NoSparkError: it is one of Spark Connect, which reads and writes where its server is.
    """
    if is_connected(spark):
        raise NoSparkError(
            "tables are traced by the Spark of a cluster or of this machine, not by Spark Connect"
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


def read_files(spark: SparkSession, schema: str, paths: Sequence[str]) -> DataFrame:
    """The rows of some files; null are those of columns that a file leaves out.

    Args:
        spark: of `session_for`.
        schema: columns in Spark's DDL form.
        paths: as Spark names them; these alone are read.
    """
    reader = spark.read.schema(schema).option(NO_GLOB, "false")
    # A file says all of its rows: nothing of them stands in the names of folders.
    # What a bit changed in would be read as if it had been written: pages of columns have checksums.
    reader = reader.option("parquet.page.verify-checksum.enabled", "true")
    return reader.option("recursiveFileLookup", "true").parquet(*paths)


def check_free(spark: SparkSession, folder: str) -> None:
    """See that a folder is not there.

    Args:
        spark: of `session_for`.
        folder: an absolute path, or a URL that Spark knows.

    Raises:
        FramesError: it is there, or its file system can't be reached.
    """
    _free_place(spark, folder)


def _free_place(spark: SparkSession, folder: str) -> tuple[Any, Any]:
    """As `_file_system`, of a folder that is not there; raises as `check_free`."""
    try:
        files, path = _file_system(spark, folder)
        is_there = files.exists(path)
    except SPARK_ERRORS as error:
        raise FramesError(f"can't write to {folder}: {spark_reason(error)}") from error
    if is_there:
        raise FramesError(f"{folder} is there already; name a folder that is not")
    return files, path


def _file_system(spark: SparkSession, place: str) -> tuple[Any, Any]:
    """The file system of Hadoop that a place lies in, and its path there."""
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(spark_address(place))
    return path.getFileSystem(session.sessionState().newHadoopConf()), path


def write_table(rows: DataFrame, folder: str) -> None:
    """Write rows as files of Parquet.

    Args:
        rows: of the table.
        folder: an absolute path, or a URL that Spark knows; it is not there yet.

    Raises:
        FramesError: the folder can't be written.
    """
    try:
        rows.write.parquet(spark_address(folder))
    except SPARK_ERRORS as error:
        raise FramesError(f"can't write to {folder}: {spark_reason(error)}") from error


def write_small_table(spark: SparkSession, rows: pa.Table, folder: str) -> None:
    """Write rows that are in memory as one file of Parquet, without a job of Spark, and the mark of a whole table.

    Args:
        spark: of `session_for`.
        rows: of the table.
        folder: an absolute path, or a URL that Spark knows; it is not there yet.

    Raises:
        FramesError: the folder can't be written, or is there by now.
    """
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="snappy")
    name = f"part-00000-{uuid.uuid4()}.snappy.parquet"
    files, place = _free_place(spark, folder)
    jvm: Any = spark._jvm
    path_of = jvm.org.apache.hadoop.fs.Path
    try:
        _write_file(files, path_of(place, name), sink.getvalue().to_pybytes())
        _write_file(files, path_of(place, WHOLE), b"")
    except SPARK_ERRORS as error:
        raise FramesError(f"can't write to {folder}: {spark_reason(error)}") from error


def check_written(rows: DataFrame, folder: str, count: int) -> None:
    """See that a table that was just written is all there.

    Args:
        rows: that were written.
        folder: where.
        count: how many there are.

    Raises:
        FramesError: it can't be read, or is not the same everywhere in the cluster.
    """
    try:
        reader = rows.sparkSession.read.schema(rows.schema).option(NO_GLOB, "false")
        written = reader.parquet(spark_address(folder)).count()
    except SPARK_ERRORS as error:
        raise FramesError(f"can't read {folder}: {spark_reason(error)}") from error
    if written != count:
        raise FramesError(
            f"{folder} has {written:,} of {count:,} rows: it has to be a place that all of Spark's machines share"
        )


def write_text(spark: SparkSession, place: str, text: str) -> None:
    """Write a file of text.

    Args:
        spark: of `session_for`.
        place: an absolute path, or a URL that Spark knows.
        text: of the file.

    Raises:
        FramesError: it can't be written.
    """
    try:
        _write_file(*_file_system(spark, place), text.encode())
    except SPARK_ERRORS as error:
        raise FramesError(f"can't write {place}: {spark_reason(error)}") from error


def _write_file(files: Any, path: Any, content: bytes) -> None:
    """Write a file that is not there: ``files``, ``path``: of `_file_system`."""
    stream = files.create(path, False)
    try:
        for at in range(0, len(content), SENT_BYTES):
            stream.write(bytearray(content[at : at + SENT_BYTES]))
    finally:
        stream.close()
