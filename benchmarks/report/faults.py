"""The tables of how faulty actors rank, what replays take, and how failing inputs are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.report.rows import Row
from benchmarks.report.tables import NO_ROWS, NOTHING, table

SIFT_COLUMNS = (
    "program",
    "records",
    "job",
    "search over job",
    "witnesses",
    "runs over rows",
    "delta debugging alone",
    "times fewer rows",
    "set is right",
)
REPLAY_COLUMNS = (
    "outputs",
    "rows they were made from",
    "share of the rows",
    "task time over the job's",
    "seconds",
)


def ranks(rows: Sequence[Row]) -> str:
    """A table a run: by magnitude and query the percentile rank, and how often a faulty actor came first, alone."""
    parts = []
    for row in rows:
        magnitudes = row.at("magnitudes")
        queries = list(dict.fromkeys(query for of in magnitudes.values() for query in of))
        lead = (
            f"{row.at('actors')} actors, {row.at('trials')} runs of each magnitude, measured at "
            f"{row.provenance['commit']} (`{row.command}`):"
        )
        parts += [lead, table(("magnitude", *queries), _lines(row, queries))]
    return "\n\n".join(parts) or NO_ROWS


def sifts(rows: Sequence[Row]) -> str:
    """A table a run: by program its time over that of the job, and how many rows were tested, here and by delta debugging alone."""
    parts = []
    for row in rows:
        lead = f"Measured at {row.provenance['commit']} (`{row.command}`):"
        parts += [lead, table(SIFT_COLUMNS, map(_sift_line, row.at("programs")))]
    return "\n\n".join(parts) or NO_ROWS


def replays(rows: Sequence[Row]) -> str:
    """A table a run: by number of outputs the rows, the time of tasks over that of the job, and seconds."""
    parts = []
    for row in rows:
        plain = row.at("plain_task_share")
        floor = "" if plain is None else f" Plain PySpark over the line of one output: {plain:.2%}."
        lead = (
            f"{row.at('lines'):,} lines, {row.at('outputs'):,} words; the job {row.at('run_s'):.0f} s, its tasks {row.at('run_task_s'):.0f} s.{floor} Measured at "
            f"{row.provenance['commit']} (`{row.command}`):"
        )
        lines = (
            [
                f"{int(outputs):,}",
                f"{found['witnesses']:,.0f}",
                f"{found['witnesses'] / row.at('lines'):.2%}",
                f"{found['task_share']:.2%}",
                f"{found['seconds']:.2f}",
            ]
            for outputs, found in row.at("replays").items()
        )
        parts += [lead, table(REPLAY_COLUMNS, lines)]
    return "\n\n".join(parts) or NO_ROWS


def _sift_line(found: Mapping[str, Any]) -> list[str]:
    return [
        found["program"],
        f"{found['records']:,}",
        f"{found['job_s']:.1f} s",
        f"{found['of_job']:.2f}",
        f"{found['witnesses']:,}",
        f"{found['runs']:,} over {found['rows_run']:,}",
        f"{found['ddmin_runs']:,} over {found['ddmin_rows']:,}",
        f"{found['fewer_rows']:,.0f}",
        "yes" if found["is_right"] else "no",
    ]


def _lines(row: Row, queries: Sequence[str]) -> Iterator[list[str]]:
    for magnitude, found in row.at("magnitudes").items():
        cells = [found.get(query) for query in queries]
        yield [
            magnitude,
            *(
                NOTHING
                if cell is None
                else f"{cell['percentile']:g} ({cell['first']}), {cell['seconds']:.2f} s"
                for cell in cells
            ),
        ]
