"""Rows of the files that a sink wrote: a record that holds ends of lines takes several of them."""

from __future__ import annotations

import numpy as np

from lineage_core.contract.block import U64
from lineage_core.contract.graph import SinkFileRecord
from lineage_query.rows.places import Location


def sink_lines(file: SinkFileRecord, rows: U64) -> tuple[U64, U64]:
    """First and last line (from 1) of each row of an output file."""
    line_offset = np.uint64(1)
    if not file.newlines:
        return rows + line_offset, rows + line_offset
    at = np.array([row for row, _ in file.newlines], np.uint64)
    extra = np.array([count for _, count in file.newlines], np.uint64)
    before = np.concatenate((np.zeros(1, np.uint64), np.cumsum(extra, dtype=np.uint64)))
    first = rows + line_offset + before[np.searchsorted(at, rows, side="left")]
    last = rows + line_offset + before[np.searchsorted(at, rows, side="right")]
    return first, last


def sink_row(file: SinkFileRecord, location: Location) -> int:
    """The row of an output file at a place."""
    number = location.number or 0
    if location.unit != "line":
        return number
    before = 0
    for row, extra in file.newlines:
        if row + 1 + before > number:
            break
        before += extra
        if number <= row + 1 + before:
            return row
    return number - 1 - before


def past_the_end(file: SinkFileRecord, location: Location) -> str:
    """That a file has no such row."""
    count = file.rows or 0
    if location.unit == "line":
        count += sum(extra for _, extra in file.newlines)
    has = count_text(count, location.unit) + (
        ", counted from 0" if location.unit == "record" else ""
    )
    return f"{location.path} has {has}; there is no {location.unit} {location.number}"


def count_text(count: int, unit_name: str) -> str:
    """A number of rows in words."""
    return f"{count:,} {unit_name}" if count == 1 else f"{count:,} {unit_name}s"
