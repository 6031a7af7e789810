"""An erasure over Neo4j and Kafka: views and records of the pipeline's topics go, or are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.codec.edge_message import pack_stored, stored_block
from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.dead_letter import DeadRecord, TopicPartitionOffset
from lineage_core.linking.linker import TaskId
from lineage_kafka.topics import Topics
from lineage_store.copying import copy_application
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure_chains import world_of_four_rows
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest
from tests.support.stores import empty_neo4j
from tests.support.writer_process import send

pytestmark = pytest.mark.integration
LIMIT_S = 60


def records_of(store: SqliteStore, app_id: str) -> list[tuple[bytes, bytes]]:
    """Its blocks as the linker sends them."""
    graph = store.graph(app_id)
    blocks = graph.load([ref.block_id for ref in graph.blocks()])
    return [
        (
            app_id.encode(),
            pack_stored(
                stored_block(
                    app_id,
                    TaskId(block.block_id.node, block.block_id.partition, block.block_id.attempt),
                    pack_for_store(block, lambda _: False),
                )
            ),
        )
        for block in blocks.values()
    ]


def commit(kafka: KafkaUnderTest, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def first_offset(kafka: KafkaUnderTest, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "test"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[0])
    finally:
        consumer.close()


@pytest.mark.long
def test_views_and_records_go_or_are_named(
    kafka: KafkaUnderTest, neo4j: Neo4jUnderTest, kafka_topics: Topics, tmp_path: Path
) -> None:
    environment = {
        **kafka.settings, **neo4j.settings, "LINEAGE_TOPIC_PREFIX": kafka_topics.prefix,
        "XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path),
    }  # fmt: skip

    def lineage(*words: str) -> Result:
        return CliRunner().invoke(app, list(words), env=environment)

    with SqliteStore(tmp_path / "lineage.db") as local, empty_neo4j(neo4j) as store:
        world = world_of_four_rows(tmp_path, local, "copy", "count")
        first, second = sorted(local.application_ids())
        for app_id in (first, second):
            copy_application(local, store, app_id)
            assert lineage("records", "create", app_id).exit_code == 0
        assert any("r3x" in text for text in store.view_texts(first))
        sent = records_of(local, first)
        other = (b"another", sent[0][1])
        send(kafka, kafka_topics.edge, [*sent, other, *sent])
        place = TopicPartitionOffset(kafka_topics.edge, 0, 0)
        dead = DeadRecord(place, "no reason", "writer", 1.0, second, 3)
        send(kafka, kafka_topics.dead_letter, [(None, b"r3x")], headers=dead.headers())
        source = ["--source", str(world.datasets[0].path), "--where", "token = 'r3x'"]
        source += ["--format", "csv", "--separator", ";", "--columns", "key,token"]
        plan_file = str(tmp_path / "plan.json")
        planned = lineage("erase", "--plan", *source, "-o", plan_file)
        assert planned.exit_code == 0, planned.output
        plan = json.loads(Path(plan_file).read_text())
        kept = {(entry["kind"], entry["app"]): entry for entry in plan["kept"]}
        assert kept["topics", first]["items"] == 2 * len(sent)
        assert kept["dead letters", second]["where"] == f"{kafka_topics.dead_letter}/0/0 to 0"
        assert kept["views", first]["items"] >= 4
        _carry_out(lineage, kafka, kafka_topics, plan, plan_file, source, len(sent))
        assert list(store.view_texts(first)) == []
        assert not any("r3x" in text for text in store.view_texts(second))
        for path in (*(tmp_path / "out2").iterdir(), *(tmp_path / "out3").iterdir()):
            path.unlink()
        rows = [
            line for line in world.datasets[0].path.read_text().splitlines() if "r3x" not in line
        ]
        world.datasets[0].path.write_text("".join(f"{line}\n" for line in rows))
        verified = json.loads(lineage("erase", "--verify", plan_file, *source, "--json").stdout)
        left = {entry["where"]: entry["why"] for entry in verified["left"]}
        # Those that stand behind another's record, which has the same text; nothing else is left.
        behind = len(sent)
        assert set(left) == {
            f"{kafka_topics.edge}/0/{behind} to {behind}",
            f"{kafka_topics.edge}/0/{behind + 1} to {2 * behind}",
        }
        _retire(kafka, kafka_topics)
        _view_again(store, first)
        verified = json.loads(lineage("erase", "--verify", plan_file, *source, "--json").stdout)
        assert [
            (entry["where"], "records remove" in entry["why"]) for entry in verified["left"]
        ] == [(first, True)]
        store.remove_view(first)
        verified = json.loads(lineage("erase", "--verify", plan_file, *source, "--json").stdout)
        assert verified["clean"], verified


def _carry_out(
    lineage: Any, kafka: KafkaUnderTest, topics: Topics, plan: Any, plan_file: str,
    source: list[str], records: int,
) -> None:  # fmt: skip
    apply = ("erase", "--apply", plan_file, "--digest", plan["digest"], *source)
    commit(kafka, f"{topics.prefix}writer", topics.edge, records)
    refused = lineage(*apply)
    assert "not used yet" in refused.output
    assert first_offset(kafka, topics.edge) == 0
    commit(kafka, f"{topics.prefix}writer", topics.edge, 2 * records + 1)
    applied = lineage(*apply)
    assert applied.exit_code == 0, applied.output
    assert f"topics: {records + 1} records" in applied.output
    assert f"behind the record at {records} of another application" in applied.output
    assert first_offset(kafka, topics.edge) == records
    assert first_offset(kafka, topics.dead_letter) == 1


def _retire(kafka: KafkaUnderTest, topics: Topics) -> None:
    """Retention passes."""
    admin = kafka.admin()
    for done in admin.delete_records([TopicPartition(topics.edge, 0, -1)]).values():
        done.result(LIMIT_S)


def _view_again(store: Neo4jStore, app_id: str) -> None:
    """A view that was made before its files were changed, and holds a text without the values."""
    with store._connection._driver.session() as session:
        session.run(
            "CREATE (:LineageFlow {applicationId: $app, flowId: 'x', val: 'of somebody'})",
            app=app_id,
        ).consume()
