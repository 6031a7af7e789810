"""Region pairs and payloads, stored for lookups from one end.

``ONE``: an entry for each cell; ``MANY``: an entry for each region, found by its bounding box. ``BACKWARD`` stores are looked up by
output cells, ``FORWARD`` ones by input cells; the other direction reads all of them (section VI of the paper).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.errors import ModeError
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.ranges import RangeTable
from lineage_core.codec.number_columns import pack_numbers
from lineage_core.contract.runs import sorted_unique, spread
from lineage_core.text_enum import StrEnum

CellsOf: TypeAlias = Callable[[int, bytes], Cells]
"""The input cells of an output position with a payload."""
MappingOf: TypeAlias = Callable[[bytes], Mapping | None]
"""The mapping of all output positions that have a payload; None: they are asked one by one."""


class Encoding(StrEnum):
    """An entry for each cell, for each region, or for what repeats."""

    ONE = "one"
    MANY = "many"
    RANGES = "ranges"
    """Of region pairs alone: ranges relative to the output cell, looked up from either end."""


class Orientation(StrEnum):
    """The end from which a store is looked up."""

    BACKWARD = "backward"
    FORWARD = "forward"


class Regions:
    """Sets of cells of one array, one behind the other, as they are written."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._parts: list[I64] = []
        self._joined: tuple[I64, I64] | None = None

    @classmethod
    def of_columns(cls, shape: Shape, lengths: I64, cells: I64) -> Regions:
        """Regions by their lengths, and the positions of all of them one behind the other.

        Raises:
            ValueError: the array has no such cells, or the lengths are of others.
        """
        if (lengths < 0).any() or int(lengths.sum()) != len(cells):
            raise ValueError("regions of other lengths")
        if len(cells) and not 0 <= int(cells.min()) <= int(cells.max()) < math.prod(shape):
            raise ValueError("regions beyond the array")
        regions = cls(shape)
        regions._parts = np.split(cells, np.cumsum(lengths)[:-1]) if len(lengths) else []
        return regions

    def append(self, cells: Cells) -> None:
        self._parts.append(cells.positions())
        self._joined = None

    def __len__(self) -> int:
        return len(self._parts)

    def _joint(self) -> tuple[I64, I64]:
        if self._joined is None:
            ends = np.cumsum([0, *map(len, self._parts)], dtype=np.int64)
            self._joined = ends, np.concatenate([np.empty(0, np.int64), *self._parts])
        return self._joined

    @property
    def pointer(self) -> I64:
        """Where each region begins among :attr:`cells`, and the end."""
        return self._joint()[0]

    @property
    def cells(self) -> I64:
        """Positions of all regions."""
        return self._joint()[1]

    def of(self, regions: I64) -> Cells:
        """The cells of some regions."""
        pointer = self.pointer
        owner, step = spread(np.diff(pointer)[regions])
        return Cells.at(self.shape, self.cells[pointer[regions][owner] + step])

    def touching(self, cells: Cells) -> I64:
        """Which regions have any of some cells: all are read."""
        if cells.is_whole:
            return np.flatnonzero(np.diff(self.pointer))
        hit = cells.mask().reshape(-1)[self.cells]
        owner = np.repeat(np.arange(len(self)), np.diff(self.pointer))
        return sorted_unique(owner[hit])

    @property
    def nbytes(self) -> int:
        """Bytes that the regions take where they are stored: gaps within a region, in the narrowest integers."""
        return sum(len(pack_numbers(part.astype(np.uint64))) for part in self._parts)


class Index:
    """Finds the regions that have some cells."""

    def touching(self, cells: Cells) -> I64:
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        raise NotImplementedError


class ByCell(Index):
    """An entry for each cell: its regions."""

    def __init__(self, regions: Regions) -> None:
        owner = np.repeat(np.arange(len(regions)), np.diff(regions.pointer))
        order = np.argsort(regions.cells, kind="stable")
        self._cells, self._owner = regions.cells[order], owner[order]

    def touching(self, cells: Cells) -> I64:
        positions = cells.positions()
        low = np.searchsorted(self._cells, positions, side="left")
        high = np.searchsorted(self._cells, positions, side="right")
        at, step = spread(high - low)
        return sorted_unique(self._owner[low[at] + step])

    @property
    def nbytes(self) -> int:
        return len(pack_numbers(self._cells.astype(np.uint64))) + len(
            pack_numbers(self._owner.astype(np.uint64))
        )


