"""Reads topics by place, without a group. Needs confluent-kafka (the extra ``kafka``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from lineage_core.errors import LineageError
from lineage_kafka.topics import RECORD_BYTES_MAX

if TYPE_CHECKING:
    from confluent_kafka import Message

ANSWER_S = 30.0


class TopicReader:
    """Reads records between offsets. To be closed.

    Args:
        config: of librdkafka.
        error: is raised where Kafka does not answer, with a message.
    """

    def __init__(self, config: Mapping[str, str], error: type[LineageError]) -> None:
        self._error = error
        self._consumer = Consumer(
            {
                "log_level": "0",
                # No group is joined and no offset committed, but the client requires a name.
                "group.id": "lineage-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "fetch.message.max.bytes": RECORD_BYTES_MAX,
                **config,
            }
        )

    def close(self) -> None:
        """Let go of all connections."""
        self._consumer.close()

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        with self.errors():
            metadata = self._consumer.list_topics(topic, timeout=ANSWER_S).topics[topic]
            if metadata.error is not None:
                raise KafkaException(metadata.error)
            return len(metadata.partitions)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset that Kafka still holds, and the next one to be written."""
        with self.errors():
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(topic, partition), timeout=ANSWER_S
            )
        return low, high

    def read(self, topic: str, partition: int, low: int, high: int) -> Iterator[Message]:
        """The records from ``low`` to before ``high``."""
        if low >= high:
            return
        with self.errors():
            self._consumer.assign([TopicPartition(topic, partition, low)])
            while True:
                message = self._consumer.poll(ANSWER_S)
                if message is None:
                    raise self._error(f"Kafka does not send {topic}: is it up?")
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

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn errors of Kafka's client into those of the reader."""
        try:
            yield
        except KafkaException as error:
            first = error.args[0]
            text = first.str() if isinstance(first, KafkaError) else str(error)
            raise self._error(f"Kafka: {text}; see LINEAGE_KAFKA and LINEAGE_KAFKA_*") from error


def raw_bytes(content: bytes | str | None) -> bytes | None:
    """A key or value as Kafka holds it."""
    return content.encode() if isinstance(content, str) else content


def headers_of(message: Message) -> list[tuple[str, bytes | str | None]]:
    """The headers of a record."""
    headers = message.headers()
    return list(headers.items()) if isinstance(headers, dict) else list(headers or ())
