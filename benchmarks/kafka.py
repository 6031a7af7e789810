"""Kafka without the rest of a stack: a broker for the while, and how far a consumer group has come."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from benchmarks.pairs import RunError
from benchmarks.stack import POLL_S, QUERYABLE_LIMIT_S
from lineage.stack import supervisor
from lineage.stack.kafka_server import Kafka
from lineage.stack.ports import free_ports

KAFKA_S = 30.0
"""How long an answer of Kafka may take."""


@contextmanager
def broker(folder: Path, topics: Mapping[str, int]) -> Iterator[Kafka]:
    """A broker with these topics (and their partitions) in ``folder``, gone afterwards.

    Raises:
        StackError: it does not start.
    """
    shutil.rmtree(folder, ignore_errors=True)
    server = Kafka(folder, *free_ports(2), topics=topics)
    try:
        supervisor.start(server)
        supervisor.wait_ready(server)
        yield server
    finally:
        supervisor.stop(server)
        shutil.rmtree(folder, ignore_errors=True)


def until_committed(bootstrap: str, group: str, topics: Sequence[str]) -> None:
    """Wait until a consumer group has committed all that its topics hold.

    Raises:
        RunError: it does not.
        KafkaException: Kafka does not answer.
    """
    with _reader(bootstrap, group) as reader:
        known_topics = reader.list_topics(timeout=KAFKA_S).topics
        places = [
            TopicPartition(topic, part)
            for topic in topics
            for part in known_topics[topic].partitions
        ]
        ends = [reader.get_watermark_offsets(partition, timeout=KAFKA_S)[1] for partition in places]
        deadline = time.monotonic() + QUERYABLE_LIMIT_S
        while time.monotonic() < deadline:
            offsets = _committed_offsets(reader, places)
            if all(offset >= end for offset, end in zip(offsets, ends, strict=True)):
                return
            time.sleep(POLL_S)
    raise RunError(f"{group} has not committed all of {', '.join(topics)}")


def committed(bootstrap: str, group: str, places: Sequence[TopicPartition]) -> list[int]:
    """The offsets that a consumer group has committed in partitions, 0 where it has none.

    Raises:
        KafkaException: Kafka does not answer.
    """
    with _reader(bootstrap, group) as reader:
        return _committed_offsets(reader, places)


@contextmanager
def _reader(bootstrap: str, group: str) -> Iterator[Consumer]:
    # Not an AdminClient: its answers may set off a collection of garbage on a thread of Kafka's client, and a
    # client that is freed there ends the process.
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        yield reader
    finally:
        reader.close()


def _committed_offsets(reader: Consumer, places: Sequence[TopicPartition]) -> list[int]:
    deadline = time.monotonic() + KAFKA_S
    while True:
        try:
            partitions = reader.committed(list(places), timeout=KAFKA_S)
        except KafkaException:
            # A group that is new, or whose broker was away, has no coordinator for a moment.
            if time.monotonic() > deadline:
                raise
            time.sleep(POLL_S)
        else:
            return [max(partition.offset, 0) for partition in partitions]
