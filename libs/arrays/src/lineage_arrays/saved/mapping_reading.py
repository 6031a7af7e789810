"""Mappings from what is stored. Nothing of it is believed: each is held against the shapes of its arrays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Mapping as ReadOnly
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.axis_mappings import AlongAxis, Ranges, Union
from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.errors import RecordingError
from lineage_arrays.mappings import (
    NOTHING,
    AllToAll,
    Boxes,
    Chain,
    Choice,
    Gather,
    Inverse,
    Mapping,
    SamePositions,
    Span,
)
from lineage_arrays.operators.encodings import (
    Encoding,
    Orientation,
    PairStore,
    PayloadStore,
)
from lineage_arrays.operators.operator import Operator, Shapes
from lineage_arrays.operators.ranges import RangeTable, Rows
from lineage_arrays.operators.regions import Regions
from lineage_arrays.operators.strategies import (
    Composite,
    MappingFunctions,
    Options,
    PayloadFunction,
)
from lineage_arrays.saved.columns import ColumnReader

Operators: TypeAlias = ReadOnly[tuple[str, str], Operator]
"""Operators of a program by name and version."""

AXES_MAX = 64
CELLS_MAX = 1 << 62
DEPTH_MAX = 64
"""Mappings within mappings, at most."""


@dataclass(frozen=True)
class Lacking:
    """A mapping by functions of an operator that is not at hand."""

    source: Shape
    target: Shape
    name: str
    version: str

    def backward(self, cells: Cells) -> Cells:
        if not cells:
            return Cells.empty(self.source)
        raise self._error()

    def forward(self, cells: Cells) -> Cells:
        if not cells:
            return Cells.empty(self.target)
        raise self._error()

    def _error(self) -> RecordingError:
        return RecordingError(
            f"the cells of operator {self.name!r}, version {self.version!r}, are computed by its own functions, which are not stored: "
            "ask from a program that has it, read_recording(store, app, operators=[...]), or give the operator mapping()"
        )


class MappingReader:
    """Makes mappings of what is stored.

    Args:
        columns: of the recording.
        operators: those whose own functions may be called.
    """

    def __init__(self, columns: ColumnReader, operators: Operators) -> None:
        self._columns = columns
        self._operators = operators

    def read(self, plain: object, source: Shape, target: Shape) -> Mapping:
        """The mapping between arrays of two shapes.

        Raises:
            RecordingError: it is none, or one of other shapes.
        """
        mapping = self._mapping(plain, 0)
        if (mapping.source, mapping.target) != (source, target):
            raise RecordingError(
                f"a stored mapping is of {mapping.source} to {mapping.target}, its arrays are {source} and {target}"
            )
        return mapping

    def _mapping(self, plain: object, depth: int) -> Mapping:
        if not isinstance(plain, list) or not plain or depth > DEPTH_MAX:
            raise RecordingError("a stored recording names no mapping where one must be")
        kind, *fields = plain
        make = _MAKERS.get(kind) if isinstance(kind, str) else None
        if make is None:
            raise RecordingError(
                f"a stored mapping is of kind {kind!r:.80}, which this version does not know"
            )
        try:
            return make(self, depth, *fields)
        except (TypeError, ValueError) as error:
            raise RecordingError(f"a stored mapping ({kind}) can't be read: {error}") from error

    def _all(self, depth: int, source: object, target: object) -> Mapping:
        return AllToAll(shape_of(source), shape_of(target))

    def _same(self, depth: int, source: object, target: object) -> Mapping:
        mapping = SamePositions(shape_of(source), shape_of(target))
        if math.prod(mapping.source) != math.prod(mapping.target):
            raise ValueError("arrays of two sizes")
        return mapping

    def _boxes(self, depth: int, source: object, target: object, spans: list[list[Any]]) -> Mapping:
        mapping = Boxes(shape_of(source), shape_of(target), tuple(Span(*span) for span in spans))
        numbers = [number for span in spans for at, number in enumerate(span) if at != 2]
        axes = [span.axis for span in mapping.spans if span.axis is not None]
        if (
            len(mapping.spans) != len(mapping.source)
            or not all(type(number) is int and abs(number) < CELLS_MAX for number in numbers)
            or not all(type(axis) is int and 0 <= axis < len(mapping.target) for axis in axes)
        ):
            raise ValueError("spans that are not those of its arrays")
        return mapping

    def _gather(
        self, depth: int, source: object, target: object, moved: object, nothing: object
    ) -> Mapping:
        from_shape, to_shape = shape_of(source), shape_of(target)

        def index() -> I64:
            return self._index(math.prod(from_shape), to_shape, moved, nothing)

        return Gather(from_shape, to_shape, index)

    def _index(self, cells: int, target: Shape, moved: object, nothing: object) -> I64:
        index = self._columns.numbers(moved) + np.arange(1, math.prod(target) + 1)
        if nothing is not None:
            bits = np.frombuffer(self._columns.octets(nothing), np.uint8)
            index[np.unpackbits(bits, count=len(index)).astype(np.bool_)] = NOTHING
        if len(index) and (int(index.min()) < 0 or int(index.max()) > cells):
            raise RecordingError("a stored index names cells that its array lacks")
        return index.reshape(target)

    def _inverse(self, depth: int, of: object) -> Mapping:
        return Inverse(self._mapping(of, depth + 1))

    def _chain(self, depth: int, first: object, second: object) -> Mapping:
        chain = Chain(self._mapping(first, depth + 1), self._mapping(second, depth + 1))
        if chain.first.target != chain.second.source:
            raise ValueError("mappings that do not meet")
        return chain

    def _union(self, depth: int, *parts: object) -> Mapping:
        mappings = [self._mapping(part, depth + 1) for part in parts]
        _check_alike(mappings)
        return Union(tuple(mappings))

    def _axis(
        self, depth: int, source: object, target: object, axis: int, *sides: object
    ) -> Mapping:
        from_shape, to_shape = shape_of(source), shape_of(target)
        if (
            type(axis) is not int
            or not 0 <= axis < len(from_shape)
            or [*from_shape[:axis], *from_shape[axis + 1 :]]
            != [*to_shape[:axis], *to_shape[axis + 1 :]]
        ):
            raise ValueError("an axis that is not that of its arrays")

        def ranges() -> Ranges:
            columns = Ranges(*(self._columns.numbers(side) for side in sides))
            _check_ranges(columns, from_shape[axis], to_shape[axis])
            return columns

        return AlongAxis(from_shape, to_shape, axis, ranges)

    def _choice(self, depth: int, witness: object, influence: object) -> Mapping:
        choice = Choice(self._mapping(witness, depth + 1), self._mapping(influence, depth + 1))
        _check_alike([choice.witness, choice.influence])
        return choice

    def _options(self, depth: int, *ways: object) -> Mapping:
        mappings = [self._mapping(way, depth + 1) for way in ways]
        _check_alike(mappings)
        # What lacks its operator is left out where another way knows the same.
        present = [way for way in mappings if not isinstance(way, Lacking)]
        return Options(tuple(present or mappings))

    def _pairs(
        self,
        depth: int,
        source: object,
        target: object,
        encoding: str,
        orientation: str,
        outputs: object,
        inputs: object,
    ) -> Mapping:
        store = PairStore(
            shape_of(source), shape_of(target), Encoding(encoding), Orientation(orientation)
        )
        store.outputs = self._regions(store.target, outputs)
        store.inputs = self._regions(store.source, inputs)
        if len(store.outputs) != len(store.inputs):
            raise ValueError("regions without their counterparts")
        return store

    def _regions(self, shape: Shape, plain: object) -> Regions:
        match plain:
            case [lengths, cells]:
                return Regions.of_columns(
                    shape, self._columns.numbers(lengths), self._columns.numbers(cells)
                )
        raise ValueError("no regions")

    def _ranges(
        self,
        depth: int,
        source: object,
        target: object,
        relative: list[int],
        count: int,
        *sides: list[object],
    ) -> Mapping:
        from_shape, to_shape = shape_of(source), shape_of(target)
        axes = (len(to_shape), len(to_shape), len(from_shape), len(from_shape))
        if type(count) is not int or tuple(map(len, sides)) != axes or len(relative) != axes[2]:
            raise ValueError("ranges that are not those of its arrays")
        columns = [self._side(side, count) for side in sides]
        rows = Rows(columns[0], columns[1], columns[2], columns[3], tuple(relative))
        _check_rows(rows, from_shape, to_shape)
        return RangeTable(from_shape, to_shape, rows)

    def _side(self, side: list[object], count: int) -> I64:
        axes = [self._columns.numbers(axis) for axis in side]
        if any(len(axis) != count for axis in axes):
            raise ValueError("ranges of several lengths")
        return np.stack(axes, axis=1) if axes else np.empty((count, 0), np.int64)

    def _composite(self, depth: int, store: object, functions: object) -> Mapping:
        written, elsewhere = (self._mapping(of, depth + 1) for of in (store, functions))
        _check_alike([written, elsewhere])
        if isinstance(written, Lacking):
            return written
        if not isinstance(written, PayloadStore | PairStore):
            raise ValueError("nothing that was written")
        return Composite(written, elsewhere)

    def _functions(self, depth: int, *named: Any) -> Mapping:
        operator, operand, shapes = self._named(*named)
        if operator is None:
            return Lacking(shapes.inputs[operand], shapes.output, str(named[0]), str(named[1]))
        return MappingFunctions(shapes, operand, operator)

    def _payloads(self, depth: int, *fields: Any) -> Mapping:
        *named, encoding, outputs, payloads = fields
        operator, operand, shapes = self._named(*named)
        regions = self._regions(shapes.output, outputs)
        contents = self._columns.texts(payloads)
        if len(regions) != len(contents):
            raise ValueError("payloads without their cells")
        if operator is None:
            return Lacking(shapes.inputs[operand], shapes.output, str(named[0]), str(named[1]))
        store = PayloadFunction(shapes, operand, operator).store(Encoding(encoding))
        store.outputs, store.payloads = regions, contents
        return store

    def _named(
        self, name: str, version: str, operand: int, inputs: list[object], output: object
    ) -> tuple[Operator | None, int, Shapes]:
        shapes = Shapes(tuple(map(shape_of, inputs)), shape_of(output))
        if type(operand) is not int or not 0 <= operand < len(shapes.inputs):
            raise ValueError("no operand of the operator")
        return self._operators.get((name, version)), operand, shapes


_MAKERS: dict[str, Callable[..., Mapping]] = {
    "all": MappingReader._all,
    "same": MappingReader._same,
    "boxes": MappingReader._boxes,
    "gather": MappingReader._gather,
    "inverse": MappingReader._inverse,
    "chain": MappingReader._chain,
    "union": MappingReader._union,
    "axis": MappingReader._axis,
    "choice": MappingReader._choice,
    "options": MappingReader._options,
    "pairs": MappingReader._pairs,
    "ranges": MappingReader._ranges,
    "composite": MappingReader._composite,
    "functions": MappingReader._functions,
    "payloads": MappingReader._payloads,
}


def shape_of(plain: object) -> Shape:
    """The shape of a stored array.

    Raises:
        RecordingError: it is none.
    """
    if (
        not isinstance(plain, list)
        or len(plain) > AXES_MAX
        or not all(type(length) is int and length >= 0 for length in plain)
        or math.prod(max(length, 1) for length in plain) > CELLS_MAX
    ):
        raise RecordingError(f"{plain!r:.80} is the shape of no array")
    return tuple(plain)


def _check_alike(mappings: Sequence[Mapping]) -> None:
    if len({(mapping.source, mapping.target) for mapping in mappings}) != 1:
        raise ValueError("mappings of several shapes for one operand")


def _check_rows(rows: Rows, source: Shape, target: Shape) -> None:
    if not all(type(axis) is int and -1 <= axis < len(target) for axis in rows.relative):
        raise ValueError("ranges relative to an axis that the array lacks")
    for (low, high), shape in (((rows.out_low, rows.out_high), target), (rows.ends(), source)):
        if len(low) and ((low < 0).any() or (high >= np.array(shape, np.int64)).any()):
            raise ValueError("ranges beyond the array")


def _check_ranges(ranges: Ranges, inputs: int, outputs: int) -> None:
    at, first, last = ranges.outputs, ranges.first, ranges.last
    if len({len(at), len(first), len(last)}) != 1:
        raise RecordingError("stored ranges of an axis have ends of several counts")
    if len(at) and (
        int(at.min()) < 0
        or int(at.max()) >= outputs
        or int(first.min()) < 0
        or (first > last).any()
        or int(last.max()) >= inputs
    ):
        raise RecordingError("stored ranges name cells that their axis lacks")
