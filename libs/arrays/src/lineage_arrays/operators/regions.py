"""Regions: sets of cells of one array, many at once.

A region that is a box is kept by its corners, any other one by its cells, too. All work on them is done for all regions together.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from lineage_arrays.boxes import Window, strides_of, union_of_boxes, written_out
from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.errors import CellError
from lineage_arrays.operators.region_columns import (
    Columns,
    columns_of_boxes,
    columns_of_lengths,
    columns_of_rows,
    coordinates_of,
    joined,
    parts_of,
    pointer_of,
    same_columns,
)
from lineage_core.codec.number_columns import pack_numbers
from lineage_core.contract.runs import sorted_unique, spread

LOOKED_UP = 16
"""One of so many cells of an array, from which on its cells are looked up by a mask."""


class Regions:
    """Sets of cells of one array, numbered from 0 in the order in which they were added."""

    def __init__(self, shape: Shape) -> None:
        """Begin without a region.

        Args:
            shape: of the array.
        """
        self.shape = shape
        self._parts: list[Columns] = []
        self._pending: list[I64] = []

    @classmethod
    def of_rows(cls, shape: Shape, positions: npt.NDArray[np.integer]) -> Regions:
        """Regions of equally many cells.

        Args:
            shape: of the array.
            positions: row-major positions of cells, in any order, repeated or not: integers of shape (regions, cells), or (regions,)
                for one cell each. Copied.

        Raises:
            CellError: the array does not have the cells, or these are no positions.
        """
        rows = np.asarray(positions)
        if rows.ndim not in (1, 2) or rows.dtype.kind not in "iu":
            raise CellError("regions are integers of shape (regions, cells), or (regions,)")
        return cls._of(
            shape, columns_of_rows(shape, rows.reshape(len(rows), -1) if rows.ndim == 1 else rows)
        )

    @classmethod
    def of_boxes(
        cls, shape: Shape, low: npt.NDArray[np.integer], high: npt.NDArray[np.integer]
    ) -> Regions:
        """Regions that are boxes.

        Args:
            shape: of the array.
            low: the lowest coordinates of each box: integers of shape (regions, axes). Copied.
            high: the highest, inclusive, of the same shape; a box that ends before it begins on an axis is empty.

        Raises:
            CellError: the array does not have the cells, or these are no corners.
        """
        ends = np.asarray(low), np.asarray(high)
        if any(end.dtype.kind not in "iu" for end in ends) or ends[0].shape != ends[1].shape:
            raise CellError("corners of boxes are integers of shape (regions, axes)")
        if ends[0].ndim != 2 or ends[0].shape[1] != len(shape):
            raise CellError(
                f"corners of boxes in an array of {len(shape)} axes have as many columns"
            )
        if any(end.dtype.kind == "u" and end.size and int(end.max()) >> 63 for end in ends):
            raise CellError(f"boxes beyond an array of shape {shape}")
        return cls._of(
            shape, columns_of_boxes(shape, ends[0].astype(np.int64), ends[1].astype(np.int64))
        )

    @classmethod
    def of_columns(cls, shape: Shape, lengths: I64, cells: I64) -> Regions:
        """Regions by their lengths, and the positions of all of them one behind the other, in any order within a region. Copied.

        Raises:
            ValueError: the array has no such cells, or the lengths are of others.
        """
        if (lengths < 0).any() or int(lengths.sum()) != len(cells):
            raise ValueError("regions of other lengths")
        if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) < math.prod(shape):
            raise ValueError("regions beyond the array")
        return cls._of(shape, columns_of_lengths(shape, lengths.copy(), cells.copy()))

    @classmethod
    def _of(cls, shape: Shape, columns: Columns) -> Regions:
        regions = cls(shape)
        regions._parts = [columns]
        return regions

    def append(self, cells: Cells) -> None:
        """Add a region."""
        self._pending.append(cells.positions())
        self._forget()

    def extend(self, others: Regions) -> None:
        """Add regions of the same array."""
        self._parts = [self.columns, others.columns] if len(self) else [others.columns]
        self._forget()

    def copy(self) -> Regions:
        """The regions as they are now."""
        return self._of(self.shape, self.columns)

    def are_same(self, others: Regions) -> bool:
        """Whether others are the same sets of cells of an array of this shape, in the same order."""
        if self.shape != others.shape or len(self) != len(others):
            return False
        return same_columns(self.columns, others.columns)

    def _forget(self) -> None:
        for name in ("pointer", "cells"):
            self.__dict__.pop(name, None)

    @property
    def columns(self) -> Columns:
        """All regions, in columns that are not to be written to."""
        if self._pending:
            lengths = np.fromiter(map(len, self._pending), np.int64, len(self._pending))
            self._parts.append(
                columns_of_lengths(self.shape, lengths, np.concatenate(self._pending))
            )
            self._pending = []
        if len(self._parts) != 1:
            self._parts = [joined(self.shape, self._parts)]
        return self._parts[0]

    def __len__(self) -> int:
        return sum(map(len, self._parts)) + len(self._pending)

    @functools.cached_property
    def pointer(self) -> I64:
        """Where each region begins among :attr:`cells`, and the end."""
        return pointer_of(self.columns.lengths)

    @functools.cached_property
    def cells(self) -> I64:
        """Positions of all regions, written out one region behind the other."""
        return self.written_out(np.arange(len(self)))[1]

    def written_out(self, numbers: I64) -> tuple[I64, I64]:
        """All cells of some regions: for each the index of its region among ``numbers``, and its position."""
        columns = self.columns
        lengths = columns.lengths[numbers]
        owner, step = spread(lengths)
        is_other, at = self._among_others(numbers)
        if not is_other.any():
            low = columns.low[numbers]
            return owner, written_out(self.shape, low, columns.high[numbers] - low + 1)
        positions = np.empty(len(owner), np.int64)
        boxed = ~is_other[owner]
        low = columns.low[numbers[~is_other]]
        positions[boxed] = written_out(self.shape, low, columns.high[numbers[~is_other]] - low + 1)
        positions[~boxed] = columns.cells[columns.pointer[at[owner[~boxed]]] + step[~boxed]]
        return owner, positions

    def _among_others(self, numbers: I64) -> tuple[npt.NDArray[np.bool_], I64]:
        """Which regions are no boxes, and where these stand among the others."""
        others = self.columns.others
        if not len(others):
            return np.zeros(len(numbers), np.bool_), np.zeros(len(numbers), np.int64)
        at = np.minimum(np.searchsorted(others, numbers), len(others) - 1)
        return others[at] == numbers, at

    def in_parts(self, numbers: I64) -> Iterator[I64]:
        """Some regions in parts that have so few cells that these can be written out."""
        for begin, end in parts_of(self.columns.lengths[numbers]):
            yield numbers[begin:end]

    def of(self, numbers: I64) -> Cells:
        """The cells of some regions."""
        columns = self.columns
        is_other, _ = self._among_others(numbers)
        boxes = numbers[~is_other]
        boxed = boxes[columns.lengths[boxes] > 0]
        union = union_of_boxes(self.shape, columns.low[boxed], columns.high[boxed])
        for part in self.in_parts(numbers[is_other]):
            if union.is_whole:
                break
            union = union | Cells.within(self.shape, self.written_out(part)[1])
        return union

    def as_boxes(self) -> tuple[I64, I64, I64]:
        """How many boxes make up each region, and their lowest and highest coordinates, region by region: cells of one that is no box stand by themselves."""
        columns = self.columns
        counts = (columns.lengths > 0).astype(np.int64)
        counts[columns.others] = columns.lengths[columns.others]
        boxed = np.ones(len(self), np.bool_)
        boxed[columns.others] = False
        is_box = np.repeat(boxed, counts)
        ends = []
        for corner in (columns.low, columns.high):
            boxes = np.empty((len(is_box), len(self.shape)), np.int64)
            boxes[is_box] = corner[boxed & (counts > 0)]
            boxes[~is_box] = coordinates_of(self.shape, columns.cells)
            ends.append(boxes)
        return counts, ends[0], ends[1]

    def all_cells(self) -> Cells:
        """The cells of all regions."""
        return self.of(np.arange(len(self)))

    def touching(self, cells: Cells, numbers: I64 | None = None) -> I64:
        """Which regions (of some) have any of some cells, in order: those whose boxes meet the box around the cells are looked at."""
        columns = self.columns
        among = np.flatnonzero(columns.lengths) if numbers is None else numbers
        if cells.is_whole or not cells:
            return among if cells else among[:0]
        window = Window.around(cells)
        near = among[self._near(window, among)]
        is_other, _ = self._among_others(near)
        boxes = near[~is_other]
        if cells.boxes is not None and len(cells.boxes) == 1:
            # The window is the cells: a box that meets it has some of them, and so has any region that lies in it.
            others = near[is_other]
            inside = self._inside(window, others)
            touched = [boxes, others[inside], *self._read(cells, others[~inside])]
            return np.sort(np.concatenate(touched))
        if window.cost(len(boxes)) > int(columns.lengths[boxes].sum()):
            return np.concatenate([near[:0], *self._read(cells, near)])
        counts = window.counts(columns.low[boxes], columns.high[boxes])
        return np.sort(np.concatenate([boxes[counts > 0], *self._read(cells, near[is_other])]))

    def _read(self, cells: Cells, numbers: I64) -> Iterator[I64]:
        """Which of some regions have any of some cells, part by part: all cells of the regions are looked at."""
        if not len(numbers):
            return
        # A mask is made of all cells of the array, few positions are looked up.
        are_few = int(self.columns.lengths[numbers].sum()) * LOOKED_UP < cells.size
        mask = None if are_few or cells.boxes is not None else cells.mask().reshape(-1)
        for part in self.in_parts(numbers):
            owner, positions = self.written_out(part)
            has_any = cells.has(positions) if mask is None else mask[positions]
            yield part[sorted_unique(owner[has_any])]

    def looked_at(self, cells: Cells, numbers: I64) -> int:
        """How many cells :meth:`touching` looks at, about, of some regions in an array with axes."""
        read = int(self.columns.lengths[numbers].sum())
        return (
            read if len(self.columns.others) else min(read, Window.around(cells).cost(len(numbers)))
        )

    def _near(self, window: Window, among: I64) -> npt.NDArray[np.bool_]:
        """Which of some regions have boxes that meet the box around some cells."""
        low, high = self.columns.low, self.columns.high
        if len(among) < len(self):
            low, high = low[among], high[among]
        meets = np.ones(len(among), np.bool_)
        # Axis by axis: to ask of all axes at once takes several times as long.
        for axis, (first, last) in enumerate(zip(window.low, window.high, strict=True)):
            meets &= (low[:, axis] <= last) & (high[:, axis] >= first)
        return meets

    def _inside(self, window: Window, among: I64) -> npt.NDArray[np.bool_]:
        """Which of some regions lie in the box around some cells."""
        low, high = self.columns.low[among], self.columns.high[among]
        inside = np.ones(len(among), np.bool_)
        for axis, (first, last) in enumerate(zip(window.low, window.high, strict=True)):
            inside &= (low[:, axis] >= first) & (high[:, axis] <= last)
        return inside

    def packed(self) -> list[bytes]:
        """All regions as bytes: corners and sizes of boxes; of others the gaps between their cells, too."""
        columns = self.columns
        sizes = columns.high - columns.low + 1
        corners = columns.low @ strides_of(self.shape)
        numbers = [corners, *sizes.T]
        if len(columns.others):
            gaps = np.diff(columns.cells, prepend=0)
            begins = columns.pointer[:-1]
            some = np.diff(columns.pointer) > 0
            gaps[begins[some]] = columns.cells[begins[some]] - corners[columns.others[some]]
            numbers += [columns.others, columns.lengths[columns.others], gaps]
        return [
            pack_numbers(np.ascontiguousarray(column, np.int64).view(np.uint64))
            for column in numbers
        ]
