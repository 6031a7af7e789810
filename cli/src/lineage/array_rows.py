"""Traces of rows through arrays, in this process: NumPy is loaded with the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lineage.command_line import load_numpy
from lineage_core.environment.extras import DISTRIBUTION
from lineage_core.errors import LineageError
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.collected_rows import CellBackend
from lineage_query.rows.places import Location
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore


@dataclass(frozen=True)
class LocalCells(CellBackend):
    """Traces rows through the recordings of a store. ``choices``: all cells that took part in choices, not the chosen ones alone."""

    store: GraphStore
    choices: bool = False

    def trace_rows(
        self, direction: Direction, app: str, node: str, rows: Sequence[Location]
    ) -> Answer:
        load_numpy()
        try:
            from lineage_arrays.saved.row_tracing import StoredCells
        except ImportError as problem:
            raise LineageError(
                f"{problem}: the extra [arrays] of {DISTRIBUTION} brings it"
            ) from problem

        return StoredCells(self.store, self.choices).trace_rows(direction, app, node, rows)


def follow_cells(
    store: GraphStore, url: str, direction: str, cells: str, app: str | None, *, choices: bool
) -> Answer:
    """Trace cells through all jobs, to the cells and rows at the other end.

    Args:
        store: the store.
        url: of the store.
        direction: *backward* or *forward*.
        cells: an address.
        app: the whole id of the array's application; None: as the address says.
        choices: all cells that took part in choices, not the chosen ones alone.

    Raises:
        LineageError: as the trace of the cells and that of rows.
    """
    from lineage.access import StoredAccess
    from lineage_arrays.saved import parse_address
    from lineage_arrays.saved.row_tracing import StoredCells

    way, tracing = Direction(direction), StoredCells(store, choices)
    first = tracing.trace_cells(way, parse_address(cells), app)
    query = TraceQuery(way, (cells,), all_jobs=True)
    return StoredAccess(store, url, choices=choices).follow(first, query)
