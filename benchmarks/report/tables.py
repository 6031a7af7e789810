"""Tables of the page, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.report.fit import Growth, growth
from benchmarks.report.published import MACHINE, PUBLISHED
from benchmarks.report.rows import Row, by_workload, find_row, size_label
from benchmarks.report.targets import Target

NOTHING = ""
NO_ROWS = "No row has been measured for this yet."


@dataclass(frozen=True)
class Column:
    """``path``: the field of a row, given in ``unit`` times its own unit, by ``per`` where it names a field."""

    title: str
    path: str
    unit: float = 1.0
    per: str = ""

    def scale(self, row: Row) -> float | None:
        """What a row's figure is divided by; None: the row does not say."""
        if not self.per:
            return self.unit
        return (row.value(self.per) or 0) * self.unit or None


JOBS = (
    Column("`wall_ratio`", "wall_ratio"),
    Column("`jobs_ratio`", "jobs_ratio"),
    Column("`cpu_ratio`", "cpu_ratio"),
    Column("`worker_peak_more_mb`", "worker_peak_more_mb"),
    Column("`queryable_s`", "queryable_s"),
    Column("`store_ratio`", "store_ratio"),
)
UNTIL_QUERYABLE = (
    Column("`queryable_s`", "queryable_s"),
    Column("`link_s`", "link_s"),
    Column("`lineage_cpu_s`", "lineage_cpu_s"),
)
TRACES = (
    Column("`positions` p50, ms", "trace.positions.p50_ms"),
    Column("p95, ms", "trace.positions.p95_ms"),
    Column("`texts` p50, ms", "trace.texts.p50_ms"),
    Column("p95, ms", "trace.texts.p95_ms"),
    Column("most witnesses", "trace.top_witnesses"),
    Column("their counts p50, ms", "trace.top_counts.p50_ms"),
    Column("first, ms", "trace.top_counts_first_ms"),
)
CORRECT = (
    Column("associations", "associations"),
    Column("flows", "flows"),
    Column("flows expected", "flows_expected"),
    Column("links", "links"),
    Column("links expected", "links_expected"),
    Column("rows traced", "witnesses.rows"),
    Column("witnesses expected", "witnesses.expected"),
    Column("found", "witnesses.found"),
    Column("traces that say superset", "witnesses.superset_rows"),
)
PER_ASSOCIATION = (
    Column("associations", "associations"),
    Column("CPU, ns", "lineage_cpu_s", 1e-9, per="associations"),
    Column("until queryable, ns", "queryable_s", 1e-9, per="associations"),
    Column("store, bytes", "store_bytes", per="associations"),
    Column("worker's memory, bytes", "worker_peak_more_mb", 1e-6, per="associations"),
)
GROWING = (
    Column("time of the jobs", "jobs_s"),
    Column("until queryable", "queryable_s"),
    Column("`lineage_cpu_s`", "lineage_cpu_s"),
    Column("store", "store_bytes"),
    Column("peak of a worker", "peak_mb.worker"),
    Column("trace, p50", "trace.positions.p50_ms"),
)
AGAINST = (
    Column("`jobs_ratio`", "jobs_ratio"),
    Column("`queryable_s`", "queryable_s"),
    Column("`lineage_cpu_s`", "lineage_cpu_s"),
    Column("store, MB", "store_bytes", 1e6),
)


def number(value: float | None) -> str:
    """Three digits, from a thousand on all before the point."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table, or the note that there is nothing to put into it."""
    body = [f"| {' | '.join(line)} |" for line in lines]
    if not body:
        return NO_ROWS
    return "\n".join([f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *body])


def of_jobs(rows: Sequence[Row], columns: Sequence[Column]) -> str:
    """A line a row; rows and columns that say nothing are left out."""
    columns_shown = [column for column in columns if any(cell(row, column) for row in rows)]
    return table(
        ["job", "mode", "input", "pairs", *(column.title for column in columns_shown)],
        (
            [
                *_about(row),
                number(row.value("pairs")),
                *(cell(row, column) for column in columns_shown),
            ]
            for row in rows
            if any(cell(row, column) for column in columns_shown)
        ),
    )


def cell(row: Row, column: Column) -> str:
    """A figure with its interval, or nothing."""
    value, around, scale = row.value(column.path), row.interval(column.path), column.scale(row)
    if value is None or scale is None:
        return NOTHING
    text = number(value / scale)
    if around is None or around[0] == around[1]:
        return text
    return f"{text} ({number(around[0] / scale)} to {number(around[1] / scale)})"


def of_processes(rows: Sequence[Row], field: str, digits: str) -> str:
    """A column a process."""
    process_rows = [row for row in rows if isinstance(row.at(field), Mapping)]
    names = sorted({name for row in process_rows for name in row.at(field)})
    return table(
        ["job", "mode", "input", *names],
        (
            [*_about(row), *(_or_nothing(row.value(f"{field}.{name}"), digits) for name in names)]
            for row in process_rows
        ),
    )


