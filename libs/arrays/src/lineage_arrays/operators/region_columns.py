"""Regions in columns: how they are made of positions, of corners and of cells one behind the other."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lineage_arrays.boxes import written_out
from lineage_arrays.cells import I64, Shape
from lineage_arrays.errors import CellError
from lineage_arrays.operators.deadlines import check_reading

CHUNK = 1 << 20
"""Cells that are compared at once."""
FORMS_MAX = 64
"""Sizes of boxes of which regions given by their cells are compared with boxes; those of more sizes are measured one axis at a time."""


@dataclass(frozen=True)
class Columns:
    """Regions in columns: the box around each (inclusive corners, int64 of shape (regions, axes)), and how many cells it has.

    ``others``: numbers of those that do not fill their boxes, in order; ``pointer``: where each of these begins among ``cells``,
    and the end. Cells of a region are in order, each once.
    """

    low: I64
    high: I64
    lengths: I64
    others: I64
    pointer: I64
    cells: I64

    def __len__(self) -> int:
        return len(self.lengths)


def same_columns(one: Columns, other: Columns) -> bool:
    """Whether two have the same regions of one array in the same order."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("low", "high", "lengths", "others", "cells")
    )


def parts_of(counts: I64) -> Iterator[tuple[int, int]]:
    """Ranges of items: of their counts so many together as are compared at once; an item with more by itself.

    Raises:
        GivenUpError: the time for reading is up.
    """
    ends = np.cumsum(counts)
    begin = 0
    while begin < len(counts):
        check_reading()
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + CHUNK, side="right")))
        yield begin, end
        begin = end


def pointer_of(lengths: I64) -> I64:
    pointer = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=pointer[1:])
    return pointer


def coordinates_of(shape: Shape, positions: I64) -> I64:
    """Coordinates of positions: int64 of shape (positions, axes)."""
    coordinates = np.empty((len(positions), len(shape)), np.int64)
    rest = positions
    for axis in range(len(shape) - 1, 0, -1):
        # Much quicker than divmod of NumPy.
        above = rest // shape[axis]
        coordinates[:, axis] = rest - above * shape[axis]
        rest = above
    if shape:
        coordinates[:, 0] = rest
    return coordinates


def joined(shape: Shape, parts: Sequence[Columns]) -> Columns:
    axes = np.empty((0, len(shape)), np.int64)
    none = np.empty(0, np.int64)
    before = np.cumsum([0, *map(len, parts)])
    lengths = np.concatenate([none, *(np.diff(part.pointer) for part in parts)])
    others = [part.others + start for part, start in zip(parts, before[:-1].tolist(), strict=True)]
    return Columns(
        np.concatenate([axes, *(part.low for part in parts)]),
        np.concatenate([axes, *(part.high for part in parts)]),
        np.concatenate([none, *(part.lengths for part in parts)]),
        np.concatenate([none, *others]),
        pointer_of(lengths),
        np.concatenate([none, *(part.cells for part in parts)]),
    )


def _boxes_alone(low: I64, high: I64, lengths: I64) -> Columns:
    none = np.empty(0, np.int64)
    return Columns(low, high, lengths, none, np.zeros(1, np.int64), none)


def columns_of_boxes(shape: Shape, low: I64, high: I64) -> Columns:
    empty = (high < low).any(axis=1)
    low[empty], high[empty] = 0, -1
    if bool((low < 0).any()) or bool((high >= np.array(shape, np.int64)).any()):
        raise CellError(f"boxes beyond an array of shape {shape}")
    return _boxes_alone(low, high, np.prod(high - low + 1, axis=1))


