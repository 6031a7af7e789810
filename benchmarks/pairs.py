"""The same job in two ways, plain and captured for one, in turn: A B A B."""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.catalog import ROOT, Workload
from benchmarks.intervals import median_interval
from benchmarks.spark_events import AppTimes, read_times, submit_arguments

PLAIN, AGAIN, WARM = "plain", "plain-again", "warm"
SPOOL, KAFKA, RECORD_LEVEL = "spool", "kafka", "record-level"
LAUNCHERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((PLAIN, AGAIN, WARM), ()),
    **dict.fromkeys((SPOOL, KAFKA), ("-m", "lineage_emitter.autorun")),
    RECORD_LEVEL: ("-m", "benchmarks.baselines.record_level.run"),
}
"""What a kind of run puts between Python and the job."""
LOG_TAIL = 3_000


class RunError(Exception):
    """A run failed, or capture changed what the job computes."""


@dataclass(frozen=True)
class Run:
    """One measured run. ``home`` holds its output, and its lineage when it was captured."""

    kind: str
    home: Path
    wall_s: float
    cpu_s: float
    ended_at: float
    worker_peak_mb: float
    """Resident memory of the largest Python worker at its peak."""
    worker_private_mb: float
    """The same without what it shares with the daemon it was forked from (sampled)."""
    peak_mb: Mapping[str, float]
    """The same of the largest process of each kind: driver, jvm, daemon, worker."""
    times: AppTimes
    linked_at: float
    """Unix seconds of the last write to store and spool; 0 of a plain run."""

    @property
    def output(self) -> Path:
        return self.home / "out"

    @property
    def lineage(self) -> Path:
        """Folder of the store and the spool."""
        return self.home / "lineage"

    @property
    def queryable_s(self) -> float:
        """From the end of the last job until all of its lineage was linked and stored."""
        return max(0.0, self.linked_at - self.times.jobs_ended)

    @property
    def after_jobs_s(self) -> float:
        """From the end of the last job to the end of the process."""
        return self.ended_at - self.times.jobs_ended


@dataclass(frozen=True)
class Setup:
    """What all runs of one call share."""

    workload: Workload
    source: Path
    folder: Path
    partitions: int
    cores: int
    kinds: tuple[str, str] = (PLAIN, SPOOL)
    """The two sides."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Environment variables of a kind of run."""


def run_once(
    setup: Setup, kind: str, number: int, settings: Mapping[str, str] | None = None
) -> Run:
    """One run in a folder of its own; ``settings`` are environment variables for it.

    Raises:
        RunError: the job failed, or Kafka did not take its lineage.
    """
    home = setup.folder / f"{kind}-{number}"
    shutil.rmtree(home, ignore_errors=True)
    (home / "events").mkdir(parents=True)
    script = setup.workload.arguments(setup.source, home / "out", setup.partitions)
    environment = environment_of(home, setup)
    if LAUNCHERS[kind]:
        environment |= setup.workload.settings
    environment |= {**setup.settings.get(kind, {}), **(settings or {})}
    report = home / "measured.json"
    command = [sys.executable, "-m", "benchmarks.measure", str(report), "--"]
    command += [sys.executable, *LAUNCHERS[kind], *script]
    with (home / "log").open("wb") as log:
        result = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, check=False
        )
    if result.returncode != 0:
        tail = (home / "log").read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:]
        raise RunError(f"{kind} run {number} ended with exit code {result.returncode}:\n{tail}")
    if kind == KAFKA and any((home / "lineage").rglob("*.*")):
        raise RunError(f"{kind} run {number}: lineage waits in the spool")
    measured = json.loads(report.read_text(encoding="utf-8"))
    return Run(
        kind,
        home,
        measured["wall_s"],
        measured["cpu_s"],
        measured["ended_at"],
        measured["worker_peak_bytes"] / 1e6,
        measured["worker_private_bytes"] / 1e6,
        {name: peak / 1e6 for name, peak in measured["peak_bytes"].items()},
        read_times(home / "events"),
        _last_write(home / "lineage"),
    )


def _last_write(lineage: Path) -> float:
    """When the store was last written, or a finished application's spool was removed."""
    paths = [lineage / "spool", *lineage.glob("lineage.db*")] if lineage.exists() else []
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0.0)


