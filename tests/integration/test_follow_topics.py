"""Records of Kafka that are followed through streaming queries: all that becomes of them is told, and nothing else."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic

from tests.support.api_server import serving
from tests.support.fetched_jars import fetched_jars
from tests.support.job_runs import CLI, STORE, environment, run_plain, write_job
from tests.support.servers import KafkaUnderTest
from tests.support.versions import only_in
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import HERE

pytestmark = [pytest.mark.integration, only_in("a connector for Kafka", "4.1")]

ORDERS = "orders.followed"
SECONDS_MAX = 300.0


@pytest.fixture(scope="module", params=["few", pytest.param("all", marks=pytest.mark.long)])
def said(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, kafka: KafkaUnderTest
) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("followed")
    script, store = str(HERE / "follow_topics_job.py"), f"sqlite:///{home / STORE}"
    kafka.delete_topics(ORDERS)
    done = run_plain(home, script, store, kafka.bootstrap, request.param, env=reaching(home, kafka))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((home / "followed.json").read_text())
    return found | {"is_all": request.param == "all"}


def reaching(home: Path, kafka: KafkaUnderTest) -> dict[str, str]:
    """Settings of a Spark that has the connector, and reaches Kafka."""
    jars = ",".join(map(str, sorted(fetched_jars(HERE / "topics").glob("*.jar"))))
    (home / "conf").mkdir()
    (home / "conf/spark-defaults.conf").write_text(f"{SMALL_SPARK}spark.jars {jars}\n")
    return {
        "SPARK_CONF_DIR": str(home / "conf"),
        "LINEAGE_TOPICS_SERVERS": kafka.bootstrap,
        "LINEAGE_TRACING_NETWORK": "true",
    }


def test_each_record_goes_into_just_the_rows_that_name_it(said: dict[str, Any]) -> None:
    assert len(said["followed"]) == (5 if said["is_all"] else 3)
    for place, answer in said["followed"].items():
        expected = [
            [name, row]
            for name, rows in said["rows"].items()
            for row in rows
            if place in (row.get("origin"), *row.get("of", ()))
        ]
        told = [[name, row] for name, row, *_ in answer["rows"]]
        told, expected = (sorted(rows, key=json.dumps) for rows in (told, expected))
        assert told == expected, (place, answer)
        assert not answer["gaps"], (place, answer)
        assert all(is_placed and is_exact for *_, is_placed, is_exact in answer["rows"])


def test_when_nothing_more_can_come_is_known(said: dict[str, Any]) -> None:
    in_latest = {row["origin"] for row in said["rows"].get("latest", ())}
    in_windows = {place for row in said["rows"]["windows"] for place in row["of"]}
    late = {place for place, answer in said["followed"].items() if answer["late"]}
    # It came behind all others, into a window that had been given.
    assert late == {said["late"]}
    assert not late & in_windows
    for place, answer in said["followed"].items():
        assert ("windows" in answer["done"]) == (place in in_windows | late), (place, answer)
        assert ("windows" in answer["open"]) != ("windows" in answer["done"])
        if place == said["late"] and not said["is_all"]:
            assert "no recorded batch that gave rows has read it" in answer["open"]["plain"]
            continue
        assert "has read it and is committed" in answer["done"]["plain"]
        if not said["is_all"]:
            continue
        expected = "has read it" if place in in_latest else "it never reads it: it reads partition"
        assert expected in answer["done"]["latest"], (place, answer)
        assert "marked" not in {**answer["done"], **answer["open"]}
        # Both streams have read it in one batch: whether one of them reads it again is not known.
        assert "another stream of the query may read it" in answer["open"]["twice"]


def test_a_record_that_is_not_there_yet_is_named(said: dict[str, Any]) -> None:
    assert "is not there yet: the partition ends at" in said["absent"]["note"]
    assert (said["absent"]["rows"], said["absent"]["gaps"]) == ([], {})
    assert "no recorded batch that gave rows has read it" in said["absent"]["open"]["plain"]


@pytest.mark.parametrize("said", [pytest.param("all", marks=pytest.mark.long)], indirect=True)
def test_a_record_may_be_named_with_its_servers(said: dict[str, Any]) -> None:
    assert said["full"] == said["followed"][f"{ORDERS}[0]@0"]


@pytest.mark.parametrize("said", [pytest.param("all", marks=pytest.mark.long)], indirect=True)
def test_records_that_are_not_there_are_named(said: dict[str, Any]) -> None:
    assert "a mark of a transaction is there" in said["mark"]["note"]
    assert "marks of transactions" in said["mark"]["gaps"]["marked"]
    no_topic, no_partition, elsewhere = (answer["refused"] for answer in said["refused"])
    assert "there is no such topic" in no_topic
    assert "has no partition 7: there are 2" in no_partition
    assert "is of other servers" in elsewhere
    assert "is gone: Kafka holds the partition from 2 on" in said["gone"]["note"]
    assert "no longer holds the offsets" in said["gone"]["gaps"]["plain"]


@pytest.mark.parametrize("said", [pytest.param("all", marks=pytest.mark.long)], indirect=True)
def test_a_topic_that_was_made_anew_is_another(said: dict[str, Any]) -> None:
    assert "is another topic: it was made anew" in said["remade"]
    # What the queries have read had this place, and is not said to be of the topic that is followed.
    assert (said["other"]["rows"], said["other"]["done"]) == ([], {})
    assert "when another topic had the name" in said["other"]["gaps"]["plain"]


RUNNING = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", sys.argv[1])
read = read.option("subscribe", sys.argv[2]).option("startingOffsets", "earliest")
lines = read.load().selectExpr("CAST(value AS string) AS value", "offset")
query = lines.writeStream.format("json").option("path", "out").option("checkpointLocation", "c").start()
while not Path("stop").exists():
    query.awaitTermination(0.2)
query.stop()
"""