def columns_of_rows(shape: Shape, rows: npt.NDArray[np.integer]) -> Columns:
    """Rows that are boxes row by row, from their first cells to their last ones, are known without a look at coordinates of all cells."""
    count, width = rows.shape
    if not count or not width:
        return columns_of_lengths(shape, np.full(count, width, np.int64), np.empty(0, np.int64))
    size = math.prod(shape)
    first, last = rows[:, 0].astype(np.int64), rows[:, -1].astype(np.int64)
    inside = (first >= 0) & (first <= last) & (last < size)
    if not size or (width == 1 and not inside.all()):
        raise CellError(f"positions are 0 to {size - 1} in an array of shape {shape}")
    low = coordinates_of(shape, first)
    high = low if width == 1 else coordinates_of(shape, last)
    lengths = np.full(count, width, np.int64)
    if width == 1:
        return _boxes_alone(low, high, lengths)
    sizes = high - low + 1
    is_box = inside & (sizes > 0).all(axis=1) & (np.prod(sizes, axis=1) == width)
    is_box &= _are_boxes(shape, rows, first, sizes, is_box)
    if is_box.all():
        return _boxes_alone(low, high, lengths)
    left = np.flatnonzero(~is_box)
    given = rows[left].reshape(-1)
    if int(given.min()) < 0 or int(given.max()) >= size:
        raise CellError(f"positions are 0 to {size - 1} in an array of shape {shape}")
    others = columns_of_lengths(shape, np.full(len(left), width, np.int64), given.astype(np.int64))
    low[left], high[left], lengths[left] = others.low, others.high, others.lengths
    return Columns(low, high, lengths, left[others.others], others.pointer, others.cells)


def _are_boxes(
    shape: Shape,
    rows: npt.NDArray[np.integer],
    first: I64,
    sizes: I64,
    candidates: npt.NDArray[np.bool_],
) -> npt.NDArray[np.bool_]:
    """Which rows have all cells of the boxes that begin at their first cells, in order. Of so many sizes the most frequent ones are compared."""
    are = np.zeros(len(rows), np.bool_)
    left = candidates.copy()
    for _ in range(FORMS_MAX):
        at = int(left.argmax())
        if not left[at]:
            break
        form = sizes[at]
        alike = left & (sizes == form).all(axis=1)
        left &= ~alike
        pattern = written_out(shape, np.zeros((1, len(shape)), np.int64), form[None])
        numbers = np.flatnonzero(alike)
        step = max(CHUNK // 16 // len(pattern), 1)
        for begin in range(0, len(numbers), step):
            part = numbers[begin : begin + step]
            # A slice where it can be one: it copies nothing.
            whole = len(numbers) == len(rows)
            cells = rows[begin : begin + step] if whole else rows[part]
            are[part] = (cells == first[part, None] + pattern).all(axis=1)
    return are


def columns_of_lengths(shape: Shape, lengths: I64, cells: I64) -> Columns:
    """Regions one behind the other, in any order and repeated within a region; both arrays are given away."""
    pointer = pointer_of(lengths)
    in_order = np.ones(len(cells), np.bool_)
    np.greater(cells[1:], cells[:-1], out=in_order[1:])
    in_order[pointer[:-1][lengths > 0]] = True
    if not in_order.all():
        owner = np.repeat(np.arange(len(lengths)), lengths)
        order = np.lexsort((cells, owner))
        cells = cells[order]
        new = np.ones(len(cells), np.bool_)
        new[1:] = (cells[1:] != cells[:-1]) | (owner[1:] != owner[:-1])
        cells, lengths = cells[new], np.bincount(owner[new], minlength=len(lengths))
        pointer = pointer_of(lengths)
    low = np.zeros((len(lengths), len(shape)), np.int64)
    high = np.full((len(lengths), len(shape)), -1, np.int64)
    some = np.flatnonzero(lengths)
    if len(some) and shape:
        coordinates = coordinates_of(shape, cells)
        low[some] = np.minimum.reduceat(coordinates, pointer[some], axis=0)
        high[some] = np.maximum.reduceat(coordinates, pointer[some], axis=0)
    # Cells of a region are distinct and lie in its box: as many as it has are all of it.
    is_box = np.prod(high - low + 1, axis=1) == lengths
    if is_box.all():
        return _boxes_alone(low, high, lengths)
    others = np.flatnonzero(~is_box)
    kept = cells[np.repeat(~is_box, lengths)]
    return Columns(low, high, lengths, others, pointer_of(lengths[others]), kept)
