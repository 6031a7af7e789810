"""Traces of rows through arrays, in this process: NumPy is loaded with the first of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lineage.command_line import load_arrays
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.collected_rows import CellBackend
from lineage_query.rows.places import Location
from lineage_store.port import GraphStore


@dataclass(frozen=True)
class LocalCells(CellBackend):
    """Traces rows through the recordings of a store. ``choices``: all cells that took part in choices, not the chosen ones alone."""

    store: GraphStore
    choices: bool = False

    def trace_rows(
        self, direction: Direction, app: str, node: str, rows: Sequence[Location]
    ) -> Answer:
        load_arrays()
        from lineage_arrays.saved.row_tracing import StoredCells

        return StoredCells(self.store, self.choices).trace_rows(direction, app, node, rows)
