"""Kafka without the rest of a stack: a broker for the while, and how far a consumer group has come."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

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
    """
    # Not by an AdminClient: its answers may set off a collection of garbage on a thread of Kafka's client, and a
    # client that is freed there ends the process.
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    try:
        known = reader.list_topics(timeout=KAFKA_S).topics
        places = [
            TopicPartition(topic, part) for topic in topics for part in known[topic].partitions
        ]
        ends = [reader.get_watermark_offsets(one, timeout=KAFKA_S)[1] for one in places]
        deadline = time.monotonic() + QUERYABLE_LIMIT_S
        while time.monotonic() < deadline:
            found = reader.committed(places, timeout=KAFKA_S)
            if all(max(one.offset, 0) >= end for one, end in zip(found, ends, strict=True)):
                return
            time.sleep(POLL_S)
    finally:
        reader.close()
    raise RunError(f"{group} has not committed all of {', '.join(topics)}")
