"""Statements of SQL that a replay of a program runs, and those that it refuses: by Spark's own parser."""

from __future__ import annotations

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_emitter.rerunning import statement_that_writes

pytestmark = pytest.mark.integration

READ = [
    "SELECT 1",
    "WITH x AS (SELECT 1 AS a) SELECT a FROM x WHERE a IN (SELECT 1)",
    "FROM t SELECT a",
    "CREATE TEMPORARY VIEW v AS WITH x AS (SELECT 1) SELECT * FROM x",
    "CACHE TABLE c AS SELECT 1",
    "SET a = b",
]
WRITE = [
    "INSERT INTO t VALUES (1)",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "WITH x AS (SELECT 1) INSERT OVERWRITE t SELECT * FROM x",
    "FROM s INSERT INTO t SELECT a INSERT INTO u SELECT b",
    "INSERT OVERWRITE DIRECTORY '/out' USING parquet SELECT 1",
    "FROM s INSERT OVERWRITE DIRECTORY '/out' USING parquet SELECT a INSERT INTO t SELECT a",
    "WITH x AS (SELECT 1 AS a) DELETE FROM t WHERE a IN (SELECT a FROM x)",
    "WITH x AS (SELECT 1 AS a) MERGE INTO t USING x ON t.a = x.a WHEN MATCHED THEN DELETE",
    "CREATE TABLE t AS SELECT 1",
    "DROP TABLE t",
    "EXPLAIN INSERT INTO t VALUES (1)",
]


@pytest.fixture(scope="module")
def session(spark_context: SparkContext) -> SparkSession:
    return SparkSession(spark_context)


@pytest.mark.parametrize("statement", READ)
def test_what_reads_is_run(session: SparkSession, statement: str) -> None:
    assert statement_that_writes(session, statement) == ""


@pytest.mark.parametrize("statement", WRITE)
def test_what_may_write_is_named(session: SparkSession, statement: str) -> None:
    assert statement_that_writes(session, statement)
