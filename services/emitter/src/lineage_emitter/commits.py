"""End markers of tasks: from the workers to the driver by a Spark accumulator.

Spark passes on the updates of just the attempt that it accepts (of a result task), and has them on
the driver before the action returns. ``addInPlace`` only appends to a queue: an exception there
would silently spoil the user's own accumulators.
"""

from __future__ import annotations

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
