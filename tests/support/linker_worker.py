"""Workers of the linker as processes, and what they read and write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition

from benchmarks.kafka import committed
from lineage.stack.ports import free_ports
from lineage_kafka.topics import Topics, app_partition, flow_partition
from tests.support.linker_job import Job
from tests.support.linker_memory import Received
from tests.support.probing import asked
from tests.support.servers import KafkaUnderTest, RedisUnderTest

LIMIT_S = 90.0


def until(
    condition: Callable[[], Any], what: str | Callable[[], str], limit_s: float = LIMIT_S
) -> Any:
    """Ask until the answer is true. ``what``: what is waited for, or what says it in the end."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, (
            f"not within {limit_s} s: {what() if callable(what) else what}"
        )
        time.sleep(0.05)
    return found


class Worker:
    """One process of the linker, and its log."""

    def __init__(
        self,
        settings: Mapping[str, str],
        folder: Path,
        name: str = "linker",
        program: Sequence[str] = ("-m", "lineage_linker"),
    ) -> None:
        (self.port,) = free_ports(1)
        self.log = folder / f"{name}-{time.monotonic_ns()}.log"
        own = {
            "LINEAGE_LINKER_HTTP_PORT": str(self.port),
            "LINEAGE_LINKER_SESSION_S": "6",
            "LINEAGE_LINKER_STALL_S": "15",
        }
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *program],
                env={**os.environ, **own, **settings},
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )

    def get(self, path: str) -> tuple[int, str]:
        """Status and body; status 0: it does not answer."""
        return asked(self.port, path)

    def ready(self) -> Worker:
        """Wait until it is."""
        until(lambda: self.alive() and self.get("/readyz")[0] == 200, f"ready: {self.tail()}")
        return self

    def alive(self) -> bool:
        assert self.process.poll() is None, self.tail()
        return True

    def metric(self, name: str) -> float:
        """Sum of a metric over its labels."""
        lines = self.get("/metrics")[1].splitlines()
        found = [line for line in lines if line.partition("{")[0].partition(" ")[0] == name]
        return sum(float(line.rpartition(" ")[2]) for line in found)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> float:
        """SIGTERM; the seconds that it took."""
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=30)
        finally:
            self.kill()
        return time.monotonic() - begin

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-6000:]

    def events(self) -> list[dict[str, Any]]:
        """Its log."""
        lines = self.log.read_text(errors="replace").splitlines()
        found = []
        for line in lines:
            with suppress(ValueError):
                found.append(json.loads(line))
        return found


class Pipeline:
    """The linker's topics and Redis, from outside."""

    def __init__(self, kafka: KafkaUnderTest, redis: RedisUnderTest, topics: Topics) -> None:
        self.kafka, self.redis, self.topics = kafka, redis, topics
        self.received = Received()
        self._producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 5})
        self.partitions: dict[str, int] = until(self._known_partitions, "the topics are known")
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": f"{topics.prefix}reader",
                "enable.auto.commit": False,
            }
        )
        self._consumer.assign(
            [
                TopicPartition(name, part, 0)
                for name in (topics.edge, topics.dead_letter)
                for part in range(self.partitions[name])
            ]
        )
        self.dead: list[Any] = []

    @property
    def settings(self) -> dict[str, str]:
        return {
            **self.kafka.settings,
            **self.redis.settings,
            "LINEAGE_TOPIC_PREFIX": self.topics.prefix,
            "LINEAGE_LINKER_GROUP": f"{self.topics.prefix}linker",
        }

    def _known_partitions(self) -> dict[str, int]:
        """A broker that has made topics may not know them yet."""
        known = self.kafka.admin().list_topics(timeout=30).topics
        found = {name: len(known[name].partitions) for name in self.topics.all() if name in known}
        return found if len(found) == len(self.topics.all()) else {}

    def send(self, *jobs: Job) -> None:
        """All records of jobs, one job after the other."""
        for job in jobs:
            for value in job.node[:-1]:
                self.put(self.topics.node, app_partition(job.app, 1), job.app, value)
            self.flow(job.app, job.flow)
            self.put(self.topics.node, app_partition(job.app, 1), job.app, job.node[-1])
            self._producer.flush(30)

    def flow(self, app: str, records: Iterable[tuple[int, bytes]]) -> None:
        partitions = self.partitions[self.topics.flow]
        for task_partition, value in records:
            self.put(self.topics.flow, flow_partition(app, task_partition, partitions), app, value)
        self._producer.flush(30)

    def put(self, topic: str, partition: int, key: str, value: bytes) -> None:
        self._producer.produce(topic, value, key, partition)
        self._producer.poll(0)

    def polled(self) -> bool:
        """Take what has arrived; true."""
        while messages := self._consumer.consume(500, 0.2):
            for message in messages:
                assert message.error() is None, message.error()
                if message.topic() == self.topics.dead_letter:
                    self.dead.append(message)
                else:
                    value = message.value()
                    assert value is not None
                    self.received.value(value)
        return True

    def committed(self, topic: str) -> int:
        """Offsets of the linker's group over all partitions of a topic."""
        parts = [TopicPartition(topic, part) for part in range(self.partitions[topic])]
        return sum(committed(self.kafka.bootstrap, self.settings["LINEAGE_LINKER_GROUP"], parts))

    def commit(self, topic: str, offset: int) -> None:
        """Say of each partition of a topic that the linker's group has read it up to there."""
        parts = [TopicPartition(topic, part, offset) for part in range(self.partitions[topic])]
        group = ConsumerGroupTopicPartitions(self.settings["LINEAGE_LINKER_GROUP"], parts)
        admin = self.kafka.admin()  # kept: it answers as long as it lives
        admin.alter_consumer_group_offsets([group])[group.group_id].result(30)

    def close(self) -> None:
        self._consumer.close()
