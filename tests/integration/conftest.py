"""What tests of DataFrames' lineage share."""

from __future__ import annotations

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables
from tests.support.frame_tables import ORDERS, PLACES


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ParquetTables:
    folder = tmp_path_factory.mktemp("tables")
    return ParquetTables.written(folder, {"orders": ORDERS, "places": PLACES})


@pytest.fixture
def spark(spark_context: SparkContext) -> SparkSession:
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session
