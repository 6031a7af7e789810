"""Pairs of rows as flows."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lineage.materialising import flows_of

SMALL = st.integers(0, 20)
ANY = st.integers(0, 2**64 - 1)


@given(
    st.lists(st.tuples(SMALL, SMALL), min_size=1)
    | st.lists(st.tuples(ANY, SMALL), min_size=1)
    | st.lists(st.tuples(ANY, ANY), min_size=1)
)
def test_flows_have_each_pair_once(pairs: list[tuple[int, int]]) -> None:
    made, used = (np.array([pair[n] for pair in pairs], np.uint64) for n in (0, 1))
    out, ptr, first, last = flows_of(made, used)
    found = defaultdict[int, list[int]](list)
    for place, one in enumerate(out.tolist()):
        for run in range(ptr[place], ptr[place + 1]):
            found[one] += range(int(first[run]), int(last[run]) + 1)
    wanted = defaultdict[int, list[int]](list)
    for one, other in sorted(set(pairs)):
        wanted[one].append(other)
    assert found == wanted
    assert list(found) == sorted(found)
