"""Whether traces of output rows name the input lines that made them, and no others."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from benchmarks.pairs import RunError, Setup
from benchmarks.witnesses import Lines, OutputRow
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.port import GraphStore

SEED = 23


def witness_counts(
    setup: Setup, output: Path, store: GraphStore, app: str, index: Path
) -> dict[str, Any]:
    """Trace some rows of an output, and compare with plain Python over the input.

    ``expected``: lines that made them, row by row; ``traced``: lines that traces name. ``superset``:
    rows whose trace says itself that it may name more than were used.

    Raises:
        RunError: a trace leaves out a line, or names one too many and calls itself exact.
    """
    places = sample_rows(output, setup.workload.sampled_rows)
    expected = setup.workload.witnesses(setup.source, [row for _, row in places])
    query_engine = QueryEngine(store, RowReader(index))
    traced, exact = [], []
    for place, _ in places:
        query = TraceQuery(Direction.BACKWARD, (place,), app=app, texts=False)
        answer = query_engine.ask(query).to_json()
        traced.append(_lines_in(answer))
        exact.append(bool(answer["exact"]))
    for (place, row), expected_lines, named, is_exact in zip(
        places, expected, traced, exact, strict=True
    ):
        if expected_lines - named or (is_exact and named - expected_lines):
            raise RunError(
                f"{place} ({row.text:.60}): the trace leaves out {sorted(expected_lines - named)[:3]} "
                f"and names {sorted(named - expected_lines)[:3]} for nothing"
            )
    return {
        "rows": len(places),
        "expected": sum(map(len, expected)),
        "found": sum(map(len, traced)),
        "superset_rows": exact.count(False),
    }


def sample_rows(output: Path, rows: int) -> list[tuple[str, OutputRow]]:
    """Rows chosen at random: where each is (``path:line``), and the row."""
    rows_found: list[tuple[str, OutputRow]] = []
    for part in sorted(output.glob("part-*")):
        lines = part.read_text(encoding="utf-8").split("\n")[:-1]
        before = len(rows_found)
        rows_found += [
            (f"{part}:{number + 1}", OutputRow(line, before + number))
            for number, line in enumerate(lines)
        ]
    return random.Random(SEED).sample(rows_found, min(rows, len(rows_found)))


def _lines_in(answer: dict[str, Any]) -> Lines:
    lines: Lines = set()
    for source in answer["sources"]:
        for item in source["items"]:
            path, _, line = item["location"].rpartition(":")
            lines.add((os.path.basename(path), int(line)))
    return lines
