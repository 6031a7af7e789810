"""TPC queries traced row by row. All of them: python -m benchmarks.frames."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables, check_rows
from benchmarks.tpc import SETTINGS, make_tables, queries

pytestmark = pytest.mark.integration

SCALE = 0.01


@pytest.fixture(scope="module")
def tpcds(tmp_path_factory: pytest.TempPathFactory) -> ParquetTables:
    folder = tmp_path_factory.mktemp("tpc") / "tpcds"
    return ParquetTables(folder, make_tables("tpcds", SCALE, folder))


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(9, id="9: scalar subqueries merged into one", marks=pytest.mark.long),
        pytest.param(22, id="22: rollup", marks=pytest.mark.long),
        pytest.param(28, id="28: global aggregates and distinct ones", marks=pytest.mark.long),
        pytest.param(69, id="69: exists and not exists", marks=pytest.mark.long),
        pytest.param(98, id="98: a window over an aggregate"),
    ],
)
def test_rows_of_tpcds(
    number: int, spark_context: SparkContext, tpcds: ParquetTables, tmp_path: Path
) -> None:
    spark = SparkSession(spark_context).newSession()
    for name, value in SETTINGS.items():
        spark.conf.set(name, value)
    assert check_rows(spark, tpcds, queries("tpcds")[number], tmp_path, rows=[0])
