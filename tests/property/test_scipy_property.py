"""Windows, footprints and tables of an axis against their definition, and calls of SciPy over drawn arguments against what changes."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lineage_arrays import Cells, Recording
from lineage_arrays.axis_mappings import AlongAxis, Ranges, Union
from lineage_arrays.mappings import Mapping
from lineage_arrays.saved.columns import ColumnReader, ColumnWriter
from lineage_arrays.saved.mapping_packing import packed_mapping
from lineage_arrays.saved.mapping_reading import MappingReader
from lineage_arrays.scipy import linalg, ndimage, signal
from lineage_arrays.scipy_functions.footprints import footprint_of
from lineage_arrays.scipy_functions.windows import windows
from tests.support.cell_oracle import dependences, same

pytestmark = pytest.mark.property

PADDING: dict[str, Any] = {
    "reflect": "symmetric", "mirror": "reflect", "nearest": "edge", "wrap": "wrap", "grid-wrap": "wrap", "grid-mirror": "symmetric",
    "constant": "constant", "grid-constant": "constant",
}  # fmt: skip
"""What NumPy calls the modes of ``ndimage``."""
modes = st.sampled_from(sorted(PADDING))
Pairs = set[tuple[int, int]]


def pairs_of(mapping: Mapping) -> Pairs:
    """Pairs of an input's and an output's position, cell by cell backward; forward says the same, and so do all cells at once."""
    pairs = {
        (int(cell), at)
        for at in range(math.prod(mapping.target))
        for cell in mapping.backward(Cells.at(mapping.target, [at])).positions()
    }
    for cell in range(math.prod(mapping.source)):
        went = mapping.forward(Cells.at(mapping.source, [cell])).positions().tolist()
        assert went == sorted(b for a, b in pairs if a == cell)
    back = mapping.backward(Cells.whole(mapping.target)).positions().tolist()
    assert back == sorted({a for a, _ in pairs})
    forth = mapping.forward(Cells.whole(mapping.source)).positions().tolist()
    assert forth == sorted({b for _, b in pairs})
    return pairs


def by_definition(
    shape: tuple[int, ...],
    footprint: npt.NDArray[Any],
    origins: list[int],
    of_axes: list[str],
) -> Pairs:
    """Each output cell from the cells that a footprint lies over, of an array that NumPy continues axis by axis."""
    reach = max(footprint.shape, default=0) + 1
    padded = np.arange(1, math.prod(shape) + 1).reshape(shape)
    for axis, mode in enumerate(of_axes):
        width = [(0, 0)] * len(shape)
        width[axis] = (reach, reach)
        padded = np.pad(padded, width, mode=PADDING[mode])
    pairs = set()
    for output, at in enumerate(itertools.product(*map(range, shape))):
        for part in np.argwhere(footprint):
            place = tuple(
                reach + o + int(k) - size // 2 - origin
                for o, k, size, origin in zip(at, part, footprint.shape, origins, strict=True)
            )
            if padded[place]:
                pairs.add((int(padded[place]) - 1, output))
    return pairs


shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@st.composite
def footprints(draw: st.DrawFn) -> tuple[tuple[int, ...], npt.NDArray[Any], list[int], list[str]]:
    shape = draw(shapes)
    sizes = [draw(st.integers(1, 5)) for _ in shape]
    bits = draw(st.lists(st.booleans(), min_size=math.prod(sizes), max_size=math.prod(sizes)))
    origins = [draw(st.integers(-(size // 2), (size - 1) // 2)) for size in sizes]
    return shape, np.array(bits).reshape(sizes), origins, [draw(modes) for _ in shape]


@settings(max_examples=40)
@given(footprints())
def test_a_footprint_is_its_definition(
    drawn: tuple[tuple[int, ...], npt.NDArray[Any], list[int], list[str]],
) -> None:
    shape, footprint, origins, of_axes = drawn
    ((mapping, superset),) = footprint_of(shape, range(len(shape)), footprint, origins, of_axes)
    assert not superset
    assert pairs_of(mapping) == by_definition(shape, footprint, origins, of_axes)
    sizes = [
        (axis, size, origin, mode)
        for axis, (size, origin, mode) in enumerate(
            zip(footprint.shape, origins, of_axes, strict=True)
        )
    ]
    whole = np.ones(footprint.shape, np.bool_)
    assert pairs_of(windows(shape, sizes)) == by_definition(shape, whole, origins, of_axes)


@st.composite
def tables(draw: st.DrawFn) -> tuple[AlongAxis, Pairs]:
    source = draw(shapes)
    axis = draw(st.integers(0, len(source) - 1))
    target = (*source[:axis], draw(st.integers(1, 5)), *source[axis + 1 :])
    rows = draw(
        st.lists(
            st.tuples(
                st.integers(0, target[axis] - 1),
                st.integers(0, source[axis] - 1),
                st.integers(0, source[axis] - 1),
            ),
            max_size=6,
        )
    )
    columns = np.array(rows, np.int64).reshape(-1, 3).T
    mapping = AlongAxis(source, target, axis, lambda: Ranges.of(*columns))
    pairs = set()
    for output, at in enumerate(itertools.product(*map(range, target))):
        for o, first, last in rows:
            if at[axis] == o:
                for i in range(first, last + 1):
                    place = (*at[:axis], i, *at[axis + 1 :])
                    pairs.add((int(np.ravel_multi_index(place, source)), output))
    return mapping, pairs


@settings(max_examples=60)
@given(tables(), st.data())
def test_a_table_of_an_axis_is_its_definition_also_when_it_is_stored(
    drawn: tuple[AlongAxis, Pairs], data: st.DataObject
) -> None:
    mapping, pairs = drawn
    assert pairs_of(mapping) == pairs
    some = data.draw(st.sets(st.integers(0, math.prod(mapping.target) - 1)))
    assert mapping.backward(Cells.at(mapping.target, some)) == Cells.at(
        mapping.source, {a for a, b in pairs if b in some}
    )
    some = data.draw(st.sets(st.integers(0, math.prod(mapping.source) - 1)))
    assert mapping.forward(Cells.at(mapping.source, some)) == Cells.at(
        mapping.target, {b for a, b in pairs if a in some}
    )
    other = AlongAxis(mapping.source, mapping.target, mapping.axis, lambda: mapping.ranges)
    columns = ColumnWriter()
    plain = packed_mapping(Union((mapping, other)), columns)
    content = b"".join(columns.parts)
    reader = ColumnReader(memoryview(content), [len(part) for part in columns.parts])
    again = MappingReader(reader, {}).read(plain, mapping.source, mapping.target)
    assert pairs_of(again) == pairs


Call = tuple[str, Callable[[Any], Any], npt.NDArray[Any]]


@st.composite
def calls(draw: st.DrawFn) -> Call:
    """A call of one array whose arguments are drawn, and the array."""
    of_line = draw(st.integers(1, 7))
    other = draw(st.integers(1, 3))
    axis = draw(st.integers(0, 1))
    shape = (of_line, other) if axis == 0 else (other, of_line)
    dtype = draw(st.sampled_from([np.float64, np.float32, np.int32, np.uint8]))
    values = np.random.default_rng(draw(st.integers(0, 9))).normal(0, 3, shape)
    # Small floats: a change by the oracle is then often the least or the greatest.
    array = (
        np.abs(values) if dtype == np.uint8 else values if dtype == np.int32 else values / 9
    ).astype(dtype)
    size, mode = draw(st.integers(1, 6)), draw(st.sampled_from(sorted(PADDING)[:8]))
    origin = draw(st.integers(-(size // 2), (size - 1) // 2))
    up, down = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    weights = np.arange(1.0, size + 1)
    number = draw(st.sampled_from([-2, -1, -0.5, 0.3, 1, 1.5]))
    order = draw(st.integers(0, 1))
    convolving = draw(st.sampled_from(["full", "same", "valid"]))
    plane = np.resize(weights, (draw(st.integers(1, 3)), size))
    name, call = draw(
        st.sampled_from(
            [
                ("correlate1d", lambda x: ndimage.correlate1d(x, weights, axis, mode=mode, origin=origin)),
                ("convolve1d", lambda x: ndimage.convolve1d(x, weights, axis, mode=mode, origin=origin)),
                ("convolve", lambda x: ndimage.convolve(x, plane, mode=mode)),
                ("gaussian", lambda x: ndimage.gaussian_filter(x, abs(number), mode=mode, truncate=1.5)),
                ("maximum1d", lambda x: ndimage.maximum_filter1d(x, size, axis, mode=mode, origin=origin)),
                ("minimum", lambda x: ndimage.minimum_filter(x, footprint=plane % 2 == 1, mode=mode)),
                ("median", lambda x: ndimage.median_filter(x, (size, 2), mode=mode)),
                ("median of a line", lambda x: ndimage.median_filter(np.ravel(x), size, mode=mode)),
                ("uniform", lambda x: ndimage.uniform_filter1d(x, size, axis, mode=mode, origin=origin)),
                ("opening", lambda x: ndimage.grey_opening(x, (size, 2), mode=mode)),
                ("dilation", lambda x: ndimage.binary_dilation(x, plane % 2 == 1, iterations=up, border_value=order)),
                ("erosion", lambda x: ndimage.binary_erosion(x, plane % 2 == 1, iterations=up, border_value=order)),
                ("shift", lambda x: ndimage.shift(x, (number, -number), order=order, mode=mode)),
                ("spline", lambda x: ndimage.shift(x, number, order=3, mode=mode, prefilter=False)),
                ("zoom", lambda x: ndimage.zoom(x, abs(number), order=order, mode=mode)),
                ("rotate", lambda x: ndimage.rotate(x, 40 * number, order=0, mode=mode)),
                ("signal.convolve", lambda x: signal.convolve(x, plane, convolving, method="direct")),
                ("signal.convolve2d", lambda x: signal.convolve2d(x, plane, convolving, ["fill", "wrap", "symm"][up % 3])),
                ("signal.correlate2d", lambda x: signal.correlate2d(x, plane, convolving, ["fill", "wrap", "symm"][up % 3])),
                ("lfilter", lambda x: signal.lfilter(weights, [2.0, 0.5][: up % 2 + 1], x, axis)),
                ("savgol", lambda x: signal.savgol_filter(x, size + 1, 1, axis=axis)),
                ("upfirdn", lambda x: signal.upfirdn(weights, x, up, down, axis)),
                ("resample_poly", lambda x: signal.resample_poly(x, up, down, axis, window=list(weights))),
                ("toeplitz", lambda x: linalg.toeplitz(np.ravel(x))),
                ("circulant", lambda x: linalg.circulant(np.ravel(x))),
            ]
        )
    )  # fmt: skip
    options = f"axis={axis} {size=} {mode=} {origin=} {up=} {down=} {number=} {order=} {convolving=} plane={plane.shape}"
    return f"{name} {options}", call, array


def check(drawn: Call) -> None:
    what, call, array = drawn
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            plain = np.asarray(call(array.copy()))
        except (ValueError, RuntimeError, np.linalg.LinAlgError):
            return  # SciPy takes no such arguments.
        recording = Recording()
        result = call(recording.source("x", array))
        assert same(plain, result.current).all()
        (changed,) = dependences(call, [array])
    changed = changed.reshape(array.size, plain.size)
    traces = [
        recording.forward("x", result, Cells.at(array.shape, [at])) for at in range(array.size)
    ]
    said = np.array([next(iter(t.cells.values())).mask().reshape(-1) for t in traces])
    assert not (changed & ~said).any(), (
        f"{what}: a change outside of the lineage of {array!r} was seen"
    )
    if array.dtype.kind == "f" and plain.size and all(trace.exact for trace in traces):
        shown = np.zeros_like(said)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for seed in range(20):
                shown |= dependences(call, [array], seed)[0].reshape(said.shape)
                if (shown == said).all():
                    return
        raise AssertionError(f"{what}: a cell of exact lineage of {array!r} changes nothing")


# What truth values of drawn numbers show of a structure is checked in test_binary_structures.
NEVER_SHOWN = ("dilation", "erosion")


@settings(max_examples=60)
@given(calls().filter(lambda drawn: not drawn[0].startswith(NEVER_SHOWN)))
def test_calls_are_held_against_what_changes(drawn: Call) -> None:
    check(drawn)


@pytest.mark.long
@settings(max_examples=1_000)
@given(calls().filter(lambda drawn: not drawn[0].startswith(NEVER_SHOWN)))
def test_many_calls_are_held_against_what_changes(drawn: Call) -> None:
    check(drawn)


@settings(max_examples=30)
@given(
    footprints().filter(lambda drawn: len(drawn[0]) < 3 and drawn[1].any()),
    st.booleans(),
    st.integers(1, 2),
    st.booleans(),
)
def test_binary_structures(drawn: Any, dilates: bool, times: int, border: bool) -> None:
    """Of an array where nothing is decided yet (all true erodes, all false dilates) each change that counts shows."""
    shape, structure, origins, _ = drawn
    function = ndimage.binary_dilation if dilates else ndimage.binary_erosion

    def call(x: Any) -> Any:
        return function(x, structure, iterations=times, origin=origins, border_value=border)

    array = np.full(shape, not dilates)
    recording = Recording()
    result = call(recording.source("x", array))
    (changed,) = dependences(call, [array])
    traces = [recording.forward("x", result, Cells.at(shape, [at])) for at in range(array.size)]
    said = np.array([next(iter(trace.cells.values())).mask().reshape(-1) for trace in traces])
    assert (said == changed.reshape(said.shape)).all()
    assert all(trace.exact for trace in traces)
