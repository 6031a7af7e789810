"""Traces of cells that go on through rows, and through arrays behind these."""

from __future__ import annotations

from lineage.access import StoredAccess
from lineage_arrays.saved import parse_address
from lineage_arrays.saved.row_tracing import StoredCells
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore


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
    way, tracing = Direction(direction), StoredCells(store, choices)
    first = tracing.trace_cells(way, parse_address(cells), app)
    query = TraceQuery(way, (cells,), all_jobs=True)
    return StoredAccess(store, url, choices=choices).follow(first, query)
