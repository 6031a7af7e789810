"""End markers of tasks: from the workers to the driver by a Spark accumulator.

Spark passes on the updates of just the attempt that it accepts (of a result task), and has them on
the driver before the action returns. ``addInPlace`` only appends to a queue: an exception there
would silently spoil the user's own accumulators.

A ``take`` reads ahead of what it gives. How many rows of a partition reached the user is known when
the action has ended, and a commit says so: until then the markers of such a sink are held back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from pyspark.accumulators import AccumulatorParam

Marker = dict[str, Any]


class MarkerParam(AccumulatorParam[list[Marker]]):
    """Accumulates lists of end markers; on the driver they go to ``queue`` instead."""

    def __init__(self, queue: SimpleQueue[Any] | None = None) -> None:
        self.queue = queue

    def __reduce__(self) -> tuple[type[MarkerParam], tuple[()]]:
        """In a worker the parameter has no queue."""
        return (MarkerParam, ())

    def zero(self, value: list[Marker]) -> list[Marker]:
        """An empty list."""
        return []

    def addInPlace(self, value1: list[Marker], value2: list[Marker]) -> list[Marker]:
        """Append in the worker, queue on the driver."""
        if self.queue is not None:
            for marker in value2:
                self.queue.put(marker)
            return value1
        value1.extend(value2)
        return value1


@dataclass(frozen=True, slots=True)
class Hold:
    """An action on ``sink`` begins: its markers wait for :class:`Release`."""

    sink: str


@dataclass(frozen=True, slots=True)
class Release:
    """The action on ``sink`` is over.

    Of its partitions, in the order in which they were read, the first ``limit`` rows reached the
    user. None: nothing is known to be cut.
    """

    sink: str
    limit: int | None = None
    partitions: tuple[int, ...] = ()


class HeldMarkers:
    """Markers in, markers to commit out. One thread's: what comes in order needs no lock."""

    def __init__(self) -> None:
        self._held: dict[str, list[Marker]] = {}

    def handle(self, event: Marker | Hold | Release) -> list[Marker]:
        """What can be committed after an event; ``keep`` is set where the action took a part of the rows."""
        match event:
            case Hold():
                self._held.setdefault(event.sink, [])
            case Release():
                markers = self._held.pop(event.sink, [])
                if event.limit is None:
                    return markers
                rows = {marker["partition"]: marker["rows"] for marker in markers}
                limits = row_limits(rows, event.partitions, event.limit)
                return [marker | {"keep": limits.get(marker["partition"])} for marker in markers]
            case _:
                held = self._held.get(event["node"])
                if held is None:
                    return [event]
                held.append(event)
        return []

    def release_all(self) -> list[Marker]:
        """Markers of actions that are still under way: nothing waits any more."""
        markers = [marker for held in self._held.values() for marker in held]
        self._held.clear()
        return markers


def row_limits(rows: Mapping[int, int], partitions: Iterable[int], limit: int) -> dict[int, int]:
    """How many rows of a partition are among the first ``limit``, where those are not all.

    ``rows``: rows by partition. Behind a partition without them nothing can be said.
    """
    limits: dict[int, int] = {}
    remaining = limit
    for partition in partitions:
        if partition not in rows:
            break
        if rows[partition] > remaining:
            limits[partition] = remaining
        remaining -= min(rows[partition], remaining)
    return limits