@pytest.mark.long
def test_a_record_that_comes_is_told_while_its_query_runs(
    tmp_path: Path, kafka: KafkaUnderTest
) -> None:
    topic, settings = "running.followed", reaching(tmp_path, kafka)
    admin = kafka.admin()
    for created in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        created.result()
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    producer.produce(topic, "first")
    producer.flush(60)
    write_job(tmp_path, RUNNING)
    env = environment(settings)
    command = [*CLI, "run", "job.py", kafka.bootstrap, topic]
    with (tmp_path / "job.log").open("w") as log:
        job = subprocess.Popen(command, cwd=tmp_path, env=env, stdout=log, stderr=log)
        try:
            events = list(_followed(tmp_path, f"{topic}[0]@1", env, producer, topic))
            (tmp_path / "stop").touch()
            assert job.wait(SECONDS_MAX) == 0, (tmp_path / "job.log").read_text()
        finally:
            job.kill()
            job.wait()
    kinds = [event["event"] for event in events if event["event"] not in {"waiting", "note"}]
    assert kinds == ["read", "row", "made", "done", "end"], events
    (row,) = [event for event in events if event["event"] == "row"]
    assert json.loads(row["text"]) == {"value": "second", "offset": 1}
    assert (row["exact"], row["committed"]) == (True, True)
    assert (events[-1]["done"], events[-1]["complete"]) == (True, True)
    notes = [event["text"] for event in events if event["event"] == "note"]
    assert any("is not there yet: the partition ends at 1" in note for note in notes), events
    over_http = _over_http(tmp_path, settings, f"{topic}[0]@1")
    assert [event for event in over_http if event["event"] == "row"] == [row]
    assert over_http[-1]["done"]


def _followed(
    folder: Path, place: str, env: dict[str, str], producer: Producer, topic: str
) -> Iterator[dict[str, Any]]:
    """The events of a record, which is sent once its query is waited for."""
    command = [*CLI, "follow", place, "--json", "--wait", f"{SECONDS_MAX:g}"]
    with (folder / "follow.log").open("w") as log:
        follow = subprocess.Popen(
            command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=log, text=True
        )
        timer = threading.Timer(SECONDS_MAX, follow.kill)
        timer.start()
        try:
            assert follow.stdout is not None
            for line in follow.stdout:
                event = json.loads(line)
                if event["event"] == "waiting":
                    producer.produce(topic, "second")
                    producer.flush(60)
                yield event
            assert follow.wait(60) == 0, (folder / "follow.log").read_text()
        finally:
            timer.cancel()
            follow.kill()
            follow.wait()


def _over_http(folder: Path, settings: dict[str, str], place: str) -> list[dict[str, Any]]:
    given = {"api_roots": str(folder), "spark_master": "local[1]", "api_query_s": 500}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        with (
            serving(f"sqlite:///{folder / STORE}", **given) as address,
            httpx.Client(base_url=address, timeout=600) as client,
        ):
            text = client.get("/v1/follow", params={"place": place}).text
    lines = [line for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines]
