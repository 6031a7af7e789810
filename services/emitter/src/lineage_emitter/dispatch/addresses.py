"""Which topic and partition a record goes to, of a client that has asked Kafka or still has to."""

from __future__ import annotations

from collections.abc import Mapping

from lineage_core.message import Commit, Fail, Message
from lineage_core.topics import Topics, app_partition, flow_partition
from lineage_emitter.dispatch.outbox import Outbox


class Addresses:
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
