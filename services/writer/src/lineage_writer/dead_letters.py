"""Dead letters: what could not be used, sent away before its place is passed."""

from __future__ import annotations

from dataclasses import replace

from aiokafka import AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError, RecordTooLargeError

from lineage_core.contract.dead_letter import DeadRecord
from lineage_kafka.settings import KafkaSettings
from lineage_kafka.topics import RECORD_BYTES_MAX, app_partition
from lineage_writer.records import Record


class DeadLetters:
    """The dead-letter topic. A record may be sent twice: its headers name its place."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._topic = settings.topics.dead_letter
        # Twice the records' size, for headers come on top: the broker has the last word.
        self._producer = AIOKafkaProducer(
            **settings.aiokafka_config(),
            acks="all",
            max_request_size=2 * RECORD_BYTES_MAX,
            compression_type="zstd",
        )

    async def start(self) -> None:
        """Connect.

        Raises:
            KafkaError: nobody answers.
        """
        await self._producer.start()

    async def stop(self) -> None:
        """Let go of all connections."""
        await self._producer.stop()

    async def send(self, record: Record, dead: DeadRecord) -> None:
        """Send a record away; it is durable when this returns.

        Raises:
            KafkaError: it is not.
        """
        try:
            await self._send(record, dead, record.value)
        except (MessageSizeTooLargeError, RecordTooLargeError):
            # It filled its topic's limit by itself. What it says stays where it was.
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
