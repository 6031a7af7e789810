"""The page: the text of page.md, with tables and pictures where it names them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from benchmarks.report import (
    against,
    arrays,
    dataframes,
    erasures,
    faults,
    pictures,
    tables,
    triples,
)
from benchmarks.report.pictures import BY_SIZE, TRACE, Picture
from benchmarks.report.rows import Row, jobs, latest
from benchmarks.report.target_tables import TABLES

TEXT = Path(__file__).with_name("page.md")
NOTE = (
    "<!-- Written by `make report` from benchmarks/results and benchmarks/report/page.md. -->\n\n"
)
IMAGES, PROFILES = "images/benchmarks", "profiles"
"""Below the page's folder."""
_NAMED = re.compile(r"\{\{ ([a-z-]+) \}\}")


def page(measured: Sequence[Row], profiles: Sequence[str] = ()) -> str:
    """The page of these rows; ``profiles``: names of files beside it in ``PROFILES``."""
    parts = _parts(latest(measured), profiles)
    return NOTE + _NAMED.sub(lambda match: parts[match[1]](), TEXT.read_text(encoding="utf-8"))


def draw(measured: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the pictures of these rows, and remove those that no row is for any more."""
    rows = latest(measured)
    drawn = []
    for picture in BY_SIZE:
        if shown := picture.rows(rows):
            drawn.append(folder / f"{picture.name}.svg")
            pictures.draw_by_size(picture, shown, drawn[-1])
    if shown := _traced(rows):
        drawn.append(folder / f"{TRACE}.svg")
        pictures.draw_traces(shown, drawn[-1])
    for stale_picture in set(folder.glob("*.svg")) - set(drawn):
        stale_picture.unlink()
    return drawn


def _parts(rows: Sequence[Row], profiles: Sequence[str]) -> Mapping[str, Callable[[], str]]:
    of_jobs = jobs(rows)
    frames = [row for row in rows if row.benchmark == "frames"]
    compared = [row for row in rows if row.benchmark == "against"]
    faulty = [row for row in rows if row.benchmark == "faulty-actors"]
    sifted = [row for row in rows if row.benchmark == "sift"]
    replayed = [row for row in rows if row.benchmark == "replaying"]
    erased = [row for row in rows if row.benchmark == "erasure-oracle"]
    of_triples, by_spark = (
        [row for row in rows if row.benchmark == name] for name in ("triples", "triples by spark")
    )
    of_arrays = [row for row in rows if row.benchmark.startswith(arrays.PREFIX)]
    shown = (
        *(*frames, *compared, *faulty, *sifted, *replayed, *erased, *of_triples, *by_spark),
        *of_arrays,
    )
    other_rows = [row for row in rows if not row.mode and row not in shown]
    return {
        "jobs": lambda: tables.of_jobs(of_jobs, tables.JOBS),
        "correct": lambda: tables.of_jobs(of_jobs, tables.CORRECT),
        "until-queryable": lambda: tables.of_jobs(of_jobs, tables.UNTIL_QUERYABLE),
        "cpu": lambda: tables.of_processes(of_jobs, "cpu_s", ".1f"),
        "peaks": lambda: tables.of_processes(of_jobs, "peak_mb", ".0f"),
        "traces": lambda: tables.of_jobs(of_jobs, tables.TRACES),
        "per-association": lambda: tables.of_jobs(of_jobs, tables.PER_ASSOCIATION),
        "growth": lambda: tables.of_growth(of_jobs),
        "published": lambda: tables.of_published(of_jobs),
        "profiles": lambda: _links(profiles),
        "frames": lambda: dataframes.summaries(frames),
        "frames-queries": lambda: dataframes.queries(frames),
        "against": lambda: against.tables_of(compared),
        "faulty-actors": lambda: faults.ranks(faulty),
        "replays": lambda: faults.replays(replayed),
        "sifts": lambda: faults.sifts(sifted),
        "erasures": lambda: erasures.plans(erased),
        "arrays-astronomy": lambda: arrays.astronomy(_of(of_arrays, "astronomy")),
        "arrays-genomics": lambda: arrays.genomics(_of(of_arrays, "genomics")),
        "arrays-query-time": lambda: arrays.query_time(_of(of_arrays, "query-time")),
        "triples": lambda: triples.traces(of_triples),
        "triples-indexes": lambda: triples.indexes(of_triples),
        "triples-grown": lambda: triples.grown(of_triples),
        "triples-by-spark": lambda: triples.by_spark(by_spark),
        "arrays-kinds": lambda: arrays.kinds(_of(of_arrays, "kinds")),
        "arrays-spatial": lambda: arrays.spatial(_of(of_arrays, "spatial")),
        "others": lambda: tables.of_others(other_rows),
        "origins": lambda: tables.of_origins(rows),
        **{name: partial(tables.of_targets, rows, targets) for name, targets in TABLES.items()},
        **{f"picture-{picture.name}": _table_if_shown(picture, of_jobs) for picture in BY_SIZE},
        f"picture-{TRACE}": lambda: _shown("Time of traces", TRACE, _traced(of_jobs)),
    }


def _of(of_arrays: Sequence[Row], name: str) -> list[Row]:
    return [row for row in of_arrays if row.benchmark == arrays.PREFIX + name]


def _links(profiles: Sequence[str]) -> str:
    lines = [f"- [{name.removesuffix('.md')}]({PROFILES}/{name})" for name in profiles]
    return "\n".join(lines) or "No profile has been written yet."


def _table_if_shown(picture: Picture, rows: Sequence[Row]) -> Callable[[], str]:
    return lambda: _shown(picture.title, picture.name, picture.rows(rows))


def _shown(title: str, name: str, rows: Sequence[Row]) -> str:
    """A picture, and the commands that made it."""
    if not rows:
        return tables.NO_ROWS
    commands = "\n".join(dict.fromkeys(row.command for row in rows))
    return f"![{title}]({IMAGES}/{name}.svg)\n\n```\n{commands}\n```"


def _traced(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.at("trace.points")]
