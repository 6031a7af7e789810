"""Writes that capture does not see make the verdict incomplete; what Spark does for itself does not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_emitter import LineageContext
from lineage_emitter.session import spark_writes
from lineage_emitter.session.spark_writes import SparkWrites, StageWrite
from scripts.compile_listener import compiled
from tests.support.job_runs import judged
from tests.support.versions import IN_35

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]


def written_unseen(context: LineageContext, spark: SparkSession, folder: Path) -> list[str]:
    """Write by ways that no wrapped method sees; where to."""
    from pyspark.ml.feature import StandardScaler, VectorAssembler

    frame = spark.range(6)
    java: Any = frame._jdf
    java.write().parquet(f"{folder}/frame")
    java.createOrReplaceTempView("numbers")
    session: Any = spark._jsparkSession
    session.sql("CREATE TABLE unseen USING parquet AS SELECT id FROM numbers")
    records: Any = context.sc.parallelize(["a", "b"], 2)
    records._jrdd.saveAsTextFile(f"{folder}/records")
    rows = VectorAssembler(inputCols=["id"], outputCol="v").transform(frame)
    model = StandardScaler(inputCol="v", outputCol="w").fit(rows)
    model.write().save(f"{folder}/model")
    return [
        *(f"to file:{folder}/frame", "unseen", "by saveAs"),
        # Spark 3.5 writes it by an RDD.
        *("by saveAs" if IN_35 else f"to file:{folder}/model/metadata",),
        f"to file:{folder}/model/data",
    ]


def recorded_and_own(context: LineageContext, spark: SparkSession, folder: Path) -> None:
    """Captured writes of all kinds, and jobs that Spark runs for itself."""
    frame = spark.range(6).withColumnRenamed("id", "k")
    frame.write.csv(f"{folder}/csv", header=True)
    frame.write.saveAsTable("seen")
    spark.sql("INSERT INTO seen SELECT id FROM range(2)")
    spark.sql("CREATE TABLE copied USING json AS SELECT * FROM seen")
    spark.sql("ANALYZE TABLE seen COMPUTE STATISTICS")
    spark.sql("CREATE OR REPLACE TEMP VIEW few AS SELECT * FROM seen LIMIT 2")
    again = spark.read.csv(f"{folder}/csv", header=True, inferSchema=True).orderBy("k").persist()
    again.show()
    again.join(spark.table("few"), "k").count()
    again.unpersist()
    java: Any = frame._jdf
    java.write().format("noop").mode("overwrite").save()
    numbers = context.parallelize(range(6), 2).map(lambda n: (n, 1))
    numbers.sortByKey().reduceByKey(max).saveAsTextFile(f"{folder}/text")
    numbers.saveAsPickleFile(f"{folder}/pickled")
    kept = numbers.map(lambda pair: pair[0])
    kept.checkpoint()
    assert kept.count() == 6


@pytest.fixture
def tables(spark: SparkSession) -> Any:
    yield
    for name in ("unseen", "seen", "copied"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")
    shutil.rmtree("spark-warehouse", ignore_errors=True)


def test_a_write_that_was_not_recorded_is_named(
    capture: Capture, spark: SparkSession, tmp_path: Path, tables: None
) -> None:
    with capture() as context:
        assert context.parallelize([1], 1).collect() == [1]
        expected = written_unseen(context, spark, tmp_path)
        app = context.app
    verdict = judged(tmp_path, app)
    assert not verdict.complete
    reasons = [one for one in verdict.unknown if spark_writes.REASON in one]
    assert len(reasons) == len(expected)
    for one in expected:
        assert any(one in reason for reason in reasons), (one, reasons)


def test_no_write_that_was_recorded_is_named_nor_what_spark_does_for_itself(
    capture: Capture, spark: SparkSession, tmp_path: Path, tables: None
) -> None:
    with capture() as context:
        recorded_and_own(context, spark, tmp_path)
        app = context.app
    verdict = judged(tmp_path, app)
    assert verdict.complete, verdict.reasons


def test_what_a_thread_writes_when_its_action_is_over_is_not_recorded(
    spark_context: SparkContext, spark: SparkSession, tmp_path: Path
) -> None:
    writes = SparkWrites(spark_context)
    with writes.recorded():
        left = spark_context.getLocalProperty(spark_writes.PROPERTY)
        java: Any = spark.range(2)._jdf
        java.write().parquet(f"{tmp_path}/in time")
    assert left is not None
    # As a thread of the JVM does that inherited the property.
    spark_context.setLocalProperty(spark_writes.PROPERTY, left)
    java.write().parquet(f"{tmp_path}/later")
    spark_context.setLocalProperty(spark_writes.PROPERTY, None)  # type: ignore[arg-type]
    (one,) = writes.close()
    assert f"to file:{tmp_path}/later" in one


def test_a_write_is_told_by_what_its_plan_says() -> None:
    def text(plan: str, calls: str = "") -> str:
        line = ["", "5", "3", "1", plan, "save at X.java:1", calls]
        return StageWrite.of("\u0001".join(line)).text

    assert text("Execute InsertIntoHadoopFsRelationCommand s3a://b/p, false") == (
        "a write to s3a://b/p (Spark's stage 3, save at X.java:1)"
    )
    saved = "Execute SaveIntoDataSourceCommand DeltaDataSource@1, Map(path -> /t), Append"
    assert "a write to /t (" in text(saved)
    assert "a write to a.b.c (" in text("AppendData `a`.`b`.`c`")
    assert "a write by Execute MergeIntoCommand (" in text("Execute MergeIntoCommand (x)")
    assert "a write by saveAsTextFile (" in text(
        "", "X$.write(X.scala) Y.saveAsFile(Y.scala) JavaRDDLike.saveAsTextFile(JavaRDDLike.scala)"
    )


@pytest.mark.skipif(IN_35, reason="Spark 3.5 has another compiler")
def test_the_listeners_class_is_what_its_source_says(spark_context: SparkContext) -> None:
    module = Path(spark_writes.__file__).with_name("SparkWrites.class")
    assert module.read_bytes() == compiled(spark_context), "run `make listener`"
