"""Follows triples from their known ends to the others: by look-ups, or among rows that are in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from lineage_core.tracing.budget import current_budget
from lineage_store.triples.files import Columns, Numbers, spans
from lineage_store.triples.numbering import with_new
from lineage_store.triples.reading import SortedPart

STEP_TRIPLES: Final = 4_096
"""Triples whose reading takes as long as a step does by itself: a quarter of a row group."""


class Walk:
    """The rows whose near end is among some numbers, or reached from them, found step by step.

    Args:
        part: the rows, by their near end.
        start: numbers, in order, each once.
        near: the end that is known.
        far: the end that is looked for.
        most: rows.
    """

    def __init__(self, part: SortedPart, start: Numbers, near: str, far: str, most: int) -> None:
        self._part = part
        self._near, self._far = near, far
        self._most = most
        self._seen = self._frontier = start
        self._steps: list[Columns] = []
        self._count = 0
        self._read_before = part.counts.triples

    @property
    def steps(self) -> int:
        """How many were made."""
        return len(self._steps)

    @property
    def cost(self) -> int:
        """What was spent, as triples that are read.

        All that the shared reader read since the walk began counts, so nothing else may read triples by it between two steps:
        the search of sets between them reads parents and children of sets alone, which are none.
        """
        return self._part.counts.triples - self._read_before + self.steps * STEP_TRIPLES

    def go_on(self, most_cost: int | None = None) -> bool:
        """Go on until nothing is new, or (between two steps) so much was spent in all; whether nothing is new.

        Raises:
            TooMuchError: there are more rows.
            StoreError: a file is damaged, or the storage can't be read.
            BudgetError: the query has no time left.
        """
        while len(self._frontier):
            if most_cost is not None and self.cost >= most_cost:
                return False
            # Of one number there may be more rows than fit into memory: they are counted while they are read.
            rows = self._part.between(self._frontier, self._frontier, self._most, self._count)
            self._count += len(rows[self._near])
            self._steps.append(rows)
            self._seen, self._frontier = with_new(self._seen, rows[self._far])
        return True

    @property
    def reached(self) -> Numbers:
        """The numbers of the start and those that rows led to by now, in order, each once."""
        return self._seen

    def rows(self) -> Columns:
        """What was found."""
        return _joined(self._steps)


def recursion(part: SortedPart, start: Numbers, near: str, far: str, most: int) -> Columns:
    """All rows of a :class:`Walk`; raises as that does."""
    walk = Walk(part, start, near, far, most)
    walk.go_on()
    return walk.rows()


def reachable(rows: Columns, start: Numbers, near: str, far: str) -> Columns:
    """The rows of some in memory whose near end is in ``start``, or reached from it.

    Args:
        rows: in the order of their near end.
        start: numbers, in order, each once.
        near: the end that is known.
        far: the end that is looked for.
    """
    steps = []
    order = rows[near]
    seen = frontier = start
    while len(frontier):
        current_budget().check()
        taken = spans(np.searchsorted(order, frontier), np.searchsorted(order, frontier, "right"))
        steps.append(taken)
        seen, frontier = with_new(seen, rows[far][taken])
    taken = np.concatenate(steps)
    return {name: column[taken] for name, column in rows.items()}


def _joined(steps: Sequence[Columns]) -> Columns:
    return {name: np.concatenate([step[name] for step in steps]) for name in steps[0]}
