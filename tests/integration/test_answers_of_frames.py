"""Actions of DataFrames whose rows somebody may ask for: the program gets what it gets without, and what is asked for is traced or refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_arrays import Recording
from lineage_core.answers import ANSWERS
from lineage_core.errors import LineageError
from lineage_emitter import LineageContext
from tests.support.job_runs import STORE
from tests.support.versions import IN_35

pytestmark = pytest.mark.integration

COLUMNS = (
    "id", "id % 2 AS half", "IF(id = 1, NULL, id * 1.5D) AS x", "IF(id = 2, NULL, 'é' || id) AS text", "CAST(id AS decimal(9, 2)) AS dec",
    "DATE'2020-01-31' + CAST(id AS int) AS day", "TIMESTAMP'2020-01-01 12:00:00' + make_interval(0, 0, 0, 0, id) AS at", "id = 3 AS flag",
    "array(id, NULL) AS many", "named_struct('a', id, 'b', 'c') AS both", "map('k', id) AS kv", "CAST(CAST(id AS string) AS binary) AS bytes", "id AS half",
    "NULL AS none",
)  # fmt: skip


def answers(frame: DataFrame) -> list[Any]:
    """What all actions that give rows give."""
    plain = frame.drop("kv", "half") if IN_35 else frame.drop("half")
    given: list[Any] = [
        frame.collect(), frame.take(2), frame.head(3), frame.head(), frame.tail(2), frame.where("id > 9").collect(),
        frame.where("id > 9").head(), plain.toPandas(), plain.where("id > 9").toPandas(),
    ]  # fmt: skip
    return given if IN_35 else [*given, frame.toArrow()]


def same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_flags=True)
    elif isinstance(one, list):
        assert list(map(repr, one)) == list(map(repr, other))
        assert one == other
        assert [row.__fields__ for row in one] == [row.__fields__ for row in other]
    else:
        assert one == other


@pytest.mark.parametrize("with_arrow", ["true", "false"])
def test_the_program_gets_what_it_gets_without(
    with_arrow: str, spark: SparkSession, spark_context: SparkContext, tmp_path: Path
) -> None:
    spark.range(4).selectExpr("id").write.parquet(str(tmp_path / "in"))
    spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", with_arrow)
    try:
        frame = spark.read.parquet(str(tmp_path / "in")).selectExpr(*COLUMNS).orderBy("id")
        expected = answers(frame)
        url = f"sqlite:///{tmp_path / STORE}"
        with LineageContext(spark_context, store=url):
            Recording()
            for one, other in zip(answers(frame), expected, strict=True):
                same(one, other)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.pyspark.enabled")


def test_rows_without_names_are_refused_and_say_why(
    spark: SparkSession, spark_context: SparkContext, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / STORE}"
    spark.range(4).write.parquet(str(tmp_path / "in"))
    frame = spark.read.parquet(str(tmp_path / "in"))
    with LineageContext(spark_context, store=url) as lc:
        early = frame.collect()
        recording = Recording()
        with pytest.raises(LineageError, match="make the Recording before the action"):
            recording.rows_of("early", early)
        for at, (unnamed, reason) in enumerate(
            (
                (frame.select(F.rand()), "no column of its rows"),
                (frame.where("unix_timestamp() > id"), "the time at which it runs"),
                (lc.parallelize([(1.0,)]).toDF(["x"]), "rows of an RDD"),
            )
        ):
            rows = unnamed.collect()
            assert rows
            with pytest.raises(LineageError, match=f"can't be traced.*{reason}"):
                recording.rows_of(f"unnamed {at}", rows)
        named = frame.collect()
    assert ANSWERS.latest.startswith("DataFrame.collect at test_answers_of_frames.py")
    with pytest.raises(LineageError, match="does not capture any more"):
        recording.rows_of("late", named)
