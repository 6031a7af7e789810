"""A capture point at work: hashes for records, and events about them."""

from __future__ import annotations

from itertools import count
from typing import Any, TypeAlias

from pyspark import TaskContext

from benchmarks.baselines.record_level.events import encode, hash_of
from benchmarks.baselines.record_level.sender import Target, sender_of

Trace: TypeAlias = tuple[str, Any]
"""(hash, record)."""


class Point:
    """A capture point within one task."""

    def __init__(self, target: Target, node: str) -> None:
        context = TaskContext.get()
        assert context is not None, "capture points are made in tasks"
        self.partition = context.partitionId()
        self._prefix = f"{node}#{self.partition}#{context.taskAttemptId()}#"
        self._names = f"{target.app}#{self._prefix}"
        self._key = f"{target.app}#{node}".encode()
        self._sender = sender_of(target)
        self._flows, self._records = count(), count()

    def fresh(self) -> str:
        """The hash of the next record."""
        return hash_of(f"{self._names}{next(self._records)}")

    def tell(self, hash_in: str, hash_out: str, val: str = "") -> None:
        """Send one event."""
        event = encode(f"{self._prefix}{next(self._flows)}", hash_in, hash_out, val)
        self._sender.send(self._key, event, self.partition)

    def flush(self) -> None:
        """Wait until Kafka has all events of this process."""
        self._sender.flush()
