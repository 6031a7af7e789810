"""The writer over real servers: nothing lost, nothing twice, whatever is killed."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from benchmarks.kafka import committed
from lineage_core.contract.message import DeadLetter, Register, dump_message
from lineage_kafka.topics import RECORD_BYTES_MAX, Topics
from lineage_openlineage.facts import run_id
from lineage_store.dump import dump_application
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.edge_log import EdgeLog, disordered, word_count_log
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest
from tests.support.stores import empty_neo4j
from tests.support.writer_process import WriterProcess, dead_letters, ends, send, wait_until

pytestmark = pytest.mark.integration

PARTITIONS = 4
MakeWriter = Callable[..., WriterProcess]


@pytest.fixture
def store(neo4j: Neo4jUnderTest) -> Iterator[Neo4jStore]:
    with empty_neo4j(neo4j) as opened:
        yield opened


@pytest.fixture
def make_writer(
    kafka: KafkaUnderTest, neo4j: Neo4jUnderTest, kafka_topics: Topics, tmp_path: Path
) -> Iterator[MakeWriter]:
    made: list[WriterProcess] = []

    def make(**settings: Any) -> WriterProcess:
        folder = tmp_path / f"writer-{len(made)}"
        made.append(WriterProcess(kafka, neo4j, kafka_topics, folder, **settings))
        made[-1].start()
        return made[-1]

    yield make
    for writer in made:
        writer.close()


class Stored:
    """How far the store is with a topic."""

    def __init__(self, kafka: KafkaUnderTest, store: Neo4jStore, topics: Topics) -> None:
        self._kafka = kafka
        self._store = store
        self._topics = topics

    def offsets(self) -> list[int]:
        group = f"{self._topics.prefix}writer"
        return [self._store.offset(group, self._topics.edge, at) or 0 for at in range(PARTITIONS)]

    def wait(self, limit_s: float = 120.0) -> None:
        wanted = ends(self._kafka, self._topics.edge, PARTITIONS)
        wait_until(lambda: self.offsets() == wanted, f"{wanted} are to be stored", limit_s)


@pytest.fixture
def stored(kafka: KafkaUnderTest, store: Neo4jStore, kafka_topics: Topics) -> Stored:
    return Stored(kafka, store, kafka_topics)


def assert_same(store: Neo4jStore, logs: list[EdgeLog], folder: Path) -> None:
    """The store holds what writing the logs' content gives, byte for byte."""
    with SqliteStore(folder / "expected.db") as expected:
        for log in logs:
            log.store(expected)
            assert list(dump_application(store, log.app)) == list(
                dump_application(expected, log.app)
            )


def test_records_in_order_become_the_graph(
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    store: Neo4jStore,
    stored: Stored,
    make_writer: MakeWriter,
    tmp_path: Path,
) -> None:
    log = word_count_log("app-1", 1)
    send(kafka, kafka_topics.edge, log.keyed)
    writer = make_writer()
    stored.wait()
    assert_same(store, [log], tmp_path)
    writer.wait_ready()
    assert writer.get("/healthz")[0] == 200
    assert writer.metric("messages_total") == len(log.records)
    assert writer.metric("bytes_total") == sum(map(len, log.records))
    assert writer.metric("blocks_total") == len(log.blocks)
    assert writer.metric("edges_total") == sum(edge.pairs for edge in log.edges)
    assert writer.metric("latency_seconds_count") == len(log.records)
    wait_until(
        lambda: (
            writer.metric("lag_messages", '{partition="0"}') == 0
            and 'lag_messages{partition="0"}' in writer.get("/metrics")[1]
        ),
        "the lag is measured",
    )
    code, seconds = writer.stop()
    assert (code, seconds < 10) == (0, True)
    edges = [TopicPartition(kafka_topics.edge, 0)]
    assert committed(kafka.bootstrap, f"{kafka_topics.prefix}writer", edges) == [len(log.records)]


@pytest.mark.parametrize("seed", [pytest.param(1, marks=pytest.mark.long), 2])
def test_writers_that_are_killed_lose_and_repeat_nothing(
    seed: int,
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    store: Neo4jStore,
    stored: Stored,
    make_writer: MakeWriter,
    tmp_path: Path,
) -> None:
    """Two writers, any order over all partitions, repetitions; each kill and start rebalances."""
    rng = random.Random(seed)
    logs = [word_count_log(f"app-{at}", 10 * seed + at, maps=4, blocks=6) for at in range(3)]
    records = [one for log in logs for one in disordered(log, seed)]
    rng.shuffle(records)
    events = tmp_path / "events.ndjson"
    settings: dict[str, Any] = {"batch_rows": 5, "batch_wait_s": 0.0, "session_s": 6}
    settings["openlineage_file"] = events
    writers = [make_writer(**settings) for _ in range(2)]
    part = len(records) // 4 + 1
    for at in range(0, len(records), part):
        send(kafka, kafka_topics.edge, records[at : at + part], lambda _: rng.randrange(PARTITIONS))
        before = sum(stored.offsets())
        wait_until(lambda: sum(stored.offsets()) > before, "something is stored")  # noqa: B023
        time.sleep(rng.uniform(0, 0.3))
        struck = rng.choice(writers)
        struck.kill()
        struck.start()
    stored.wait()
    assert_same(store, logs, tmp_path)
    assert sum(stored.offsets()) == len(records)
    # Who was killed with a claim in hand is waited for until that runs out.
    wait_until(lambda: not store.published_runs().unpublished(), "all are told of", 300)
    told: dict[str, list[str]] = {}
    for line in events.read_text().splitlines():
        event = json.loads(line)
        told.setdefault(event["run"]["runId"], []).append(event["eventType"])
    assert told.keys() == {str(run_id(log.app)) for log in logs}
    # What had no end yet was silent for too long (the clock of these logs stands): it came, and counts.
    assert {tuple(kinds[-2:]) for kinds in told.values()} == {("START", "COMPLETE")}


