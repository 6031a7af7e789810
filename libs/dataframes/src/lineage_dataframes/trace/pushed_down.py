"""The test of an output row, pushed down into the aggregate that made the row.

Gulzar et al., "Automated Debugging in Data-Intensive Scalable Computing" (BigSift, SoCC 2017), test predicate pushdown: the test gets aggregates of parts of a
group, and no job runs for it. The values that the group combined are read once; of each part the row is computed from them, in closed form
(`combined_groups`), and given to the test. So a smallest part is known before the plan runs over any.

What is found is a part to try first. That it fails, and that no row of it can be left out, the plan shows afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lineage_core.errors import LineageError
from lineage_dataframes.trace.combined_groups import (
    CombinedGroup,
    NoClosedFormError,
    Witness,
    combined_group,
)
from lineage_dataframes.trace.replay import Replayer
from lineage_query.minimising import (
    INTERRUPTED,
    Part,
    PassingTestError,
    UnsteadyTestError,
    first_suspects,
    minimise,
)

Row = Mapping[str, Any]

COMBINED_MAX = 100_000
"""Rows that the group combined; of a larger one, a run of the plan takes no longer than a test here."""
VALUES_MAX = 2_000_000
"""Values that are looked at, all tests together."""


@dataclass(frozen=True)
class PushedDown:
    """What tests of aggregates of parts found. ``part``: that fails, if it was found; ``tests``: how many parts were tested."""

    part: Part | None
    tests: int = 0


def push_down(
    replayer: Replayer,
    witnesses: Sequence[Witness],
    whole: Sequence[Row],
    fails: Callable[[Row], bool],
    stop: Callable[[int], str],
    suspects: Sequence[int],
) -> PushedDown:
    """Search a smallest part of a row's witnesses by tests of aggregates of the values that its group combined.

    Args:
        replayer: of the row.
        witnesses: of the row, each once: the search names them by their numbers.
        whole: the rows that the plan makes of all of them.
        fails: the test.
        stop: as in `lineage_query.minimising.minimise`; these tests are no runs.
        suspects: numbers of witnesses, the most suspected first.

    Raises:
        UnsteadyTestError: the test gives another verdict on the same row.
        ChangedSourceError: a source was written meanwhile.
        KeyboardInterrupt: the search was interrupted.
    """
    if len(replayer.requested) != 1:
        # Several rows are tested at once.
        return PushedDown(None)
    try:
        group = combined_group(replayer, witnesses, COMBINED_MAX)
    except NoClosedFormError:
        return PushedDown(None)
    row_of = _row_of(group, witnesses, replayer.columns)
    tests = 0

    def fails_alone(chosen: Sequence[int]) -> bool:
        nonlocal tests
        tests += 1
        row = row_of(chosen)
        return row is not None and fails(row)

    def stop_here(runs: int) -> str:
        return stop(0) or ("too many values" if runs * group.size > VALUES_MAX else "")

    try:
        found = minimise(len(witnesses), fails_alone, stop_here, first_suspects(suspects))
    except UnsteadyTestError:
        raise
    except PassingTestError:
        if repr(row_of(range(len(witnesses)))) in {repr(dict(row)) for row in whole}:
            raise UnsteadyTestError("the test gives another verdict on the same row") from None
        # The values of the group do not give the row that fails.
        return PushedDown(None, tests)
    except LineageError:
        # Of the test, which gets no such row from the plan, maybe.
        return PushedDown(None, tests)
    if found.stopped == INTERRUPTED:
        raise KeyboardInterrupt
    return PushedDown(Part(found.rows, is_small=found.one_minimal), tests)


def _row_of(
    group: CombinedGroup, witnesses: Sequence[Witness], columns: Sequence[str]
) -> Callable[[Sequence[int]], Row | None]:
    """The output row that the group gives of some of the witnesses alone; None: it gives none."""
    pairs = [(n, row) for n, witness in enumerate(witnesses) for row in group.rows_of[witness]]
    of_witness, of_row = np.array(pairs, np.int64).reshape(-1, 2).T

    def row_of(chosen: Sequence[int]) -> Row | None:
        is_left_out: NDArray[np.bool_] = np.ones(len(witnesses), np.bool_)
        is_left_out[list(chosen)] = False
        # A combined row is there while all is that it was made from.
        rows = np.unique(of_row[is_left_out[of_witness]]).tolist()
        values, _ = group.without(rows)
        return None if values is None else dict(zip(columns, values, strict=True))

    return row_of
