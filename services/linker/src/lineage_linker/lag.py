"""How far behind a worker is: in records, and in seconds since they were emitted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from lineage_linker.metrics import Metrics
from lineage_linker.records import Incoming


class Lag:
    """Where a worker stands in its partitions. ``clock``: unix seconds."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = time.time) -> None:
        self._metrics = metrics
        self._clock = clock
        self._next: dict[tuple[str, int], int] = {}
        self._emitted: dict[str, float] = {}

    def record_handled(self, records: Sequence[Incoming]) -> None:
        """Record which records are done."""
        for record in records:
            place = record.place
            self._next[place.topic, place.partition] = place.offset + 1
            self._emitted[place.topic] = record.timestamp

    def measure(
        self,
        topics: Iterable[str],
        bounds: Mapping[tuple[str, int], tuple[int, int]],
    ) -> None:
        """Update the metrics.

        ``bounds``: of the worker's partitions, where it had to begin, and the offset behind the last
        record.
        """
        for stale in self._next.keys() - bounds.keys():
            del self._next[stale]
        for topic in topics:
            lag = 0
            for partition, (start, end) in bounds.items():
                if partition[0] == topic:
                    lag += max(0, end - self._next.get(partition, start))
            emitted = self._emitted.get(topic, 0.0)
            age = max(0.0, self._clock() - emitted) if lag and emitted else 0.0
            self._metrics.lag(topic, lag, age)
