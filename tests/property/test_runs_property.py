"""Set operations on runs equal those on sets of positions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.runs import (
    Runs,
    count_positions,
    covering_ranges,
    intersect_runs,
    normalise,
    overlaps,
    sorted_unique,
    subtract_runs,
    touching,
    union_runs,
)

pytestmark = pytest.mark.property

TOP = 2**64 - 1
# Both ends of the range of positions, where unsigned arithmetic wraps around.
ENDS = st.integers(0, 20) | st.integers(TOP - 20, TOP)


@st.composite
def some_runs(draw: st.DrawFn) -> Runs:
    pairs = []
    for first in draw(st.lists(ENDS, max_size=6)):
        room = (20 if first <= 20 else TOP) - first
        pairs.append((first, first + draw(st.integers(0, max(0, min(room, 5))))))
    return (
        np.array([a for a, _ in pairs], np.uint64),
        np.array([b for _, b in pairs], np.uint64),
    )


def positions(runs: Runs) -> set[int]:
    pairs = zip(runs[0].tolist(), runs[1].tolist(), strict=True)
    return {p for a, b in pairs for p in range(a, b + 1)}


def assert_normal(runs: Runs) -> None:
    first, last = runs[0].tolist(), runs[1].tolist()
    assert all(a <= b for a, b in zip(first, last, strict=True))
    assert all(a > b + 1 for a, b in zip(first[1:], last, strict=False))


@given(some_runs(), some_runs())
def test_set_operations(left: Runs, right: Runs) -> None:
    a, b = normalise(*left), normalise(*right)
    for got, wanted in [
        (a, positions(left)),
        (union_runs([left, right]), positions(left) | positions(right)),
        (intersect_runs(a, b), positions(left) & positions(right)),
        (subtract_runs(a, b), positions(left) - positions(right)),
    ]:
        assert_normal(got)
        assert positions(got) == wanted
        assert count_positions(got) == len(wanted)


@given(some_runs(), some_runs())
def test_touching_and_overlaps(many: Runs, right: Runs) -> None:
    wanted = normalise(*right)
    hit = touching(many[0], many[1], wanted).tolist()
    index, first, last = overlaps(many[0], many[1], wanted)
    for i, (a, b) in enumerate(zip(many[0].tolist(), many[1].tolist(), strict=True)):
        common = set(range(a, b + 1)) & positions(wanted)
        assert hit[i] == bool(common)
        assert positions((first[index == i], last[index == i])) == common


@given(some_runs(), st.integers(1, 4))
def test_clusters_cover(runs: Runs, at_most: int) -> None:
    a = normalise(*runs)
    found = covering_ranges(a, at_most)
    assert len(found) <= at_most
    assert len(found) == min(at_most, len(a[0]))
    for first, last in zip(a[0].tolist(), a[1].tolist(), strict=True):
        assert any(x <= first and last <= y for x, y in found)


@given(st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 9)))
def test_each_once(values: list[int]) -> None:
    assert sorted_unique(np.array(values, np.uint64)).tolist() == sorted(set(values))
