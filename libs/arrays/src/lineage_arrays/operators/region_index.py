"""Indexes that find the regions or boxes that have some cells."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.operators.keys import packed_keys
from lineage_arrays.operators.region_columns import CHUNK, parts_of
from lineage_arrays.operators.regions import Regions
from lineage_core.codec.number_columns import pack_numbers
from lineage_core.contract.region import Region
from lineage_core.contract.runs import sorted_unique, spread

GRID_AXES_MAX = 6
ENDLESS = 63
"""The logarithm of a length that no axis has."""
NARROWER = 2
"""By how much the logarithm of the grid's width is less on the last axis: fewer boxes are compared, and as many ranges are looked up."""

SCANNED = 1 << 10
"""Regions up to which a look at all of them is quicker than an index."""


@dataclass(frozen=True)
class _Level:
    """Boxes of like sizes, by the cell of a grid that their lowest corners lie in.

    ``bits``: for each axis the logarithm of a length that no box of the level passes; ``widths``: that of the grid's width; ``keys``: the
    grid's cell of each box, in order; ``numbers``: of these boxes; ``low``, ``high``: their corners (int64 of shape (axes, boxes)), so that
    boxes near each other lie side by side.
    """

    bits: I64
    widths: I64
    grid: tuple[int, ...]
    keys: I64
    numbers: I64
    low: I64
    high: I64

    def near(self, coordinates: I64) -> Iterator[tuple[I64, I64]]:
        """For each cell the ranges among ``keys`` of boxes that may hold it.

        A box that holds a cell begins in its grid cell or in the one before; on the last axis, on which these stand side by side in the order
        of keys, in one of several.
        """
        last = coordinates >> self.widths
        first = np.maximum(coordinates - ((1 << np.minimum(self.bits, 62)) - 1), 0) >> self.widths
        ends = [
            (last[:, axis], first[:, axis]) if bits and length > 1 else (last[:, axis],)
            for axis, (bits, length) in enumerate(
                zip(self.bits[:-1].tolist(), self.grid, strict=False)
            )
        ]
        for corner in itertools.product(*ends):
            low, high = (
                np.ravel_multi_index((*corner, end[:, -1]), self.grid) for end in (first, last)
            )
            yield (
                np.searchsorted(self.keys, low, side="left"),
                np.searchsorted(self.keys, high, side="right"),
            )

    def among(self, at: I64, coordinates: I64, cell: I64) -> tuple[I64, I64]:
        """Of pairs of a box (its place among ``keys``) and a cell those whose box holds the cell: numbers of boxes, and cells."""
        for axis, (low, high) in enumerate(zip(self.low, self.high, strict=True)):
            where = coordinates[cell, axis]
            inside = (low[at] <= where) & (high[at] >= where)
            at, cell = at[inside], cell[inside]
        return self.numbers[at], cell


class BoxIndex:
    """Finds the boxes that hold some cells, of boxes of any sizes; in an array without axes it finds nothing."""

    def __init__(self, shape: Shape, low: I64, high: I64) -> None:
        """Take the corners of boxes, inclusive: int64 of shape (boxes, axes). Empty ones are never found."""
        some = np.flatnonzero((high >= low).all(axis=1))
        self._levels: list[_Level] = []
        if not len(some) or not shape:
            return
        bits = np.frexp((high - low)[some].astype(np.float64))[1].astype(np.int64)
        # On further axes a level has one cell: each axis with several doubles the lookups.
        bits[:, GRID_AXES_MAX:] = ENDLESS
        order, begins = _groups(bits)
        stops = np.append(begins[1:], len(order))
        self._levels = [
            _level(shape, bits[order[begin]], some[order[begin:stop]], low, high)
            for begin, stop in zip(begins.tolist(), stops.tolist(), strict=True)
        ]

    def near(self, coordinates: I64) -> Near:
        """The boxes that may hold any of some cells."""
        ranges = [(level, *ends) for level in self._levels for ends in level.near(coordinates)]
        return Near(coordinates, ranges)

    def met(self, cells: Cells) -> Iterator[tuple[I64, I64]]:
        """Numbers of boxes, and the coordinates of a cell that each holds."""
        near = self.near(cells.coordinates())
        for boxes, cell in near.holding():
            yield boxes, near.coordinates[cell]


@dataclass(frozen=True)
class Near:
    """Boxes that may hold some cells: for each cell ranges among the keys of a level."""

    coordinates: I64
    ranges: list[tuple[_Level, I64, I64]]

    @property
    def pairs(self) -> int:
        """How many pairs of a box and a cell :meth:`holding` compares."""
        return sum(int((high - low).sum()) for _, low, high in self.ranges)

    def holding(self) -> Iterator[tuple[I64, I64]]:
        """Numbers of boxes and, for each, the index of a cell that it holds, in parts; a pair may come twice."""
        for level, low, high in self.ranges:
            counts = high - low
            for begin, end in parts_of(counts):
                owner, step = spread(counts[begin:end])
                places = low[begin:end][owner] + step
                boxes, cell = level.among(places, self.coordinates, owner + begin)
                if len(boxes):
                    yield boxes, cell

    def boxes(self) -> I64:
        """Their numbers, in order, each once."""
        found = [np.empty(0, np.int64)]
        for level, low, high in self.ranges:
            is_some = low < high
            first, last = low[is_some].astype(np.uint64), (high[is_some] - 1).astype(np.uint64)
            found.append(level.numbers[Region.of_runs(first, last).positions()])
        return sorted_unique(np.concatenate(found))


def _level(shape: Shape, bits: I64, numbers: I64, low: I64, high: I64) -> _Level:
    """The level of some boxes."""
    widths = bits.copy()
    widths[-1] = max(int(bits[-1]) - NARROWER, 0) if bits[-1] < ENDLESS else ENDLESS
    grid = tuple(int(axis) for axis in ((np.array(shape) - 1) >> widths) + 1)
    keys = np.ravel_multi_index(tuple((low[numbers] >> widths).T), grid)
    order = np.argsort(keys)
    ordered = numbers[order]
    corners = (np.ascontiguousarray(corner[ordered].T) for corner in (low, high))
    return _Level(bits, widths, grid, keys[order], ordered, *corners)


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
        self._is_box = np.ones(len(regions), np.bool_)
        self._is_box[regions.columns.others] = False

    @functools.cached_property
    def _boxes(self) -> BoxIndex:
        return BoxIndex(self._regions.shape, self._regions.columns.low, self._regions.columns.high)

    def touching(self, cells: Cells) -> I64:
        regions = self._regions
        if cells.is_whole or not cells or not regions.shape:
            return regions.touching(cells)
        if cells.count >= len(regions) or len(regions) <= SCANNED:
            return regions.touching(cells)
        near = self._boxes.near(cells.coordinates())
        compared = near.pairs
        if compared > CHUNK:
            boxes = near.boxes()
            if compared > regions.looked_at(cells, boxes):
                # Boxes that lie over each other, or many cells side by side.
                return regions.touching(cells, boxes)
        met = [np.empty(0, np.int64)]
        met += [sorted_unique(boxes) for boxes, _ in near.holding()]
        numbers = sorted_unique(np.concatenate(met))
        is_box = self._is_box[numbers]
        if is_box.all():
            return numbers
        others = regions.touching(cells, numbers[~is_box])
        return np.sort(np.concatenate((numbers[is_box], others)))

    def packed(self) -> list[bytes]:
        return self._regions.packed()
