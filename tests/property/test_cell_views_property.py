"""Mappings of views and of padding, known from memory and widths, against a run over positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays import Cells
from lineage_arrays.functions.views import of_padding, of_view

pytestmark = pytest.mark.property

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@st.composite
def laid_out(draw: st.DrawFn) -> Any:
    """An array of distinct numbers, somewhere in the memory of a larger one, its axes in any order and direction."""
    shape = draw(shapes)
    steps = [draw(st.sampled_from((1, 2, -1, -2))) for _ in shape]
    wide = np.arange(math.prod(2 * n + 1 for n in shape)).reshape([2 * n + 1 for n in shape])
    parts = tuple(
        slice(0 if step > 0 else 2 * n, None, step) for n, step in zip(shape, steps, strict=True)
    )
    array = wide[parts][tuple(slice(n) for n in shape)]
    return array.transpose(draw(st.permutations(range(len(shape)))))


@st.composite
def moved(draw: st.DrawFn, array: Any) -> Any:
    """What functions that move cells make of an array."""
    value = array
    for _ in range(draw(st.integers(1, 3))):
        axis = draw(st.integers(0, max(value.ndim - 1, 0)))
        kind = draw(
            st.sampled_from(
                (
                    "transpose",
                    "flip",
                    "step",
                    "new",
                    "number",
                    "repeat",
                    "diagonal",
                    "reshape",
                    "copy",
                    "swap",
                )
            )
        )
        if kind == "transpose":
            value = value.transpose(draw(st.permutations(range(value.ndim))))
        elif kind == "new":
            value = np.expand_dims(value, axis)
        elif kind == "repeat":
            value = np.broadcast_to(value, (2, *value.shape))
        elif kind == "reshape":
            value = value.reshape(-1)
        elif kind == "copy":
            value = np.roll(value, 1)
        elif value.ndim:
            if kind == "flip":
                value = np.flip(value, axis)
            elif kind == "step":
                value = np.moveaxis(
                    np.moveaxis(value, axis, 0)[:: draw(st.sampled_from((1, 2, -2)))], 0, axis
                )
            elif kind == "number":
                value = (
                    value.take(0, axis) if draw(st.booleans()) else np.moveaxis(value, axis, 0)[-1]
                )
            elif kind == "diagonal" and value.ndim > 1:
                value = np.diagonal(value)
            elif kind == "swap":
                value = np.swapaxes(value, axis, 0)
    return value


@given(st.data())
def test_a_view_says_which_cells_it_has(data: st.DataObject) -> None:
    array = data.draw(laid_out())
    value = np.asarray(data.draw(moved(array)))
    mapping = of_view(array, value)
    if mapping is None:
        return
    place = {number: at for at, number in enumerate(array.reshape(-1).tolist())}
    came = [place[number] for number in value.reshape(-1).tolist()]
    for at, position in enumerate(came):
        assert mapping.backward(Cells.at(value.shape, [at])).positions().tolist() == [position]
    some = data.draw(st.sets(st.integers(0, array.size - 1)))
    wanted = [at for at, one in enumerate(came) if one in some]
    assert mapping.forward(Cells.at(array.shape, some)).positions().tolist() == wanted


def test_known_views_are_known() -> None:
    array = np.zeros((3, 4, 5))
    for value in (
        array.T,
        array[:, ::-1],
        np.flip(array),
        np.moveaxis(array, 0, 2),
        array[1:, ::2],
        array[2, :, 1],
        np.rot90(array),
    ):
        assert of_view(array, value) is not None
        assert of_view(array[::-1], value[..., ::-1]) is not None
    assert of_view(array, np.broadcast_to(array[0, 0, :1], (2, 3))) is not None
    for other in (
        array.copy(),
        np.diagonal(array),
        array.reshape(-1),
        np.zeros(3),
        array.astype(">f8"),
        3.0,
        array[:0],
    ):
        assert of_view(array, other) is None
    assert (
        of_view(np.broadcast_to(array, (2, 3, 4, 5)), array) is None
    )  # cells that share an address


@given(shapes, st.data())
def test_padding_is_a_run_over_positions(shape: tuple[int, ...], data: st.DataObject) -> None:
    one = st.integers(0, 2)
    pair = st.tuples(one, one)
    width = data.draw(
        st.one_of(one, st.tuples(one), pair, st.tuples(*[pair] * len(shape)), st.tuples(pair))
    )
    padded = np.pad(np.arange(1, math.prod(shape) + 1).reshape(shape), width)
    mapping = of_padding(shape, padded.shape, width)
    assert mapping is not None
    flat = padded.reshape(-1).tolist()
    for at in data.draw(st.lists(st.integers(0, padded.size - 1), max_size=5)):
        wanted = [flat[at] - 1] if flat[at] else []
        assert mapping.backward(Cells.at(padded.shape, [at])).positions().tolist() == wanted
    some = data.draw(st.sets(st.integers(0, math.prod(shape) - 1)))
    wanted = [at for at, number in enumerate(flat) if number - 1 in some]
    assert mapping.forward(Cells.at(shape, some)).positions().tolist() == wanted
    assert mapping.backward(Cells.whole(padded.shape)).is_whole
