"""Streaming queries over topics of Kafka: their rows go back to the very records, which the rows themselves name."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from lineage_core.recipe.document import Output, Recipe
from lineage_emitter.dataframes.streams import OTHER_RUN
from lineage_store.url import open_store
from tests.support.fetched_jars import fetched_jars
from tests.support.job_runs import STORE, graph, judged, run_captured, run_plain, write_job
from tests.support.servers import KafkaUnderTest
from tests.support.versions import only_in
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import HERE

pytestmark = [pytest.mark.integration, pytest.mark.long, only_in("a connector for Kafka", "4.1")]

ORDERS = "orders.of-streams"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaUnderTest) -> Path:
    """Where the queries have run."""
    home = tmp_path_factory.mktemp("topics")
    conf = with_connector(home)
    script, store = str(HERE / "stream_topics_job.py"), f"sqlite:///{home / STORE}"
    settings = {
        "SPARK_CONF_DIR": str(conf),
        "LINEAGE_TOPICS_SERVERS": kafka.bootstrap,
    }
    done = run_plain(home, script, store, kafka.bootstrap, env=settings)
    assert done.returncode == 0, done.stderr
    return home


@pytest.fixture(scope="module")
def said(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "streams.json").read_text())
    return found


def recipes(folder: Path, app: str, output: str) -> list[Recipe]:
    """Those of the batches that wrote to a folder."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        read = store.graph(app)
        texts = [read.recipe(node.node) for node in read.nodes()]
    found = [Recipe.from_json(text) for text in texts if text is not None]
    return [recipe for recipe in found if Path(recipe.output.path or "").name == output]


def test_all_is_recorded(folder: Path, said: dict[str, Any]) -> None:
    verdict = judged(folder, said["app"])
    assert verdict.complete, verdict
    numbers = [
        recipe.batch.number for recipe in recipes(folder, said["app"], "plain") if recipe.batch
    ]
    assert numbers == [0, 1, 2, 3]


@pytest.mark.parametrize("name", ["plain", "both", "each", "batch"])
def test_a_row_goes_back_to_the_record_that_it_names(said: dict[str, Any], name: str) -> None:
    assert said["back"][name]
    for row, answer in said["back"][name]:
        assert (answer.get("found"), answer.get("exact")) == ([row["origin"]], True), answer


def test_a_group_of_a_window_goes_back_to_its_records(said: dict[str, Any]) -> None:
    assert said["back"]["windows"]
    for row, answer in said["back"]["windows"]:
        assert (answer.get("found"), answer.get("exact")) == (sorted(row["of"]), True), answer


def test_a_record_goes_forward_into_every_row_that_names_it(said: dict[str, Any]) -> None:
    for place, answer in said["forward"].items():
        expected = sorted(
            location
            for name in ("plain", "both", "each", "batch", "windows")
            for location, row in said[name]
            if place in (row.get("origin"), *row.get("of", ()))
        )
        assert expected
        assert (answer.get("found"), answer.get("exact")) == (expected, True), answer
    assert "no row of the source has these values" in said["missing"]["refused"]


def test_records_that_are_gone_are_named(said: dict[str, Any]) -> None:
    first, last = said["gone"]
    assert f"{ORDERS} no longer holds the offsets 0:0-2 of" in first["refused"]
    # The batch of the last row read none of these.
    assert last["exact"]
    assert "there is no such topic" in said["deleted"]["refused"]
    assert "is another topic: it was made anew" in said["remade"]["refused"]


def test_a_plan_is_made_once_a_run(folder: Path, said: dict[str, Any]) -> None:
    """Of the options of the stream no others than those that name the records are recorded."""
    recorded = recipes(folder, said["app"], "plain")
    plans = {
        replace(recipe, sources=(), output=Output(), batch=None).to_json()
        for recipe in recorded[:3]
    }
    assert len(plans) == 1
    for recipe in recorded:
        (source,) = recipe.sources
        assert set(source.options) == {"servers", "topic", "id", "isolation"}
        assert "not-to-be-recorded" not in recipe.to_json()


KILLED = """
import os, signal, sys
from pathlib import Path
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", sys.argv[1])
read = read.option("subscribe", sys.argv[2]).option("startingOffsets", "earliest")
lines = read.option("maxOffsetsPerTrigger", 4).load().selectExpr("CAST(value AS string) AS value")
writer = lines.writeStream.format("json").option("path", "out")
writer = writer.option("checkpointLocation", "checkpoint")
query = writer.start()
if Path("again").exists():
    # Spark 4.1 ends a query of Kafka whose first batch is one that is run again, behind its commit.
    try:
        query.processAllAvailable()
    except StreamingQueryException:
        query = writer.start()
        query.processAllAvailable()
    query.stop()
    sys.exit()
query.processAllAvailable()
Path("checkpoint/commits/1").mkdir()  # where the commit of the next batch would go
numbers = spark.range(4, 8).selectExpr("CAST(id AS string) AS value").coalesce(1)
numbers.write.format("kafka").option("kafka.bootstrap.servers", sys.argv[1]).option("topic", sys.argv[2]).save()
try:
    query.awaitTermination()
except StreamingQueryException:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_a_batch_that_is_run_again_has_the_same_offsets(
    tmp_path: Path, kafka: KafkaUnderTest
) -> None:
    """Killed between the commits of the sink and of the query: the batch is the same, and its rows are an earlier run's."""
    topic = "killed.of-streams"
    admin = kafka.admin()  # what it begins ends with it
    for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        created.result()
    settings = {"SPARK_CONF_DIR": str(with_connector(tmp_path))}
    write_job(tmp_path, KILLED)
    produce(kafka, topic, 4)
    killed = run_captured(tmp_path, "job.py", kafka.bootstrap, topic, env=settings)
    assert killed.returncode == 128 + signal.SIGKILL, killed.stderr
    assert (tmp_path / "out/_spark_metadata/1").is_file()
    (tmp_path / "checkpoint/commits/1").rmdir()
    produce(kafka, topic, 3)
    (tmp_path / "again").touch()
    done = run_captured(tmp_path, "job.py", kafka.bootstrap, topic, env=settings)
    assert done.returncode == 0, done.stderr
    again, new = recipes(tmp_path, graph(tmp_path)["app"], "out")
    assert (again.batch, new.batch) != (None, None)
    assert [r.batch.number for r in (again, new) if r.batch is not None] == [1, 2]
    assert [recipe.sources[0].version for recipe in (again, new)] == ["0:4-8", "0:8-11"]
    assert (again.opaque(), new.opaque()) == ([f"Batch: {OTHER_RUN}"], [])


def produce(kafka: KafkaUnderTest, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(count):
        producer.produce(topic, f"{number}")
    producer.flush(60)


def with_connector(home: Path) -> Path:
    """Settings of a Spark that has the connector."""
    jars = ",".join(map(str, sorted(fetched_jars(HERE / "topics").glob("*.jar"))))
    (home / "conf").mkdir()
    (home / "conf/spark-defaults.conf").write_text(f"{SMALL_SPARK}spark.jars {jars}\n")
    return home / "conf"
