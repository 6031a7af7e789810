"""Parts of PySpark that are not the same in all of its versions, in one place."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

SPARK_ERRORS = (PySparkException, Py4JJavaError)
"""What PySpark raises when Spark refuses or fails; before 4.0 a job that fails raises py4j's error."""

SINCE_4 = hasattr(DataFrame, "toArrow")
"""Whether frames go to Arrow tables and back by methods of PySpark: 3.5 has but the parts of these."""

SINCE_4_3 = hasattr(DataFrame, "zip")

ROWS_A_BATCH = 10_000
"""What Spark makes a partition of."""


def spark_reason(problem: Exception) -> str:
    """The first line of what Spark says of one of `SPARK_ERRORS`."""
    message = str(problem)
    if isinstance(problem, Py4JJavaError):
        cause = problem.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        message = str(cause.getMessage() or cause.toString())
    return message.strip().split("\n", 1)[0]


def is_connected(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect: its JVM can't be called from here."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def jvm_session_classes(spark: SparkSession) -> Any:
    """The package of the JVM with the classes of sessions that run there: since 4.0 there are others."""
    jvm: Any = spark._jvm
    sql = jvm.org.apache.spark.sql
    return sql.classic if SINCE_4 else sql


def python_function(spark: SparkSession, name: str, code: Any, returns: Any, kind: int) -> Any:
    """A deterministic Python function as the JVM registers it. ``code`` and ``returns``: Spark's objects."""
    jvm: Any = spark._jvm
    # Expressions of Spark that stand for the function, and the types of their inputs: none.
    more: tuple[list[Any], ...] = ([], []) if SINCE_4_3 else ()
    python = jvm.org.apache.spark.sql.execution.python
    return python.UserDefinedPythonFunction(name, code, returns, kind, True, *more)


def parse_schema(spark: SparkSession, columns: str) -> StructType:
    """The schema of columns in Spark's DDL form."""
    if is_connected(spark):
        connect_session: Any = spark
        schema: StructType = connect_session._parse_ddl(columns)
        return schema
    jvm: Any = spark._jvm
    struct = jvm.org.apache.spark.sql.types.StructType.fromDDL(columns)
    return StructType.fromJson(json.loads(struct.json()))


@contextmanager
def active_session(spark: SparkSession) -> Iterator[None]:
    """In the body the session is the one that Spark takes for this thread's, as Spark Connect always does."""
    if is_connected(spark):
        yield
        return
    sessions = jvm_session_classes(spark).SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()


def to_arrow(frame: DataFrame) -> pa.Table:
    """The frame's rows."""
    if SINCE_4:
        return frame.toArrow()
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    rows: Any = frame
    batches: list[pa.RecordBatch] = rows._collect_as_arrow()
    return (
        pa.Table.from_batches(batches) if batches else to_arrow_schema(frame.schema).empty_table()
    )


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """A frame of the table's rows."""
    if SINCE_4:
        return spark.createDataFrame(table)
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    batches = table.cast(to_arrow_schema(schema)).to_batches(ROWS_A_BATCH)
    jvm: Any = spark._jvm
    sent = spark.sparkContext._serialize_to_jvm(
        batches,
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    rows = jvm.PythonSQLUtils.toDataFrame(sent, schema.json(), spark._jsparkSession)
    return DataFrame(rows, spark)
