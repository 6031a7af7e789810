"""Mappings as data: shapes, numbers and columns of positions, never code.

A mapping is a list whose first item says what it is. What an operator's own functions compute is stored as pairs where these are few;
else it is named by the operator's name and version, and needs the operator when it is asked.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.axis_mappings import AlongAxis, Union
from lineage_arrays.cells import I64
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
)
from lineage_arrays.operators.encodings import PairStore, PayloadStore, RangeStore
from lineage_arrays.operators.operator import Operator, Shapes
from lineage_arrays.operators.ranges import RangeTable, Rows
from lineage_arrays.operators.regions import Regions
from lineage_arrays.operators.strategies import (
    Again,
    Composite,
    MappingFunctions,
    Options,
    PayloadFunction,
)
from lineage_arrays.saved.columns import ColumnWriter

Plain: TypeAlias = list[Any]

CALLS_MAX = 1 << 17
"""Cells up to which an operator's functions are called for each when it is stored: nobody needs the operator later."""
PAIRS_MAX = 1 << 22
"""Pairs of cells that its mapping functions give, at most, for that."""


def packed_mapping(mapping: Mapping, columns: ColumnWriter) -> Plain:
    """A mapping as a JSON value and columns.

    Raises:
        RecordingError: it is of a kind that can't be stored.
        ModeError: an operator that must be run for it gives another output.
    """
    ends = [list(mapping.source), list(mapping.target)]
    match mapping:
        case Again():
            return packed_mapping(mapping.run.mappings[mapping.operand], columns)
        case AllToAll():
            return ["all", *ends]
        case SamePositions():
            return ["same", *ends]
        case Boxes():
            spans = [
                [span.low, span.high, span.axis, span.low_scale, span.high_scale]
                for span in mapping.spans
            ]
            return ["boxes", *ends, spans]
        case Gather():
            return ["gather", *ends, *_packed_index(mapping.index, columns)]
        case Inverse():
            return ["inverse", packed_mapping(mapping.of, columns)]
        case Chain():
            return [
                "chain",
                *(packed_mapping(of, columns) for of in (mapping.first, mapping.second)),
            ]
        case Union():
            return ["union", *(packed_mapping(part, columns) for part in mapping.parts)]
        case AlongAxis():
            ranges = mapping.ranges
            sides = (ranges.outputs, ranges.first, ranges.last)
            return ["axis", *ends, mapping.axis, *(columns.numbers(side) for side in sides)]
        case Choice():
            return [
                "choice",
                *(packed_mapping(of, columns) for of in (mapping.witness, mapping.influence)),
            ]
        case Options():
            return ["options", *(packed_mapping(way, columns) for way in mapping.ways)]
        case PairStore():
            regions = (_packed_regions(of, columns) for of in (mapping.outputs, mapping.inputs))
            return ["pairs", *ends, str(mapping.encoding), str(mapping.orientation), *regions]
        case RangeStore():
            return packed_mapping(mapping.table, columns)
        case RangeTable():
            return ["ranges", *ends, *_packed_rows(mapping.rows, columns)]
        case Composite():
            return [
                "composite",
                *(packed_mapping(of, columns) for of in (mapping.store, mapping.functions)),
            ]
        case MappingFunctions():
            whole = mapping.operator.mapping(mapping.operand, mapping.shapes)
            whole = whole or mapping.as_ranges(CALLS_MAX, PAIRS_MAX)
            if whole is not None:
                return packed_mapping(whole, columns)
            return ["functions", *_operator(mapping.operator, mapping.operand, mapping.shapes)]
        case PayloadStore() if len(mapping.outputs.cells) <= CALLS_MAX:
            return packed_mapping(mapping.as_pairs(), columns)
        case PayloadStore(cells_of=PayloadFunction() as by):
            return [
                "payloads",
                *_operator(by.operator, by.operand, by.shapes),
                str(mapping.encoding),
                _packed_regions(mapping.outputs, columns),
                columns.texts(mapping.payloads),
            ]
    raise RecordingError(f"a mapping of kind {type(mapping).__name__} can't be stored")


def _operator(operator: Operator, operand: int, shapes: Shapes) -> Plain:
    name = operator.name or type(operator).__name__
    return [
        name,
        operator.version,
        operand,
        [list(one) for one in shapes.inputs],
        list(shapes.output),
    ]


def _packed_index(index: I64, columns: ColumnWriter) -> Plain:
    """An index as how far each cell was moved, which repeats, and which cells are filled in."""
    moved = index - np.arange(1, len(index) + 1)
    nothing = index == NOTHING
    if not nothing.any():
        return [columns.numbers(moved), None]
    # Cells that are filled in move as those before them do.
    last = np.maximum.accumulate(np.where(nothing, 0, np.arange(len(index))))
    moved = np.where(nothing[last], 0, moved[last])
    return [columns.numbers(moved), columns.octets(np.packbits(nothing).tobytes())]


def _packed_regions(regions: Regions, columns: ColumnWriter) -> Plain:
    return [columns.numbers(np.diff(regions.pointer)), columns.numbers(regions.cells)]


def _packed_rows(rows: Rows, columns: ColumnWriter) -> Plain:
    sides = (rows.out_low, rows.out_high, rows.in_low, rows.in_high)
    packed = [[columns.numbers(axis) for axis in np.ascontiguousarray(side.T)] for side in sides]
    return [list(rows.relative), len(rows), *packed]
