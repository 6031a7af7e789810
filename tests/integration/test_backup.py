"""Neo4j from a backup, as the guide tells: the writer reads on from the offsets that came with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lineage.stack import supervisor
from lineage.stack.neo4j_server import DATABASE, Neo4j
from lineage.stack.ports import free_ports
from lineage_kafka.topics import Topics
from lineage_store.dump import dump_application
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.edge_log import EdgeLog, word_count_log
from tests.support.jvm import OPTIONS
from tests.support.servers import KafkaUnderTest, Native, Neo4jUnderTest, guarded
from tests.support.stores import address_of
from tests.support.writer_process import WriterProcess, ends, send, wait_until

pytestmark = pytest.mark.integration

PARTITIONS = 4


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Neo4j]:
    """A server of this test alone, for it is stopped and its data replaced."""
    with guarded(tmp_path / "neo4j"):
        yield Neo4j(
            tmp_path / "neo4j" / "server", *free_ports(1), heap="512m", options=OPTIONS.split()
        )


@pytest.mark.long
def test_a_restored_store_is_read_on_from_its_own_offsets(
    kafka: KafkaUnderTest, kafka_topics: Topics, server: Neo4j, tmp_path: Path
) -> None:
    neo4j = Neo4jUnderTest(server, Native(server))
    before, after = word_count_log("before", 1), word_count_log("after", 2)
    backup = tmp_path / "backup"
    backup.mkdir()

    def written(*logs: EdgeLog) -> None:
        for log in logs:
            send(kafka, kafka_topics.edge, log.keyed)
        writer = WriterProcess(kafka, neo4j, kafka_topics, tmp_path / "writer")
        writer.start()
        try:
            with Neo4jStore(address_of(neo4j)) as store:
                _wait_stored(kafka, store, kafka_topics)
            assert writer.stop()[0] == 0
        finally:
            writer.close()

    neo4j.start()
    written(before)
    supervisor.stop(server)
    server.admin("database", "dump", DATABASE, f"--to-path={backup}")
    neo4j.start()
    written(after)
    supervisor.stop(server)
    load = ("database", "load", DATABASE, f"--from-path={backup}", "--overwrite-destination=true")
    server.admin(*load)
    neo4j.start()
    with Neo4jStore(address_of(neo4j)) as store:
        assert list(store.application_ids()) == [before.app]
    # Kafka was told that all is read; the store knows how far it is itself.
    written()
    with (
        Neo4jStore(address_of(neo4j)) as store,
        SqliteStore(tmp_path / "expected.db") as expected,
    ):
        assert sorted(store.application_ids()) == sorted([before.app, after.app])
        for log in (before, after):
            log.store(expected)
            wanted = list(dump_application(expected, log.app))
            assert list(dump_application(store, log.app)) == wanted


def _wait_stored(kafka: KafkaUnderTest, store: Neo4jStore, topics: Topics) -> None:
    group, wanted = f"{topics.prefix}writer", ends(kafka, topics.edge, PARTITIONS)

    def stored() -> bool:
        found = [store.offset(group, topics.edge, at) or 0 for at in range(PARTITIONS)]
        return found == wanted

    wait_until(stored, f"{wanted} are to be stored")
