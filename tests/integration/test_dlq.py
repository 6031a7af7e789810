"""Dead letters over real servers: a record that is replayed after a fix completes the graph."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.contract.dead_letter import DeadRecord, TopicPartitionOffset
from lineage_core.contract.message import DeadLetter, parse_message
from lineage_kafka.topics import Topics
from lineage_store.dump import dump_application
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import serving
from tests.support.edge_log import word_count_log
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest
from tests.support.stores import empty_neo4j
from tests.support.writer_process import WriterProcess, dead_letters, send, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def store(neo4j: Neo4jUnderTest) -> Iterator[Neo4jStore]:
    with empty_neo4j(neo4j) as opened:
        yield opened


class Person:
    """Types commands, with the settings of the servers."""

    def __init__(self, *settings: dict[str, str]) -> None:
        self.environment = {name: text for one in settings for name, text in one.items()}

    def types(self, *words: str, code: int = 0) -> Any:
        found = CliRunner().invoke(app, [*words, "--json"], env=self.environment)
        assert found.exit_code == code, found.output
        return json.loads(found.stdout)

    def reads(self, *words: str) -> str:
        found = CliRunner().invoke(app, list(words), env=self.environment)
        assert found.exit_code == 0, found.output
        return found.output


def served(person: Person, app_id: str) -> Any:
    """The dead letters of an application, as a server lists them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, text in person.environment.items():
            patch.setenv(name, text)
        with serving(person.environment["LINEAGE_STORE"]) as address:
            found = httpx.get(f"{address}/v1/dead-letters", params={"app": app_id}, timeout=60)
    assert found.status_code == 200, found.text
    return found.json()["items"]


@pytest.fixture
def person(kafka: KafkaUnderTest, neo4j: Neo4jUnderTest, kafka_topics: Topics) -> Person:
    prefix = {"LINEAGE_TOPIC_PREFIX": kafka_topics.prefix}
    return Person(kafka.settings, neo4j.settings, prefix)


@pytest.mark.long
def test_a_replay_after_a_fix_completes_the_graph(
    kafka: KafkaUnderTest,
    neo4j: Neo4jUnderTest,
    kafka_topics: Topics,
    store: Neo4jStore,
    person: Person,
    tmp_path: Path,
) -> None:
    log = word_count_log("app-1", 1)
    send(kafka, kafka_topics.edge, log.keyed)
    largest = sorted(map(len, log.records))[-3]
    broken = WriterProcess(
        kafka, neo4j, kafka_topics, tmp_path / "broken", record_bytes=largest - 1
    )
    broken.start()
    try:
        refused = [at for at, value in enumerate(log.records) if len(value) >= largest]
        wait_until(lambda: len(dead_letters(kafka, kafka_topics)) == len(refused), "dead letters")
        stored = (f"{kafka_topics.prefix}writer", kafka_topics.edge, 0)
        wait_until(lambda: store.offset(*stored) == len(log.records), "all is stored")
        verdict = person.types("verify", "app-1", "--wait", "--timeout", "1", code=1)
        assert (verdict["complete"], verdict["final"]) == (False, False)
        assert verdict["dead_letters"] == len(refused)
        absent = person.types("verify", "app-2", "--wait", "--timeout", "1", code=1)
        assert "nothing has arrived yet" in absent["error"]["message"]
        listed = person.types("dlq", "list", "--app", "app-1")
        assert [one["place"] for one in listed] == [
            f"{kafka_topics.edge}/0/{offset}" for offset in refused
        ]
        assert all("at most" in one["reason"] for one in listed)
        assert person.types("dlq", "list", "--app", "another") == []
        assert served(person, "app-1") == listed
        assert served(person, "another") == []
        shown = person.types("dlq", "show", listed[0]["letter"])
        assert shown["header"]["app"] == "app-1"
        assert shown["size"] == len(log.records[refused[0]])
        assert person.types("dlq", "show", listed[0]["place"]) == shown
        assert "at most" in person.reads("dlq", "show", "0")
        assert "writer" in person.reads("dlq", "list")

        # Without a fix they are dead letters again, under new places.
        person.types("dlq", "replay", listed[0]["letter"])
        wait_until(lambda: len(person.types("dlq", "list")) == len(refused), "one came back")
        assert listed[0] not in person.types("dlq", "list")
    finally:
        broken.kill()
    mended = WriterProcess(kafka, neo4j, kafka_topics, tmp_path / "mended")
    mended.start()
    try:
        assert len(person.types("dlq", "replay", "--all")["replayed"]) == len(refused)
        assert person.types("dlq", "list") == []
        assert person.types("dlq", "replay", "--all") == {"replayed": []}
        assert person.types("dlq", "replay", listed[0]["place"]) == {"replayed": []}
        verdict = person.types("verify", "app-1", "--wait", "--timeout", "60")
        assert verdict["complete"]
        assert verdict["dead_letters"] == 0
    finally:
        mended.close()
    with SqliteStore(tmp_path / "expected.db") as expected:
        log.store(expected)
        letters = ('{"message":{"app":"app-1","place"',)
        found = [one for one in dump_application(store, "app-1") if not one.startswith(letters)]
        assert found == list(dump_application(expected, "app-1"))


