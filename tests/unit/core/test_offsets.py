"""Ranges of offsets as text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.offsets import OFFSETS, offsets_text, parse_offsets

SPANS = st.tuples(st.integers(0, 10**12), st.integers(1, 10**6)).map(lambda at: (at[0], sum(at)))


@given(st.dictionaries(st.integers(0, 10**6), SPANS, min_size=1, max_size=5))
def test_ranges_are_read_as_they_were_written(ranges: dict[int, tuple[int, int]]) -> None:
    text = offsets_text(ranges)
    assert OFFSETS.fullmatch(text)
    assert parse_offsets(text) == ranges


def test_ranges_without_offsets_are_left_out() -> None:
    assert offsets_text({10: (3, 4), 2: (0, 7), 3: (5, 5)}) == "2:0-7 10:3-4"
    assert offsets_text({3: (5, 5)}) == ""


def test_ranges_of_one_partition_are_one() -> None:
    assert parse_offsets("0:5-9 0:1-2") == {0: (1, 9)}
