"""Failing rows that share rows of sources: which of them is searched, and what is tried first."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.region import Region
from lineage_query.minimising import Part, minimise
from lineage_query.overlaps import most_overlapping, shared_parts, sharing

pytestmark = pytest.mark.unit

Rows = Mapping[str, frozenset[int]]
WITNESSES = st.dictionaries(
    st.sampled_from("ab"), st.frozensets(st.integers(0, 9), min_size=1), max_size=2
)


def regions(rows: Rows) -> dict[Hashable, Region]:
    return {of: Region.from_positions(sorted(ordinals)) for of, ordinals in rows.items()}


def rows_of(witnesses: Rows) -> set[tuple[str, int]]:
    return {(of, n) for of, ordinals in witnesses.items() for n in ordinals}


def rows_of_parts(parts: Sequence[Part]) -> list[list[int]]:
    return [list(part.rows) for part in parts]


@given(st.lists(WITNESSES, min_size=1, max_size=5))
def test_the_row_that_shares_most_is_searched(failing: list[Rows]) -> None:
    found = most_overlapping([regions(rows) for rows in failing])

    def key(number: int) -> tuple[int, int]:
        rows = rows_of(failing[number])
        others = [rows_of(other) for at, other in enumerate(failing) if at != number]
        return sum(bool(rows & other) for other in others), -len(rows)

    numbers = range(len(failing))
    assert key(found)[0] == max(key(number)[0] for number in numbers)
    if key(found)[0]:
        assert key(found) == max(map(key, numbers))
    assert not any(key(number) == key(found) for number in range(found))
    if not key(found)[0]:
        assert found == 0
    of_each = sharing([regions(rows) for rows in failing], sorted(rows_of(failing[found])))
    assert of_each.tolist() == [
        sum(row in rows_of(rows) for rows in failing) for row in sorted(rows_of(failing[found]))
    ]


def test_what_most_share_is_tried_first() -> None:
    parts = partial(shared_parts, np.array([1, 3, 1, 2, 3, 1]))
    assert rows_of_parts(list(parts())) == [[1, 4], [1, 3, 4]]
    # Of rows that as many share, those that are suspected more.
    assert rows_of_parts(list(parts([5, 4, 0, 1, 2, 3])))[:3] == [[4], [1, 4], [1, 3, 4, 5]]
    assert not list(shared_parts(np.array([1, 0, 1])))
    # All that there are fail in any case.
    assert not list(shared_parts(np.array([2, 2, 2])))
    assert not list(shared_parts(np.zeros(0, np.int64)))


def test_a_row_that_failing_rows_share_is_found_in_few_runs() -> None:
    """As where words of one wrong line all fail: the line is the one row that they share."""
    counts = np.ones(5_000, np.int64)
    counts[[17, 3_210]] = (2, 7)

    def fails(rows: Sequence[int]) -> bool:
        return 3_210 in rows

    found = minimise(5_000, fails, parts=shared_parts(counts))
    # All, the row that most share, none, and the row again.
    assert (found.rows, found.runs, found.rows_run) == ((3_210,), 4, 5_000 + 1 + 0 + 1)
    assert minimise(5_000, fails).runs > 4 * found.runs
