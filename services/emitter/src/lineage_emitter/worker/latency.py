"""How long a function takes with the records of one task, and with which of them it takes longest."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lineage_store.watch_folder import SLOWEST_MAX

SLOW_MIN_S = 0.001
"""With less, no record is kept as slow: to say what it was made from would take as long."""


@dataclass(slots=True)
class Tally:
    """Of one watch in one run of a segment.

    Args:
        describe: says what a record is, and what it was made from, as long as it is at work.
        sees_first: the watch counted before the first record, and ever since.
    """

    describe: Callable[[Any, float], dict[str, Any]]
    sees_first: bool
    records: int = 0
    seconds: float = 0.0
    bound_s: float = SLOW_MIN_S
    """From which on a record is among the slowest."""
    _slowest: list[tuple[float, int, dict[str, Any]]] = field(default_factory=list)

    def add(self, record: Any, seconds: float, records: int = 1) -> None:
        """Count a record, or some that were taken together."""
        self.records += records
        self.seconds += seconds
        if seconds >= self.bound_s:
            self.keep(record, seconds)

    def keep(self, record: Any, seconds: float) -> None:
        """Keep a record that has taken `bound_s` or longer."""
        # Of equally slow ones the first: the number is unique, so that descriptions are never compared.
        entry = (seconds, -self.records, self.describe(record, seconds))
        if len(self._slowest) < SLOWEST_MAX:
            heapq.heappush(self._slowest, entry)
        else:
            heapq.heappushpop(self._slowest, entry)
        if len(self._slowest) == SLOWEST_MAX:
            self.bound_s = self._slowest[0][0]

    def slowest(self) -> list[dict[str, Any]]:
        """What is said of the slowest records, the slowest first."""
        return [description for _, _, description in sorted(self._slowest, reverse=True)]
