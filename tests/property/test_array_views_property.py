"""Programs that write to arrays through views of views, held against NumPy and against changed inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays import Recording
from lineage_arrays.cells import Cells
from lineage_arrays.errors import UntracedError

pytestmark = pytest.mark.property

Arrays = list[Any]
Step = tuple[str, int, int, int]
SHAPE = (4, 6)
VIEWS: dict[str, Callable[[Any, int, int], Sequence[Any]]] = {
    "rows": lambda x, a, b: [x[a % len(x) :: 1 + b % 2]],
    "reversed": lambda x, a, b: [x[::-1]],
    "turned": lambda x, a, b: [x.T],
    "split": lambda x, a, b: np.array_split(x, 1 + a % 3),
    "listed": lambda x, a, b: list(x) if x.ndim > 1 else [x],
    "flat": lambda x, a, b: [x.reshape(-1)],
    "copy": lambda x, a, b: [x.copy()],
    "expanded": lambda x, a, b: [x[None, a % len(x) :]],
}
WRITES: dict[str, Callable[[Any, Any, int], None]] = {
    "scale": lambda x, y, a: np.multiply(x, 2 + a, out=x),
    "cell": lambda x, y, a: x.__setitem__(a % len(x), 7.0),
    "add": lambda x, y, a: x.__setitem__(..., x + y.sum()),
    "part": lambda x, y, a: x.__setitem__(slice(a % len(x), None), y.reshape(-1)[0] * 3),
    "negate": lambda x, y, a: np.negative(x, out=x),
}
STEPS = st.lists(
    st.tuples(
        st.sampled_from([*VIEWS, *WRITES]),
        st.integers(0, 20),
        st.integers(0, 20),
        st.integers(0, 5),
    ),
    min_size=2,
    max_size=10,
)


def run(steps: Sequence[Step], start: Any, is_contiguous: Callable[[Any], bool]) -> Arrays:
    """All arrays that a program made, after its last write."""
    arrays: Arrays = [start]
    for name, first, second, number in steps:
        one, other = arrays[first % len(arrays)], arrays[second % len(arrays)]
        if not len(one):
            continue
        if name == "flat" and not is_contiguous(one):
            continue
        if name in VIEWS:
            arrays += VIEWS[name](one, number, second)
        elif np.size(plain(other)):
            WRITES[name](one, other, number)
    return arrays


def plain(array: Any) -> Any:
    return array if isinstance(array, np.ndarray) else array.current


@given(steps=STEPS, cell=st.integers(0, 23))
def test_writes_through_views_are_those_of_numpy(steps: Sequence[Step], cell: int) -> None:
    values = np.arange(1.0, 25.0).reshape(SHAPE)
    expected = run(steps, values.copy(), lambda x: x.flags.c_contiguous)
    recording = Recording()
    try:
        found = run(
            steps, recording.source("x", values), lambda x: bool(x.current.flags.c_contiguous)
        )
    except UntracedError:
        return
    assert len(found) == len(expected)
    changed = values.copy()
    changed.reshape(-1)[cell] += 0.5
    after = run(steps, changed, lambda x: x.flags.c_contiguous)
    for traced, wanted, other in zip(found, expected, after, strict=True):
        assert np.array_equal(traced.current, wanted)
        if not wanted.size:
            continue
        for at in np.flatnonzero((wanted != other).reshape(-1)):
            made = recording.back(traced, Cells.at(wanted.shape, [int(at)]))
            assert cell in made.cells["x"].positions(), (steps, int(at))
            assert made.complete
