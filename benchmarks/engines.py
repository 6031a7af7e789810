"""What lineage costs a word count of Dask and one of Hadoop MapReduce Streaming: python -m benchmarks.engines --size 30MB.

Prints one JSON line an engine. Plain and captured runs take turns (A B A B), after one of each that warms the caches. A
captured run ends when its lineage is linked and stored, and what that takes counts. Both must write the same, and the rarest
and some other words must be traced to the very lines that hold them.

The text has some thousand words, each in many lines, so that the output is next to nothing beside its lineage. ``--lines 635000 --words 1173443``:
a text as of Newt's evaluation (SoCC 2013), in which most words stand once.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyspark

from benchmarks.catalog import ROOT
from benchmarks.generate import parse_size, write_rare_words, write_text
from benchmarks.intervals import median_interval
from benchmarks.pairs import RunError, check_same_output
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage.access import StoredAccess
from lineage.stack.downloads import jars_of
from lineage.stack.programs import java
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store

PROGRAMS = ROOT / "benchmarks" / "workloads"
HADOOP = ROOT / "tests" / "hadoop" / "pom.xml"
TRACED_WORDS = 5
Command = Callable[[Path, bool], list[str]]
"""Gives the command of a run in a folder, plain or captured."""


def mapreduce_command(options: argparse.Namespace) -> Command:
    """A word count on Hadoop's local runner, over the classes of Hadoop that PySpark has."""
    jars = (Path(pyspark.__file__).parent / "jars", jars_of(HADOOP))
    mapper, reducer = (PROGRAMS / f"wordcount_{name}.py" for name in ("mapper", "reducer"))

    def command(home: Path, is_captured: bool) -> list[str]:
        settings = {
            "mapreduce.framework.name": "local",
            "fs.defaultFS": "file:///",
            "hadoop.tmp.dir": str(home / "hadoop"),
            "mapreduce.local.map.tasks.maximum": str(options.cores),
            "mapreduce.local.reduce.tasks.maximum": str(options.cores),
            "mapreduce.job.reduces": str(options.cores),
        }
        job = [str(java()), "-Xmx1g", "-cp", ":".join(f"{path}/*" for path in jars)]
        job += ["org.apache.hadoop.streaming.HadoopStreaming"]
        job += [word for name, value in settings.items() for word in ("-D", f"{name}={value}")]
        job += ["-input", str(options.source), "-output", str(home / "out")]
        job += ["-mapper", f"{sys.executable} {mapper}", "-reducer", f"{sys.executable} {reducer}"]
        lineage = str(Path(sys.executable).with_name("lineage"))
        return [lineage, "mapreduce", "--each-line", "--named-keys", *job] if is_captured else job

    return command


def dask_command(options: argparse.Namespace) -> Command:
    """A word count on a cluster of worker processes."""

    def command(home: Path, is_captured: bool) -> list[str]:
        words = [str(PROGRAMS / "dask_wordcount.py"), str(options.source), str(home / "out")]
        words += [str(options.partitions), str(options.cores)]
        captured = ["-m", "benchmarks.captured_dask"] if is_captured else []
        return [sys.executable, *captured, *words]

    return command


ENGINES: dict[str, Callable[[argparse.Namespace], Command]] = {
    "dask": dask_command,
    "mapreduce": mapreduce_command,
}


def run_once(command: Command, home: Path, *, is_captured: bool) -> dict[str, Any]:
    """Seconds of one run, and its processors'.

    Raises:
        RunError: it failed.
    """
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    # PYTHONUNBUFFERED would have the plain mapper write each record by itself, as the captured one never does.
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("LINEAGE_", "PYTHON"))}
    environment["LINEAGE_STORE"] = f"sqlite:///{home / 'lineage' / 'lineage.db'}"
    words = [sys.executable, "-m", "benchmarks.measure", str(home / "measured.json"), "--"]
    with (home / "log").open("wb") as log:
        done = subprocess.run(
            [*words, *command(home, is_captured)],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=log,
            check=False,
        )
    if done.returncode:
        raise RunError((home / "log").read_text(errors="replace")[-3_000:])
    measured: dict[str, Any] = json.loads((home / "measured.json").read_text())
    return measured


