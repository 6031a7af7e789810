"""What a chart runs besides the services: topics, schema and the test of an installation, on real servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from lineage.stack.kafka_server import create_topics
from lineage_kafka.topics import RECORD_BYTES_MAX, Topics
from lineage_query_api.auth import new_token
from lineage_store.neo4j.connection import Connection, read_address
from lineage_store.neo4j.schema import STEPS, version_of
from tests.support.api_server import serving
from tests.support.pipeline import pipeline
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest, RedisUnderTest

pytestmark = pytest.mark.integration

TRACE = Path(__file__).parents[2] / "charts/lineage-master/files/trace.py"


def run(*words: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program with these settings, as a container does."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LINEAGE_")}
    return subprocess.run(
        [sys.executable, *words],
        env=kept | settings,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def logged(done: subprocess.CompletedProcess[str]) -> Mapping[str, object]:
    """The last event of a program's log."""
    last: Mapping[str, object] = json.loads(done.stderr.splitlines()[-1])
    return last


@pytest.mark.long
def test_topics_are_made_once_and_then_left_alone(kafka: KafkaUnderTest) -> None:
    topics = Topics("setup-")
    # One is there before, with another number of partitions: jobs may rely on it.
    create_topics(kafka.admin(), {topics.flow: 2})
    program = ("-m", "lineage_linker.topics", "--partitions=5")
    settings = {"LINEAGE_KAFKA": kafka.bootstrap, "LINEAGE_TOPIC_PREFIX": topics.prefix}
    try:
        first, second = (run(*program, **settings) for _ in range(2))
        assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
        assert logged(first)["made"] == sorted({topics.edge, topics.node, topics.dead_letter})
        assert logged(second)["made"] == []
        found = kafka.admin().list_topics(timeout=30).topics
        partitions = {name: len(found[name].partitions) for name in topics.all()}
        assert partitions == {**topics.partitions(5), topics.flow: 2}
        assert limit_of(kafka, topics.edge) == str(RECORD_BYTES_MAX)
    finally:
        kafka.delete_topics(topics.prefix)


def limit_of(kafka: KafkaUnderTest, topic: str) -> str:
    """The longest record that a topic takes."""
    from confluent_kafka.admin._config import ConfigResource
    from confluent_kafka.admin._resource import ResourceType

    admin = kafka.admin()
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)])
    return str(next(iter(asked.values())).result()["max.message.bytes"].value)


def test_a_topic_that_is_refused_is_named(kafka: KafkaUnderTest) -> None:
    settings = {"LINEAGE_KAFKA": kafka.bootstrap, "LINEAGE_TOPIC_PREFIX": "copies-"}
    refused = run("-m", "lineage_linker.topics", "--replication=3", **settings)
    assert refused.returncode == 1
    assert "topic copies-lineage-" in str(logged(refused)["reason"])
    assert "replication factor" in str(logged(refused)["reason"]).lower()


@pytest.mark.parametrize(
    ("program", "settings", "code", "reason"),
    [
        ("lineage_linker.topics", {}, 2, "LINEAGE_KAFKA is not set"),
        ("lineage_linker.topics", {"LINEAGE_KAFKA": "127.0.0.1:1"}, 1, "see whether Kafka runs"),
        ("lineage_writer.migrating", {}, 2, "LINEAGE_STORE is not set"),
        (
            "lineage_writer.migrating",
            {"LINEAGE_STORE": "neo4j://127.0.0.1:1"},
            1,
            "neo4j://127.0.0.1:1",
        ),
    ],
)
def test_what_is_wrong_is_said(
    program: str, settings: dict[str, str], code: int, reason: str
) -> None:
    done = run("-m", program, **settings)
    assert done.returncode == code
    assert reason in str(logged(done)["reason"])


def test_the_schema_is_made_twice_without_harm(neo4j: Neo4jUnderTest) -> None:
    neo4j.clear()
    made = [run("-m", "lineage_writer.migrating", "--wait=30", **neo4j.settings) for _ in range(2)]
    assert [one.returncode for one in made] == [0, 0], made[0].stderr + made[1].stderr
    connection = Connection(
        read_address(neo4j.settings["LINEAGE_STORE"], environment=neo4j.settings)
    )
    assert version_of(connection) == len(STEPS)
    connection.close()


def test_the_test_of_an_installation_sends_and_traces(
    tmp_path: Path,
    kafka: KafkaUnderTest,
    redis_server: RedisUnderTest,
    neo4j: Neo4jUnderTest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    token, lines = new_token("helm test", "reader", rows=True, delete=True)
    (tmp_path / "token").write_text(token)
    (tmp_path / "tokens.toml").write_text(lines)
    for name, value in neo4j.settings.items():
        monkeypatch.setenv(name, value)
    with (
        pipeline(tmp_path, kafka, redis_server, neo4j) as running,
        serving(neo4j.uri, api_tokens=tmp_path / "tokens.toml") as address,
    ):
        settings = running.settings | {
            "LINEAGE_ON_ERROR": "fail",
            "TEST_URL": address,
            "TEST_TOKEN_FILE": str(tmp_path / "token"),
        }
        done = run(str(TRACE), **settings, TEST_WAIT_S="100")
        assert done.returncode == 0, done.stderr
        assert "traces to its 3 sources" in done.stdout
        with running.store() as store:
            assert not store.application_ids(), "it leaves nothing behind"

        # Nobody links: it has to fail, and to say where to look.
        for service in running.services:
            service.stop()
        failed = run(str(TRACE), **settings, TEST_WAIT_S="2")
        assert failed.returncode == 1
        assert "logs of linker and writer" in failed.stderr