@pytest.mark.long
def test_neo4j_and_kafka_may_be_killed(
    kafka: KafkaUnderTest,
    neo4j: Neo4jUnderTest,
    kafka_topics: Topics,
    store: Neo4jStore,
    stored: Stored,
    make_writer: MakeWriter,
    tmp_path: Path,
) -> None:
    logs = [word_count_log(f"app-{at}", at) for at in range(2)]
    writer = make_writer(batch_rows=5)
    writer.wait_ready()
    for log, server in zip(logs, (neo4j, kafka), strict=True):
        send(kafka, kafka_topics.edge, disordered(log, 1), lambda number: number % PARTITIONS)
        with server.down():
            wait_until(lambda: not writer.is_ready(), "the writer notices")
            assert writer.get("/healthz")[0] == 200
        stored.wait()
        writer.wait_ready()
    assert_same(store, logs, tmp_path)
    assert dead_letters(kafka, kafka_topics) == []
    assert writer.stop()[0] == 0


def test_stopping_in_time_while_neo4j_hangs(
    kafka: KafkaUnderTest,
    neo4j: Neo4jUnderTest,
    kafka_topics: Topics,
    store: Neo4jStore,
    stored: Stored,
    make_writer: MakeWriter,
    tmp_path: Path,
) -> None:
    log = word_count_log("app-1", 1)
    writer = make_writer(batch_rows=5)
    writer.wait_ready()
    with neo4j.paused():
        send(kafka, kafka_topics.edge, log.keyed)
        wait_until(lambda: not writer.is_ready(), "the writer notices")
        code, seconds = writer.stop()
        assert (code, seconds < 10) == (0, True), writer.log_text()
    writer.start()
    stored.wait()
    assert_same(store, [log], tmp_path)


def test_poison_does_not_stop_a_partition(
    kafka: KafkaUnderTest,
    neo4j: Neo4jUnderTest,
    kafka_topics: Topics,
    store: Neo4jStore,
    stored: Stored,
    make_writer: MakeWriter,
) -> None:
    log = word_count_log("app-1", 1)
    rng = random.Random(7)
    # Well formed, and refused when it is stored.
    first, refused = (
        dump_message(Register(app="app-1", node=node, kind="source", op="o", path="once")).encode()
        for node in ("90", "91")
    )
    poison: list[tuple[bytes | None, bytes | None]] = [
        (b"app-1", b"not a frame"),
        (b"\xff", rng.randbytes(10_000)),
        (b"app-1", log.records[0][:-5]),
        (b"app-1", None),
        (b"app-1", refused),
        (b"app-1", rng.randbytes(RECORD_BYTES_MAX - 1_024)),
    ]
    keyed = list(log.keyed)
    keyed.insert(10, (b"app-1", first))
    records = [*keyed[:10], *poison[:3], *keyed[10:20], *poison[3:], *keyed[20:]]
    send(kafka, kafka_topics.edge, records)
    with neo4j.driver() as driver:
        driver.execute_query(
            "CREATE CONSTRAINT one_path FOR (n:LineageNode) REQUIRE n.path IS UNIQUE"
        )
        try:
            writer = make_writer()
            stored.wait()
        finally:
            driver.execute_query("DROP CONSTRAINT one_path")
    found = dead_letters(kafka, kafka_topics)
    assert {dead.place.offset: dead.app for dead, _ in found} == {
        offset: "" if offset == 11 else "app-1" for offset in (10, 11, 12, 23, 24, 25)
    }
    values = {dead.place.offset: (dead, value) for dead, value in found}
    for offset in (10, 11, 12, 24):
        assert values[offset][1] == records[offset][1]
    assert "refused by the store" in values[24][0].reason
    large = values[25][0]
    assert (large.size, large.cut) == (RECORD_BYTES_MAX - 1_024, values[25][1] is None)
    told = [one for one in store.messages("app-1") if isinstance(one, DeadLetter)]
    assert {one.place for one in told} == {
        f"{kafka_topics.edge}/0/{offset}" for offset in (10, 12, 23, 24, 25)
    }
    assert {one.rows for one in store.graph("app-1").blocks()} == {one.rows for one in log.blocks}
    assert writer.metric("dead_letters_total") == 6
    writer.stop()
    shown = [one for one in writer.events() if one["event"] == "dead_letter"]
    assert sorted(one["offset"] for one in shown) == [10, 11, 12, 23, 24, 25]


def test_secrets_are_in_no_log_and_no_process_list(
    kafka: KafkaUnderTest,
    neo4j: Neo4jUnderTest,
    kafka_topics: Topics,
    store: Neo4jStore,
    make_writer: MakeWriter,
) -> None:
    writer = make_writer()
    writer.wait_ready()
    command = Path(f"/proc/{writer.pid}/cmdline").read_bytes().decode()
    writer.stop()
    assert neo4j.password not in command + writer.log_text()
    assert json.loads(writer.log_text().splitlines()[0])["event"] == "writer_started"
