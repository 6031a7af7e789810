"""Whether traces of output rows name the input lines that made them, and no others."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

from benchmarks.pairs import RunError, Setup
from benchmarks.witnesses import Lines, OutputRow
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine, TraceQuery
from lineage_query.rows.reader import RowReader
from lineage_store.port import GraphStore

SEED = 23


def witness_counts(
    setup: Setup, output: Path, store: GraphStore, app: str, index: Path
) -> dict[str, Any]:
    """Trace some rows of an output, and compare with plain Python over the input.

    ``expected``: lines that made them, row by row; ``found``: lines that traces name. ``superset``:
    rows whose trace says itself that it may name more than were used.

    Raises:
        RunError: a trace leaves out a line, or names one too many and calls itself exact.
    """
    places = sample_rows(output, setup.workload.asked)
    expected = setup.workload.witnesses(setup.source, [row for _, row in places])
    asker = QueryEngine(store, RowReader(index))
    found, exact = [], []
    for place, _ in places:
        question = TraceQuery(Direction.BACKWARD, (place,), app=app, texts=False)
        answer = asker.ask(question).to_json()
        found.append(_lines_in(answer))
        exact.append(bool(answer["exact"]))
    for (place, row), wanted, told, is_exact in zip(places, expected, found, exact, strict=True):
        if wanted - told or (is_exact and told - wanted):
            raise RunError(
                f"{place} ({row.text:.60}): the trace leaves out {sorted(wanted - told)[:3]} "
                f"and names {sorted(told - wanted)[:3]} for nothing"
            )
    return {
        "rows": len(places),
        "expected": sum(map(len, expected)),
        "found": sum(map(len, found)),
        "superset_rows": exact.count(False),
    }


def sample_rows(output: Path, rows: int) -> list[tuple[str, OutputRow]]:
    """Rows chosen at random: where each is (``path:line``), and the row."""
    found: list[tuple[str, OutputRow]] = []
    for part in sorted(output.glob("part-*")):
        lines = part.read_text(encoding="utf-8").split("\n")[:-1]
        before = len(found)
        found += [
            (f"{part}:{number + 1}", OutputRow(line, before + number))
            for number, line in enumerate(lines)
        ]
    return random.Random(SEED).sample(found, min(rows, len(found)))


def _lines_in(answer: dict[str, Any]) -> Lines:
    found: Lines = set()
    for source in answer["sources"]:
        for item in source["items"]:
            path, _, line = item["location"].rpartition(":")
            found.add((os.path.basename(path), int(line)))
    return found