class ByBox(Index):
    """An entry for each region: the box around it. A lookup reads the regions whose boxes it meets."""

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        axes = len(regions.shape)
        self._low = np.zeros((len(regions), axes), np.int64)
        self._high = np.full((len(regions), axes), -1, np.int64)
        pointer = regions.pointer
        some = np.flatnonzero(np.diff(pointer))
        if len(some) and axes:
            coordinates = np.stack(np.unravel_index(regions.cells, regions.shape), axis=1)
            self._low[some] = np.minimum.reduceat(coordinates, pointer[some], axis=0)
            self._high[some] = np.maximum.reduceat(coordinates, pointer[some], axis=0)

    def touching(self, cells: Cells) -> I64:
        if not cells or not len(self._low):
            return np.empty(0, np.int64)
        coordinates = cells.coordinates()
        if not self._regions.shape:
            return self._regions.touching(cells)
        met = (self._low <= coordinates.max(axis=0)) & (self._high >= coordinates.min(axis=0))
        candidates = np.flatnonzero(met.all(axis=1))
        pointer = self._regions.pointer
        owner, step = spread(np.diff(pointer)[candidates])
        hit = cells.mask().reshape(-1)[self._regions.cells[pointer[candidates][owner] + step]]
        return sorted_unique(candidates[owner[hit]])

    @property
    def nbytes(self) -> int:
        ends = (self._low.reshape(-1), self._high.reshape(-1))
        return sum(len(pack_numbers(column.astype(np.uint64))) for column in ends)


def index_of(regions: Regions, encoding: Encoding) -> Index:
    return ByCell(regions) if encoding is Encoding.ONE else ByBox(regions)


@dataclass
class PairStore:
    """Region pairs of an output and one operand: a mapping."""

    source: Shape
    target: Shape
    encoding: Encoding
    orientation: Orientation
    inputs: Regions = field(init=False)
    outputs: Regions = field(init=False)
    _index: Index | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.inputs, self.outputs = Regions(self.source), Regions(self.target)

    def append(self, outcells: Cells, incells: Cells) -> None:
        self.outputs.append(outcells)
        self.inputs.append(incells)
        self._index = None

    @property
    def index(self) -> Index:
        """The index over all entries, built for the first query."""
        if self._index is None:
            ends = self.outputs if self.orientation is Orientation.BACKWARD else self.inputs
            self._index = index_of(ends, self.encoding)
        return self._index

    @property
    def written(self) -> Cells:
        """The output cells that stand in a pair."""
        return Cells.at(self.target, self.outputs.cells)

    def backward(self, cells: Cells) -> Cells:
        way = self.index if self.orientation is Orientation.BACKWARD else self.outputs
        return self.inputs.of(way.touching(cells))

    def forward(self, cells: Cells) -> Cells:
        way = self.index if self.orientation is Orientation.FORWARD else self.inputs
        return self.outputs.of(way.touching(cells))

    @property
    def nbytes(self) -> int:
        """Bytes that it takes where it is stored."""
        return self.inputs.nbytes + self.outputs.nbytes + self.index.nbytes


