"""The table of plans of erasure against scans of all outputs."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.report.rows import Row
from benchmarks.report.tables import NO_ROWS, table

COLUMNS = (
    "programs",
    "rows that a scan finds",
    "in plans",
    "missed by complete plans",
    "not in incomplete plans",
    "over-deletion",
    "exact",
    "complete",
    "sources or outputs changed",
)


def plans(rows: Sequence[Row]) -> str:
    """A line a run."""
    if not rows:
        return NO_ROWS
    commands = "\n".join(f"{row.provenance['commit']}: {row.command}" for row in rows)
    return f"{table(COLUMNS, map(_line, rows))}\n\n```\n{commands}\n```"


def _line(row: Row) -> list[str]:
    return [
        f"{row.at('programs'):,}",
        f"{row.at('scanned'):,}",
        f"{row.at('planned'):,}",
        f"{row.at('missed'):,}",
        f"{row.at('not_in_incomplete'):,}",
        f"{row.at('over_deletion'):.4f}",
        f"{row.at('exact'):,}",
        f"{row.at('complete'):,}",
        f"{row.at('disturbed'):,}",
    ]