@pytest.mark.long
def test_what_the_linker_could_not_use_goes_back_to_it(
    kafka: KafkaUnderTest, kafka_topics: Topics, person: Person
) -> None:
    dead = DeadRecord(
        TopicPartitionOffset(kafka_topics.flow, 3, 17), "bad", "linker", 1.0, "app-1", 4
    )
    foreign = DeadRecord(
        TopicPartitionOffset("somebody-else", 0, 1), "bad", "linker", 1.0, "app-1", 4
    )
    for one in (dead, dead):
        _bury(kafka, kafka_topics, one, b"four")
    (listed,) = person.types("dlq", "list")
    assert (listed["letter"], listed["service"], listed["size"]) == ("0", "linker", 4)
    person.types("dlq", "replay", f"{kafka_topics.flow}/3/17")
    assert read(kafka, kafka_topics.flow, 3) == [(b"app-1", b"four")]
    ((key, told),) = read(kafka, kafka_topics.node, 0)
    assert key == b"app-1"
    assert parse_message(told or b"") == DeadLetter(
        app="app-1", place=str(dead.place), reason="bad", resolved=True
    )
    _bury(kafka, kafka_topics, foreign, b"four")
    problem = person.types("dlq", "replay", "--all", code=2)
    assert "no topic of the pipeline" in problem["error"]["message"]
    missing = person.types("dlq", "show", "99", code=2)
    assert "no dead letter" in missing["error"]["message"]


def test_a_value_that_could_not_come_along_is_read_where_it_was(
    kafka: KafkaUnderTest, kafka_topics: Topics, person: Person
) -> None:
    send(kafka, kafka_topics.edge, [(b"app-1", b"first"), (b"app-1", b"second")])
    cut = DeadRecord(
        TopicPartitionOffset(kafka_topics.edge, 0, 1), "bad", "writer", 1.0, "app-1", 6, cut=True
    )
    _bury(kafka, kafka_topics, cut, None)
    person.types("dlq", "replay", "0")
    assert read(kafka, kafka_topics.edge, 0)[2] == (b"app-1", b"second")
    gone = DeadRecord(
        TopicPartitionOffset(kafka_topics.edge, 0, 99), "bad", "writer", 1.0, "app-1", 6, cut=True
    )
    _bury(kafka, kafka_topics, gone, None)
    problem = person.types("dlq", "replay", "--all", code=2)
    assert "no longer holds" in problem["error"]["message"]


def _bury(kafka: KafkaUnderTest, topics: Topics, dead: DeadRecord, value: bytes | None) -> None:
    send(kafka, topics.dead_letter, [(b"app-1", value)], headers=dead.headers())


def read(
    kafka: KafkaUnderTest, topic: str, partition: int
) -> list[tuple[bytes | str | None, bytes | str | None]]:
    """(key, value) of all records of a partition."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "test"})
    try:
        place = TopicPartition(topic, partition, 0)
        low, high = consumer.get_watermark_offsets(place, timeout=30)
        consumer.assign([place])
        return [(one.key(), one.value()) for one in consumer.consume(high - low, timeout=60)]
    finally:
        consumer.close()
