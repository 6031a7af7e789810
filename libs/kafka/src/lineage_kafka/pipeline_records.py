"""All records of the pipeline's topics, whose they are, and how far they are used. Needs confluent-kafka (the extra ``kafka``)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from lineage_core.contract.dead_letter import app_of_key
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import current_budget
from lineage_kafka.settings import KafkaSettings
from lineage_kafka.topic_reading import ANSWER_S, TopicReader, headers_of, raw_bytes
from lineage_kafka.topic_records import TopicRecord

if TYPE_CHECKING:
    from typing_extensions import Self


class PipelineError(LineageError):
    """The pipeline's topics can't be read, or records not be deleted."""


class PipelineRecords:
    """Implements :class:`lineage_kafka.topic_records.RecordTopics` over Kafka. To be closed."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._topics = settings.topics
        config = settings.librdkafka_config()
        # What a transaction left behind is on the disk, too.
        self._reader = TopicReader(config | {"isolation.level": "read_uncommitted"}, PipelineError)
        self._admin = AdminClient({**config})

    def partitions(self) -> Iterator[tuple[str, int]]:
        """The topics with the numbers of their partitions.

        Raises:
            PipelineError: Kafka does not answer, or has no such topic.
        """
        for topic in self._topics.all():
            for partition in range(self._reader.partitions(topic)):
                yield topic, partition

    def is_dead_letters(self, topic: str) -> bool:
        """Whether a topic has records that were set aside."""
        return topic == self._topics.dead_letter

    def records(self, topic: str, partition: int) -> Iterator[TopicRecord]:
        """The records that a partition holds now, in order.

        Raises:
            PipelineError: Kafka does not answer.
            BudgetError: it takes longer than the query may.
        """
        low, high = self._reader.bounds(topic, partition)
        for message in self._reader.read(topic, partition, low, high):
            current_budget().check()
            app = app_of_key(raw_bytes(message.key()))
            if not app and self.is_dead_letters(topic):
                named = [raw_bytes(text) for name, text in headers_of(message) if name == "app"]
                app = app_of_key(named[0]) if named else ""
            offset = message.offset()
            assert offset is not None
            yield TopicRecord(topic, partition, offset, app, raw_bytes(message.value()))

    def used(self, topic: str, partition: int) -> int | None:
        """The offset before which all groups have used all records; None: no group is known.

        Dead letters are used by nobody.

        Raises:
            PipelineError: Kafka does not answer, or does not say.
        """
        committed = self._committed.get((topic, partition))
        if committed is None and self.is_dead_letters(topic):
            return self._reader.bounds(topic, partition)[1]
        return committed

    @cached_property
    def _committed(self) -> dict[tuple[str, int], int]:
        lowest: dict[tuple[str, int], int] = {}
        with self._reader.errors():
            groups = self._admin.list_consumer_groups(request_timeout=ANSWER_S).result()
            if groups.errors:
                raise groups.errors[0]
            for group in groups.valid:
                request = [ConsumerGroupTopicPartitions(group.group_id)]
                (answer,) = self._admin.list_consumer_group_offsets(
                    request, request_timeout=ANSWER_S
                ).values()
                for place in answer.result().topic_partitions or ():
                    if place.error is not None:
                        raise PipelineError(f"Kafka: {place.error.str()}")
                    key = place.topic, place.partition
                    if place.offset >= 0:
                        lowest[key] = min(place.offset, lowest.get(key, place.offset))
        return lowest

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete all records of a partition before an offset.

        Raises:
            PipelineError: Kafka does not answer, or refuses.
        """
        with self._reader.errors():
            places = [TopicPartition(topic, partition, offset)]
            for done in self._admin.delete_records(places, request_timeout=ANSWER_S).values():
                done.result()

    def close(self) -> None:
        """Let go of all connections."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
