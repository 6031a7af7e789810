"""Region pairs as ranges relative to the output cell, over several axes; queries do not expand them.

After ProvRC (arXiv 2405.17701): rows that differ in one coordinate alone, by one, become a range; coordinates of the input are
kept as they are, or relative to one coordinate of the output, whichever repeats more. A convolution, a sum along an axis or a matrix
product takes a few rows, whatever the size of the arrays.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lineage_arrays.boxes import union_of_boxes
from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.few_boxes import Box
from lineage_arrays.operators.keys import packed_keys
from lineage_arrays.operators.region_columns import coordinates_of, parts_of
from lineage_arrays.operators.region_index import BoxIndex
from lineage_arrays.operators.regions import Regions
from lineage_core.codec.number_columns import pack_numbers
from lineage_core.contract.runs import spread

ABSOLUTE = -1
LOOKED_UP = 16
"""Rows for each cell from which an index of the rows is quicker than a look at each."""

SCANNED = 1 << 10
"""Rows up to which a look at all of them is quicker than their index."""


@dataclass(frozen=True)
class Rows:
    """Boxes of output cells, and for each the box of input cells of each of its cells.

    ``low`` and ``high`` (rows, axes) are inclusive; those of the input are added to the output cell's coordinate on the axis
    that ``relative`` names for this axis of the input, or stand by themselves (``ABSOLUTE``).
    """

    out_low: I64
    out_high: I64
    in_low: I64
    in_high: I64
    relative: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.out_low)

    def ends(self) -> tuple[I64, I64]:
        """For each row the box around all of its input cells."""
        low, high = self.in_low.copy(), self.in_high.copy()
        for at, axis in enumerate(self.relative):
            if axis != ABSOLUTE:
                low[:, at] += self.out_low[:, axis]
                high[:, at] += self.out_high[:, axis]
        return low, high


class RangeTable:
    """Pairs of cells of an output and an input, as rows of ranges: a mapping."""

    def __init__(self, source: Shape, target: Shape, rows: Rows) -> None:
        self.source = source
        self.target = target
        self.rows = rows

    @functools.cached_property
    def _by_output(self) -> BoxIndex:
        return BoxIndex(self.target, self.rows.out_low, self.rows.out_high)

    @functools.cached_property
    def _by_input(self) -> BoxIndex:
        return BoxIndex(self.source, *self.rows.ends())

    @classmethod
    def of_pairs(cls, source: Shape, target: Shape, outputs: I64, inputs: I64) -> RangeTable:
        """Take pairs of positions, in any order, repeated or not."""
        out, into = coordinates_of(target, outputs), coordinates_of(source, inputs)
        return cls(
            source,
            target,
            _compressed(np.concatenate((out, out, into, into), axis=1), len(target), len(source)),
        )

    @classmethod
    def of_regions(cls, outputs: Regions, inputs: Regions) -> RangeTable:
        """Take region pairs: as many regions of the output and of the input, the n-th of one with the n-th of the other."""
        pairs, positions = outputs.written_out(np.arange(len(outputs)))
        counts, low, high = inputs.as_boxes()
        owner, step = spread(counts[pairs])
        box = (np.cumsum(counts) - counts)[pairs[owner]] + step
        out = coordinates_of(outputs.shape, positions[owner])
        table = np.concatenate((out, out, low[box], high[box]), axis=1)
        return cls(
            inputs.shape, outputs.shape, _compressed(table, len(outputs.shape), len(inputs.shape))
        )

    def backward(self, cells: Cells) -> Cells:
        rows = self.rows
        moving = [axis for axis in rows.relative if axis != ABSOLUTE]
        if cells.is_whole and len(set(moving)) == len(moving):
            return union_of_boxes(self.source, *rows.ends())
        if self._are_scanned(cells) and len(set(moving)) == len(moving):
            return Cells.union(self.source, map(self._behind, cells.boxes or ()))
        input_cells = Cells.empty(self.source)
        met = (
            self._by_output.met(cells)
            if self._is_few(cells)
            else _met(rows.out_low, rows.out_high, cells)
        )
        for at, where in met:
            low, high = rows.in_low[at], rows.in_high[at]
            shift = np.zeros_like(low)
            for axis, base in enumerate(rows.relative):
                if base != ABSOLUTE:
                    shift[:, axis] = where[:, base]
            input_cells = input_cells | union_of_boxes(self.source, low + shift, high + shift)
            if input_cells.is_whole:
                break
        return input_cells

    def _are_scanned(self, cells: Cells) -> bool:
        """Whether all rows are compared with the cells as boxes at once."""
        return cells.boxes is not None and (len(self.rows) <= SCANNED or not self._is_few(cells))

    def _behind(self, box: Box) -> Cells:
        """The input cells of a box of the output, where no two axes of the input are relative to one of the output: of each row they are a box."""
        rows = self.rows
        corners = np.array(box, np.int64).reshape(-1, 2)
        first, last = (
            np.maximum(rows.out_low, corners[:, 0]),
            np.minimum(rows.out_high, corners[:, 1]),
        )
        met = np.flatnonzero((first <= last).all(axis=1))
        low, high = rows.in_low[met], rows.in_high[met]
        for axis, base in enumerate(rows.relative):
            if base != ABSOLUTE:
                low[:, axis] += first[met, base]
                high[:, axis] += last[met, base]
        return union_of_boxes(self.source, low, high)

    def _ahead(self, box: Box) -> Cells:
        """The output cells that any cell of a box of the input goes into: of each row those whose range meets it on each axis."""
        rows = self.rows
        met = np.ones(len(rows), np.bool_)
        low, high = rows.out_low.copy(), rows.out_high.copy()
        for axis, (base, (first, last)) in enumerate(zip(rows.relative, box, strict=True)):
            if base == ABSOLUTE:
                met &= (rows.in_low[:, axis] <= last) & (rows.in_high[:, axis] >= first)
                continue
            low[:, base] = np.maximum(low[:, base], first - rows.in_high[:, axis])
            high[:, base] = np.minimum(high[:, base], last - rows.in_low[:, axis])
        return union_of_boxes(self.target, low[met], high[met])

    def forward(self, cells: Cells) -> Cells:
        rows = self.rows
        if self._are_scanned(cells):
            return Cells.union(self.target, map(self._ahead, cells.boxes or ()))
        output_cells = Cells.empty(self.target)
        met = self._by_input.met(cells) if self._is_few(cells) else _met(*rows.ends(), cells)
        for at, where in met:
            low, high = rows.out_low[at], rows.out_high[at]
            for axis, base in enumerate(rows.relative):
                if base != ABSOLUTE:
                    low[:, base] = np.maximum(low[:, base], where[:, axis] - rows.in_high[at, axis])
                    high[:, base] = np.minimum(
                        high[:, base], where[:, axis] - rows.in_low[at, axis]
                    )
            output_cells = output_cells | union_of_boxes(self.target, low, high)
            if output_cells.is_whole:
                break
        return output_cells

    def _is_few(self, cells: Cells) -> bool:
        """Whether to look cells up one by one rather than rows."""
        return bool(cells.shape) and 0 < cells.count * LOOKED_UP < len(self.rows)

    def packed(self) -> list[bytes]:
        """The rows as bytes."""
        rows = self.rows
        return [
            pack_numbers(column.view(np.uint64))
            for ends in (rows.out_low, rows.out_high, rows.in_low, rows.in_high)
            for column in np.ascontiguousarray(ends.T)
        ]

    @property
    def nbytes(self) -> int:
        """Bytes that it takes where it is stored."""
        return sum(map(len, self.packed()))


def _met(low: I64, high: I64, cells: Cells) -> Iterator[tuple[I64, I64]]:
    """Which rows' boxes hold which cells: rows, and the coordinates of the cells, chunk by chunk."""
    coordinates = cells.coordinates()
    if not len(coordinates) or not len(low):
        return
    if not low.shape[1]:
        yield np.arange(len(low)), np.empty((len(low), 0), np.int64)
        return
    near = np.flatnonzero(
        ((low <= coordinates.max(axis=0)) & (high >= coordinates.min(axis=0))).all(axis=1)
    )
    # Cells are in order of their first coordinate: a row is compared with those between its ends alone.
    first = np.searchsorted(coordinates[:, 0], low[near, 0], side="left")
    stop = np.searchsorted(coordinates[:, 0], high[near, 0], side="right")
    counts = stop - first
    for begin, end in parts_of(counts):
        owner, step = spread(counts[begin:end])
        at, cell_indices = near[begin:end][owner], first[begin:end][owner] + step
        where = coordinates[cell_indices]
        inside = ((low[at] <= where) & (high[at] >= where)).all(axis=1)
        if inside.any():
            yield at[inside], where[inside]