def engine_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one engine.

    Raises:
        RunError: a run failed, outputs differ, or a trace is not what the text says.
    """
    command, folder = ENGINES[name](options), options.folder / name
    runs: dict[bool, list[dict[str, Any]]] = {False: [], True: []}
    for pair in range(options.pairs + 1):
        for is_captured, measured in runs.items():
            run = run_once(command, folder / str(is_captured), is_captured=is_captured)
            if pair:
                measured.append(run)
        check_same_output(folder / "False" / "out", folder / "True" / "out")
        times = [round(measured[-1]["wall_s"], 2) for measured in runs.values() if measured]
        print(f"{name} {pair}/{options.pairs}: {times} s", file=sys.stderr, flush=True)
    home = folder / "True"
    left = [path for path in (home / "lineage").rglob("*") if path.is_file()]
    store_bytes = sum(path.stat().st_size for path in left)
    output_bytes = sum(path.stat().st_size for path in (home / "out").iterdir())
    ratios = {
        measure: median_interval(
            [b[measure] / a[measure] for a, b in zip(runs[False], runs[True], strict=True)]
        )
        for measure in ("wall_s", "cpu_s")
    }
    return {
        "benchmark": "engines",
        "engine": name,
        "text": "rare words" if options.words else "common words",
        "input_bytes": options.source.stat().st_size,
        "pairs": options.pairs,
        "cores_used": options.cores,
        "wall_ratio": ratios["wall_s"],
        "cpu_ratio": ratios["cpu_s"],
        **{
            f"{side}_{measure}": round(statistics.median(run[measure] for run in runs[key]), 2)
            for side, key in (("plain", False), ("captured", True))
            for measure in ("wall_s", "cpu_s")
        },
        "store_bytes": store_bytes,
        "store_over_input": round(store_bytes / options.source.stat().st_size, 4),
        "store_over_output": round(store_bytes / output_bytes, 4),
        "words_traced": check_traces(name, options.source, home),
    }


def check_traces(name: str, source: Path, home: Path) -> int:
    """Hold traces of some words against the lines that hold them.

    Raises:
        RunError: they differ.
    """
    lines: defaultdict[str, list[int]] = defaultdict(list)
    for number, line in enumerate(source.read_text(encoding="utf-8").splitlines(), 1):
        for word in set(line.split()):
            lines[word].append(number)
    by_count = sorted(lines, key=lambda word: (len(lines[word]), word))
    chosen = [*by_count[:TRACED_WORDS], *by_count[:: max(1, len(by_count) // TRACED_WORDS)]]
    url = f"sqlite:///{home / 'lineage' / 'lineage.db'}"
    with open_store(url) as store:
        (application,) = store.applications()
        for word in chosen:
            place = _place(name, home / "out", word)
            query = TraceQuery(Direction.BACKWARD, (place,), app=application.app, limit=0)
            answer = StoredAccess(store, url).ask(query)
            count = sum(group.count for group in answer.groups)
            if not (answer.exact and answer.complete and count == len(lines[word])):
                raise RunError(f"{word}: {count} lines instead of {len(lines[word])}")
    return len(chosen)


def _place(name: str, out: Path, word: str) -> str:
    for path in sorted(out.iterdir()):
        if path.name.startswith((".", "_")):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines()):
            if line.startswith(f"{word}\t"):
                return f"compute-1#0#{number}" if name == "dask" else f"{path}:{number + 1}"
    raise RunError(f"{word} is not in {out}")


def main(words: Sequence[str] | None = None) -> int:
    """Command line entry."""
    words = list(sys.argv[1:] if words is None else words)
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("engines", nargs="*", choices=[*ENGINES, []], default=[], metavar="ENGINE")
    parser.add_argument("--size", type=parse_size, default=parse_size("30MB"))
    parser.add_argument("--lines", type=int, help="of a text whose words stand once, most of them")
    parser.add_argument("--words", type=int, help="different words of such a text")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/out/engines"))
    parser.add_argument("--json-out", type=Path)
    options = parser.parse_args(words)
    options.folder = options.folder.resolve()
    if (options.lines is None) != (options.words is None):
        parser.error("--lines and --words belong together")
    rare = options.lines is not None
    text = f"{options.lines}-{options.words}" if rare else options.size
    options.source = options.folder / f"text-{text}.txt"
    if not options.source.exists():
        options.folder.mkdir(parents=True, exist_ok=True)
        if rare:
            write_rare_words(options.source, options.lines, options.words)
        else:
            write_text(options.source, options.size)
    for name in options.engines or ENGINES:
        put_out(engine_row(name, options) | {"provenance": provenance()}, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
