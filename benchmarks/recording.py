"""What recording DataFrames costs: python -m benchmarks.recording --pairs 9 --rows 1000000.

Prints one JSON line. Rounds of the same small actions in one Spark, plain and recorded in turn (A B A B):
``job_ratio`` is recorded over plain, pair by pair, until the last action returned; ``cpu_ratio`` compares
the processor time of all processes until everything is recorded, which a busy machine disturbs less.
``note_ms`` is how long the thread that records took for one action, beside the job and behind it.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.intervals import median_interval
from benchmarks.provenance import provenance
from benchmarks.row import put_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ACTIONS = 5
"""Of one round."""


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.recording", description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    return parser.parse_args(words)


def run_actions(spark: SparkSession, folder: Path) -> float:
    """Run ``ACTIONS`` actions; seconds."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    began = time.perf_counter()
    rows = spark.read.parquet(str(folder / "in"))
    by_key = rows.where("amount > 10").groupBy("key").sum("amount").withColumnRenamed("key", "k")
    by_key.write.parquet(str(folder / "out"))
    rows.join(by_key, rows["key"] == by_key["k"]).orderBy("amount").limit(10).collect()
    rows.select("key").distinct().count()
    spark.read.parquet(str(folder / "out")).where("k = 7").toPandas()
    rows.where("amount = 11").write.mode("append").parquet(str(folder / "out"))
    return time.perf_counter() - began


def cpu_s() -> float:
    """User and system time of this process and all it has started, in seconds."""
    own = psutil.Process()
    times = [process.cpu_times() for process in (own, *own.children(recursive=True))]
    return float(sum(process_times.user + process_times.system for process_times in times))


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The row."""
    from pyspark.sql import SparkSession

    from lineage_emitter import LineageContext

    builder = SparkSession.builder.master(f"local[{options.cores}]").appName("recording")
    builder = builder.config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    generated = spark.range(options.rows).selectExpr("id % 1000 AS key", "id % 97 AS amount")
    generated.write.parquet(str(folder / "in"))
    store = f"sqlite:///{folder / 'lineage.db'}"
    ratios: list[float] = []
    cpu_ratios: list[float] = []
    all_recording_seconds: list[float] = []
    rounds: dict[str, list[float]] = {"plain": [], "noted": []}
    for number in range(options.pairs + 1):
        seconds: dict[str, float] = {}
        cpu: dict[str, float] = {}
        recording_seconds: list[float] = []
        for kind in ("plain", "noted"):
            is_recorded = kind == "noted"
            with (
                LineageContext(spark.sparkContext, store=store)
                if is_recorded
                else nullcontext() as lc
            ):
                before = cpu_s()
                seconds[kind] = run_actions(spark, folder)
                if lc is not None:
                    assert lc.session is not None
                    lc.session.frames.wait_until_recorded()
                    recording_seconds = list(lc.session.frames.seconds)
                    if len(recording_seconds) != ACTIONS:
                        raise RuntimeError(
                            f"{len(recording_seconds)} of {ACTIONS} actions were recorded"
                        )
                cpu[kind] = cpu_s() - before
            if number:
                rounds[kind].append(seconds[kind])
        if number:  # the first pair warms everything
            ratios.append(seconds["noted"] / seconds["plain"])
            cpu_ratios.append(cpu["noted"] / cpu["plain"])
            all_recording_seconds += recording_seconds
    spark.stop()
    return {
        "row": "noted",
        "rows": options.rows,
        "pairs": options.pairs,
        "job_ratio": median_interval(ratios),
        "cpu_ratio": median_interval(cpu_ratios),
        "note_ms": {
            "median": round(statistics.median(all_recording_seconds) * 1000, 1),
            "max": round(max(all_recording_seconds) * 1000, 1),
        },
        "seconds": {kind: [round(value, 3) for value in values] for kind, values in rounds.items()},
    }


def main() -> int:
    """Command line entry."""
    options = arguments_of()
    with tempfile.TemporaryDirectory() as folder:
        row = measure(options, Path(folder)) | {"provenance": provenance()}
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
