"""Sizes that values decided: who reads one and computes on has traces that are not complete, and nobody else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays import Cells, Recording
from lineage_arrays.libraries import black_box
from lineage_arrays.operators import Mode, Operator, Strategy
from lineage_arrays.scipy import linalg as scipy_linalg
from lineage_arrays.scipy import ndimage, signal
from tests.unit.arrays.test_numpy_functions import CHOOSING, PLAIN, Case

pytestmark = pytest.mark.property

X = np.array([1.0, -2.0, 3.0, -1.0])
Z = np.arange(5.0, 45.0)

DECIDED: dict[str, Callable[[Any], Any]] = {
    "mask": lambda x: x[x > 0],
    "places": lambda x: np.nonzero(x > 0)[0],
    "flat places": lambda x: np.flatnonzero(x > 0),
    "all places": lambda x: np.argwhere(x > 0),
    "of where": lambda x: np.where(x > 0)[0],
    "distinct": lambda x: np.unique(np.abs(x)),
    "extracted": lambda x: np.extract(x > 0, x),
    "compressed": lambda x: np.compress(x > 0, x),
    "counts": lambda x: np.bincount(np.abs(x).astype(int)),
    "peaks": lambda x: signal.find_peaks(np.repeat(np.maximum(x, 0), 3) * np.tile([1, 2, 1], 4))[0],
}
MAY_DECIDE = frozenset(
    {
        np.trim_zeros, np.roots, np.polymul, np.union1d, np.intersect1d, np.setdiff1d, np.setxor1d, np.unique_all,
        np.unique_counts, np.unique_inverse,
    }
)  # fmt: skip
"""Functions of no mapping but all cells to all."""
THEN: dict[str, Callable[[Any], Any]] = {
    "nothing": lambda d: d,
    "times": lambda d: d * 2 + 1,
    "turned": lambda d: d[::-1],
    "sorted": lambda d: np.sort(d, axis=0),
    "joined": lambda d: np.concatenate((d, d)),
    "rows": lambda d: np.stack([d, d]),
    "column": lambda d: d[..., None],
    "differences": lambda d: np.diff(np.concatenate((d, d)), axis=0),
    "padded": lambda d: np.pad(d, 1),
    "written": lambda d: written(d.copy()),
    "flat": np.ravel,
    "box": black_box(lambda a: np.repeat(a, 2)),
}
SIZES: dict[str, Callable[[Any], int]] = {
    "len": len,
    "shape": lambda d: max(d.shape),
    "np.shape": lambda d: max(np.shape(d)),
    "size": lambda d: d.size,
    "np.size": lambda d: int(np.size(d)),
    "nbytes": lambda d: d.nbytes // 8,
    "strides": lambda d: d[:, None].repeat(2, axis=1).T.strides[0] // 8 + d.T.shape[-1],
    "iteration": lambda d: sum(1 for _ in d),
    "list": lambda d: len(list(d)),
    "zeros": lambda d: np.zeros_like(d).size,
    "full": lambda d: len(np.full_like(d, 3)),
    "unstack": lambda d: len(np.unstack(d)),
}  # fmt: skip
USES: dict[str, Callable[[Any, int], Any]] = {
    "slice": lambda z, n: z[:n],
    "scaled": lambda z, n: z * n,
    "shifted": np.roll,
    "repeated": np.repeat,
    "cut": lambda z, n: np.concatenate((z[:n], z[n:])) + z,
}


def written(d: Any) -> Any:
    d[:1] = 7
    return d


@settings(max_examples=60)
@given(
    st.sampled_from(sorted(DECIDED)),
    st.lists(st.sampled_from(sorted(THEN)), max_size=2),
    st.sampled_from(sorted(SIZES)),
    st.sampled_from(sorted(USES)),
)
def test_no_trace_that_says_complete_misses_a_size(
    decided: str, then: list[str], size: str, use: str
) -> None:
    def chosen(x: Any) -> Any:
        array = DECIDED[decided](x)
        for step in then:
            array = THEN[step](array)
        return array

    def program(x: Any, z: Any) -> Any:
        return USES[use](z, SIZES[size](chosen(x)))

    recording = Recording()
    x, z = recording.source("x", X), recording.source("z", Z)
    before = recording.back(chosen(x))
    assert (before.complete, recording.flow.leaks) == (True, [])
    result = program(x, z)
    plain = program(X, Z)
    np.testing.assert_array_equal(result.current, plain)
    trace = recording.back(result)
    assert "x" not in trace.cells
    # Whatever is read, also where this draw of a size would not change.
    assert not trace.complete
    assert "of an array whose size values decided at test_array_sizes.py" in str(
        trace.incomplete_reasons
    )


def other_values(array: Any, random: np.random.Generator, seed: int) -> Any:
    """Values for an array of the same shape and type."""
    if array.dtype.kind == "b":
        return random.random(array.shape) < seed / 5
    mixed = random.permutation(array.reshape(-1)).reshape(array.shape)
    return mixed if array.dtype.kind in "US" else (mixed * (seed % 3 + 1)).astype(array.dtype)


@pytest.mark.parametrize("case", [*PLAIN, *CHOOSING])
def test_functions_whose_results_have_other_shapes_are_known(case: Case) -> None:
    """A call whose result has another shape where values are others says so, and a call of which nothing does is not suspected."""
    recording = Recording()
    arrays = case.arrays()
    result = case.call(*(recording.source(f"a{at}", one) for at, one in enumerate(arrays)))
    shapes = set()
    for seed in range(6):
        random = np.random.default_rng(seed)
        drawn = [other_values(one, random, seed) for one in arrays]
        try:
            with np.errstate(all="ignore"):
                shapes.add(np.shape(case.call(*drawn)))
        except (ValueError, IndexError, np.linalg.LinAlgError):
            continue
    differing = {
        axis for axis in range(result.ndim) if len({shape[axis : axis + 1] for shape in shapes}) > 1
    }
    assert differing <= result.node.decided_axes
    assert not result.node.decided_axes or case in CHOOSING or MAY_DECIDE.issuperset(case.covers)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.union1d(x, [5.0]),
        lambda x: np.intersect1d(x, [1.0]),
        lambda x: np.setdiff1d(x, [1.0]),
        lambda x: np.setxor1d(x, [1.0]),
        np.trim_zeros,
        np.roots,
        lambda x: np.polymul(x, [1.0, 2.0]),
        lambda x: np.polydiv(x, np.array([1.0, 1.0]))[1],
        lambda x: np.unique_all(x)[0],
        lambda x: np.unique_counts(x).counts,
        lambda x: np.unique_inverse(x).values,
        lambda x: np.histogram(x, bins="auto")[0],
        lambda x: np.histogram_bin_edges(x, "auto"),
        lambda x: np.histogram([1.0, 2.0, 3.0], bins=x[0].astype(int) + 2)[0],
        lambda x: np.histogramdd(np.ones((3, 1)), bins=x[:1].astype(int) + 2)[0],
        lambda x: np.vander([1.0, 2.0], N=x[0].astype(int) + 2),
        lambda x: np.fft.fft2(np.ones((2, 2)), s=x[:2].astype(int) + 2),
        lambda x: np.linalg.lstsq(x[:, None], np.ones(6))[1],
        lambda x: np.polyfit(np.arange(6.0), x, 1, full=True)[1],
        lambda x: scipy_linalg.orth(x.reshape(3, 2)),
        lambda x: ndimage.zoom(np.ones(4), x[2] + 1),
        lambda x: signal.resample(np.ones(4), x[2].astype(int) + 4),
        lambda x: ndimage.rotate(np.ones((3, 4)), x[2] * 30),
        black_box(np.abs),
    ],
)
def test_a_length_that_values_may_decide_is_a_leak_also_where_it_is_that_of_an_operand(
    call: Callable[[Any], Any],
) -> None:
    recording = Recording()
    x = recording.source("x", np.array([0.0, 0.0, 1.0, 2.0, 3.0, 0.0]))
    scaled = x * call(x).shape[0]
    assert not recording.back(scaled, 0).complete


def test_lengths_that_follow_from_shapes_alone_are_none() -> None:
    recording = Recording()
    x = recording.source("x", np.arange(12.0).reshape(3, 4))
    for array in (
        np.linalg.lstsq(x, np.ones(3))[0], np.histogram(x, bins=4)[0], np.polydiv(x[0], [1.0, 2.0])[0], np.unique_all(x[0])[2],
        ndimage.distance_transform_edt(x), ndimage.generic_filter(x, np.max, 3), signal.fftconvolve(x, x), ndimage.gaussian_filter(x, x[0, 1]),
    ):  # fmt: skip
        len(array)
    assert [leak for leak in recording.flow.leaks if "size" in leak] == []


def test_sizes_of_other_arrays_are_nobodys_secret() -> None:
    """Shapes that follow from shapes are read without a word, also where values were chosen, or a size was decided on another axis."""
    recording = Recording()
    table = recording.source("table", np.arange(12.0).reshape(3, 4))
    picked = table[table[:, 0] > 0]
    assert (picked.node.decided_axes, picked.T.node.decided_axes) == (
        frozenset({0}),
        frozenset({1}),
    )
    arrays = (
        table, np.sort(table), table[table.argmax(axis=0)], picked.sum(axis=0), picked[0], picked.mean(), picked.max(axis=0) * table,
        np.where(table > 3, table, 0),
    )  # fmt: skip
    for array in arrays:
        _ = (array.shape, array.size, array.nbytes, list(array) if array.ndim else array)
        np.zeros_like(array)
    len(picked.T)
    # What NumPy reads for itself is no leak.
    np.broadcast_arrays(picked, picked)
    np.average(picked, axis=1)
    assert recording.flow.leaks == []
    assert recording.back(table * len(table)).complete


def test_a_shape_that_is_printed_alone_is_a_reason_that_says_what_it_is() -> None:
    recording = Recording()
    values = recording.source("x", X)
    positive = values[values > 0]
    f"{positive.shape[0]} of {len(values)}"
    before = recording.back(positive)
    assert before.complete
    trace = recording.back(positive * 2, Cells.at(positive.shape, [0]))
    (reason,) = trace.incomplete_reasons
    assert "values left by shape of an array whose size values decided at test_array" in reason


def test_chunks_of_a_mask_are_traced_and_their_mean_takes_their_sizes() -> None:
    for complete, call in (
        (True, lambda d: d[d > 0].sum()),
        (True, lambda d: d[d > 0] * 2),
        (False, lambda d: d[d > 0].mean()),
    ):
        recording = Recording()
        chunked = da.from_array(recording.source("x", X), chunks=2)
        trace = recording.back(call(chunked).compute(scheduler="synchronous"))
        assert trace.complete == complete
        assert trace.cells["x"].positions().tolist() == [0, 2]


class Positives(Operator):
    """The cells above zero: as many as there are."""

    name = "positives"
    chooses = True

    def supported_modes(self) -> frozenset[Mode]:
        return frozenset({Mode.FULL})

    def run(self, *inputs: Any, modes: frozenset[Mode]) -> Any:
        places = np.flatnonzero(inputs[0] > 0)
        for at, place in enumerate(places.tolist()):
            self.lwrite((at,), (place,))
        return inputs[0][places]


def test_operators_and_black_boxes_may_decide_sizes() -> None:
    for call in (
        lambda recording, x: recording.run(Positives(), x, strategies=[Strategy(Mode.FULL)]),
        lambda recording, x: black_box(lambda a: a[a > 0])(x),
    ):
        for values in (X, np.abs(X)):
            recording = Recording()
            x, z = recording.source("x", values), recording.source("z", Z)
            picked = call(recording, x)
            assert recording.back(picked).complete
            assert not recording.back(z[: len(picked)]).complete
