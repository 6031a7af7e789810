"""Kafka records as the linker's core sees them: what came, what goes out."""

from __future__ import annotations

from dataclasses import dataclass

from lineage_core.contract.dead_letter import Headers, TopicPartitionOffset
from lineage_kafka.topics import RECORD_BYTES_MAX, Topics

VALUE_BYTES_MAX = RECORD_BYTES_MAX - (64 << 10)
"""Longest value that is sent: key, headers and Kafka's own framing take their part of a record."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """A record that was read. ``timestamp``: unix seconds, 0 where it has none.

    ``generation``: of the assignment in which it was read.
    """

    place: TopicPartitionOffset
    key: bytes | None
    value: bytes | None
    timestamp: float = 0.0
    generation: int = 0

    @property
    def size(self) -> int:
        """Bytes of the value."""
        return len(self.value or b"")


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to be sent.

    ``timestamp``: unix seconds of the record that brought it about (of several the latest), so that
    whoever reads it knows how long ago it was emitted. ``source``: the record that it is a form of;
    when Kafka refuses it as too large, that one is a dead letter. ``after``: it is sent when all
    others of its batch have arrived.
    """

    topic: str
    partition: int
    key: bytes
    value: bytes
    headers: Headers | None = None
    timestamp: float = 0.0
    source: Incoming | None = None
    after: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Topics, and how many partitions those have that are written."""

    topics: Topics
    edge_partitions: int
    dead_letter_partitions: int
