"""How soon `lineage follow` tells of an output row: python -m benchmarks.following --samples 5.

Prints one JSON line, and on stderr how far it is. A streaming query over a folder runs under `lineage run`. For each sample `lineage follow` waits for a row
of a file that is not there yet; then the file is put into the folder. ``told_ms`` is the median time from the commit of its batch (the file of its checkpoint)
to the line that tells the row, ``read_ms`` to the one that says that the batch has read it, ``done_ms`` to the one that says that nothing more can come. Each
row that is told is compared with what the query made.

Each sample starts a Spark and waits until it is warm, about a minute on a machine of two cores, and several where others need them. So none is begun once
``--seconds`` have passed, and the row says how many ``samples`` there were, at least one.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import IO, Any

import psutil

from benchmarks.provenance import provenance
from benchmarks.row import put_out

JOB = """
from pathlib import Path

from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.readStream.schema("key int, amount double").csv("in").selectExpr("key", "amount * 2 AS twice")
writer = rows.writeStream.format("json").option("checkpointLocation", "checkpoint")
query = writer.trigger(processingTime="0 seconds").start("out")
while not Path("stop").exists():
    query.awaitTermination(0.2)
query.processAllAvailable()
query.stop()
"""
LINEAGE = str(Path(sys.executable).with_name("lineage"))
WAIT_S = 300.0
"""For which anything is waited for: a Spark that starts, a row, a program that ends."""
QUIET_S = 3


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of one row. ``read_s`` (that its batch has read it), ``told_s``, ``done_s``: after the commit; ``row``: its text; ``complete``: what the last line says."""

    read_s: float
    told_s: float
    done_s: float
    row: str
    complete: bool


@contextmanager
def running_job(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A streaming query under capture over the folder ``in``, until it ends by itself at the end of the body."""
    (folder / "in").mkdir()
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    with (folder / "job.log").open("wb") as log:
        job = subprocess.Popen(
            [LINEAGE, "run", "job.py"], cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield job
            (folder / "stop").touch()
            if job.wait(WAIT_S):
                raise _failed("the query", folder / "job.log")
        finally:
            _stop(job)


def follow_row(folder: Path, number: int, job: subprocess.Popen[bytes]) -> Told:
    """Follow the second row of a file that comes now."""
    path, log_path = folder / "in" / f"{number}.csv", folder / f"follow-{number}.log"
    command = [LINEAGE, "follow", f"{path}:2", "--json", "--wait", str(WAIT_S)]
    with log_path.open("wb") as log:
        follow = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log)
        assert follow.stdout is not None
        # It goes on as long as the query runs.
        deadline = Timer(2 * WAIT_S, follow.kill)
        deadline.start()
        try:
            ready = folder / f"{number}.ready"
            wait_until_waiting(follow, job, folder, log_path)
            ready.write_text(f"{number},1\n{number},{number + 0.5}\n", encoding="utf-8")
            ready.rename(path)
            found: dict[str, tuple[float, dict[str, Any]]] = {}
            for at, event in _events(follow.stdout):
                found.setdefault(str(event["event"]), (at, event))
            follow.wait(WAIT_S)
        finally:
            deadline.cancel()
            _stop(follow)
    if follow.returncode or not {"read", "row", "done", "end"} <= set(found):
        raise _failed(f"lineage follow ({follow.returncode}), which told {found},", log_path)
    batch = int(found["row"][1]["batch"])
    committed = (folder / "checkpoint" / "commits" / str(batch)).stat().st_mtime
    return Told(
        found["read"][0] - committed,
        found["row"][0] - committed,
        found["done"][0] - committed,
        str(found["row"][1]["text"]),
        bool(found["end"][1]["complete"]),
    )


def wait_until_waiting(
    follow: subprocess.Popen[bytes], job: subprocess.Popen[bytes], folder: Path, log_path: Path
) -> None:
    """Until Spark has started in `lineage follow` and is warm: its Java process is there, and takes no time for ``QUIET_S``."""
    process, deadline, before, quiet = psutil.Process(follow.pid), time.monotonic() + WAIT_S, 0.0, 0
    while time.monotonic() < deadline:
        if follow.poll() is not None:
            raise _failed("lineage follow", log_path)
        if job.poll() is not None:
            raise _failed("the query", folder / "job.log")
        java = [child for child in process.children(recursive=True) if child.name() == "java"]
        used = sum(sum(child.cpu_times()[:2]) for child in java)
        quiet = quiet + 1 if java and 0 <= used - before < 0.1 else 0
        if quiet == QUIET_S:
            return
        before = used
        time.sleep(1)
    raise RuntimeError(f"lineage follow is not ready to wait after {WAIT_S:g} s")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _failed(what: str, log_path: Path) -> RuntimeError:
    return RuntimeError(f"{what} failed:\n{log_path.read_text('utf-8', 'replace')[-5000:]}")


def _events(stream: IO[bytes]) -> Iterator[tuple[float, dict[str, Any]]]:
    for line in stream:
        at = time.time()
        if not line.startswith(b"{"):
            raise RuntimeError(f"lineage follow printed {line!r}")
        yield at, json.loads(line)


def take_samples(
    follow: Callable[[int], Told],
    samples: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Told]:
    """Follow one row after the other, as long as there is time; one at least.

    Args:
        follow: follows the row of a number.
        samples: how many at most.
        seconds: after so long no other is begun.
        clock: in seconds.

    Raises:
        RuntimeError: another row was told than the query has made.
    """
    began, taken = clock(), list[Told]()
    while len(taken) < samples and (not taken or clock() - began < seconds):
        number = len(taken)
        told = follow(number)
        if json.loads(told.row) != {"key": number, "twice": 2 * number + 1.0} or not told.complete:
            raise RuntimeError(f"a wrong row was told: {told}")
        taken.append(told)
        print(
            f"sample {number + 1} of {samples}: told {told.told_s * 1000:.0f} ms after the commit, {clock() - began:.0f} s so far",
            file=sys.stderr,
            flush=True,
        )
    return taken


def measure(samples: int, seconds: float, folder: Path) -> dict[str, Any]:
    """The row."""
    with running_job(folder) as job:
        told = take_samples(lambda number: follow_row(folder, number, job), samples, seconds)
    return {
        "benchmark": "following",
        "samples": len(told),
        "read_ms": round(statistics.median(one.read_s for one in told) * 1000),
        "told_ms": round(statistics.median(one.told_s for one in told) * 1000),
        "told_worst_ms": round(max(one.told_s for one in told) * 1000),
        "done_ms": round(statistics.median(one.done_s for one in told) * 1000),
        "provenance": provenance(),
    }


def main() -> None:
    """Print a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.following", description=__doc__)
    parser.add_argument("--samples", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=400.0, help="in which samples are begun")
    parser.add_argument("--json-out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ["LINEAGE_STORE"] = f"sqlite:///{Path(name).resolve() / 'lineage.db'}"
        put_out(measure(given.samples, given.seconds, Path(name).resolve()), given.json_out)


if __name__ == "__main__":
    main()
