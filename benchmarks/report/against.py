"""The table of what changes cost: this tree against earlier revisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.report.rows import Row
from benchmarks.report.tables import NO_ROWS, NOTHING, number, table

HEADS = ("task", "pairs", "time before, s", "now, s", "ratio", "CPU before, s", "now, s", "ratio")


def tables_of(rows: Sequence[Row]) -> str:
    """A table a run; traces of queries as one line, for their ratios together."""
    parts = []
    for row in rows:
        lead = f"Against {row.at('revision')}, measured at {row.provenance['commit']} (`{row.command}`):"
        parts += [lead, table(HEADS, _lines(row))]
    return "\n\n".join(parts) or NO_ROWS


def _lines(row: Row) -> Iterator[list[str]]:
    frames = row.at("frames")
    for name, task in row.at("tasks").items():
        if name not in (frames or {}).get("queries", ()):
            yield [name, str(task["pairs"]), *_figures(task, "wall"), *_figures(task, "cpu")]
    if frames:
        yield [
            f"traces of {len(frames['queries'])} queries",
            str(frames["pairs"]),
            *_all(frames, "wall"),
            *_all(frames, "cpu"),
        ]


def _figures(task: Mapping[str, Any], unit: str) -> list[str]:
    seconds = task[f"{unit}_s"]
    return [number(seconds["before"]), number(seconds["after"]), _ratio(task[f"{unit}_ratio"])]


def _all(frames: Mapping[str, Any], unit: str) -> list[str]:
    return [NOTHING, NOTHING, _ratio(frames[f"{unit}_ratio"])]


def _ratio(interval: Mapping[str, float] | None) -> str:
    if interval is None:
        return NOTHING
    return f"{interval['median']:.3f} ({interval['low']:.3f} to {interval['high']:.3f})"
