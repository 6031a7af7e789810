"""Lines that the logs of MapReduce's tasks name are read in columns, as one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_emitter.errors import CaptureFailedError
from lineage_emitter.sdk.mapreduce_adapter import _places

pytestmark = pytest.mark.property

place = st.tuples(
    st.integers(0, 10**6), st.integers(0, 2**16 - 1), st.integers(0, 2**40), st.integers(0, 3)
)


def text_of(at: tuple[int, int, int, int], is_superset: bool) -> str:
    split, attempt, first, more = at
    run = f"{first}-{first + more}" if more else str(first)
    return f"{'~' if is_superset else ''}{split}.{attempt}#{run}"


@given(st.lists(st.tuples(place, st.booleans()), min_size=1), st.booleans())
def test_places_are_read_in_columns(
    places: list[tuple[tuple[int, int, int, int], bool]], single: bool
) -> None:
    rows = [((*at[:3], 0) if single else at, marked) for at, marked in places]
    joined = ",".join(text_of(at, marked) for at, marked in rows).encode()
    expected = [[at[0], at[1], at[2], at[2] + at[3]] for at, _ in rows]
    assert _places(joined, len(rows)).tolist() == expected


@pytest.mark.parametrize(
    ("joined", "count"),
    [(b"0.0#", 1), (b"0.0#1", 2), (b"x.0#1", 1), (b"0.0#1-2-3", 1), (b"0.65536#1", 1)],
)
def test_other_text_names_no_lines(joined: bytes, count: int) -> None:
    with pytest.raises(CaptureFailedError, match="a log names"):
        _places(joined, count)
