"""The smallest failing input of six programs with a fault, against delta debugging alone: python -m benchmarks.sift --json-out FILE.

The programs are of the kinds that BigSift was evaluated with (`benchmarks.workloads.faults`). Each runs under `lineage run`, then `lineage sift` searches its
output: whole commands are timed, both with the start of Python and of Spark. Delta debugging alone is `ddmin` (Zeller and Hildebrandt, 2002) over all records, the program
in plain Python: its rows are counted, not its time. A result is right where it has the wrong record and as few records as are needed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.workloads import faults
from benchmarks.workloads.faults import PROGRAMS, lines_of

ROOT = Path(__file__).parents[1]
CHECKS = """\
from benchmarks.workloads.faults import PROGRAMS

def check(row):
    return PROGRAMS[{name!r}].is_right(row, {records})
"""


class Ddmin:
    """Zeller's algorithm: the smallest failing set by leaving out parts and keeping parts. ``rows``: how many were tested in all."""

    def __init__(self, fails: Callable[[Sequence[str]], bool]) -> None:
        self._fails = fails
        self._known: dict[tuple[str, ...], bool] = {}
        self.rows = 0
        self.runs = 0

    def _test(self, lines: Sequence[str]) -> bool:
        key = tuple(lines)
        if key not in self._known:
            self.rows += len(lines)
            self.runs += 1
            self._known[key] = self._fails(lines)
        return self._known[key]

    def minimal(self, lines: list[str]) -> list[str]:
        """A one-minimal part of lines that fail."""
        parts = 2
        while len(lines) >= 2:
            bounds = [len(lines) * n // parts for n in range(parts + 1)]
            pairs = list(pairwise(bounds))
            subset = next((lines[a:b] for a, b in pairs if self._test(lines[a:b])), None)
            if subset is not None:
                lines, parts = subset, 2
                continue
            rest = next((r for a, b in pairs if self._test(r := lines[:a] + lines[b:])), None)
            if rest is not None:
                lines, parts = rest, max(parts - 1, 2)
            elif parts == len(lines):
                break
            else:
                parts = min(2 * parts, len(lines))
        return lines


def ran(command: list[str], folder: Path) -> tuple[float, str]:
    """Seconds of a command, and what it printed."""
    began = time.perf_counter()
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    return time.perf_counter() - began, done.stdout


def sifted(name: str, records: int, runs: int, folder: Path) -> dict[str, Any]:
    """The row of one program."""
    program = PROGRAMS[name]
    lines, at = lines_of(name, records, seed=7)
    source = folder / "in.csv"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "checks.py").write_text(CHECKS.format(name=name, records=records), encoding="utf-8")
    lineage = [str(Path(sys.executable).with_name("lineage"))]
    jobs, sifts, found = [], [], {}
    for n in range(runs):
        job = [*lineage, "run", faults.__file__, name, str(source), f"out{n}"]
        jobs.append(ran(job, folder)[0])
        seconds, printed = ran(
            [*lineage, "sift", f"out{n}", "--test", "checks.py:check", "--json"], folder
        )
        sifts.append(seconds)
        found = json.loads(printed)
    alone = Ddmin(
        lambda part: any(not program.is_right(row, records) for row in program.plain(part))
    )
    smallest = alone.minimal(lines)
    places = {row["location"] for row in found["rows"]}
    return {
        "program": name,
        "records": records,
        "job_s": round(statistics.median(jobs), 2),
        "sift_s": round(statistics.median(sifts), 2),
        "of_job": round(statistics.median(s / j for s, j in zip(sifts, jobs, strict=True)), 3),
        "witnesses": found["witnesses"],
        "runs": found["runs"],
        "rows_run": found["rows_run"],
        "pushed_down": found["pushed_down"],
        "ddmin_runs": alone.runs,
        "ddmin_rows": alone.rows,
        "fewer_rows": round(alone.rows / max(found["rows_run"], 1), 1),
        "is_right": found["one_minimal"]
        and f"{source}:{at + 1}" in places
        and len(places) == program.needed == len(smallest)
        and program.wrong in smallest,
    }


def main() -> None:
    """Print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--programs", nargs="+", default=list(PROGRAMS), choices=list(PROGRAMS))
    parser.add_argument("--json-out", type=Path)
    given = parser.parse_args()
    rows = []
    for name in given.programs:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(sifted(name, given.records, given.runs, Path(folder)))
    put_out({"benchmark": "sift", "programs": rows, "provenance": provenance()}, given.json_out)


if __name__ == "__main__":
    main()
