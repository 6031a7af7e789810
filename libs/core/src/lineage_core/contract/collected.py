"""Rows that an action gave a program, by where they were: partition by partition, in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class CollectedRows:
    """The rows that an action gave, one partition of its sink behind the other.

    Args:
        app: the application.
        node: the action's sink.
        counts: the rows of each partition, from partition 0 on.
    """

    app: str
    node: str
    counts: tuple[int, ...]

    @property
    def total(self) -> int:
        """How many rows there are."""
        return sum(self.counts)

    def places(self, rows: Iterable[int]) -> Iterator[tuple[int, int]]:
        """The partition and the ordinal there of rows, which are in ascending order.

        Raises:
            IndexError: there is no such row.
        """
        ends = list(accumulate(self.counts))
        partition = 0
        for row in rows:
            while partition < len(ends) and row >= ends[partition]:
                partition += 1
            if row < 0 or partition == len(ends):
                raise IndexError(f"of {self.total:,} collected rows there is no row {row:,}")
            yield partition, row - ends[partition] + self.counts[partition]

    def row(self, partition: int, ordinal: int) -> int:
        """The row at an ordinal of a partition.

        Raises:
            IndexError: there is none.
        """
        if not 0 <= partition < len(self.counts) or not 0 <= ordinal < self.counts[partition]:
            raise IndexError(f"partition {partition} of the collected rows has no row {ordinal:,}")
        return sum(self.counts[:partition]) + ordinal
