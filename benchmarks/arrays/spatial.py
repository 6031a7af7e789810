"""The microbenchmark's points by spatial indexes that the library does not use, beside the one that it does.

*grid*: boxes by a grid for each size, as `Encoding.MANY` has them. *r-tree*: the same boxes in a packed R-tree, 16 to a node, in the order of their centres
on a Hilbert curve. *roaring*: cells as 16 bits in containers of 65,536, regions as runs of these. *z-order*, *hilbert*: regions as
intervals of positions on such a curve, found by their ends. Each is written with what both directions need, and has its index in memory; boxes of the grid and
intervals are found by the same code (`BoxIndex`). No headers are counted, in favour of those that have many.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.arrays.microbenchmark import FANS, QUERY_CELLS, SHAPE, Pairs, Store, Way, micro_rows
from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.operators.region_index import BoxIndex, ByBox
from lineage_arrays.operators.regions import Regions
from lineage_core.codec.number_columns import pack_numbers
from lineage_core.contract.runs import sorted_unique, spread

NODE = 16
"""Children of a node of the R-tree."""
CONTAINER_BITS = 16
ROARING = np.dtype("<u2")


class Side:
    """The regions of one side of the pairs: which have some cells, and the cells of some."""

    def touching(self, cells: Cells) -> I64:
        """Numbers of the regions, in order."""
        raise NotImplementedError

    def of(self, numbers: I64) -> Cells:
        """The cells of some regions."""
        raise NotImplementedError

    def packed(self) -> list[bytes]:
        """All of it as bytes."""
        raise NotImplementedError


@dataclass(frozen=True)
class Sides:
    """Region pairs by an index of either side."""

    outputs: Side
    inputs: Side

    def backward(self, cells: Cells) -> Cells:
        return self.inputs.of(self.outputs.touching(cells))

    def forward(self, cells: Cells) -> Cells:
        return self.outputs.of(self.inputs.touching(cells))


class Grid(Side):
    """As the library has it."""

    def __init__(self, regions: Regions) -> None:
        self._regions, self._index = regions, ByBox(regions)

    def touching(self, cells: Cells) -> I64:
        return self._index.touching(cells)

    def of(self, numbers: I64) -> Cells:
        return self._regions.of(numbers)

    def packed(self) -> list[bytes]:
        return self._regions.packed()


class RTree(Side):
    """A packed R-tree over the boxes: level by level the corners around so many of the one below. What is kept is the order of the boxes: the tree follows from it."""

    def __init__(self, regions: Regions) -> None:
        columns = regions.columns
        if len(columns.others):
            raise ValueError("regions of the trial are boxes")
        self._regions = regions
        centres = (columns.low + columns.high) // 2
        codes = curve(regions.shape, hilbert=True).codes[tuple(centres.T)]
        self._order = np.argsort(codes, kind="stable")
        self._levels = [(columns.low[self._order], columns.high[self._order])]
        while len(self._levels[-1][0]) > 1:
            low, high = self._levels[-1]
            first = np.arange(0, len(low), NODE)
            self._levels.append((np.minimum.reduceat(low, first), np.maximum.reduceat(high, first)))

    def touching(self, cells: Cells) -> I64:
        coordinates = cells.coordinates()
        cell = np.arange(len(coordinates))
        node = np.zeros(len(cell), np.int64)
        for at in reversed(range(len(self._levels))):
            low, high = self._levels[at]
            where = coordinates[cell]
            inside = ((low[node] <= where) & (high[node] >= where)).all(axis=1)
            node, cell = node[inside], cell[inside]
            if at:
                children = np.minimum(NODE, len(self._levels[at - 1][0]) - NODE * node)
                owner, step = spread(children)
                node, cell = NODE * node[owner] + step, cell[owner]
        return sorted_unique(self._order[node])

    def of(self, numbers: I64) -> Cells:
        return self._regions.of(numbers)

    def packed(self) -> list[bytes]:
        return [*self._regions.packed(), pack_numbers(self._order.view(np.uint64))]


@dataclass(frozen=True)
class Runs:
    """Regions as runs of numbers that follow each other, region by region."""

    pointer: I64
    first: I64
    lengths: I64

    @classmethod
    def of_numbers(cls, count: int, owner: I64, numbers: I64, within: int = 0) -> Runs:
        """Take numbers with their regions; ``within``: so many low bits in which a run stays."""
        order = np.lexsort((numbers, owner))
        owner, numbers = owner[order], numbers[order]
        begins = np.ones(len(numbers), np.bool_)
        begins[1:] = (owner[1:] != owner[:-1]) | (numbers[1:] != numbers[:-1] + 1)
        if within:
            begins[1:] |= numbers[1:] >> within != numbers[:-1] >> within
        first = np.flatnonzero(begins)
        pointer = np.searchsorted(owner[first], np.arange(count + 1))
        return cls(pointer, numbers[first], np.diff(first, append=len(numbers)))

    def owner(self) -> I64:
        return np.repeat(np.arange(len(self.pointer) - 1), np.diff(self.pointer))

    def numbers(self, regions: I64) -> I64:
        """What some regions have."""
        owner, step = spread(np.diff(self.pointer)[regions])
        runs = self.pointer[regions][owner] + step
        owner, step = spread(self.lengths[runs])
        numbers: I64 = self.first[runs][owner] + step
        return numbers


class Roaring(Side):
    """Cells in containers: the low 16 bits of each, and its region; regions as runs in containers."""

    def __init__(self, regions: Regions) -> None:
        self._shape = regions.shape
        owner, positions = regions.written_out(np.arange(len(regions)))
        order = np.argsort(positions, kind="stable")
        ordered = positions[order]
        self._low, self._owner = ordered.astype(ROARING), owner[order]
        containers = np.arange((int(np.prod(regions.shape)) >> CONTAINER_BITS) + 2)
        self._begins = np.searchsorted(ordered >> CONTAINER_BITS, containers)
        self._runs = Runs.of_numbers(len(regions), owner, positions, CONTAINER_BITS)

    def touching(self, cells: Cells) -> I64:
        positions = cells.positions()
        keys = positions >> CONTAINER_BITS
        found = []
        for key in np.unique(keys).tolist():
            begin, end = self._begins[key], self._begins[key + 1]
            low = positions[keys == key].astype(ROARING)
            container = self._low[begin:end]
            first = np.searchsorted(container, low, side="left")
            at, step = spread(np.searchsorted(container, low, side="right") - first)
            found.append(self._owner[begin + first[at] + step])
        return sorted_unique(np.concatenate([np.empty(0, np.int64), *found]))

    def of(self, numbers: I64) -> Cells:
        return Cells.at(self._shape, self._runs.numbers(numbers))

    def packed(self) -> list[bytes]:
        runs = self._runs
        return [
            self._low.tobytes(),
            pack_numbers(self._owner.view(np.uint64)),
            pack_numbers(np.diff(self._begins).view(np.uint64)),
            pack_numbers(np.diff(runs.pointer).view(np.uint64)),
            pack_numbers((runs.first >> CONTAINER_BITS).view(np.uint64)),
            runs.first.astype(ROARING).tobytes(),
            (runs.lengths - 1).astype(ROARING).tobytes(),
        ]


@dataclass(frozen=True)
class Curve:
    """A curve through the cells of a square of two axes, as wide as a power of two.

    ``codes``: the number of each cell on it; ``cells``: of each number the position in an array of the shape, or -1.
    """

    codes: I64
    cells: I64


@functools.cache
def curve(shape: Shape, hilbert: bool) -> Curve:
    """The Z-order curve, or Hilbert's."""
    bits = (max(shape) - 1).bit_length()
    y, x = np.indices((1 << bits, 1 << bits))
    codes = np.zeros_like(x)
    for bit in reversed(range(bits)):
        right, down = (x >> bit) & 1, (y >> bit) & 1
        codes = codes << 2 | (3 * right ^ down if hilbert else 2 * down | right)
        if hilbert:
            flipped = (down == 0) & (right == 1)
            x, y = np.where(flipped, ~x, x), np.where(flipped, ~y, y)
            turned = down == 0
            x, y = np.where(turned, y, x), np.where(turned, x, y)
    codes = codes[: shape[0], : shape[1]].astype(np.int64)
    cells = np.full(1 << (2 * bits), -1, np.int64)
    cells[codes.reshape(-1)] = np.arange(codes.size)
    return Curve(codes, cells)


