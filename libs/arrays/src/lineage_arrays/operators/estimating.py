"""How long a question takes to read what is kept of a step's lineage: from counts of what was written, without a look at it.

Constants are of a core of 2020; what an operator's own functions take is measured by a few calls of them. Estimates decide how a question is
answered, never what the answer is.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.cells import Cells, Shape
from lineage_arrays.mappings import Choice, Mapping
from lineage_arrays.operators.encodings import (
    Encoding,
    Orientation,
    PairStore,
    PayloadStore,
    RangeStore,
)
from lineage_arrays.operators.operator import Mode, Operator
from lineage_arrays.operators.ranges import RangeTable
from lineage_arrays.operators.regions import Regions
from lineage_arrays.operators.strategies import Composite, MappingFunctions, Options

Clock: TypeAlias = Callable[[], float]

READ_S = 5e-5
"""Of any lookup, whatever it finds."""
CALL_S = 2e-5
"""Of a call of an operator's function for one cell, as long as none was timed."""
MET_S = 1.5e-5
"""Of each payload that is opened, beside the call of the operator's function: to find the cells that it is of among those of the question."""
CELL_S = 3e-8
"""Of a cell that a vectorised lookup meets, or a scan passes."""
SORTED_CELL_S = 1.5e-7
"""Of a cell or region that is put into an index."""
RANGE_S = 5e-6
"""Of a region pair that is merged into ranges."""
WRITTEN_CELL_S = 3e-5
"""Of an output cell that an operator writes by itself: a run in a mode whose time nobody knows takes that, at most, for each cell."""
TIMED_FROM = 100
"""Cells from which on a function's calls are timed before it is called for all."""
TIMED_CALLS = 3
TIMED_MAX_S = 0.01
"""Of the first call: where it takes longer it is the only one."""


@dataclass
class Estimator:
    """Estimates for one operand of one run of an operator; what it has timed it keeps."""

    operator: Operator
    clock: Clock = time.perf_counter
    _call_s: dict[tuple[str, Orientation], float] = field(default_factory=dict)

    def read_s(self, way: Mapping, direction: Orientation, cells: Cells) -> float:
        """Seconds that a mapping takes to answer, about; of what is no kept lineage 0."""
        match way:
            case Choice():
                return self.read_s(way.witness, direction, cells)
            case Options():
                return self.read_s(way.towards(direction), direction, cells)
            case MappingFunctions():
                if way.is_at_once:
                    return READ_S
                return READ_S + cells.count * self._function_s(way, direction, cells)
            case Composite():
                functions_s = self.read_s(way.functions, direction, cells)
                return functions_s + self.read_s(way.store, direction, cells)
            case PayloadStore():
                return self._payloads_s(way, direction, cells)
            case PairStore():
                return self._pairs_s(way, direction, cells)
            case RangeStore():
                built_s = way.unread * RANGE_S
                rows = way.unread or len(way.table.rows)
                return READ_S + built_s + (rows + cells.count) * CELL_S
            case RangeTable():
                return READ_S + (len(way.rows) + cells.count) * CELL_S
        return 0.0

    def traced_s(
        self, mode: Mode, target: Shape, direction: Orientation, cells: Cells, written: int | None
    ) -> float:
        """Seconds that a question takes after a run in a mode that there was not yet.

        ``written``: the output cells that the run writes lineage of, at most; None: nobody knows, so of everything as much as there may be.
        """
        outputs = math.prod(target) if written is None else written
        indexed_s = READ_S + outputs * SORTED_CELL_S
        if mode is Mode.FULL or has_own(self.operator, "mapping_p"):
            return indexed_s + cells.count * CELL_S
        if direction is Orientation.BACKWARD:
            return indexed_s + min(cells.count, outputs) * CALL_S
        # Of all payloads, or (composite) of the few that are written.
        are_few = mode is Mode.COMP and written is None
        return indexed_s + outputs * CALL_S / (10 if are_few else 1)

    def _function_s(self, way: MappingFunctions, direction: Orientation, cells: Cells) -> float:
        if cells.count < TIMED_FROM:
            return CALL_S
        asked = way.backward if direction is Orientation.BACKWARD else way.forward
        shape = way.target if direction is Orientation.BACKWARD else way.source
        positions = cells.positions()[:: max(cells.count // TIMED_CALLS, 1)][:TIMED_CALLS]
        return self._timed(
            ("function", direction),
            [functools.partial(asked, Cells.at(shape, [at])) for at in positions.tolist()],
        )

    def _payloads_s(self, way: PayloadStore, direction: Orientation, cells: Cells) -> float:
        if direction is Orientation.FORWARD and way.is_read:
            return READ_S + cells.count * CELL_S
        outputs = cells_of(way.outputs)
        met = min(cells.count, outputs) if direction is Orientation.BACKWARD else outputs
        if has_own(self.operator, "mapping_p"):
            return READ_S + min(len(way.payloads), met) * CALL_S + met * CELL_S
        call_s = CALL_S if met < TIMED_FROM else self._payload_s(way)
        return READ_S + outputs * SORTED_CELL_S + met * (call_s + MET_S)

    def _payload_s(self, way: PayloadStore) -> float:
        outputs, count = way.outputs, len(way.payloads)
        begins = [int(outputs.pointer[at]) for at in range(0, count, max(count // TIMED_CALLS, 1))]
        owners = np.searchsorted(outputs.pointer, begins, side="right") - 1
        calls = [
            functools.partial(way.cells_of, int(outputs.cells[begin]), way.payloads[owner])
            for begin, owner in zip(begins, owners.tolist(), strict=True)
            if begin < len(outputs.cells)
        ]
        return self._timed(("payload", Orientation.BACKWARD), calls[:TIMED_CALLS])

    def _timed(self, what: tuple[str, Orientation], calls: Sequence[Callable[[], Any]]) -> float:
        """The seconds of the quickest of a few calls of an operator's function; where it fails, the reading itself says so."""
        if what not in self._call_s:
            least_s = math.inf
            for call in calls:
                begin = self.clock()
                try:
                    call()
                except Exception:
                    # This cell may not be among those that are asked about.
                    break
                least_s = min(least_s, self.clock() - begin)
                if least_s > TIMED_MAX_S:
                    break
            self._call_s[what] = least_s if math.isfinite(least_s) else CALL_S
        return self._call_s[what]

    def _pairs_s(self, way: PairStore, direction: Orientation, cells: Cells) -> float:
        built_s = 0.0
        if not way.has_index_from(direction):
            by_cell = way.encoding is Encoding.ONE and direction is way.orientation
            end = way.outputs if direction is Orientation.BACKWARD else way.inputs
            built_s = (cells_of(end) if by_cell else len(end)) * SORTED_CELL_S
        found = min(cells.count, len(way.outputs)) * 10
        return READ_S + built_s + (cells.count + found) * CELL_S


def cells_of(regions: Regions) -> int:
    """How many cells regions have together."""
    return int(regions.columns.lengths.sum())


def written_cells(kept: Mapping, mode: Mode) -> int | None:
    """Of how many output cells another run in a mode writes lineage, at most, as what is kept says; None: it does not say.

    ``kept``: the mapping that a question reads, of a choice the witness.
    """
    match kept:
        case Composite():
            # The other modes write what functions say here, too.
            return cells_of(kept.store.outputs) if mode is Mode.COMP else None
        case PairStore() | PayloadStore():
            return min(cells_of(kept.outputs), math.prod(kept.target))
    return None


def has_own(operator: Operator, method: str) -> bool:
    """Whether an operator's class says more than that there is none."""
    return getattr(type(operator), method) is not getattr(Operator, method)
