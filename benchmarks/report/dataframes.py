"""Tables of the TPC queries as DataFrame jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.report.rows import Row
from benchmarks.report.tables import NO_ROWS, NOTHING, number, table

RESULTS = ("exact", "superset", "refused", "empty", "failed", "wrong")


def summaries(rows: Sequence[Row]) -> str:
    """A line a run. Without passes it was made for what it found: its times are not shown."""
    heads = [
        "suite", "scale", *RESULTS, "recorded over plain", "CPU recorded over plain", "recording, ms", "recipe, kB", "trace less query, ms",
        "trace over query, p95", "materialise over write",
    ]  # fmt: skip
    lines = []
    for row in rows:
        counts, size = row.at("results") or {}, row.value("recipe_bytes")
        lines.append(
            [
                str(row.at("suite")),
                f"{row.value('scale'):g}",
                *(str(counts.get(result, 0)) if counts else NOTHING for result in RESULTS),
                _with_interval(row, "job_ratio"),
                _with_interval(row, "cpu_ratio"),
                number(row.value("noting_ms") if row.at("passes") else None),
                NOTHING if size is None else number(size / 1000),
                number(row.value("trace_more_ms")),
                number(row.value("trace_ratio.p95")),
                number(row.value("materialise_ratio") if row.at("passes") else None),
            ]
        )
    return table(heads, lines)


def queries(rows: Sequence[Row]) -> str:
    """A table a suite: of the run with most of its queries, at the largest scale of such."""
    parts = []
    for suite in sorted({str(row.at("suite")) for row in rows if row.at("queries")}):
        row = max(
            (row for row in rows if row.at("suite") == suite and row.at("queries")),
            key=lambda row_of_suite: (
                len(row_of_suite.at("queries")),
                row_of_suite.value("scale") or 0,
            ),
        )
        lead = f"{suite}, scale {row.value('scale'):g} (`{row.command}`):"
        heads = [
            "query",
            "result",
            "rows",
            "plain, ms",
            "recorded, ms",
            "trace, ms",
            "witnesses",
            "materialise, ms",
        ]
        parts += [lead, table(heads, _lines(row.at("queries")))]
    return "\n\n".join(parts) or NO_ROWS


def _lines(queries: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    for query in sorted(queries, key=lambda query: int(query["query"])):
        why = "; ".join(query.get("reasons", ()))
        traces, witnesses, plain = (
            query.get("traces", ()),
            query.get("witnesses", ()),
            query.get("plain"),
        )
        yield [
            str(query["query"]),
            f"{query['result']}: {why}" if why else str(query["result"]),
            f"{query['rows']:,}",
            number(plain),
            number(query.get("noted")),
            number(sum(traces) / len(traces)) if traces and plain else NOTHING,
            number(sum(witnesses) / len(witnesses)) if witnesses else NOTHING,
            number(query["materialise"])
            if "materialise" in query and plain
            else query.get("not_materialised", NOTHING),
        ]


def _with_interval(row: Row, path: str) -> str:
    spread = row.interval(path)
    middle = number(row.value(path))
    if row.at("passes") == 1 and spread is not None:
        return f"{middle} (one pair)"
    return middle if spread is None else f"{middle} ({number(spread[0])} to {number(spread[1])})"
