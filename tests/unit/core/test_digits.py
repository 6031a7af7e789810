"""Numbers in text, in columns."""

from __future__ import annotations

import numpy as np
import pytest

from lineage_core.contract.digits import PAD, differs_from_index

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("count", [1, 9, 11, 100, 8_192, 8_193, 65_536, 100_001])
def test_numerals_that_count_up(count: int) -> None:
    numerals = [str(number).encode() for number in range(count)]
    text = np.frombuffer(b"x" * PAD + b",".join(numerals) + b",", np.uint8)
    length = np.array([len(one) for one in numerals])
    stop = PAD + np.cumsum(length + 1) - 1
    start = stop - length
    assert not differs_from_index(text, start, stop).any()
    for at in {0, count // 2, count - 1}:
        for place, byte in ((stop[at] - 1, text[stop[at] - 1] ^ 1), (start[at], ord("x"))):
            other = text.copy()
            other[place] = byte
            assert np.flatnonzero(differs_from_index(other, start, stop)).tolist() == [at]
        longer = start.copy()
        longer[at] -= 1
        assert np.flatnonzero(differs_from_index(text, longer, stop)).tolist() == [at]
