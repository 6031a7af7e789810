"""Which topic and partition a record goes to, whether or not the client knows the partitions already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lineage_core.contract.message import Commit, Fail, Message
from lineage_emitter.dispatch.kafka_target import KafkaTarget
from lineage_emitter.dispatch.outbox import Outbox
from lineage_emitter.dispatch.topics_check import check_topics
from lineage_kafka.topics import Topics, app_partition, flow_partition


class TopicPartitions:
    """Topics and partitions. ``partitions``: by topic, as far as they are known."""

    def __init__(self, topics: Topics, partitions: Mapping[str, int]) -> None:
        self._topics = topics
        self._partitions = partitions

    def of_message(self, message: Message, outbox: Outbox) -> tuple[str, int]:
        """Topic and partition: a commit or failure goes where the task's blocks went.

        Raises:
            DeliveryError: the partitions are not known, and Kafka is away.
        """
        if isinstance(message, (Commit, Fail)):
            return self.of_task(message.app, message.partition, outbox)
        topic = self._topics.node
        return topic, app_partition(message.app, self._count(topic, outbox))

    def of_task(self, app: str, partition: int, outbox: Outbox) -> tuple[str, int]:
        """Topic and partition of a task's blocks; raises as :meth:`of_message`."""
        topic = self._topics.flow
        return topic, flow_partition(app, partition, self._count(topic, outbox))

    def _count(self, topic: str, outbox: Outbox) -> int:
        return self._partitions.get(topic, 0) or outbox.partitions(topic)


def check_kafka(target: KafkaTarget, topics: Topics) -> tuple[KafkaTarget, TopicPartitions]:
    """Ask for the topics (see :func:`check_topics`): the target with what was found, and addresses.

    Raises:
        DeliveryError: Kafka does not answer, or a topic is missing.
        OSError: a secret's file can't be read.
    """
    names = topics.flow, topics.node
    facts = check_topics(target.client_config(), names, target.timeout_s)
    checked_target = replace(
        target,
        partitions=facts[topics.flow].partitions,
        record_bytes=min(fact.record_bytes for fact in facts.values()),
    )
    return checked_target, TopicPartitions(
        topics, {name: fact.partitions for name, fact in facts.items()}
    )
