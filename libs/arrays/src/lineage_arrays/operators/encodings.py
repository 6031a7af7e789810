"""Region pairs and payloads, stored for lookups from one end.

``ONE``: an entry for each cell; ``MANY``: an entry for each region, found by the box around it. ``BACKWARD`` stores are looked up by
output cells, ``FORWARD`` ones by input cells (section VI of the paper); the first query from the other end reads all of them, for an index
by boxes that is not stored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.errors import ModeError
from lineage_arrays.mappings import Mapping
from lineage_arrays.operators.ranges import RangeTable
from lineage_arrays.operators.region_index import ByBox, ByCell, Index
from lineage_arrays.operators.regions import Regions
from lineage_core.codec.number_columns import pack_numbers
from lineage_core.text_enum import StrEnum

CellsOf: TypeAlias = Callable[[int, bytes], Any]
"""The input cells of an output position with a payload, or any index of them."""
MappingOf: TypeAlias = Callable[[bytes], Mapping | None]
"""The mapping of all output positions that have a payload; None: they are asked one by one."""

READ_MAX = 1 << 20
"""Pairs of cells up to which what payloads say is kept for the next forward query."""


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
    _indexes: dict[Orientation, Index] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.inputs, self.outputs = Regions(self.source), Regions(self.target)

    def append(self, outcells: Cells, incells: Cells) -> None:
        self.outputs.append(outcells)
        self.inputs.append(incells)
        self._indexes.clear()

    def extend(self, outputs: Regions, inputs: Regions) -> None:
        """Take as many region pairs as there are regions on each side."""
        self.outputs.extend(outputs)
        self.inputs.extend(inputs)
        self._indexes.clear()

    @property
    def index(self) -> Index:
        """The index over all entries, built for the first query."""
        return self._index_from(self.orientation)

    def _index_from(self, end: Orientation) -> Index:
        """The index of an end; of the end that the store is not for, one that only this process has."""
        if end not in self._indexes:
            regions = self.outputs if end is Orientation.BACKWARD else self.inputs
            encoding = self.encoding if end is self.orientation else Encoding.MANY
            self._indexes[end] = index_of(regions, encoding)
        return self._indexes[end]

    def has_index_from(self, end: Orientation) -> bool:
        """Whether a lookup from an end builds nothing any more."""
        return end in self._indexes

    @property
    def written(self) -> Cells:
        """The output cells that stand in a pair."""
        return self.outputs.all_cells()

    def backward(self, cells: Cells) -> Cells:
        return self.inputs.of(self._index_from(Orientation.BACKWARD).touching(cells))

    def forward(self, cells: Cells) -> Cells:
        return self.outputs.of(self._index_from(Orientation.FORWARD).touching(cells))

    def packed(self) -> list[bytes]:
        """It and its index as bytes."""
        is_backward = self.orientation is Orientation.BACKWARD
        return self.index.packed() + (self.inputs if is_backward else self.outputs).packed()

    @property
    def nbytes(self) -> int:
        """Bytes that it takes where it is stored."""
        return sum(map(len, self.packed()))


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
        self._forget()

    def extend(self, outputs: Regions, payloads: Sequence[bytes]) -> None:
        """Take as many payloads as there are regions."""
        self.outputs.extend(outputs)
        self.payloads.extend(payloads)
        self._forget()

    def _forget(self) -> None:
        self._index = self._written = None
        self.__dict__.pop("_read", None)

    @property
    def index(self) -> Index:
        """The index over all entries, built for the first query."""
        if self._index is None:
            self._index = index_of(self.outputs, self.encoding)
        return self._index

    @property
    def is_read(self) -> bool:
        """Whether all payloads have been opened, and are kept as region pairs for forward queries."""
        return self.__dict__.get("_read") is not None

    @property
    def written(self) -> Cells:
        """The output cells that have a payload."""
        if self._written is None:
            self._written = self.outputs.all_cells()
        return self._written

    def backward(self, cells: Cells) -> Cells:
        return Cells.of_any(
            self.source,
            (
                part
                for region in self.index.touching(cells).tolist()
                for part in self._of_region(region, self._outputs_of(region, cells))
            ),
        )

    def _of_region(self, region: int, positions: I64) -> Iterator[Any]:
        """The input cells of output positions of a region, or any indices of them."""
        payload = self.payloads[region]
        mapping = self.mapping_of(payload)
        if mapping is not None:
            yield mapping.backward(Cells.at(self.target, positions))
            return
        for position in positions.tolist():
            yield self.cells_of(position, payload)

    def _cells(self, position: int, payload: bytes) -> Cells:
        return Cells.of(self.source, self.cells_of(position, payload))

    def as_pairs(self) -> PairStore:
        """The same as region pairs: the function of payloads is called for each output cell, and needed no more."""
        pairs = PairStore(self.source, self.target, self.encoding, Orientation.BACKWARD)
        for region, payload in enumerate(self.payloads):
            positions = self._outputs_of(region).tolist()
            cells = [self._cells(position, payload) for position in positions]
            if cells and all(one == cells[0] for one in cells):
                pairs.append(Cells.at(self.target, positions), cells[0])
                continue
            for position, of_position in zip(positions, cells, strict=True):
                pairs.append(Cells.at(self.target, [position]), of_position)
        return pairs

    @functools.cached_property
    def _read(self) -> PairStore | None:
        """All payloads as region pairs, for forward queries; None where they are many, or have mappings."""
        if any(self.mapping_of(payload) is not None for payload in self.payloads):
            return None
        pairs = PairStore(self.source, self.target, Encoding.MANY, Orientation.FORWARD)
        count = 0
        for region, payload in enumerate(self.payloads):
            for position in self._outputs_of(region).tolist():
                incells = self._cells(position, payload)
                count += 1 + incells.count
                if count > READ_MAX:
                    return None
                pairs.append(Cells.at(self.target, [position]), incells)
        return pairs

    def _outputs_of(self, region: int, traced: Cells | None = None) -> I64:
        """Output positions of a region, of traced ones alone."""
        begin, end = self.outputs.pointer[region : region + 2]
        positions = self.outputs.cells[begin:end]
        return positions if traced is None else positions[traced.has(positions)]

    def forward(self, cells: Cells) -> Cells:
        """All payloads are read: their input cells are computed, and kept where they are few; else they are compared."""
        if self._read is not None:
            return self._read.forward(cells)
        reached: list[I64] = [np.empty(0, np.int64)]
        for region, payload in enumerate(self.payloads):
            positions = self._outputs_of(region)
            mapping = self.mapping_of(payload)
            if mapping is not None:
                is_reached = mapping.forward(cells).has(positions)
            else:
                is_reached = np.array(
                    [
                        bool(cells.has(self._cells(position, payload).positions()).any())
                        for position in positions.tolist()
                    ],
                    np.bool_,
                )
            reached.append(positions[is_reached])
        return Cells.at(self.target, np.concatenate(reached))

    def packed(self) -> list[bytes]:
        """It and its index as bytes."""
        lengths = np.fromiter(map(len, self.payloads), np.uint64, len(self.payloads))
        return [*self.index.packed(), pack_numbers(lengths), b"".join(self.payloads)]

    @property
    def nbytes(self) -> int:
        """Bytes that it takes where it is stored."""
        return sum(map(len, self.packed()))


@dataclass
class RangeStore:
    """Region pairs of an output and one operand, as ranges relative to the output cell: a mapping."""

    source: Shape
    target: Shape
    _outputs: Regions = field(init=False)
    _inputs: Regions = field(init=False)
    _table: RangeTable | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._inputs, self._outputs = Regions(self.source), Regions(self.target)

    def append(self, outcells: Cells, incells: Cells) -> None:
        self._check_open()
        self._outputs.append(outcells)
        self._inputs.append(incells)

    def extend(self, outputs: Regions, inputs: Regions) -> None:
        """Take as many region pairs as there are regions on each side."""
        self._check_open()
        self._outputs.extend(outputs)
        self._inputs.extend(inputs)

    def _check_open(self) -> None:
        if self._table is not None:
            raise ModeError("a region pair comes after the first question")

    @property
    def unread(self) -> int:
        """Region pairs that are no rows yet."""
        return len(self._outputs)

    def has_unread(self, outputs: Regions, inputs: Regions) -> bool:
        """Whether its region pairs are these, and no rows yet."""
        is_open = self._table is None
        return is_open and self._outputs.are_same(outputs) and self._inputs.are_same(inputs)

    @property
    def table(self) -> RangeTable:
        """The index over all entries, built for the first query; the pairs themselves are dropped."""
        if self._table is None:
            self._table = RangeTable.of_regions(self._outputs, self._inputs)
            self._inputs, self._outputs = Regions(self.source), Regions(self.target)
        return self._table

    def backward(self, cells: Cells) -> Cells:
        return self.table.backward(cells)

    def forward(self, cells: Cells) -> Cells:
        return self.table.forward(cells)

    def packed(self) -> list[bytes]:
        """Its rows as bytes."""
        return self.table.packed()

    @property
    def nbytes(self) -> int:
        """Bytes that it takes where it is stored."""
        return self.table.nbytes
