"""Rows that stand out, by their values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_query.standing_out import standing_out

pytestmark = pytest.mark.unit

NOTHING = float("nan")


def most(*columns: list[float]) -> int:
    return int(np.argmax(standing_out([np.array(c) for c in columns], len(columns[0]))))


def test_what_lies_far_from_the_median_or_is_missing_stands_out() -> None:
    assert most([20.0, 22.0, 1_900_000.0, 19.0, 25.0]) == 2
    assert most([5.0, 5.0, 5.0, 5.0, 7.0]) == 4
    assert most([1.0, 2.0, 3.0, 2.0, NOTHING, 1.0, 2.0]) == 4
    # In any column, whatever the others say.
    assert most([1.0, 2.0, 3.0, 4.0], [9.0, 9.0, 9.0, -9e9]) == 3
    assert standing_out([], 3).tolist() == [0, 0, 0]
    assert standing_out([np.empty(0)], 0).tolist() == []


@given(st.lists(st.floats(), min_size=1))
def test_distances_are_finite_and_no_matter_of_order(values: list[float]) -> None:
    column = np.array(values)
    with np.errstate(all="raise", under="ignore"):
        distances = standing_out([column], len(column))
    assert np.isfinite(distances).all()
    assert (distances >= 0).all()
    assert np.array_equal(standing_out([column[::-1]], len(column))[::-1], distances)
