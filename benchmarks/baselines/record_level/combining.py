"""The two capture points of a shuffle that combines by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyspark.shuffle import Aggregator, ExternalMerger

from benchmarks.baselines.record_level.point import Point, Trace
from benchmarks.baselines.record_level.sender import Target

Combined: TypeAlias = list[Any]
"""[value, hashes]: one hash for each map task that combined records of the key."""


@dataclass(frozen=True)
class Combining:
    """Combines by PySpark's own mergers, so that keys come out in the order of plain PySpark.

    ``memory_mb``: mergers spill beyond.
    """

    target: Target
    function: Callable[[Any, Any], Any]
    memory_mb: int
    serializer: Any

    def write(self, records: Iterable[Trace]) -> Iterator[tuple[Any, Combined]]:
        """Shuffle write: each record goes into its key's."""
        point = Point(self.target, "shuffle-write")

        def first(event_and_value: tuple[str, Any]) -> Combined:
            out = point.fresh()
            point.tell(event_and_value[0], out, self._val(event_and_value[1]))
            return [event_and_value[1], [out]]

        def further(combined: Combined, event_and_value: tuple[str, Any]) -> Combined:
            point.tell(event_and_value[0], combined[1][0], self._val(event_and_value[1]))
            combined[0] = self.function(combined[0], event_and_value[1])
            return combined

        merger = self._merger(first, further)
        merger.mergeValues((key, (at, value)) for at, (key, value) in records)
        point.flush()
        return iter(merger.items())

    def read(self, combined: Iterable[tuple[Any, Combined]]) -> Iterator[Trace]:
        """Shuffle read: what the map tasks have of a key goes into one record."""
        point = Point(self.target, "shuffle-read")
        merger = self._merger(_unused, _unused)
        merger.mergeCombiners(combined)
        for key, (value, hashes) in merger.items():
            out = point.fresh()
            for at in hashes:
                point.tell(at, out, self._val((key, value)))
            yield out, (key, value)
        point.flush()

    def _val(self, record: Any) -> str:
        return repr(record) if self.target.detailed else ""

    def _both(self, first: Combined, second: Combined) -> Combined:
        return [self.function(first[0], second[0]), first[1] + second[1]]

    def _merger(self, add: Callable[..., Any], add_more: Callable[..., Any]) -> ExternalMerger:
        return ExternalMerger(
            Aggregator(add, add_more, self._both), self.memory_mb, self.serializer
        )


def _unused(*_: Any) -> Any:
    raise AssertionError("after the shuffle there are combiners only")
