"""Records of the pipeline's topics, for whoever looks at them or deletes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of a topic. ``app``: whose it is, by its key or, of a dead letter, its headers; empty: not known."""

    topic: str
    partition: int
    offset: int
    app: str
    value: bytes | None


class RecordTopics(Protocol):
    """The topics of a pipeline; methods raise a LineageError where Kafka does not answer."""

    def partitions(self) -> Iterator[tuple[str, int]]:
        """The topics with the numbers of their partitions."""

    def is_dead_letters(self, topic: str) -> bool:
        """Whether a topic has records that were set aside."""

    def records(self, topic: str, partition: int) -> Iterator[TopicRecord]:
        """The records that a partition holds now, in order."""

    def used(self, topic: str, partition: int) -> int | None:
        """The offset before which all groups have used all records; None: no group is known."""

    def delete_before(self, topic: str, partition: int, offset: int) -> None:
        """Delete all records of a partition before an offset."""