@dataclass
class PayloadStore:
    """Output cells and their payloads: a mapping to one operand, by the operator's ``map_p`` and ``mapping_p``."""

    source: Shape
    target: Shape
    encoding: Encoding
    cells_of: CellsOf
    mapping_of: MappingOf = field(default=lambda payload: None)
    outputs: Regions = field(init=False)
    payloads: list[bytes] = field(init=False, default_factory=list)
    _index: Index | None = field(init=False, default=None)
    _written: Cells | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.outputs = Regions(self.target)

    def append(self, outcells: Cells, payload: bytes) -> None:
        self.outputs.append(outcells)
        self.payloads.append(payload)
        self._index = self._written = None

    @property
    def index(self) -> Index:
        """The index over all entries, built for the first query."""
        if self._index is None:
            self._index = index_of(self.outputs, self.encoding)
        return self._index

    @property
    def written(self) -> Cells:
        """The output cells that have a payload."""
        if self._written is None:
            self._written = Cells.at(self.target, self.outputs.cells)
        return self._written

    def backward(self, cells: Cells) -> Cells:
        return Cells.union(
            self.source,
            (
                part
                for region in self.index.touching(cells).tolist()
                for part in self._of_region(region, self._outputs_of(region, cells))
            ),
        )

    def _of_region(self, region: int, positions: I64) -> Iterator[Cells]:
        """The input cells of output positions of a region."""
        payload = self.payloads[region]
        mapping = self.mapping_of(payload)
        if mapping is not None:
            yield mapping.backward(Cells.at(self.target, positions))
            return
        for position in positions.tolist():
            yield self.cells_of(position, payload)

    def as_pairs(self) -> PairStore:
        """The same as region pairs: the function of payloads is called for each output cell, and needed no more."""
        pairs = PairStore(self.source, self.target, self.encoding, Orientation.BACKWARD)
        for region, payload in enumerate(self.payloads):
            positions = self._outputs_of(region).tolist()
            cells = [self.cells_of(position, payload) for position in positions]
            if cells and all(one == cells[0] for one in cells):
                pairs.append(Cells.at(self.target, positions), cells[0])
                continue
            for position, of_position in zip(positions, cells, strict=True):
                pairs.append(Cells.at(self.target, [position]), of_position)
        return pairs

    def _outputs_of(self, region: int, traced: Cells | None = None) -> I64:
        """Output positions of a region, of traced ones alone."""
        begin, end = self.outputs.pointer[region : region + 2]
        positions = self.outputs.cells[begin:end]
        return positions if traced is None else positions[traced.has(positions)]

    def forward(self, cells: Cells) -> Cells:
        """All payloads are read: their input cells are computed, and compared."""
        reached: list[I64] = [np.empty(0, np.int64)]
        for region, payload in enumerate(self.payloads):
            positions = self._outputs_of(region)
            mapping = self.mapping_of(payload)
            if mapping is not None:
                is_reached = mapping.forward(cells).has(positions)
            else:
                is_reached = np.array(
                    [
                        bool(cells.has(self.cells_of(position, payload).positions()).any())
                        for position in positions.tolist()
                    ],
                    np.bool_,
                )
            reached.append(positions[is_reached])
        return Cells.at(self.target, np.concatenate(reached))

    @property
    def nbytes(self) -> int:
        """Bytes that it takes where it is stored."""
        return self.outputs.nbytes + self.index.nbytes + sum(map(len, self.payloads))


@dataclass
class RangeStore:
    """Region pairs of an output and one operand, as ranges relative to the output cell: a mapping."""

    source: Shape
    target: Shape
    _outputs: list[I64] = field(init=False, default_factory=list)
    _inputs: list[I64] = field(init=False, default_factory=list)
    _table: RangeTable | None = field(init=False, default=None)

    def append(self, outcells: Cells, incells: Cells) -> None:
        if self._table is not None:
            raise ModeError("a region pair comes after the first question")
        out, into = outcells.positions(), incells.positions()
        self._outputs.append(np.repeat(out, len(into)))
        self._inputs.append(np.tile(into, len(out)))

    @property
    def table(self) -> RangeTable:
        """The index over all entries, built for the first query; the pairs themselves are dropped."""
        if self._table is None:
            nothing = np.empty(0, np.int64)
            self._table = RangeTable.of_pairs(
                self.source,
                self.target,
                np.concatenate([nothing, *self._outputs]),
                np.concatenate([nothing, *self._inputs]),
            )
            self._outputs.clear()
            self._inputs.clear()
        return self._table

    def backward(self, cells: Cells) -> Cells:
        return self.table.backward(cells)

    def forward(self, cells: Cells) -> Cells:
        return self.table.forward(cells)

    @property
    def nbytes(self) -> int:
        """Bytes that it takes where it is stored."""
        return self.table.nbytes
