"""What arrived in the pipeline's first two topics, put back into a spool as the embedded default has it."""

from __future__ import annotations

import io
import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from lineage_core.codec.record_batch import RECORD_BATCH_MAGIC, read_record_batches
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.message import Commit, parse_message
from lineage_kafka.topics import Topics, app_partition, flow_partition

PATIENCE_S = 30.0


@dataclass
class Drained:
    """``frames``: by the application and the block's id, the bytes that came (each distinct once)."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    frames: dict[tuple[str, str], set[bytes]] = field(default_factory=dict)
    records: Counter[str] = field(default_factory=Counter)
    """Records by kind: frame, or a message's type."""

    @property
    def apps(self) -> list[str]:
        return list(dict.fromkeys(message["app"] for message in self.messages))

    def commits(self) -> list[dict[str, Any]]:
        return [message for message in self.messages if message["type"] == "commit"]


def drain(bootstrap: str, topics: Topics, config: Mapping[str, str] | None = None) -> Drained:
    """Read all records of the flow and node topics; checks what holds for every one."""
    found = Drained()
    values = {"bootstrap.servers": bootstrap, "group.id": "drained", "enable.auto.commit": "false"}
    consumer = Consumer({**values, **(config or {})})
    try:
        for topic in (topics.node, topics.flow):
            counts = consumer.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
            for partition in sorted(counts):
                for record in _records(consumer, TopicPartition(topic, partition, 0)):
                    _take(found, topics, record, len(counts))
    finally:
        consumer.close()
    return found


def _records(consumer: Consumer, place: TopicPartition) -> Iterator[Message]:
    high = _end_of(consumer, place)
    consumer.assign([place])
    following = 0
    while following < high:
        record = consumer.poll(PATIENCE_S)
        assert record is not None, f"{place} gave nothing for {PATIENCE_S} s"
        assert record.error() is None, record.error()
        offset = record.offset()
        assert offset is not None
        following = offset + 1
        yield record


def _end_of(consumer: Consumer, place: TopicPartition) -> int:
    """Where the partition ends; a broker that was frozen leads nothing for a moment."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            _, high = consumer.get_watermark_offsets(place, timeout=PATIENCE_S)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return int(high)


def _take(found: Drained, topics: Topics, record: Message, partitions: int) -> None:
    value, key = record.value(), record.key()
    assert value is not None
    assert key is not None
    app = key.decode()
    if value.startswith(RECORD_BATCH_MAGIC):
        (frame,) = read_record_batches(io.BytesIO(value))
        header = BlockHeader.from_json(frame.header)
        assert (record.topic(), header.app) == (topics.flow, app)
        assert record.partition() == flow_partition(app, header.block_id.partition, partitions)
        found.frames.setdefault((app, str(header.block_id)), set()).add(value)
        found.records["frame"] += 1
        return
    message = json.loads(value)
    parse_message(value)
    assert message["app"] == app
    if message["type"] in {"commit", "fail"}:
        expected = topics.flow, flow_partition(app, message["partition"], partitions)
    else:
        expected = topics.node, app_partition(app, partitions)
    assert (record.topic(), record.partition()) == expected
    found.messages.append(message)
    found.records[message["type"]] += 1


def as_spool(drained: Drained, root: Path) -> Path:
    """The same as a spool folder that the embedded ingest takes.

    A block that arrived twice has the same bytes both times.
    """
    for app in drained.apps:
        blocks = root / app / "blocks"
        blocks.mkdir(parents=True)
        for (owner, _), versions in drained.frames.items():
            if owner == app:
                (value,) = versions
                (frame,) = read_record_batches(io.BytesIO(value))
                header = BlockHeader.from_json(frame.header)
                with (blocks / _file_name(header.task_node, header)).open("ab") as file:
                    file.write(value)
        messages = [one for one in drained.messages if one["app"] == app]
        # The topics keep no order between each other; the spool begins with the beginning.
        messages.sort(key=lambda one: (one["type"] != "begin", one["type"] == "end"))
        with (root / app / "driver.jsonl").open("w", encoding="utf-8") as file:
            for message in messages:
                file.write(json.dumps(_with_file(message)) + "\n")
    return root


def _with_file(message: dict[str, Any]) -> dict[str, Any]:
    if message["type"] != "commit":
        return message
    commit = Commit.model_validate(message)
    return message | {"file": _file_name(commit.node, commit)}


def _file_name(node: str, of: BlockHeader | Commit) -> str:
    task = of.block_id if isinstance(of, BlockHeader) else of
    return f"{node}-{task.partition}-{task.attempt}.lmf"