def environment_of(home: Path, setup: Setup) -> dict[str, str]:
    """Environment variables of a run in ``home``, without what only captured runs get."""
    other_variables = {
        name: value for name, value in os.environ.items() if not name.startswith("LINEAGE_")
    }
    return other_variables | {
        "PYSPARK_SUBMIT_ARGS": submit_arguments(home / "events", setup.cores),
        "PYSPARK_PYTHON": sys.executable,
        "LINEAGE_STORE": f"sqlite:///{(home / 'lineage' / 'lineage.db').resolve()}",
    }


def run_pairs(
    setup: Setup, pairs: int, right_run: Callable[[int], Run] | None = None
) -> tuple[list[Run], list[Run]]:
    """Runs of both kinds in turn, after one plain run that warms the caches.

    ``right_run`` takes the number of a pair and does the right side's run, with what comes around it.
    Only the last run's folder is left, for what is asked of its lineage.

    Raises:
        RunError: a run failed, or outputs differ.
    """
    shutil.rmtree(run_once(setup, WARM, 0).home)
    first, second = setup.kinds
    plain: list[Run] = []
    captured: list[Run] = []
    for number in range(pairs):
        plain.append(run_once(setup, first, number))
        if captured:
            shutil.rmtree(captured[-1].home)
        captured.append(right_run(number) if right_run else run_once(setup, second, number))
        check_same_output(plain[-1].output, captured[-1].output)
        shutil.rmtree(plain[-1].home)
        _progress(setup, number, pairs, plain[-1], captured[-1])
    return plain, captured


def _progress(setup: Setup, number: int, pairs: int, plain: Run, captured: Run) -> None:
    print(
        f"{setup.workload.name} {number + 1}/{pairs}: "
        f"{plain.wall_s:.2f} s {plain.kind}, {captured.wall_s:.2f} s {captured.kind}",
        file=sys.stderr,
        flush=True,
    )


def check_same_output(first: Path, second: Path) -> None:
    """Same files, byte for byte.

    Raises:
        RunError: they differ.
    """
    names = [sorted(path.name for path in side.iterdir()) for side in (first, second)]
    if names[0] != names[1]:
        raise RunError(f"{first} and {second} hold other files")
    _, differing, failed = filecmp.cmpfiles(first, second, names[0], shallow=False)
    if differing or failed:
        raise RunError(f"{first} and {second} differ in {(differing + failed)[:3]}")


def comparison_row(plain: list[Run], captured: list[Run]) -> dict[str, object]:
    """Ratios right / left, pair by pair, and what they are made of.

    ``wall``: the whole process. ``app``: from a ready SparkContext to its stop. ``jobs``: from the
    first job to the end of the last. ``cpu``: user and system time of all processes.
    """
    measures = {
        "wall_ratio": ([run.wall_s for run in plain], [run.wall_s for run in captured]),
        "cpu_ratio": ([run.cpu_s for run in plain], [run.cpu_s for run in captured]),
        "app_ratio": ([run.times.app_s for run in plain], [run.times.app_s for run in captured]),
        "jobs_ratio": ([run.times.jobs_s for run in plain], [run.times.jobs_s for run in captured]),
    }
    row: dict[str, object] = {
        name: median_interval([b / a for a, b in zip(*sides, strict=True)])
        for name, sides in measures.items()
    }
    row["jobs_s"] = median_interval([run.times.jobs_s for run in captured])
    for runs in (plain, captured):
        row[runs[0].kind] = {
            "wall_s": [round(run.wall_s, 3) for run in runs],
            "cpu_s": [round(run.cpu_s, 2) for run in runs],
            "jobs_s": [round(run.times.jobs_s, 3) for run in runs],
            "after_jobs_s": [round(run.after_jobs_s, 3) for run in runs],
            "worker_peak_mb": [round(run.worker_peak_mb, 1) for run in runs],
            "worker_private_mb": [round(run.worker_private_mb, 1) for run in runs],
        }
    for name in ("worker_peak_mb", "worker_private_mb"):
        more = [getattr(b, name) - getattr(a, name) for a, b in zip(plain, captured, strict=True)]
        row[name.replace("_mb", "_more_mb")] = median_interval(more)
    return row
