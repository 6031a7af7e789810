"""Unions of boxes of cells."""

from __future__ import annotations

import itertools
import math

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_core.contract.runs import spread

ENUMERATED = 4
"""Boxes of fewer cells together than one in so many of the array are written out cell by cell."""


def union_of_boxes(shape: Shape, low: I64, high: I64) -> Cells:
    """The cells that lie in any of some boxes.

    Args:
        shape: of the array.
        low: the lowest coordinates of each box, int64 of shape (boxes, axes); within the array.
        high: the highest, inclusive. A box that ends before it begins on an axis is empty.

    Returns:
        The cells. The cost is that of the boxes' cells, or of the array's, whichever is less.
    """
    lengths = high - low + 1
    some = (lengths > 0).all(axis=1)
    low, high, lengths = low[some], high[some], lengths[some]
    size = math.prod(shape)
    if not len(low) or not size:
        return Cells.empty(shape)
    # A float: a sum of products that would pass 2**63 is only compared.
    if float(np.prod(lengths.astype(np.float64), axis=1).sum()) * ENUMERATED <= size + 65_536:
        return Cells.within(shape, written_out(shape, low, lengths))
    return Cells.masked(_counted(shape, low, high) > 0)


def written_out(shape: Shape, low: I64, lengths: I64) -> I64:
    """Positions of all cells of boxes, box by box, in order within each.

    Args:
        shape: of the array.
        low: the lowest coordinates of each box, int64 of shape (boxes, axes).
        lengths: how many cells it has on each axis, 0 or more.
    """
    volumes = np.prod(lengths, axis=1)
    box, step = spread(volumes)
    positions = np.zeros(len(box), np.int64)
    stride = 1
    for axis in range(len(shape) - 1, -1, -1):
        along = lengths[box, axis]
        above = step // along
        positions += (low[box, axis] + (step - above * along)) * stride
        step = above
        stride *= shape[axis]
    return positions


def _counted(shape: Shape, low: I64, high: I64) -> I64:
    """How many boxes each cell lies in, by differences that are summed up along each axis."""
    steps = np.zeros(tuple(length + 1 for length in shape), np.int64)
    for ends in itertools.product((False, True), repeat=len(shape)):
        corner = np.where(np.array(ends, np.bool_), high + 1, low)
        np.add.at(steps, tuple(corner.T), -1 if sum(ends) % 2 else 1)
    for axis in range(len(shape)):
        np.cumsum(steps, axis=axis, out=steps)
    return steps[tuple(slice(length) for length in shape)]
