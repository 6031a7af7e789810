"""What capture costs the batch programs that PySpark ships: python -m benchmarks.examples --draw 25 --rounds 2.

Each program runs alone in a process, by ``python`` and by ``lineage run``, in turn (A B A B) over the same files, after a pair that
only warms up the machine. Prints one JSON line: by program the wall seconds of each run and their ratio, and ``ratio``, the median over
all programs. A program whose exit code captured is not that of its plain runs is listed under ``differ``, and the exit code is 1.
What programs print is compared by ``make same ARGS=examples``.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.intervals import median_interval
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from tests.same.shipped import ARGUMENTS, PROGRAMS, SETTINGS, names, write_data

LIMIT = 1.05
"""Of the median ratio, on a machine that does nothing else."""
TIMEOUT_S = 900


def run(name: str, folder: Path, *, captured: bool) -> tuple[float, int]:
    """Seconds that a program takes in a folder that is made for it, and its exit code."""
    write_data(folder)
    # A file of the user's: what lies in PySpark's own folder is not taken for a program.
    (folder / Path(name).name).write_bytes((PROGRAMS / name).read_bytes())
    lineage = str(Path(sys.executable).with_name("lineage"))
    launcher = [lineage, "run", "--quiet", "--no-session"] if captured else [sys.executable]
    settings = " ".join(f"--conf {setting}" for setting in SETTINGS)
    environment = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell",
        "LINEAGE_STORE": f"sqlite:///{folder / 'lineage.db'}",
    }
    # Python may keep what it has compiled, as it does wherever nobody forbids it.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [*launcher, Path(name).name, *ARGUMENTS.get(name, ())]
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=False, timeout=TIMEOUT_S
    )
    return time.perf_counter() - started, done.returncode


def measure(name: str, rounds: int) -> dict[str, Any]:
    """The times and exit codes of a program."""
    seconds: Mapping[str, list[float]] = {"plain": [], "captured": []}
    codes: Mapping[str, set[int]] = {"plain": set(), "captured": set()}
    with tempfile.TemporaryDirectory(prefix="examples-") as folder:
        for number in range(rounds + 1):
            for kind, times in seconds.items():
                place = Path(folder, f"{kind}-{number}")
                taken, code = run(name, place, captured=kind == "captured")
                codes[kind].add(code)
                if number:
                    times.append(round(taken, 3))
    plain, captured = (statistics.median(times) for times in seconds.values())
    return {
        "program": name,
        "seconds": seconds,
        "ratio": round(captured / plain, 4),
        "exit_codes": {kind: sorted(found) for kind, found in codes.items()},
    }


def main(words: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.examples", description=__doc__)
    parser.add_argument("--draw", type=int, help="so many programs (default: all)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw")
    parser.add_argument("--rounds", type=int, default=2, help="pairs of each program")
    parser.add_argument("--json-out", type=Path, help="append the line to this file, too")
    options = parser.parse_args(words)
    programs = names()
    if options.draw is not None and options.draw < len(programs):
        programs = sorted(random.Random(options.seed).sample(programs, options.draw))
    rows = []
    for name in programs:
        rows.append(measure(name, options.rounds))
        print(rows[-1], file=sys.stderr, flush=True)
    differ = [
        row["program"]
        for row in rows
        if row["exit_codes"]["plain"] != row["exit_codes"]["captured"]
    ]
    ratio = median_interval([row["ratio"] for row in rows])
    about = {"bench": "examples", "rounds": options.rounds, "seed": options.seed, "limit": LIMIT}
    found = {"ratio": ratio, "within": ratio["median"] <= LIMIT, "differ": differ}
    put_out({**about, **found, "programs": rows, "provenance": provenance()}, options.json_out)
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
