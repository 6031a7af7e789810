"""The dead-letter topic: reading it, and sending its records back to where they belong.

Needs confluent-kafka and pydantic-settings (the extra ``kafka``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from pydantic_settings import BaseSettings, SettingsConfigDict

from lineage_core.contract.dead_letter import (
    DeadRecord,
    Headers,
    TopicPartitionOffset,
    parse_topic_partition_offset,
    read_dead_record,
)
from lineage_core.contract.message import dump_message
from lineage_core.errors import ContractError, LineageError
from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_kafka.settings import KafkaSettings, settings_from_environment
from lineage_kafka.topics import RECORD_BYTES_MAX, app_partition

if TYPE_CHECKING:
    from confluent_kafka import Message

ANSWER_S = 30.0
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
        """How a person names it: its offset, with its partition where that is not the first."""
        return f"{self.partition}:{self.offset}" if self.partition else str(self.offset)

    def to_json(self) -> dict[str, Any]:
        """As tools read it: what is said of the record, without it."""
        dead = self.dead
        return {
            "letter": self.name,
            "place": str(dead.place),
            "app": dead.app or None,
            "service": dead.service,
            "reason": dead.reason,
            "at": dead.at,
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
        self._consumer = Consumer(
            {
                **self._config,
                # No group is joined and no offset committed: the name only has to be there.
                "group.id": "lineage-dlq",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": RECORD_BYTES_MAX,
            }
        )

    def close(self) -> None:
        """Let go of all connections."""
        self._consumer.close()

    def unresolved(self, most: int | None = None) -> list[DeadLetterRecord]:
        """Letters that were not replayed, each place once, in order; without their values.

        Args:
            most: so many are held at once; None: not bounded.

        Raises:
            DeadLetterError: Kafka does not answer, or has no such topic.
            BudgetError: to read them takes more than the query may, or they are more than ``most``.
        """
        letters: dict[TopicPartitionOffset, DeadLetterRecord] = {}
        resolved: set[TopicPartitionOffset] = set()
        for letter in self._all():
            current_budget().check()
            if most is not None and len(letters) + len(resolved) > most:
                raise TooMuchError(
                    f"the topic holds more than {most:,} dead letters", "`lineage dlq` lists them"
                )
            place = letter.dead.place
            if letter.dead.resolved:
                resolved.add(place)
            else:
                letters.setdefault(place, replace(letter, value=None))
        return [letter for place, letter in letters.items() if place not in resolved]

    def at(self, name: str) -> DeadLetterRecord:
        """The letter that ``OFFSET``, ``PARTITION:OFFSET`` or the place of its record names.

        Raises:
            DeadLetterError: there is none.
        """
        partition, separator, offset = name.rpartition(":")
        if offset.isdecimal() and (partition.isdecimal() or not separator):
            letter = self._letter(int(partition or 0), int(offset))
            if letter is not None:
                return letter
        elif "/" in name:
            place = parse_topic_partition_offset(name)
            for letter in self._all():
                if letter.dead.place == place and not letter.dead.resolved:
                    return letter
        raise DeadLetterError(f"there is no dead letter {name!r}: `lineage dlq list` shows them")

    def replay(self, letters: Iterable[DeadLetterRecord]) -> Iterator[DeadLetterRecord]:
        """Send records back to where they were, one by one; each is given out when that is durable.

        Whoever reads them may find them in order now, or sends them here again under a new place.

        Raises:
            DeadLetterError: one can't be sent back; those before it were.
        """
        with self._producer() as producer:
            for letter in letters:
                # Values are read one at a time: together they may be more than memory holds.
                self._replay(producer, self._letter(letter.partition, letter.offset) or letter)
                yield letter

    # -- reading -----------------------------------------------------------------------------

    def _all(self) -> Iterator[DeadLetterRecord]:
        topic = self._topics.dead_letter
        for partition in range(self._partitions(topic)):
            with _kafka_errors():
                low, high = self._consumer.get_watermark_offsets(
                    TopicPartition(topic, partition), timeout=ANSWER_S
                )
            for message in self._read(topic, partition, low, high):
                letter = _letter(message)
                if letter is not None:
                    yield letter

    def _letter(self, partition: int, offset: int) -> DeadLetterRecord | None:
        topic = self._topics.dead_letter
        if partition >= self._partitions(topic):
            return None
        message = self._read_record(topic, partition, offset)
        return None if message is None else _letter(message)

    def _read_record(self, topic: str, partition: int, offset: int) -> Message | None:
        """A single record; None where Kafka has it no more."""
        with _kafka_errors():
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=ANSWER_S
            )
        if not low <= offset < high:
            return None
        message = next(self._read(topic, partition, offset, offset + 1), None)
        return message if message is not None and message.offset() == offset else None

    def _read(self, topic: str, partition: int, low: int, high: int) -> Iterator[Message]:
        if low >= high:
            return
        with _kafka_errors():
            self._consumer.assign([TopicPartition(topic, partition, low)])
            while True:
                message = self._consumer.poll(ANSWER_S)
                if message is None:
                    raise DeadLetterError(f"Kafka does not send {topic}: is it up?")
                error = message.error()
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        return
                    raise KafkaException(error)
                offset = message.offset()
                assert offset is not None
                if offset < high:
                    yield message
                if offset >= high - 1:
                    return

    def _partitions(self, topic: str) -> int:
        with _kafka_errors():
            metadata = self._consumer.list_topics(topic, timeout=ANSWER_S).topics[topic]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            return len(metadata.partitions)

    # -- replaying ---------------------------------------------------------------------------

    def _replay(self, producer: Producer, letter: DeadLetterRecord) -> None:
        place, key = letter.dead.place, letter.key
        if place.topic not in (self._topics.flow, self._topics.node, self._topics.edge):
            # Headers are anybody's: a letter must not make us write to topics of others.
            raise DeadLetterError(f"{letter.name}: {place.topic!r} is no topic of the pipeline")
        value = letter.value
        if letter.dead.cut:
            original = self._read_record(place.topic, place.partition, place.offset)
            if original is None:
                raise DeadLetterError(f"{letter.name}: Kafka does not keep {place} any more")
            value, key = original.value(), original.key()
        self._send(producer, place.topic, place.partition, key, value)
        resolution = replace(letter.dead, resolved=True, service=SERVICE, at=time.time(), cut=False)
        message = resolution.message()
        if message is not None:
            body = dump_message(message).encode()
            topic, partition = self._message_destination(place, resolution.app)
            self._send(producer, topic, partition, resolution.app.encode(), body)
        dead_letter = self._topics.dead_letter
        self._send(producer, dead_letter, letter.partition, letter.key, None, resolution.headers())

    def _message_destination(self, place: TopicPartitionOffset, app: str) -> tuple[str, int]:
        """Where the message goes that resolves a letter.

        What went to the writer: behind the record itself, so that the verdict is not complete
        before it. All else by the linker, as all messages.
        """
        if place.topic == self._topics.edge:
            return place.topic, place.partition
        return self._topics.node, app_partition(app, self._partitions(self._topics.node))

    @contextmanager
    def _producer(self) -> Iterator[Producer]:
        # Values may have been accepted compressed; the broker has the last word on their size.
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
        with _kafka_errors():
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


def choose(letters: Sequence[DeadLetterRecord], names: Sequence[str]) -> list[DeadLetterRecord]:
    """The open letters that ``names`` (offsets or places) name; a name without one is left out."""
    requested = {name if "/" in name else name.removeprefix("0:") for name in names}
    return [name for name in letters if name.name in requested or str(name.dead.place) in requested]


def _letter(message: Message) -> DeadLetterRecord | None:
    headers, value = message.headers(), message.value()
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    key = message.key()
    pairs = list(headers.items()) if isinstance(headers, dict) else list(headers or ())
    raw = value.encode() if isinstance(value, str) else value
    try:
        dead = read_dead_record(pairs, raw)
    except ContractError:
        # Not ours: somebody's experiment must not hide the rest.
        return None
    return DeadLetterRecord(
        partition, offset, dead, key.encode() if isinstance(key, str) else key, raw
    )


@contextmanager
def _kafka_errors() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        first = error.args[0]
        text = first.str() if isinstance(first, KafkaError) else str(error)
        raise DeadLetterError(f"Kafka: {text}; see LINEAGE_KAFKA and LINEAGE_KAFKA_*") from error
