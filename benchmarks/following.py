"""How soon `lineage follow` tells of an output row: python -m benchmarks.following --samples 5.

Prints one JSON line. A streaming query over a folder runs under `lineage run`. For each sample `lineage follow` waits for a row of a file that is not
there yet; then the file is put into the folder. ``told_ms`` is the median time from the commit of its batch (the file of its checkpoint)
to the line that tells the row, ``read_ms`` to the one that says that the batch has read it, ``done_ms`` to the one that says that nothing more can come. Each row that is told is compared with what the query made.
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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
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
SECONDS_MAX = 300.0
"""For which anything is waited for."""


@dataclass(frozen=True, slots=True)
class Told:
    """What was told of one row. ``read_s`` (that its batch has read it), ``told_s``, ``done_s``: after the commit; ``row``: its text; ``complete``: what the last line says."""

    read_s: float
    told_s: float
    done_s: float
    row: str
    complete: bool


@contextmanager
def running_job(folder: Path) -> Iterator[None]:
    """A streaming query under capture over the folder ``in``, until it ends by itself at the end of the body."""
    (folder / "in").mkdir()
    (folder / "job.py").write_text(JOB, encoding="utf-8")
    with (folder / "job.log").open("w", encoding="utf-8") as log:
        job = subprocess.Popen(
            [LINEAGE, "run", "job.py"], cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            yield
            (folder / "stop").touch()
            if job.wait(SECONDS_MAX):
                raise RuntimeError((folder / "job.log").read_text(encoding="utf-8"))
        finally:
            if job.poll() is None:
                job.terminate()
                job.wait(SECONDS_MAX)


def follow_row(folder: Path, number: int) -> Told:
    """Follow the second row of a file that comes now."""
    path = folder / "in" / f"{number}.csv"
    command = [LINEAGE, "follow", f"{path}:2", "--json", "--wait", str(SECONDS_MAX)]
    with (folder / f"follow-{number}.log").open("w", encoding="utf-8") as log:
        follow = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log)
        assert follow.stdout is not None
        try:
            ready, events = Path(folder / f"follow-{number}.ready"), _events(follow.stdout)
            wait_until_waiting(follow, folder)
            ready.write_text(f"{number},1\n{number},{number + 0.5}\n", encoding="utf-8")
            ready.rename(path)
            found: dict[str, tuple[float, dict[str, Any]]] = {}
            for at, event in events:
                found.setdefault(str(event["event"]), (at, event))
            follow.wait(SECONDS_MAX)
        finally:
            if follow.poll() is None:
                follow.kill()
                follow.wait()
    if follow.returncode or not {"row", "done", "end"} <= set(found):
        raise RuntimeError(f"lineage follow ended with {follow.returncode} and told {found}")
    batch = int(found["row"][1]["batch"])
    committed = (folder / "checkpoint" / "commits" / str(batch)).stat().st_mtime
    return Told(
        found["read"][0] - committed,
        found["row"][0] - committed,
        found["done"][0] - committed,
        str(found["row"][1]["text"]),
        bool(found["end"][1]["complete"]),
    )


def wait_until_waiting(follow: subprocess.Popen[bytes], folder: Path) -> None:
    """Until Spark has started in `lineage follow`: its Java process is there, and takes no time any more."""
    process, deadline, before = psutil.Process(follow.pid), time.monotonic() + SECONDS_MAX, -1.0
    while time.monotonic() < deadline and follow.poll() is None:
        java = [child for child in process.children(recursive=True) if child.name() == "java"]
        used = sum(sum(child.cpu_times()[:2]) for child in java)
        if java and before >= 0 and used - before < 0.1:
            return
        before = used if java else -1.0
        time.sleep(1)
    raise RuntimeError(f"lineage follow does not wait: see {folder}")


def _events(stream: IO[bytes]) -> Iterator[tuple[float, dict[str, Any]]]:
    for line in stream:
        at = time.time()
        if not line.startswith(b"{"):
            raise RuntimeError(f"lineage follow printed {line!r}")
        yield at, json.loads(line)


def measure(samples: int, folder: Path) -> dict[str, Any]:
    """The row."""
    with running_job(folder):
        told = [follow_row(folder, number) for number in range(samples)]
    for number, one in enumerate(told):
        if json.loads(one.row) != {"key": number, "twice": 2 * number + 1.0} or not one.complete:
            raise RuntimeError(f"wrong rows were told: {told}")
    return {
        "benchmark": "following",
        "samples": samples,
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
    parser.add_argument("--json-out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ["LINEAGE_STORE"] = f"sqlite:///{Path(name).resolve() / 'lineage.db'}"
        put_out(measure(given.samples, Path(name).resolve()), given.json_out)


if __name__ == "__main__":
    main()
