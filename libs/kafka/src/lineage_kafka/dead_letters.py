"""The dead-letter topic: reads it, and sends its records back to their topics.

Needs confluent-kafka and pydantic-settings (the extra ``kafka``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, Producer
from pydantic_settings import BaseSettings, SettingsConfigDict

from lineage_core.contract.dead_letter import (
    DeadRecord,
    Headers,
    TopicPartitionOffset,
    parse_topic_partition_offset,
    read_dead_record,
)
from lineage_core.contract.message import dump_message
from lineage_core.contract.times import time_text
from lineage_core.errors import ContractError, LineageError
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_kafka.settings import KafkaSettings, settings_from_environment
from lineage_kafka.topic_reading import ANSWER_S, TopicReader, headers_of, raw_bytes
from lineage_kafka.topics import RECORD_BYTES_MAX, app_partition

if TYPE_CHECKING:
    from confluent_kafka import Message

SERVICE = "cli"


class DeadLetterError(LineageError):
    """Dead letters can't be read or replayed; the message says what to do."""


class _Settings(BaseSettings, KafkaSettings):
    model_config = SettingsConfigDict(env_prefix="LINEAGE_", extra="ignore", frozen=True)


@dataclass(frozen=True, slots=True)
class DeadLetterRecord:
    """A record of the dead-letter topic at ``partition``, ``offset``; see :class:`DeadRecord`."""

    partition: int
    offset: int
    dead: DeadRecord
    key: bytes | None
    value: bytes | None

    @property
    def name(self) -> str:
        """The name in commands: the offset, after the partition unless that is the first."""
        return f"{self.partition}:{self.offset}" if self.partition else str(self.offset)

    def to_json(self) -> dict[str, Any]:
        """The JSON shape that tools rely on: the facts about the record, without its content."""
        dead = self.dead
        return {
            "letter": self.name,
            "place": str(dead.place),
            "app": dead.app or None,
            "service": dead.service,
            "reason": dead.reason,
            "at": time_text(dead.at),
            "size": dead.size,
            "cut": dead.cut,
        }


def read_kafka_settings() -> KafkaSettings:
    """How to reach Kafka, from the environment.

    Raises:
        DeadLetterError: no Kafka is named, or a setting can't be used.
    """
    return settings_from_environment(
        _Settings,
        DeadLetterError,
        'give Kafka\'s address as HOST:PORT (`eval "$(lineage stack env)"` does so)',
    )


