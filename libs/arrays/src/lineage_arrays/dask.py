"""Cells of Dask's arrays by chunk: a trace is of the whole array, and its chunks are what a cluster holds, loads and computes again."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.errors import CellError

__all__ = ["ChunkKey", "by_chunk"]

ChunkKey: TypeAlias = tuple[str | int, ...]
"""As Dask names a chunk: the array's name, and the chunk's number on each axis."""


def by_chunk(array: Any, cells: Cells) -> dict[ChunkKey, Cells]:
    """The chunks of a Dask array that cells lie in.

    Args:
        array: a Dask array.
        cells: of an array of its shape: what a trace found, or was asked about.

    Returns:
        By key of the chunk the cells that lie in it, at their coordinates within the chunk; in the order of the chunks.

    Raises:
        CellError: the array has another shape than the cells, or it is not known how long its chunks are.
    """
    sizes = array.chunks
    if any(math.isnan(size) for along in sizes for size in along):
        raise CellError(
            "how long the array's chunks are depends on values: array.compute_chunk_sizes() finds out"
        )
    if tuple(map(sum, sizes)) != cells.shape:
        raise CellError(f"cells of shape {cells.shape}, the array has {tuple(map(sum, sizes))}")
    starts = [np.array([0, *accumulate(along)][:-1], np.int64) for along in sizes]
    coordinates = cells.coordinates()
    numbers = np.zeros_like(coordinates)
    inside = np.zeros_like(coordinates)
    for axis, begins in enumerate(starts):
        # Of chunks without cells, which begin where the next one does, none is named.
        numbers[:, axis] = np.searchsorted(begins, coordinates[:, axis], side="right") - 1
        inside[:, axis] = coordinates[:, axis] - begins[numbers[:, axis]]
    order, groups = _groups(numbers, tuple(map(len, sizes)))
    found: dict[ChunkKey, Cells] = {}
    for members in np.split(order, groups):
        if not len(members):
            continue
        number = numbers[members[0]].tolist()
        shape = tuple(int(sizes[axis][at]) for axis, at in enumerate(number))
        key = (array.name, *number)
        found[key] = Cells.of(shape, tuple(inside[members].T) if shape else ...)
    return found


def _groups(numbers: I64, counts: Shape) -> tuple[I64, I64]:
    """An order of cells by chunk, and where in it the cells of another chunk begin."""
    chunks = (
        np.ravel_multi_index(tuple(numbers.T), counts)
        if counts
        else np.zeros(len(numbers), np.int64)
    )
    order = np.argsort(chunks, kind="stable")
    return order, np.flatnonzero(np.diff(chunks[order])) + 1
