"""Indexes that find the regions or boxes that have some cells."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.operators.keys import packed_keys
from lineage_arrays.operators.region_columns import CHUNK, parts_of
from lineage_arrays.operators.regions import Regions
from lineage_core.codec.number_columns import pack_numbers
from lineage_core.contract.runs import sorted_unique, spread

GRID_AXES_MAX = 6


@dataclass(frozen=True)
class _Level:
    """Boxes of like sizes, by the cell of a grid that their lowest corners lie in.

    ``bits``: for each axis the logarithm of the grid's width, which no box of the level passes; ``keys``: the grid's cell of each box, in
    order; ``numbers``: of these boxes.
    """

    bits: I64
    grid: tuple[int, ...]
    keys: I64
    numbers: I64

    def near(self, coordinates: I64) -> Iterator[tuple[I64, I64]]:
        """For each cell the ranges among ``keys`` of boxes that may hold it: a box that holds a cell begins in its grid cell or in the one before."""
        last = coordinates >> self.bits
        first = np.maximum(coordinates - ((1 << np.minimum(self.bits, 62)) - 1), 0) >> self.bits
        ends = [
            (last[:, axis], first[:, axis]) if bits and width > 1 else (last[:, axis],)
            for axis, (bits, width) in enumerate(zip(self.bits.tolist(), self.grid, strict=True))
        ]
        for corner in itertools.product(*ends):
            wanted = np.ravel_multi_index(corner, self.grid)
            yield (
                np.searchsorted(self.keys, wanted, side="left"),
                np.searchsorted(self.keys, wanted, side="right"),
            )


class BoxIndex:
    """Finds the boxes that hold some cells, of boxes of any sizes; in an array without axes it finds nothing."""

    def __init__(self, shape: Shape, low: I64, high: I64) -> None:
        """Take the corners of boxes, inclusive: int64 of shape (boxes, axes). Empty ones are never found."""
        self._low, self._high = low, high
        some = np.flatnonzero((high >= low).all(axis=1))
        self._levels: list[_Level] = []
        if not len(some) or not shape:
            return
        bits = np.frexp((high - low)[some].astype(np.float64))[1].astype(np.int64)
        # On further axes a level has one cell: each axis with several doubles the lookups.
        bits[:, GRID_AXES_MAX:] = 63
        order, begins = _groups(bits)
        stops = np.append(begins[1:], len(order))
        self._levels = [
            self._level(shape, bits[order[begin]], some[order[begin:stop]])
            for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True)
        ]

    def _level(self, shape: Shape, bits: I64, numbers: I64) -> _Level:
        grid = tuple(int(axis) for axis in ((np.array(shape) - 1) >> bits) + 1)
        keys = np.ravel_multi_index(tuple((self._low[numbers] >> bits).T), grid)
        order = np.argsort(keys)
        return _Level(bits, grid, keys[order], numbers[order])

    def holding(self, coordinates: I64) -> Iterator[tuple[I64, I64]]:
        """Numbers of boxes and, for each, the index of a cell that it holds, in parts; a pair may come twice."""
        for level in self._levels:
            for low, high in level.near(coordinates):
                yield from self._checked(level, low, high - low, coordinates)

    def met(self, cells: Cells) -> Iterator[tuple[I64, I64]]:
        """Numbers of boxes, and the coordinates of a cell that each holds."""
        coordinates = cells.coordinates()
        for boxes, cell in self.holding(coordinates):
            yield boxes, coordinates[cell]

    def _checked(
        self, level: _Level, low: I64, counts: I64, coordinates: I64
    ) -> Iterator[tuple[I64, I64]]:
        for begin, end in parts_of(counts):
            owner, step = spread(counts[begin:end])
            boxes, cell = level.numbers[low[begin:end][owner] + step], owner + begin
            where = coordinates[cell]
            inside = ((self._low[boxes] <= where) & (self._high[boxes] >= where)).all(axis=1)
            if inside.any():
                yield boxes[inside], cell[inside]

    def pairs_near(self, coordinates: I64) -> int:
        """How many pairs of a box and a cell a lookup compares."""
        return sum(
            int((high - low).sum())
            for level in self._levels
            for low, high in level.near(coordinates)
        )


def _groups(rows: I64) -> tuple[I64, I64]:
    """An order in which equal rows stand together, and where each group begins in it."""
    keys = packed_keys(list(rows.T), len(rows))
    order = np.lexsort(keys)
    new = np.ones(len(rows), np.bool_)
    new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    return order, np.flatnonzero(new)


class Index:
    """Finds the regions that have some cells."""

    def touching(self, cells: Cells) -> I64:
        """Numbers of the regions, in order."""
        raise NotImplementedError

    def packed(self) -> list[bytes]:
        """It and the regions themselves as bytes."""
        raise NotImplementedError


class ByCell(Index):
    """An entry for each cell: its regions."""

    def __init__(self, regions: Regions) -> None:
        owner, cells = regions.written_out(np.arange(len(regions)))
        order = np.argsort(cells)
        self._cells, self._owner = cells[order], owner[order]

    def touching(self, cells: Cells) -> I64:
        positions = cells.positions()
        low = np.searchsorted(self._cells, positions, side="left")
        high = np.searchsorted(self._cells, positions, side="right")
        at, step = spread(high - low)
        return sorted_unique(self._owner[low[at] + step])

    def packed(self) -> list[bytes]:
        return [pack_numbers(column.view(np.uint64)) for column in (self._cells, self._owner)]


class ByBox(Index):
    """An entry for each region: the box around it, found by a grid. A lookup reads the regions whose boxes have a cell."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        columns = regions.columns
        self._boxes = BoxIndex(regions.shape, columns.low, columns.high)
        self._is_box = np.ones(len(regions), np.bool_)
        self._is_box[columns.others] = False

    def touching(self, cells: Cells) -> I64:
        regions = self._regions
        if cells.is_whole or not cells or not regions.shape:
            return regions.touching(cells)
        if cells.count >= len(regions):
            return regions.touching(cells)
        coordinates = cells.coordinates()
        compared = self._boxes.pairs_near(coordinates)
        if compared > CHUNK and compared > regions.cells_near(cells):
            # Boxes that lie over each other, or many cells side by side: cells to read are fewer than comparisons.
            return regions.touching(cells)
        met = [np.empty(0, np.int64)]
        met += [sorted_unique(boxes) for boxes, _ in self._boxes.holding(coordinates)]
        numbers = sorted_unique(np.concatenate(met))
        is_box = self._is_box[numbers]
        if is_box.all():
            return numbers
        others = regions.touching(cells, numbers[~is_box])
        return np.sort(np.concatenate((numbers[is_box], others)))

    def packed(self) -> list[bytes]:
        return self._regions.packed()