class DeadLetterTopic:
    """Reads all of the topic, and replays some of it. To be closed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._topics = settings.topics
        self._config = settings.librdkafka_config() | {"log_level": "0"}
        self._reader = TopicReader(self._config, DeadLetterError)

    def close(self) -> None:
        """Let go of all connections."""
        self._reader.close()

    def unresolved(self, most: int | None = None) -> list[DeadLetterRecord]:
        """Dead letters that were not replayed, one for each original record, in order; without their values.

        Args:
            most: maximum number that is held at once; None: not bounded.

        Raises:
            DeadLetterError: Kafka does not answer, or has no such topic.
            BudgetError: to read them takes more than the query may, or they are more than ``most``.
        """
        records_by_origin: dict[TopicPartitionOffset, DeadLetterRecord] = {}
        resolved: set[TopicPartitionOffset] = set()
        for dead_record in self._all():
            current_budget().check()
            if most is not None and len(records_by_origin) + len(resolved) > most:
                raise TooMuchError(
                    f"the topic holds more than {most:,} dead letters", "`lineage dlq` lists them"
                )
            origin = dead_record.dead.place
            if dead_record.dead.resolved:
                resolved.add(origin)
            else:
                records_by_origin.setdefault(origin, replace(dead_record, value=None))
        return [
            dead_record
            for origin, dead_record in records_by_origin.items()
            if origin not in resolved
        ]

    def at(self, name: str) -> DeadLetterRecord:
        """The dead letter that ``OFFSET``, ``PARTITION:OFFSET`` or the place of its original record names.

        Raises:
            DeadLetterError: there is none.
        """
        partition, separator, offset = name.rpartition(":")
        if offset.isdecimal() and (partition.isdecimal() or not separator):
            dead_record = self._parse_dead_record(int(partition or 0), int(offset))
            if dead_record is not None:
                return dead_record
        elif "/" in name:
            origin = parse_topic_partition_offset(name)
            for dead_record in self._all():
                if dead_record.dead.place == origin and not dead_record.dead.resolved:
                    return dead_record
        raise DeadLetterError(f"there is no dead letter {name!r}: `lineage dlq list` shows them")

    def replay(self, dead_records: Iterable[DeadLetterRecord]) -> Iterator[DeadLetterRecord]:
        """Send records back to their topics, one after the other; each is yielded when it is durable.

        Their readers use them now, or send them to this topic again with a new place.

        Raises:
            DeadLetterError: one can't be sent back; those before it were sent.
        """
        with self._producer() as producer:
            for dead_record in dead_records:
                # Values are read one at a time: together they may be more than memory holds.
                self._replay(
                    producer,
                    self._parse_dead_record(dead_record.partition, dead_record.offset)
                    or dead_record,
                )
                yield dead_record

    # -- reading -----------------------------------------------------------------------------

    def _all(self) -> Iterator[DeadLetterRecord]:
        topic = self._topics.dead_letter
        for partition in range(self._reader.partitions(topic)):
            low, high = self._reader.bounds(topic, partition)
            for message in self._reader.read(topic, partition, low, high):
                dead_record = _parse_dead_record(message)
                if dead_record is not None:
                    yield dead_record

    def _parse_dead_record(self, partition: int, offset: int) -> DeadLetterRecord | None:
        topic = self._topics.dead_letter
        if partition >= self._reader.partitions(topic):
            return None
        message = self._read_record(topic, partition, offset)
        return None if message is None else _parse_dead_record(message)

    def _read_record(self, topic: str, partition: int, offset: int) -> Message | None:
        """A single record; None if Kafka no longer holds it."""
        low, high = self._reader.bounds(topic, partition)
        if not low <= offset < high:
            return None
        message = next(self._reader.read(topic, partition, offset, offset + 1), None)
        return message if message is not None and message.offset() == offset else None

    # -- replaying ---------------------------------------------------------------------------

    def _replay(self, producer: Producer, dead_record: DeadLetterRecord) -> None:
        origin, key = dead_record.dead.place, dead_record.key
        if origin.topic not in (self._topics.flow, self._topics.node, self._topics.edge):
            # Anybody can write headers: a dead letter must not cause writes to other topics.
            raise DeadLetterError(
                f"{dead_record.name}: {origin.topic!r} is no topic of the pipeline"
            )
        value = dead_record.value
        if dead_record.dead.cut:
            original = self._read_record(origin.topic, origin.partition, origin.offset)
            if original is None:
                raise DeadLetterError(f"{dead_record.name}: Kafka no longer holds {origin}")
            value, key = original.value(), original.key()
        self._send(producer, origin.topic, origin.partition, key, value)
        resolution = replace(
            dead_record.dead, resolved=True, service=SERVICE, at=time.time(), cut=False
        )
        message = resolution.message()
        if message is not None:
            body = dump_message(message).encode()
            topic, partition = self._message_destination(origin, resolution.app)
            self._send(producer, topic, partition, resolution.app.encode(), body)
        dead_letter_topic = self._topics.dead_letter
        self._send(
            producer,
            dead_letter_topic,
            dead_record.partition,
            dead_record.key,
            None,
            resolution.headers(),
        )

    def _message_destination(self, origin: TopicPartitionOffset, app: str) -> tuple[str, int]:
        """The topic and partition for the message that resolves a dead letter.

        For a record of the writer: after the record itself, so that the verdict is not complete
        before it. All others go through the linker, as all messages do.
        """
        if origin.topic == self._topics.edge:
            return origin.topic, origin.partition
        return self._topics.node, app_partition(app, self._reader.partitions(self._topics.node))

    @contextmanager
    def _producer(self) -> Iterator[Producer]:
        # Values may have been accepted compressed, so only the broker limits their size.
        producer = Producer(
            {
                **self._config,
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "zstd",
                "message.max.bytes": 2 * RECORD_BYTES_MAX,
                "message.timeout.ms": int(ANSWER_S * 1000),
            }
        )
        yield producer

    def _send(
        self,
        producer: Producer,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None = None,
    ) -> None:
        """Send one record and wait until it is durable."""
        failures: list[KafkaError] = []
        more: dict[str, Any] = {} if headers is None else {"headers": headers}
        with self._reader.errors():
            producer.produce(
                topic,
                value,
                key,
                partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
                **more,
            )
            undelivered = producer.flush(2 * ANSWER_S)
            if failures:
                raise KafkaException(failures[0])
        if undelivered:
            raise DeadLetterError(f"Kafka does not take records for {topic}: is it up?")


def choose_dead_letters(
    dead_records: Sequence[DeadLetterRecord], names: Sequence[str]
) -> list[DeadLetterRecord]:
    """The unresolved dead letters that ``names`` (offsets or places) name; other names are ignored."""
    requested = {name if "/" in name else name.removeprefix("0:") for name in names}
    return [
        name for name in dead_records if name.name in requested or str(name.dead.place) in requested
    ]


def _parse_dead_record(message: Message) -> DeadLetterRecord | None:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    value = raw_bytes(message.value())
    try:
        dead = read_dead_record(headers_of(message), value)
    except ContractError:
        # A record of another program must not hide the rest.
        return None
    return DeadLetterRecord(partition, offset, dead, raw_bytes(message.key()), value)
