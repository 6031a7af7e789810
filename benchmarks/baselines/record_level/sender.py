"""Events to Kafka, a message each; one producer a process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from confluent_kafka import KafkaError, Message, Producer

POLL_EVERY = 10_000
"""Events between two looks at what the producer has to say."""
FLUSH_LIMIT_S = 300.0


class SendError(Exception):
    """Kafka did not take an event."""


@dataclass(frozen=True)
class Target:
    """Where the events of an application go. ``detailed``: every operator tells, with values."""

    bootstrap: str
    topic: str
    partitions: int
    app: str
    detailed: bool


class Sender:
    """Sends; not thread-safe."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._failed: list[KafkaError] = []
        self._count = 0
        self._producer = Producer(
            {
                "bootstrap.servers": target.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 50,
                "batch.size": 1 << 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 500_000,
                "delivery.report.only.error": True,
            }
        )

    def send(self, key: bytes, value: bytes, partition: int) -> None:
        """Hand an event over; returns before Kafka has it."""
        self._count += 1
        if self._count % POLL_EVERY == 0:
            self._producer.poll(0)
        while True:
            try:
                self._producer.produce(
                    self._target.topic,
                    value,
                    key,
                    partition % self._target.partitions,
                    on_delivery=self._delivered,
                )
                return
            except BufferError:
                self._producer.poll(0.1)

    def flush(self) -> None:
        """Wait until Kafka has all of them.

        Raises:
            SendError: it has not.
        """
        waiting = self._producer.flush(FLUSH_LIMIT_S)
        if waiting or self._failed:
            raise SendError(f"{waiting} events wait, refused: {self._failed[:1]}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failed.append(error)


def sender_of(target: Target) -> Sender:
    """This process's own: a producer's threads do not survive the fork that makes a worker."""
    return _sender(target, os.getpid())


@cache
def _sender(target: Target, pid: int) -> Sender:
    return Sender(target)