class Intervals(Side):
    """Regions as intervals on a curve, found as boxes of one axis."""

    def __init__(self, regions: Regions, hilbert: bool) -> None:
        self._shape, self._curve = regions.shape, curve(regions.shape, hilbert)
        owner, positions = regions.written_out(np.arange(len(regions)))
        codes = self._curve.codes.reshape(-1)[positions]
        self._runs = Runs.of_numbers(len(regions), owner, codes)
        self._owner = self._runs.owner()
        ends = self._runs.first[:, None], (self._runs.first + self._runs.lengths - 1)[:, None]
        self._index = BoxIndex((len(self._curve.cells),), *ends)

    def touching(self, cells: Cells) -> I64:
        codes = self._curve.codes.reshape(-1)[cells.positions()]
        found = [self._owner[runs] for runs, _ in self._index.near(codes[:, None]).holding()]
        return sorted_unique(np.concatenate([np.empty(0, np.int64), *found]))

    def of(self, numbers: I64) -> Cells:
        return Cells.at(self._shape, self._curve.cells[self._runs.numbers(numbers)])

    def packed(self) -> list[bytes]:
        runs = self._runs
        return [
            pack_numbers(column.view(np.uint64))
            for column in (np.diff(runs.pointer), runs.first, runs.lengths)
        ]


def _way(name: str, side: Callable[[Regions], Side]) -> Way:
    def write(pairs: Pairs, path: Path) -> Store:
        outputs, inputs = pairs.regions()
        sides = Sides(side(outputs), side(inputs))
        path.write_bytes(b"".join(sides.outputs.packed() + sides.inputs.packed()))
        return sides

    return Way(name, write)


WAYS = (
    _way("grid", Grid),
    _way("r-tree", RTree),
    _way("roaring", Roaring),
    _way("z-order", lambda regions: Intervals(regions, hilbert=False)),
    _way("hilbert", lambda regions: Intervals(regions, hilbert=True)),
)


def spatial_rows(
    shape: Shape = SHAPE, fans: tuple[int, ...] = FANS, times: int = 3
) -> Iterator[dict[str, Any]]:
    """A row for each fan-in, fan-out and way; ``same``: answers are those of the definition."""
    for hilbert in (False, True):
        curve(shape, hilbert)
    yield from micro_rows(shape, fans, times, WAYS, (QUERY_CELLS, 1))
