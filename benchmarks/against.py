"""What a change costs: captured jobs and traces of this tree against another revision's.

    python -m benchmarks.against 6394be7 --pairs 15 --json-out benchmarks/results/against.jsonl

Two processes stay, one of either code, each with a JVM of its own, and do the same tasks in turn (A B B A) on the same
inputs, in the same environment, after rounds that only warm up. Tasks: whole captured jobs, from the start of their
context to its stop with all linked and stored; contexts that do nothing or little; traces back and forward over
what the jobs left (opening the store is part of it); traces of a row of each TPC query by its recipe. Outputs and
answers must be equal on both sides. Each ratio is this tree's over the other's, pair by pair: ``wall`` of time,
``cpu`` of user and system time of driver, JVM, daemon and workers together, which a busy machine disturbs less.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.against_side import BACK, FORWARD, FRAMES, JOBS, STARTS
from benchmarks.catalog import ROOT, WORKLOADS
from benchmarks.generate import parse_size
from benchmarks.intervals import median_interval
from benchmarks.pairs import RunError
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from benchmarks.tpc import SUITES, make_tables, queries

BEFORE, AFTER = "before", "after"
COMPARED = ("wordcount", "grep", "join", "flights")
SAMPLE_INTERVAL_S = 0.1
"""A worker that ends takes up to this much of its CPU time with it, unseen."""
LOCK = "requirements.lock"


@dataclass
class Side:
    """A process that does tasks, and what it and all it started have used."""

    process: subprocess.Popen[str]
    log: Path
    cpu_s: dict[int, float] = field(default_factory=dict)
    """As last seen, by process id; of those that have ended, too."""

    def call(self, verb: str, name: str = "") -> dict[str, Any]:
        """Have a task done.

        Raises:
            RunError: the process failed.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(f"{verb} {name}\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """Wait for an answer, and look at all processes meanwhile."""
        assert self.process.stdout is not None
        while not select.select([self.process.stdout], [], [], SAMPLE_INTERVAL_S)[0]:
            self.look()
        line = self.process.stdout.readline()
        if not line:
            log = self.log.read_text(encoding="utf-8", errors="replace")
            raise RunError(f"a side has ended:\n{log[-3_000:]}")
        message: dict[str, Any] = json.loads(line)
        return message

    def look(self) -> float:
        """User and system time so far, in seconds."""
        own = psutil.Process(self.process.pid)
        for process in (own, *own.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.Error:
                continue
            self.cpu_s[process.pid] = times.user + times.system
        return sum(self.cpu_s.values())

    def measured(self, name: str) -> tuple[float, float]:
        """Seconds and CPU seconds of a task."""
        self.call("prepare", name)
        before = self.look()
        wall_s = self.call("run", name)["wall_s"]
        return wall_s, self.look() - before


@contextmanager
def checked_out(revision: str) -> Iterator[Path]:
    """The files of a revision, for the while.

    Raises:
        RunError: there is no such revision, or it wants other packages than this environment has.
    """
    if _git("diff", "--quiet", revision, "--", LOCK).returncode:
        raise RunError(f"{revision} is no revision with the packages of this tree's {LOCK}")
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch).resolve() / "tree"
        result = _git("worktree", "add", "--detach", str(tree), revision)
        if result.returncode:
            raise RunError(result.stderr)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)


@contextmanager
def start_side(
    tree: Path,
    folder: Path,
    setup: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
) -> Iterator[Side]:
    """A process with the code of a tree. ``environment``: lineage's own settings that it gets.

    Raises:
        RunError: it does not start, or runs other code.
    """
    folder.mkdir(parents=True)
    file, log = folder / "setup.json", folder / "log"
    file.write_text(json.dumps({**setup, "folder": str(folder)}), encoding="utf-8")
    code = [*tree.glob("libs/*/src"), *tree.glob("services/*/src"), tree / "cli" / "src"]
    other_variables = {
        name: value for name, value in os.environ.items() if not name.startswith("LINEAGE_")
    }
    path = os.pathsep.join(map(str, [*code, ROOT]))
    with (
        log.open("wb") as to,
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.against_side", str(file)],
            cwd=folder,
            env={**other_variables, "PYTHONPATH": path, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=to,
            text=True,
        ) as process,
    ):
        side = Side(process, log)
        loaded = side.answer()["code"]
        if not Path(loaded).is_relative_to(tree):
            raise RunError(f"{loaded} was loaded, not what is in {tree}")
        yield side


def compare(
    sides: Mapping[str, Side], names: Sequence[str], warm: int, pairs: int, seconds: float
) -> dict[str, Any]:
    """Each task on both sides in turn: ratios, and medians of what they are made of.

    After ``seconds`` no round begins, once one has counted.

    Raises:
        RunError: a side failed, or the sides came to different results.
    """
    walls: dict[str, dict[str, list[float]]] = defaultdict(lambda: {BEFORE: [], AFTER: []})
    cpus: dict[str, dict[str, list[float]]] = defaultdict(lambda: {BEFORE: [], AFTER: []})
    until = time.monotonic() + seconds
    for number in range(warm + pairs):
        if number > warm and time.monotonic() > until:
            break
        for name in names:
            order = (BEFORE, AFTER) if number % 2 else (AFTER, BEFORE)
            for kind in order:
                wall_s, cpu_s = sides[kind].measured(name)
                if number >= warm:
                    walls[name][kind].append(wall_s)
                    cpus[name][kind].append(cpu_s)
            results = [sides[kind].call("check", name)["found"] for kind in (BEFORE, AFTER)]
            if results[0] != results[1]:
                raise RunError(f"{name}: {results[0]} before, {results[1]} now")
        print(f"round {number + 1} of {warm} + {pairs}", file=sys.stderr, flush=True)
    return {name: _row(walls[name], cpus[name]) for name in names}


def _row(wall: Mapping[str, Sequence[float]], cpu: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"pairs": len(wall[BEFORE])}
    for unit, seconds in (("wall", wall), ("cpu", cpu)):
        ratios = [
            now / then
            for then, now in zip(seconds[BEFORE], seconds[AFTER], strict=True)
            if then > 0
        ]
        row[f"{unit}_ratio"] = median_interval(ratios) if ratios else None
        row[f"{unit}_s"] = {
            kind: round(statistics.median(each), 4) for kind, each in seconds.items()
        }
    return row


def summary_of_queries(rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """One figure for traces of many queries: the median of their medians, and the largest."""
    ratios = {
        unit: [row[f"{unit}_ratio"]["median"] for row in rows.values() if row[f"{unit}_ratio"]]
        for unit in ("wall", "cpu")
    }
    intervals = {
        f"{unit}_ratio": {**median_interval(each), "max": max(each)}
        for unit, each in ratios.items()
    }
    pairs = min(row["pairs"] for row in rows.values())
    return {"queries": sorted(rows), "pairs": pairs, **intervals}


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.against",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("revision", help="what to compare with: any name of a commit")
    parser.add_argument("--size", type=parse_size, default=parse_size("10MB"))
    parser.add_argument("--rows", type=int, default=100_000, help="of each table of join")
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--frame-pairs", type=int, default=5)
    parser.add_argument("--warm", type=int, default=2, help="rounds before any counts")
    parser.add_argument(
        *("--seconds",), type=float, default=7_200, help="of each kind; then no round begins"
    )
    parser.add_argument("--only", action="append", help="tasks whose names begin so; all")
    parser.add_argument("--suite", choices=SUITES, default="tpch")
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--traced-rows", type=int, default=20, help="rows of each kind of trace")
    parser.add_argument("--repeats", type=int, default=3, help="times that these are asked a run")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--json-out", type=Path, help="append the line to this file, too")
    return parser.parse_args(words)


def task_names(options: argparse.Namespace) -> dict[str, list[str]]:
    """Names of tasks by kind. Jobs come before the traces over what they leave."""
    traces = [f"{job}: {direction}" for job in COMPARED for direction in (BACK, FORWARD)]
    tasks = {
        JOBS: [*STARTS, *COMPARED, *traces],
        FRAMES: [f"{options.suite} {number}" for number in queries(options.suite)],
    }
    if options.only is None:
        return tasks
    chosen = tuple(options.only)
    return {
        kind: [task for task in names if task.startswith(chosen)] for kind, names in tasks.items()
    }


def side_setups(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What the sides are given, by kind."""
    folder = options.folder.resolve()
    inputs, tables = folder / "inputs", folder / f"{options.suite}-{options.scale:g}"
    inputs.mkdir(parents=True, exist_ok=True)
    make_tables(options.suite, options.scale, tables)
    sources = {
        name: str(workload.prepare(inputs, options.rows if workload.by_rows else options.size))
        for name in COMPARED
        for workload in (WORKLOADS[name],)
    }
    common = {"cores": options.cores, "partitions": options.partitions}
    jobs = {"sources": sources, "rows": options.traced_rows, "repeats": options.repeats}
    return {
        JOBS: {**common, "kind": JOBS, **jobs},
        FRAMES: {**common, "kind": FRAMES, "suite": options.suite, "tables": str(tables)},
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The row.

    Raises:
        RunError: a side failed, or the sides came to different results.
    """
    rows_by_kind: dict[str, dict[str, Any]] = {}
    setups = side_setups(options)
    with checked_out(options.revision) as tree, tempfile.TemporaryDirectory() as scratch:
        for kind, names in task_names(options).items():
            if names:
                pairs = options.frame_pairs if kind == FRAMES else options.pairs
                folder = Path(scratch).resolve() / kind
                with ExitStack() as stack:
                    sides = {
                        name: stack.enter_context(start_side(code, folder / name, setups[kind]))
                        for name, code in ((BEFORE, tree), (AFTER, ROOT))
                    }
                    rows_by_kind[kind] = compare(sides, names, options.warm, pairs, options.seconds)
                shutil.rmtree(folder)
    queries_found = rows_by_kind.get(FRAMES, {})
    about = {"benchmark": "against", "revision": options.revision}
    summary = {"frames": summary_of_queries(queries_found)} if queries_found else {}
    return {**about, **summary, "tasks": {**rows_by_kind.get(JOBS, {}), **queries_found}}


def main() -> int:
    """Command line entry."""
    options = arguments_of()
    # As Ctrl-C does: the other revision's files are removed.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Of what is loaded now, whatever is committed meanwhile.
    about = provenance()
    try:
        row = measure(options) | {"provenance": about}
    except RunError as problem:
        print(problem, file=sys.stderr)
        return 1
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
