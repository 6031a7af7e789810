"""Cells of Dask's arrays by chunk, held against chunks that are cut out one by one."""

from __future__ import annotations

from itertools import product
from typing import Any

import dask.array as da
import numpy as np
import pytest
from dask.array.core import slices_from_chunks
from hypothesis import given
from hypothesis import strategies as st

from lineage_arrays import CellError, Cells, Recording
from lineage_arrays.dask import by_chunk

pytestmark = pytest.mark.unit
AXES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3).map(tuple), max_size=3)


@given(AXES.map(tuple), st.data())
def test_chunks_have_the_cells_that_lie_in_them(
    chunks: tuple[tuple[int, ...], ...], data: st.DataObject
) -> None:
    shape = tuple(map(sum, chunks))
    array = da.zeros(shape, chunks=chunks)
    size = int(np.prod(shape))
    mask = np.zeros(size, bool)
    mask[list(data.draw(st.sets(st.integers(0, size - 1))) if size else [])] = True
    mask = mask.reshape(shape)
    found = by_chunk(array, Cells.masked(mask))
    numbers = product(*(range(len(along)) for along in chunks))
    expected = {
        (array.name, *number): mask[part]
        for number, part in zip(numbers, slices_from_chunks(array.chunks), strict=True)
    }
    assert list(found) == [key for key, part in expected.items() if part.any()]
    for key, cells in found.items():
        assert cells.shape == expected[key].shape
        assert (cells.mask() == expected[key]).all()


def program(x: Any) -> Any:
    """Slices, another cut into chunks, and a function of chunks."""
    return (x[:, 1:] + x[:, :-1]).rechunk((3, 2)).map_blocks(lambda part: part * 2)


def test_a_trace_through_chunks_is_that_of_the_array() -> None:
    values = np.random.default_rng(1).normal(size=(5, 6))
    chunked, whole = Recording(), Recording()
    array = da.from_array(chunked.source("x", values), (2, 3))
    chunks = program(array)
    plain = whole.source("x", values)
    y = (plain[:, 1:] + plain[:, :-1]) * 2
    for made, expected in ((chunks.sum(axis=0), y.sum(axis=0)), (chunks.T @ chunks, y.T @ y)):
        result = made.compute(scheduler="threads")
        np.testing.assert_allclose(result.current, expected.current)
        for cell in np.ndindex(expected.shape):
            trace, reference = chunked.back(result, cell), whole.back(expected, cell)
            assert (trace.exact, trace.complete) == (reference.exact, reference.complete)
            assert (trace.cells["x"].mask() == reference.cells["x"].mask()).all()
            parts = by_chunk(array, trace.cells["x"])
            assert sum(part.count for part in parts.values()) == trace.cells["x"].count


def test_arrays_of_another_shape_are_refused() -> None:
    array = da.zeros((4, 4), chunks=2)
    with pytest.raises(CellError, match="cells of shape"):
        by_chunk(array, Cells.whole((4, 5)))
    with pytest.raises(CellError, match="compute_chunk_sizes"):
        by_chunk(array[array > 0], Cells.whole((16,)))
