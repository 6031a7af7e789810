"""Arrays and traces of their cells as text and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from lineage.array_answers import CELLS_LISTED, ListedApplication, ShownCells, ShownTrace
from lineage.array_pictures import SavedPicture, picture_json, show_picture
from lineage.options import print_json
from lineage.tables import console, moment_text, table_of
from lineage.terminal import echo
from lineage.tracing import show_group

MOMENT = "%Y-%m-%d %H:%M"


def show_arrays(
    listed: Sequence[ListedApplication],
    *,
    left_out: int,
    as_json: bool,
) -> None:
    """One line for each named array. ``left_out``: applications that were not searched."""
    if as_json:
        print_json([asdict(one) for one in listed])
        return
    table = table_of("application", "program", "stored", "array", "type", "file")
    for one in listed:
        for array in one.arrays:
            moment = moment_text(one.started_at, MOMENT)
            row = (one.app, one.name, moment, array.name, array.type, array.path or "")
            table.add_row(*row)
    console().print(table)
    if not listed:
        echo(
            "no application recorded arrays: store_recording of lineage_arrays.saved keeps a recording"
        )
    if left_out:
        echo(f"{left_out:,} older (or damaged) applications were not searched: --limit")


def show_trace(
    trace: ShownTrace, *, limit: int | None, as_json: bool, picture: SavedPicture | None = None
) -> None:
    """The cells at which a trace ends, each as its address. ``limit``: cells of each array; None: those that it has."""
    for warning in trace.warnings:
        echo(f"lineage: {warning}", err=True)
    if as_json:
        drawn = {} if picture is None else {"picture": picture_json(picture)}
        print_json(_trace_json(trace, limit) | drawn)
        return
    for found in trace.found:
        if found.count or len(trace.found) == 1:
            _show_cells(found, CELLS_LISTED if limit is None else limit)
    if not any(found.count for found in trace.found):
        echo("no cells")
    for group in trace.rows:
        listed = CELLS_LISTED if limit is None else limit
        show_group(group, trace.direction, with_app=True, limit=listed)
    if trace.left_out:
        echo(f"and cells of {trace.left_out:,} more arrays")
    for mark, reasons in (
        ("superset", trace.claims.superset_reasons),
        ("incomplete", trace.claims.incomplete_reasons),
        ("chosen by", trace.claims.chosen_by),
    ):
        for reason in reasons:
            echo(f"{mark}: {reason}")
    exact = "exact" if trace.claims.exact else "a superset"
    echo(f"{exact}, {'complete' if trace.claims.complete else 'incomplete'}")
    if picture is not None:
        show_picture(picture)


def _show_cells(found: ShownCells, limit: int) -> None:
    state = {"changed": ", changed since", "gone": ", gone"}.get(found.file_status or "", "")
    echo(f"{found.name} of {found.app}{state}: {_amount(found)}")
    if found.is_whole:
        return
    for cell in found.coordinates(limit):
        echo(f"  {found.name}[{','.join(map(str, cell))}]")
    more = found.count - limit
    if more > 0:
        echo(f"  and {more:,} more")


def _amount(found: ShownCells) -> str:
    if found.is_whole:
        return f"all {found.size:,} cells"
    return f"{found.count:,} of {found.size:,} cells"


def _trace_json(trace: ShownTrace, limit: int | None) -> dict[str, Any]:
    return {
        "app": trace.app,
        "array": trace.name,
        "cells": trace.asked_count,
        "exact": trace.claims.exact,
        "complete": trace.claims.complete,
        "superset_reasons": list(trace.claims.superset_reasons),
        "incomplete_reasons": list(trace.claims.incomplete_reasons),
        "chosen_by": list(trace.claims.chosen_by),
        "warnings": list(trace.warnings),
        "arrays": [_found_json(found, limit) for found in trace.found],
        "rows": [one.to_json() for one in trace.rows],
    }


def _found_json(found: ShownCells, limit: int | None) -> dict[str, Any]:
    file = found.file
    return {
        "app": found.app,
        "array": found.name,
        "shape": list(found.shape),
        "count": found.count,
        "whole": found.is_whole,
        "cells": found.coordinates(limit),
        "file": None
        if file is None
        else {
            "path": file.path, "member": file.member, "size": file.size, "mtime": file.mtime,
            "checksum": file.checksum, "status": found.file_status,
        },
    }  # fmt: skip
