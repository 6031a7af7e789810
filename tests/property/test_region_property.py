"""Regions against sets of numbers."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.digits import PAD, parse_numbers
from lineage_core.contract.region import Region

pytestmark = pytest.mark.property

TOP = 2**64 - 1
near_the_ends = st.one_of(st.integers(0, 24), st.integers(TOP - 24, TOP))
numbers = st.sets(near_the_ends, max_size=20)
some = st.lists(near_the_ends, max_size=10)


def region(positions: set[int]) -> Region:
    return Region.from_positions(sorted(positions, reverse=True))


@given(numbers)
def test_a_region_is_its_positions(positions: set[int]) -> None:
    found = region(positions)
    assert found.positions().tolist() == sorted(positions)
    assert found.count == len(positions)
    assert Region.from_text(found.to_text()) == found
    runs = list(found)
    assert all(b[0] > a[1] + 1 for a, b in itertools.pairwise(runs))
    assert Region.union(region(set(range(a, b + 1))) for a, b in runs) == found


@given(numbers, numbers)
def test_operations_are_those_of_sets(left: set[int], right: set[int]) -> None:
    a, b = region(left), region(right)
    assert a | b == region(left | right)
    assert a & b == region(left & right)
    assert a - b == region(left - right)
    assert (a == b) == (left == right)


@given(st.lists(numbers, max_size=5))
def test_union_of_many(sets: list[set[int]]) -> None:
    assert Region.union(map(region, sets)) == region(set().union(*sets))


@given(numbers, some)
def test_contains(positions: set[int], wanted: list[int]) -> None:
    found = region(positions).contains(np.array(wanted, np.uint64))
    assert found.tolist() == [position in positions for position in wanted]


@given(numbers, st.integers(0, 25), st.integers(0, 25))
def test_slices_are_those_of_the_list(positions: set[int], offset: int, limit: int) -> None:
    page = region(positions).slice(offset, limit)
    assert page.positions().tolist() == sorted(positions)[offset : offset + limit]
    head = region(positions).positions(limit)
    assert head.tolist() == sorted(positions)[:limit]


@given(st.lists(st.text("0123456789 -a\x2f\x3a\xff", max_size=22) | st.integers(0, 2**66).map(str)))
def test_numbers_are_parsed_as_python_does(texts: list[str]) -> None:
    raw = [text.encode("latin-1") for text in texts]
    buffer = np.frombuffer(bytes(PAD) + b"".join(raw) + bytes(PAD), np.uint8)
    stop = PAD + np.cumsum([len(text) for text in raw], dtype=np.int64)
    start = stop - np.array([len(text) for text in raw], np.int64)
    parsed, bad = parse_numbers(buffer, start, stop)
    for text, number, is_bad in zip(texts, parsed.tolist(), bad.tolist(), strict=True):
        digits = text.isascii() and text.isdigit() and str(int(text)) == text
        assert is_bad != (digits and int(text) <= TOP), text
        assert is_bad or number == int(text)
