"""How long commands take to start: python -m benchmarks.startup --rounds 9.

Prints one JSON line, times in seconds. Commands run in turn, once a round, and medians count: ``python`` that does nothing,
``help`` (``lineage --help``), ``back`` of a row over a small embedded store, and an ``empty`` job, which starts a
SparkContext and stops it, by ``python`` and by ``lineage run``. ``run_more`` is the median of what the second takes more
than the first of the same round. The first round, in which Python compiles what it imports, is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from benchmarks.row import put_out

LIMITS: Mapping[str, float] = {"help": 0.2, "back": 0.4, "run_more": 0.5}
"""Seconds that users accept, on a machine that does nothing else."""
EMPTY = """from pyspark import SparkContext

SparkContext("local[1]", "empty").stop()
"""
SMALL = """from pyspark import SparkContext

context = SparkContext("local[1]", "small")
lines = context.textFile("in.txt", 1).map(lambda line: (line[:1], 1))
lines.reduceByKey(lambda one, other: one + other, 1).sortByKey().saveAsTextFile("out")
context.stop()
"""
LINES = "b 1\na 2\nb 3\n"
ANSWERED = ("in.txt:1", "in.txt:3")
"""The lines that made the second row, of b."""


class WrongAnswerError(Exception):
    """A command printed something else than it must: its time says nothing."""


def prepare(folder: Path, environment: Mapping[str, str]) -> None:
    """Write the jobs, and capture the small one into a store."""
    (folder / "empty.py").write_text(EMPTY, encoding="ascii")
    (folder / "small.py").write_text(SMALL, encoding="ascii")
    (folder / "in.txt").write_text(LINES, encoding="ascii")
    seconds_of([*_lineage(), "run", "--quiet", "small.py"], folder, environment)


def seconds_of(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    expected: Sequence[str] = (),
) -> float:
    """Seconds that a command takes, whose output must hold some texts.

    Raises:
        subprocess.CalledProcessError: it failed.
        WrongAnswerError: its output does not hold them.
    """
    started = time.perf_counter()
    result = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - started
    missing = [text for text in expected if text not in result.stdout]
    if missing:
        raise WrongAnswerError(f"{' '.join(command)} does not print {', '.join(missing)}")
    return seconds


def measure(rounds: int, folder: Path) -> dict[str, Any]:
    """The row."""
    environment = {**os.environ, "LINEAGE_STORE": f"sqlite:///{folder / 'lineage.db'}"}
    # Python may keep what it has compiled, as it does wherever nobody forbids it.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    prepare(folder, environment)
    commands: dict[str, tuple[list[str], Sequence[str]]] = {
        "python": ([sys.executable, "-c", "pass"], ()),
        "help": ([*_lineage(), "--help"], ("back", "forward")),
        "back": ([*_lineage(), "back", "out/part-00000:2"], ANSWERED),
        "empty_python": ([sys.executable, "empty.py"], ()),
        "empty_run": ([*_lineage(), "run", "--quiet", "empty.py"], ()),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, (command, expected) in commands.items():
            seconds = seconds_of(command, folder, environment, expected)
            if number:
                times[name].append(seconds)
    more = [
        captured - plain
        for plain, captured in zip(times["empty_python"], times["empty_run"], strict=True)
    ]
    median = {name: round(statistics.median(values), 3) for name, values in times.items()}
    median["run_more"] = round(statistics.median(more), 3)
    return {
        "bench": "startup",
        "rounds": rounds,
        "seconds": {name: [round(value, 3) for value in values] for name, values in times.items()},
        "median": median,
        "limits": dict(LIMITS),
        "within": {name: median[name] <= limit for name, limit in LIMITS.items()},
    }


def _lineage() -> list[str]:
    return [str(Path(sys.executable).with_name("lineage"))]


def main(words: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.startup", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json-out", type=Path, help="append the line to this file, too")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        row = measure(options.rounds, Path(folder)) | {"provenance": provenance()}
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
