"""Kafka without the rest of a stack: a broker for the while, and how far a consumer group has come."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.pairs import RunError
from benchmarks.stack import POLL_S, QUERYABLE_LIMIT_S
from lineage.stack import supervisor
from lineage.stack.kafka_server import Kafka
from lineage.stack.ports import free_ports


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
    admin = AdminClient({"bootstrap.servers": bootstrap})
    known = admin.list_topics(timeout=30).topics
    places = [TopicPartition(topic, part) for topic in topics for part in known[topic].partitions]
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{group}-bench"})
    ends = {(one.topic, one.partition): reader.get_watermark_offsets(one)[1] for one in places}
    reader.close()
    deadline = time.monotonic() + QUERYABLE_LIMIT_S
    while time.monotonic() < deadline:
        asked = ConsumerGroupTopicPartitions(group, places)
        (answer,) = admin.list_consumer_group_offsets([asked]).values()
        if all(
            max(one.offset, 0) >= ends[one.topic, one.partition]
            for one in answer.result().topic_partitions
        ):
            return
        time.sleep(POLL_S)
    raise RunError(f"{group} has not committed all of {', '.join(topics)}")
