"""Unions of boxes of cells, and how many of some cells lie in boxes."""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass

import numpy as np

from lineage_arrays.cells import COMPARED_BOXES, I64, Cells, Shape
from lineage_core.contract.runs import spread

ENUMERATED = 4
"""Boxes of fewer cells together than one in so many of the array are written out cell by cell."""
FILLED_CELLS = 512
"""Cells of a box, in the mean, from which on boxes are filled in one by one."""
REFILLED = 32
"""How often as many cells as the array has are filled in, at most: to count boxes costs the same however many cells they have."""
COUNTED_MAX = 1 << 22
"""Cells of a box in which cells are counted: 8 bytes each."""


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
    size = math.prod(shape)
    if shape and len(low) and bool((lengths == 1).all()):
        return Cells.within(shape, low @ strides_of(shape))
    some = (lengths > 0).all(axis=1)
    low, high, lengths = low[some], high[some], lengths[some]
    if not len(low) or not size:
        return Cells.empty(shape)
    # A float: a sum of products that would pass 2**63 is only compared.
    volume = float(np.prod(lengths.astype(np.float64), axis=1).sum())
    if len(low) <= COMPARED_BOXES or len(low) * FILLED_CELLS <= volume <= size * REFILLED:
        return Cells.in_boxes(
            shape,
            [
                tuple(zip(*ends, strict=True))
                for ends in zip(low.tolist(), high.tolist(), strict=True)
            ],
        )
    if volume * ENUMERATED <= size + 65_536:
        return Cells.within(shape, written_out(shape, low, lengths))
    return Cells.masked(_counted(shape, low, high) > 0)


def strides_of(shape: Shape) -> I64:
    """How far apart in positions neighbours on each axis are."""
    return np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))], np.int64)


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


@dataclass(frozen=True)
class Window:
    """The box around some cells of an array with axes (inclusive corners), and how many of the cells lie in other boxes."""

    cells: Cells
    low: I64
    high: I64

    @classmethod
    def around(cls, cells: Cells) -> Window:
        """Take one cell or more."""
        if cells.boxes is not None:
            corners = np.array(cells.boxes, np.int64).reshape(len(cells.boxes), -1, 2)
            return cls(cells, corners[:, :, 0].min(axis=0), corners[:, :, 1].max(axis=0))
        coordinates = cells.coordinates()
        return cls(cells, coordinates.min(axis=0), coordinates.max(axis=0))

    def cost(self, boxes: int) -> int:
        """How many numbers :meth:`counts` looks at for so many boxes; of too large a window more than there can be."""
        size = math.prod((self.high - self.low + 2).tolist())
        return size + (boxes << len(self.low)) if size <= COUNTED_MAX else sys.maxsize

    def counts(self, low: I64, high: I64) -> I64:
        """How many of the cells lie in each of some boxes, none of them empty: by a summed-area table (Crow, 1984)."""
        shape = tuple((self.high - self.low + 1).tolist())
        sums = np.zeros(tuple(length + 1 for length in shape), np.int64)
        sums[tuple((self.cells.coordinates() - self.low + 1).T)] = 1
        for axis in range(len(shape)):
            np.cumsum(sums, axis=axis, out=sums)
        ends = [np.clip(end - self.low, 0, shape) for end in (low, high + 1)]
        counts = np.zeros(len(low), np.int64)
        for last in itertools.product((0, 1), repeat=len(shape)):
            part = sums[tuple(ends[side][:, axis] for axis, side in enumerate(last))]
            counts += part if (len(shape) - sum(last)) % 2 == 0 else -part
        return counts
