"""Dead letters: records that could not be used, sent to a topic before their position is passed."""

from __future__ import annotations

from dataclasses import replace

from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError, RecordTooLargeError

from lineage_core.contract.dead_letter import DeadRecord
from lineage_kafka.settings import KafkaSettings
from lineage_kafka.topics import RECORD_BYTES_MAX, app_partition
from lineage_writer.records import Record


class DeadLetters:
    """Sends records to the dead-letter topic. One may be sent twice: its headers name its original place."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._topic = settings.topics.dead_letter
        # Twice the records' size, because headers are added: the broker decides on the limit.
        self._producer = AIOKafkaProducer(
            **settings.aiokafka_config(),
            acks="all",
            max_request_size=2 * RECORD_BYTES_MAX,
            compression_type="zstd",
        )

    async def start(self) -> None:
        """Connect.

        Raises:
            KafkaError: no broker answers.
        """
        await self._producer.start()

    async def stop(self) -> None:
        """Close all connections."""
        await self._producer.stop()

    async def send(self, record: Record, dead: DeadRecord) -> None:
        """Send a record to the topic; it is durable when this returns.

        Raises:
            KafkaError: it is not.
        """
        try:
            await self._send(record, dead, record.value)
        except (MessageSizeTooLargeError, RecordTooLargeError):
            # The record alone is as large as the limit. Its content remains in its own topic.
            await self._send(record, replace(dead, cut=True), None)

    async def _send(self, record: Record, dead: DeadRecord, value: bytes | None) -> None:
        partitions = len(await self._producer.partitions_for(self._topic))
        await self._producer.send_and_wait(
            self._topic,
            value=value,
            key=record.key,
            partition=app_partition(dead.app, partitions),
            headers=dead.headers(),
        )
