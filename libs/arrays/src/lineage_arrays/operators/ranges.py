"""Region pairs as ranges relative to the output cell, over several axes; queries do not expand them.

After ProvRC (arXiv 2405.17701): rows that differ in one coordinate alone, by one, become a range; coordinates of the input are
kept as they are, or relative to one coordinate of the output, whichever repeats more. A convolution, a sum along an axis or a matrix
product takes a few rows, whatever the size of the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lineage_arrays.boxes import union_of_boxes
from lineage_arrays.cells import I64, Cells, Shape
from lineage_core.codec.number_columns import pack_numbers
from lineage_core.contract.runs import spread

ABSOLUTE = -1
CHUNK = 1 << 20
"""Pairs of a row and a cell that are compared at once."""


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

    @classmethod
    def of_pairs(cls, source: Shape, target: Shape, outputs: I64, inputs: I64) -> RangeTable:
        """Take pairs of positions, in any order, repeated or not."""
        return cls(source, target, _compressed(source, target, outputs, inputs))

    def backward(self, cells: Cells) -> Cells:
        rows = self.rows
        moving = [axis for axis in rows.relative if axis != ABSOLUTE]
        if cells.is_whole and len(set(moving)) == len(moving):
            return union_of_boxes(self.source, *rows.ends())
        input_cells = Cells.empty(self.source)
        for at, where in _met(rows.out_low, rows.out_high, cells):
            low, high = rows.in_low[at], rows.in_high[at]
            shift = np.zeros_like(low)
            for axis, base in enumerate(rows.relative):
                if base != ABSOLUTE:
                    shift[:, axis] = where[:, base]
            input_cells = input_cells | union_of_boxes(self.source, low + shift, high + shift)
            if input_cells.is_whole:
                break
        return input_cells

    def forward(self, cells: Cells) -> Cells:
        rows = self.rows
        output_cells = Cells.empty(self.target)
        for at, where in _met(*rows.ends(), cells):
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

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take where they are stored."""
        columns = (self.rows.out_low, self.rows.out_high, self.rows.in_low, self.rows.in_high)
        return sum(
            len(pack_numbers(column.astype(np.uint64)))
            for ends in columns
            for column in np.ascontiguousarray(ends.T)
        )


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
    begin = 0
    ends = np.cumsum(counts)
    while begin < len(near):
        pairs_before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, pairs_before + CHUNK, side="right")))
        owner, step = spread(counts[begin:end])
        at, cell_indices = near[begin:end][owner], first[begin:end][owner] + step
        where = coordinates[cell_indices]
        inside = ((low[at] <= where) & (high[at] >= where)).all(axis=1)
        if inside.any():
            yield at[inside], where[inside]
        begin = end


def _compressed(source: Shape, target: Shape, outputs: I64, inputs: I64) -> Rows:
    d, e = len(target), len(source)
    order = np.lexsort((inputs, outputs))
    outputs, inputs = outputs[order], inputs[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (outputs[1:] != outputs[:-1]) | (inputs[1:] != inputs[:-1])
    out, into = _coordinates(outputs[new], target), _coordinates(inputs[new], source)
    # Columns: first and last coordinate of each output axis, then of each input axis.
    table = np.concatenate((out, out, into, into), axis=1)
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


def _coordinates(positions: I64, shape: Shape) -> I64:
    if not shape:
        return np.empty((len(positions), 0), np.int64)
    return np.stack(np.unravel_index(positions, shape), axis=1).astype(np.int64)


def _joined(table: I64, low: int, high: int) -> I64:
    """Merges rows that differ in one range only, where these ranges touch."""
    if not len(table):
        return table
    others = [at for at in range(table.shape[1]) if at not in (low, high)]
    table = table[np.lexsort([table[:, at] for at in (low, *others)])]
    begins = np.ones(len(table), np.bool_)
    same_elsewhere = (table[1:, others] == table[:-1, others]).all(axis=1)
    begins[1:] = ~(same_elsewhere & (table[1:, low] == table[:-1, high] + 1))
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(table)) - 1
    joined = table[first]
    joined[:, high] = table[last, high]
    return joined


def _distinct(ends: I64) -> int:
    """How many different ranges there are."""
    ordered = ends[np.lexsort(ends.T)]
    return 1 + int((ordered[1:] != ordered[:-1]).any(axis=1).sum()) if len(ends) else 0
