"""Figures that are to be reached, and whether they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.report.rows import Row, find_row


@dataclass(frozen=True)
class Reached:
    """``by``: the rows that it was measured by."""

    text: str
    met: bool
    by: tuple[Row, ...]


@dataclass(frozen=True)
class Target:
    """``measured`` looks among the rows; None: no row says it. ``why``: what was tried, and what stands in the way, where it is not reached."""

    what: str
    wanted: str
    measured: Callable[[Sequence[Row]], Reached | None]
    why: str = ""


def _at_most(
    benchmark: str, mode: str, path: str, limit: float, size: str = "", *, exact: bool = False
) -> Callable[[Sequence[Row]], Reached | None]:
    def measured(rows: Sequence[Row]) -> Reached | None:
        row = find_row(rows, benchmark, mode, size)
        value = row.value(path) if row else None
        if row is None or value is None:
            return None
        inexact = row.value("witnesses.superset_rows") if exact else 0
        remark = f", {inexact:g} of {row.value('witnesses.rows'):g} traces inexact" if exact else ""
        return Reached(f"{value:.3g} at {row.size}{remark}", value <= limit and not inexact, (row,))

    return measured


def _times(benchmark: str, path: str, limit: float) -> Callable[[Sequence[Row]], Reached | None]:
    """The published design over ours, at the largest size that it was run at."""

    def measured(rows: Sequence[Row]) -> Reached | None:
        theirs = find_row(rows, benchmark, "record-level")
        ours = find_row(rows, benchmark, "kafka", theirs.size) if theirs else None
        their_value = theirs.value(path) if theirs else None
        our_value = ours.value(path) if ours else None
        if theirs is None or ours is None or their_value is None or our_value is None:
            return None
        # Less than nothing, where capture makes the job cheaper than plain.
        ratio_text = (
            f"{their_value / our_value:.3g} times"
            if our_value > 0
            else f"{their_value:.3g} to {our_value:.3g}"
        )
        return Reached(
            f"{ratio_text} at {theirs.size}", their_value >= limit * our_value, (theirs, ours)
        )

    return measured


OF_JOBS = (
    Target(
        "word count, time", "≤ 1.00", _at_most("wordcount", "spool", "wall_ratio", 1.0, "100 MB")
    ),
    Target("grep, time", "≤ 1.05", _at_most("grep", "spool", "wall_ratio", 1.05, "100 MB")),
    Target("tweets, time", "≤ 1.10", _at_most("tweets", "spool", "wall_ratio", 1.10, "100 MB")),
    Target(
        *("tweets in detail, time", "≤ 1.25"),
        _at_most("tweets", "detailed", "wall_ratio", 1.25, "100 MB"),
    ),
    Target(
        *("join, time, all traces exact", "≤ 1.25"),
        _at_most("join", "spool", "wall_ratio", 1.25, exact=True),
    ),
    Target("word count, store", "≤ 0.10", _at_most("wordcount", "spool", "store_ratio", 0.10)),
    Target(
        *("word count, store of Neo4j", "≤ 0.10"),
        _at_most("wordcount", "kafka", "store_ratio", 0.10, "500 MB"),
    ),
    Target(
        *("word count through Kafka, seconds until queryable", "≤ 10"),
        _at_most("wordcount", "kafka", "queryable_s", 10, "500 MB"),
    ),
    Target(
        *("published design over ours, CPU seconds of all processes, less plain's", "≥ 20 times"),
        _times("wordcount", "lineage_cpu_s", 20),
    ),
    Target(
        *("published design over ours, store", "≥ 100 times"),
        _times("wordcount", "store_bytes", 100),
    ),
)