def _compressed(table: I64, d: int, e: int) -> Rows:
    """The rows of a table whose columns are first and last coordinate of each of ``d`` output axes, then of each of ``e`` input axes.

    Rows of one output cell each, repeated or not.
    """
    table = _each_once(table)
    for axis in reversed(range(e)):
        table = _joined(table, 2 * d + axis, 2 * d + e + axis)
    relative = []
    for axis in range(e):
        ends = table[:, [2 * d + axis, 2 * d + e + axis]]
        choices = [ends, *(ends - table[:, [base]] for base in range(d))]
        base = int(np.argmin([_distinct(ranges) for ranges in choices])) - 1
        relative.append(base)
        table[:, [2 * d + axis, 2 * d + e + axis]] = choices[base + 1]
    for axis in reversed(range(d)):
        table = _joined(table, axis, d + axis)
    parts = np.split(table, [d, 2 * d, 2 * d + e], axis=1)
    return Rows(parts[0], parts[1], parts[2], parts[3], tuple(relative))


def _each_once(table: I64) -> I64:
    keys = packed_keys(list(table.T), len(table))
    order = np.lexsort(keys)
    return table[order[_changes(keys, order)]]


def _changes(keys: Sequence[I64], order: I64) -> npt.NDArray[np.bool_]:
    """Whether each row, in an order, differs from the one before."""
    new = np.ones(len(order), np.bool_)
    new[1:] = False
    for key in keys:
        ordered = key[order]
        new[1:] |= ordered[1:] != ordered[:-1]
    return new


def _joined(table: I64, low: int, high: int) -> I64:
    """Merges rows that differ in one range only, where these ranges touch."""
    others = [table[:, at] for at in range(table.shape[1]) if at not in (low, high)]
    keys = packed_keys(others, len(table))
    order = np.lexsort([table[:, low], *keys])
    begins = _changes(keys, order)
    ends = table[order, low], table[order, high]
    begins[1:] |= ends[0][1:] != ends[1][:-1] + 1
    first = np.flatnonzero(begins)
    joined = table[order[first]]
    joined[:, high] = ends[1][np.append(first[1:], len(table)) - 1] if len(table) else 0
    return joined


def _distinct(ends: I64) -> int:
    """How many different ranges there are."""
    keys = packed_keys(list(ends.T), len(ends))
    return int(np.count_nonzero(_changes(keys, np.lexsort(keys))))
