"""What it costs that a job can be watched, and is: python -m benchmarks.watching --json-out FILE.

The same captured job in four ways, in turn: as it is without `LINEAGE_WATCH`; with it, and nobody watching; with a condition on each record of two operators that none
fulfils; and with the time of their tasks (`--latency`). The functions of word count do next to nothing for each word, which is the dearest case. Ratios are of the run of the same
round without, by the time of the processor and by the time of the Spark jobs. Outputs are compared byte for byte.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.catalog import WORKLOADS, input_bytes
from benchmarks.generate import parse_size
from benchmarks.intervals import median_interval
from benchmarks.pairs import SPOOL, WARM, Run, RunError, Setup, check_same_output, run_once
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_store.watch_folder import WatchingFile, WatchRequest, running_jobs

WITHOUT, ALLOWED, CONDITION, LATENCY = "without", "allowed", "condition", "latency"
OPERATORS = ("flatMap", "map")
REQUESTS: Mapping[str, list[WatchRequest]] = {
    WITHOUT: [],
    ALLOWED: [],
    CONDITION: [WatchRequest(operator, "record == 0") for operator in OPERATORS],
    LATENCY: [WatchRequest(operator, latency=True) for operator in OPERATORS],
}
POLL_S = 0.02


@contextmanager
def watching(lineage: Path, requests: list[WatchRequest]) -> Iterator[list[str]]:
    """Watches of the job that has its lineage in a folder, from when it runs on; the tasks that they timed."""
    is_over = threading.Event()
    lines: list[str] = []

    def watch() -> None:
        files: list[WatchingFile] = []
        while not is_over.wait(POLL_S):
            jobs = [] if files or not requests else list(running_jobs(lineage / "spool"))
            for _, folder, _ in jobs:
                files = [
                    WatchingFile(folder, f"{time.time_ns():016x}{uuid.uuid4().hex}", request)
                    for request in requests
                ]
        for file in files:
            for path in file.hits.glob("*.jsonl"):
                lines.extend(path.read_text().splitlines())
            file.close()
            shutil.rmtree(file.hits, ignore_errors=True)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield lines
    finally:
        is_over.set()
        thread.join()


def run_in_a_way(setup: Setup, way: str, number: int) -> tuple[Run, int]:
    """One run, and how many tasks were timed.

    Raises:
        RunError: the job failed.
    """
    settings = {} if way == WITHOUT else {"LINEAGE_WATCH": "true"}
    with watching(setup.folder / f"{SPOOL}-{number}" / "lineage", REQUESTS[way]) as lines:
        run = run_once(setup, SPOOL, number, settings)
    return run, sum('"is_whole": true' in line for line in lines)


def measure(setup: Setup, rounds: int) -> dict[str, Any]:
    """The ratios of all ways.

    Raises:
        RunError: a run failed, outputs differ, or nothing was watched.
    """
    shutil.rmtree(run_once(setup, WARM, 0).home)
    runs: dict[str, list[Run]] = {way: [] for way in REQUESTS}
    tasks = 0
    for number in range(rounds):
        for at, way in enumerate(REQUESTS):
            run, timed = run_in_a_way(setup, way, number * len(REQUESTS) + at)
            tasks += timed
            if way == LATENCY and not timed:
                raise RunError("no task was timed")
            runs[way].append(run)
            print(
                f"{number + 1}/{rounds} {way}: {run.cpu_s:.1f} s of the processor, {run.times.jobs_s:.1f} s of jobs",
                file=sys.stderr,
                flush=True,
            )
            check_same_output(runs[WITHOUT][-1].output, run.output)
        for of_way in runs.values():
            shutil.rmtree(of_way[-1].home)
    plain = runs.pop(WITHOUT)
    ratios: dict[str, Any] = {
        way: {
            "cpu_ratio": median_interval(
                [b.cpu_s / a.cpu_s for a, b in zip(plain, of_way, strict=True)]
            ),
            "jobs_ratio": median_interval(
                [b.times.jobs_s / a.times.jobs_s for a, b in zip(plain, of_way, strict=True)]
            ),
        }
        for way, of_way in runs.items()
    }
    return {
        **ratios,
        "tasks_timed": tasks,
        "without_cpu_s": median_interval([run.cpu_s for run in plain]),
        "without_jobs_s": median_interval([run.times.jobs_s for run in plain]),
    }


def main() -> None:
    """Print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", default="wordcount", choices=sorted(WORKLOADS))
    parser.add_argument("--size", type=parse_size, default=parse_size("30MB"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json-out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        workload = WORKLOADS[given.workload]
        source = workload.prepare(Path(name) / "inputs", given.size)
        setup = Setup(workload, source, Path(name) / workload.name, given.partitions, given.cores)
        row = measure(setup, given.rounds)
        row |= {"benchmark": "watching", "workload": workload.name, "rounds": given.rounds}
        row["input_bytes"] = input_bytes(source)
    put_out({**row, "provenance": provenance()}, given.json_out)


if __name__ == "__main__":
    main()
