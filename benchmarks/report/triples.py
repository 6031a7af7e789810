"""The tables of provenance triples: of traces and indexes, and of traces by Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import log
from typing import Any

from benchmarks.report.rows import Row
from benchmarks.report.tables import NO_ROWS, table

CLASSES = {
    "SC-SL": "small component",
    "LC-SL": "large component, small lineage",
    "LC-LL": "large component, large lineage",
}
PUBLISHED_S = {"SC-SL": 0.4, "LC-SL": 0.8, "LC-LL": 1.3}
"""CSProv's seconds by sets, on 96 cores with all in memory (arXiv 1808.08424)."""
GROWN = (24, 48)
"""Copies that were published and that are not measured here."""
METHODS = ("auto", "rq", "ccprov", "csprov")


def traces(rows: Sequence[Row]) -> str:
    """A line for each number of copies and class."""
    titles = ("copies", "items", "triples", "class", "cold", *(f"`{name}`" for name in METHODS))
    read = ("triples read: `rq`", "`ccprov`", "`csprov`")
    return _table([*titles, *read, "as searched", "published"], rows, _of_classes)


def _of_classes(row: Row) -> Iterator[list[str]]:
    for name, label in CLASSES.items():
        found = row.at("classes")[name]
        ways = [found[method] for method in METHODS]
        yield [
            *_size(row),
            label,
            _seconds(found["cold"]),
            *map(_seconds, ways),
            *(f"{way['median_read']:,.0f}" for way in ways[1:]),
            f"{sum(way['same'] for way in ways)} of {sum(way['items'] for way in ways)}",
            str(PUBLISHED_S[name]),
        ]


def indexes(rows: Sequence[Row]) -> str:
    """A line for each number of copies."""
    titles = (
        "copies", "items", "triples", "bytes a triple", "index, CPU seconds", "its memory, MiB",
        "memory, bytes a triple", "1 % more, CPU seconds", "share of the whole's",
    )  # fmt: skip
    return _table(titles, rows, _of_index)


def _of_index(row: Row) -> Iterator[list[str]]:
    added = row.at("added")
    yield [
        *_size(row),
        f"{row.at('bytes_per_edge'):.1f}",
        f"{row.at('index.cpu_s'):,.0f}",
        f"{row.at('index.peak_mib'):,}",
        f"{row.at('index_bytes_per_edge'):.0f}",
        f"{added['index']['cpu_s']:,.1f}",
        f"{added['ratio']:.1%}",
    ]


def grown(rows: Sequence[Row]) -> str:
    """What more copies take if all grows as it did between the fewest and the most that were measured: a line for each number of copies."""
    of_factor = {int(row.at("factor")): row for row in rows}
    if len(of_factor) < 2:
        return NO_ROWS
    few, many = of_factor[min(of_factor)], of_factor[max(of_factor)]
    size, times = int(many.at("factor")), int(many.at("factor")) / int(few.at("factor"))
    titles = ("copies", "triples", *(f"cold, {label}, s" for label in CLASSES.values()))
    paths = [f"classes.{name}.cold.median_s" for name in CLASSES]
    paths += ["index.cpu_s", "index.peak_mib"]
    lines = []
    for factor in GROWN:
        grown_by = [
            float(many.at(path))
            * (factor / size) ** (log(many.at(path) / few.at(path)) / log(times))
            for path in paths
        ]
        seconds = [f"{value:.2f}" for value in grown_by[:-2]]
        triples = round(many.at("edges") * factor / size)
        lines.append(
            [
                str(factor),
                f"{triples:,}",
                *seconds,
                f"{grown_by[-2] / 60:.0f}",
                f"{grown_by[-1] / 1024:.1f}",
            ]
        )
    return table([*titles, "index, CPU minutes", "its memory, GiB"], lines)


def by_spark(rows: Sequence[Row]) -> str:
    """A line for each number of copies, question and method."""
    titles = (
        "copies", "triples", "question", "method", "seconds", "triples read", "in the answer",
        "joins", "as searched", "published",
    )  # fmt: skip
    return _table(titles, rows, _of_questions)


def _of_questions(row: Row) -> Iterator[list[str]]:
    for question, answers in row.at("questions").items():
        name, _, items = question.partition(", ")
        label = f"{CLASSES[name]}, {items}" if name in CLASSES else "100,000 items of all"
        for method, found in answers.items():
            is_published = items == "1 items" and method == "csprov"
            yield [
                str(row.at("factor")),
                f"{row.at('edges'):,}",
                label.replace("1 items", "1 item"),
                f"`{method}`",
                f"{found['s']:.1f}",
                f"{found['read']:,}",
                f"{found['triples']:,}",
                str(found["steps"]),
                "yes" if found["same"] else "**no**",
                str(PUBLISHED_S[name]) if is_published else "",
            ]


def _size(row: Row) -> list[str]:
    return [str(row.at("factor")), f"{row.at('nodes'):,}", f"{row.at('edges'):,}"]


def _seconds(way: Mapping[str, Any]) -> str:
    return f"{way['median_s']:.2f} ({way['worst_s']:.2f})"


def _table(
    titles: Sequence[str], rows: Sequence[Row], lines_of: Callable[[Row], Iterator[list[str]]]
) -> str:
    if not rows:
        return NO_ROWS
    ordered = sorted(rows, key=lambda row: int(row.at("factor")))
    commands = "\n".join(f"{row.provenance['commit']}: {row.command}" for row in ordered)
    lines = (line for row in ordered for line in lines_of(row))
    return f"{table(titles, lines)}\n\n```\n{commands}\n```"
