"""Arrays and traces of their cells as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lineage.options import print_json
from lineage.tables import console, moment_text, table_of
from lineage.terminal import echo
from lineage_arrays.cells import Cells
from lineage_arrays.saved.reading import ListedArray
from lineage_arrays.saved.tracing import CellsFound, StoredTrace
from lineage_store.port import ApplicationRecord

CELLS_LISTED = 20
MOMENT = "%Y-%m-%d %H:%M"


def show_arrays(
    listed: Sequence[tuple[ApplicationRecord, Sequence[ListedArray]]],
    *,
    left_out: int,
    as_json: bool,
) -> None:
    """One line for each named array. ``left_out``: applications that were not searched."""
    if as_json:
        print_json(
            [
                {"app": record.app, "name": record.name, "started_at": record.started_at}
                | {
                    "arrays": [
                        {"name": one.name, "type": one.description, "path": one.path}
                        for one in arrays
                    ]
                }
                for record, arrays in listed
            ]
        )
        return
    table = table_of("application", "program", "stored", "array", "type", "file")
    for record, arrays in listed:
        for one in arrays:
            moment = moment_text(record.started_at, MOMENT)
            row = (record.app, record.name, moment, one.name, one.description, one.path or "")
            table.add_row(*row)
    console().print(table)
    if not listed:
        echo(
            "no application recorded arrays: store_recording of lineage_arrays.saved keeps a recording"
        )
    if left_out:
        echo(f"{left_out:,} older applications were not searched: --limit")


def show_trace(trace: StoredTrace, *, limit: int | None, as_json: bool) -> None:
    """The cells at which a trace ends, each as its address."""
    for warning in trace.warnings:
        echo(f"lineage: {warning}", err=True)
    if as_json:
        print_json(_trace_json(trace, limit))
        return
    for found in trace.found:
        if found.cells or len(trace.found) == 1:
            _show_cells(found, CELLS_LISTED if limit is None else limit)
    if not any(found.cells for found in trace.found):
        echo("no cells")
    for mark, reasons in (
        ("superset", trace.superset_reasons),
        ("incomplete", trace.incomplete_reasons),
        ("chosen by", trace.chosen_by),
    ):
        for reason in reasons:
            echo(f"{mark}: {reason}")
    exact = "exact" if trace.exact else "a superset"
    echo(f"{exact}, {'complete' if trace.complete else 'incomplete'}")


def _show_cells(found: CellsFound, limit: int) -> None:
    state = {"changed": ", changed since", "gone": ", gone"}.get(found.file_status or "", "")
    echo(f"{found.name} of {found.app}{state}: {_amount(found.cells)}")
    if found.cells.is_whole:
        return
    for cell in _coordinates(found.cells, limit):
        echo(f"  {found.name}[{','.join(map(str, cell))}]")
    more = found.cells.count - limit
    if more > 0:
        echo(f"  and {more:,} more")


def _amount(cells: Cells) -> str:
    if cells.is_whole:
        return f"all {cells.size:,} cells"
    return f"{cells.count:,} of {cells.size:,} cells"


def _coordinates(cells: Cells, limit: int | None) -> list[list[int]]:
    few = Cells(cells.shape, positions=cells.positions()[:limit])
    coordinates: list[list[int]] = few.coordinates().tolist()
    return coordinates


def _trace_json(trace: StoredTrace, limit: int | None) -> dict[str, Any]:
    return {
        "app": trace.app,
        "array": trace.name,
        "cells": trace.asked.count,
        "exact": trace.exact,
        "complete": trace.complete,
        "superset_reasons": list(trace.superset_reasons),
        "incomplete_reasons": list(trace.incomplete_reasons),
        "chosen_by": list(trace.chosen_by),
        "warnings": list(trace.warnings),
        "arrays": [_found_json(found, limit) for found in trace.found],
    }


def _found_json(found: CellsFound, limit: int | None) -> dict[str, Any]:
    file = found.file
    return {
        "app": found.app,
        "array": found.name,
        "shape": list(found.cells.shape),
        "count": found.cells.count,
        "whole": found.cells.is_whole,
        "cells": _coordinates(found.cells, limit),
        "file": None
        if file is None
        else {
            "path": file.path, "member": file.member, "size": file.size, "mtime": file.mtime,
            "checksum": file.checksum, "status": found.file_status,
        },
    }  # fmt: skip