def _or_nothing(value: float | None, digits: str) -> str:
    return NOTHING if value is None else format(value, digits)


def _about(row: Row) -> list[str]:
    return [row.benchmark, row.mode, row.size]


def of_targets(rows: Sequence[Row], targets: Sequence[Target]) -> str:
    """What was to be reached, what was, and of the rest what stands in the way."""
    lines, reasons = [], []
    for target in targets:
        reached = target.measured(rows)
        if reached is None:
            lines.append([target.what, target.wanted, "not measured", NOTHING])
            continue
        lines.append([target.what, target.wanted, reached.text, "yes" if reached.met else "**no**"])
        if target.why and not reached.met:
            reasons.append(f"- *{target.what}*: {target.why}.")
    found = table(["figure", "to reach", "measured", "reached"], lines)
    return "\n\n".join(
        [found, *(["\n".join(["What stands in the way:", "", *reasons])] * bool(reasons))]
    )


def of_growth(rows: Sequence[Row]) -> str:
    """Exponents, with the sizes that they are fitted to."""
    lines = []
    for workload, modes in by_workload(rows).items():
        for mode, mode_rows in modes.items():
            exponents = [_exponent(fit_growth(mode_rows, column.path)) for column in GROWING]
            if any(exponent != NOTHING for exponent in exponents):
                sizes = ", ".join(row.size for row in mode_rows)
                lines.append([workload, mode, sizes, *exponents])
    return table(["job", "mode", "inputs", *(column.title for column in GROWING)], lines)


def fit_growth(rows: Sequence[Row], path: str) -> Growth | None:
    """Growth of a quantity with the input."""
    points = [(row.input_bytes, row.value(path)) for row in rows]
    known_points = [(size, value) for size, value in points if value is not None]
    return growth([size for size, _ in known_points], [value for _, value in known_points])


def _exponent(fit: Growth | None) -> str:
    if fit is None:
        return NOTHING
    return f"{fit.exponent:.2f} ({fit.low:.2f} to {fit.high:.2f})"


def of_published(rows: Sequence[Row]) -> str:
    """The published design beside ours at each size that both were measured at, and as published."""
    lines: list[list[str]] = []
    for theirs in (row for row in rows if row.mode == "record-level"):
        ours = _ours(rows, theirs)
        for label, row in (("as published, run here", theirs), ("Lineage Master", ours)):
            figures = [cell(row, column) for column in AGAINST] if row else [NOTHING] * len(AGAINST)
            lines.append([theirs.benchmark, theirs.size, label, *figures])
        lines.append([theirs.benchmark, theirs.size, "times", *_times(theirs, ours)])
    for key in dict.fromkeys(
        (published.benchmark, published.input_bytes) for published in PUBLISHED
    ):
        values = {p.field: p.value for p in PUBLISHED if (p.benchmark, p.input_bytes) == key}
        if "store_ratio" in values:
            values["store_bytes"] = values["store_ratio"] * key[1] / 1e6
        figures = [number(values.get(column.path)) for column in AGAINST]
        lines.append([key[0], size_label(key[1]), f"as published, there ({MACHINE})", *figures])
    return table(["job", "input", "design", *(column.title for column in AGAINST)], lines)


def _ours(rows: Sequence[Row], theirs: Row) -> Row | None:
    mode = "kafka-detailed" if theirs.at("in_detail") else "kafka"
    return find_row(rows, theirs.benchmark, mode, theirs.size)


def _times(theirs: Row, ours: Row | None) -> list[str]:
    lines = []
    for column in AGAINST:
        their_value, our_value = (
            theirs.value(column.path),
            ours.value(column.path) if ours else None,
        )
        # Ours may be below zero: where capture makes the job cheaper than plain.
        lines.append(
            number(their_value / our_value)
            if their_value and our_value and our_value > 0
            else NOTHING
        )
    return lines


def of_others(rows: Sequence[Row]) -> str:
    """Rows of other programs, field by field; empty if there are none."""
    parts = []
    for row in rows:
        lines = [[f"`{name}`", value] for name, value in _flat("", row.fields)]
        parts.append(f"`{row.command}`\n\n" + table(["field", "value"], lines))
    return "\n\n".join(parts)


def _flat(before: str, fields: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for name, value in fields.items():
        if name in ("provenance", "benchmark", "bench"):
            continue
        if isinstance(value, Mapping):
            yield from _flat(f"{before}{name}.", value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{before}{name}", number(value)
        else:
            yield f"{before}{name}", str(value)


def of_origins(rows: Sequence[Row]) -> str:
    """Where each row comes from."""
    return table(
        ["row", "command", "commit", "at", "cores", "memory, GB", "system"],
        (
            [
                " ".join(filter(None, (row.benchmark, row.mode, row.size))),
                f"`{row.command}`",
                str(row.provenance["commit"]),
                str(row.provenance["at"]),
                *(str(row.provenance[name]) for name in ("cores", "memory_gb", "system")),
            ]
            for row in rows
        ),
    )
