"""How long a trace through a chain of jobs takes, in a small store and in a large one: python -m benchmarks.chain --rows 1000000.

Prints one JSON line, times in seconds. Jobs run one after the other under ``lineage run``, each over the file that the job
before it wrote; each changes its lines, and the first reads ``--rows`` of them. Rows of the last output are traced through all
jobs (``all_jobs``) in one process that is warm, with locations alone (``positions``) and with the rows' text (``texts``), in
two stores in turn: the one that the jobs left, and a copy of it with ``--applications`` more, each of which read two versions
of files and wrote three, of the same names in other folders. ``ratio`` is the median of the large store over that of the
small one. ``bytes_a_version`` is what the large store has more for each of these versions, all else of the applications
included. Each answer is compared with the line that the row was made of.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.generate import SEED
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_core.contract.message import Begin, End, SinkFile, SinkFiles, Split, Splits
from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.store import SqliteStore

JOB = """import sys
from pyspark import SparkContext

source, output, number = sys.argv[1:]
context = SparkContext("local[2]", f"step {number}")
context.textFile(source, 2).map(lambda line: line + "." + number).saveAsTextFile(output)
context.stop()
"""
VERSIONS = 5
"""That each further application reads or writes."""
MODES = ("positions", "texts")


class WrongAnswerError(Exception):
    """A trace found another line than the one that the row was made of: its time says nothing."""


def run_jobs(folder: Path, jobs: int, rows: int) -> None:
    """Run the chain; its last output is ``out-JOBS``."""
    (folder / "step.py").write_text(JOB, encoding="ascii")
    with (folder / "landed.txt").open("w", encoding="ascii") as landed:
        landed.writelines(f"line {number}\n" for number in range(rows))
    environment = {**os.environ, "LINEAGE_STORE": f"sqlite:///{folder / 'small.db'}"}
    for number in range(1, jobs + 1):
        source = "landed.txt" if number == 1 else f"out-{number - 1}"
        arguments = source, f"out-{number}", str(number)
        subprocess.run(
            [
                str(Path(sys.executable).with_name("lineage")),
                "run",
                "--quiet",
                "step.py",
                *arguments,
            ],
            cwd=folder,
            env=environment,
            check=True,
        )


def add_applications(path: Path, folder: Path, applications: int) -> None:
    """Add applications that read and wrote files of the same names elsewhere."""
    with SqliteStore(path) as store:
        for number in range(applications):
            app, at = f"other-{number:06d}", 1_600_000_000.0 + number
            own = folder / "elsewhere" / f"{number:06d}"
            source = folder / "elsewhere" / f"{max(number - 1, 0):06d}"
            splits = tuple(
                Split(
                    partition=part,
                    path=f"file:{source}/part-{part:05d}",
                    start=0,
                    length=100,
                    file_size=100 + number,
                    mtime=at - 1,
                )
                for part in range(2)
            )
            files = tuple(
                SinkFile(
                    partition=part, path=f"file:{own}/part-{part:05d}", size=101 + number, mtime=at
                )
                for part in range(3)
            )
            store.write(
                app,
                [
                    Begin(app=app, name="other job", started_at=at - 2),
                    Splits(app=app, node="0.0", splits=splits),
                    SinkFiles(app=app, node="1.0", path=str(own), files=files),
                    End(app=app, ended_at=at, status="ok"),
                ],
            )


def trace_s(engine: QueryEngine, folder: Path, jobs: int, row: tuple[int, int], mode: str) -> float:
    """Trace a row (partition and line) back through all jobs."""
    part, line = row
    place = f"{folder}/out-{jobs}/part-{part:05d}:{line + 1}"
    query = TraceQuery(
        direction=Direction.BACKWARD, places=(place,), all_jobs=True, texts=mode == "texts"
    )
    started = time.perf_counter()
    answer = engine.ask(query)
    seconds = time.perf_counter() - started
    found = [(item.location, item.text) for group in answer.groups for item in group.items]
    with (folder / f"out-{jobs}" / f"part-{part:05d}").open(encoding="ascii") as output:
        text = next(text for number, text in enumerate(output) if number == line).split(".")[0]
    expected = f"{folder}/landed.txt:{int(text.removeprefix('line ')) + 1}"
    wanted_text = text if mode == "texts" else None
    if not answer.complete or not answer.exact or found != [(expected, wanted_text)]:
        raise WrongAnswerError(f"{place}: {found}, not {expected}: {answer.reasons}")
    return seconds


def measure(
    folder: Path, jobs: int, rows: int, questions: int
) -> dict[str, dict[str, list[float]]]:
    """Trace rows in both stores in turn."""
    generator = np.random.default_rng(SEED)
    seconds: dict[str, dict[str, list[float]]] = {
        store: {mode: [] for mode in MODES} for store in ("small", "large")
    }
    with SqliteStore(folder / "small.db") as small, SqliteStore(folder / "large.db") as large:
        reader = RowReader()
        engines = {"small": QueryEngine(small, reader), "large": QueryEngine(large, reader)}
        for number in range(questions + 2):
            row = int(generator.integers(0, 2)), int(generator.integers(0, rows // 2 - 1))
            for mode in MODES:
                for store, engine in sorted(engines.items(), reverse=number % 2 == 1):
                    taken = trace_s(engine, folder, jobs, row, mode)
                    # The first open applications and files.
                    if number >= 2:
                        seconds[store][mode].append(taken)
    return seconds


def main(words: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chain", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--applications", type=int, default=10_000)
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--json-out", type=Path)
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        run_jobs(folder, options.jobs, options.rows)
        shutil.copy(folder / "small.db", folder / "large.db")
        add_applications(folder / "large.db", folder, options.applications)
        seconds = measure(folder, options.jobs, options.rows, options.questions)
        size = (folder / "large.db").stat().st_size - (folder / "small.db").stat().st_size
    median = {
        store: {mode: round(statistics.median(taken), 4) for mode, taken in of_store.items()}
        for store, of_store in seconds.items()
    }
    row: dict[str, Any] = {
        "bench": "chain",
        "rows": options.rows,
        "jobs": options.jobs,
        "applications": options.applications,
        "versions": options.applications * VERSIONS,
        "questions": options.questions,
        "median": median,
        "ratio": {mode: round(median["large"][mode] / median["small"][mode], 3) for mode in MODES},
        "bytes_a_version": round(size / max(options.applications * VERSIONS, 1)),
        "provenance": provenance(),
    }
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
