"""What it costs that rows of DataFrames can be watched, and are: python -m benchmarks.watching_frames --json-out FILE.

Rounds of the same captured job (filter, project, group, write of Parquet) in one Spark, in three ways in turn: without `LINEAGE_WATCH_FRAMES`; with it, and nobody
watching; and with a condition on each row of each operator that none fulfils. Ratios are of the run of the same round without. Generated code does next to nothing for each row,
which is the dearest case. Outputs are compared row by row.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.intervals import median_interval
from benchmarks.provenance import provenance
from benchmarks.recording import cpu_s
from benchmarks.row import put_out
from lineage_query.watching.requests import counting_condition
from lineage_store.watch_folder import WatchRequest, hit_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WITHOUT, ALLOWED, CONDITION = "without", "allowed", "condition"
WAYS = (WITHOUT, ALLOWED, CONDITION)
REQUESTS = (
    WatchRequest("filter", "amount < 0"),
    WatchRequest("project", "amount < 0 AND key < 0"),
    WatchRequest("aggregate", "total < 0", must=False),
)


def run_job(spark: SparkSession, folder: Path) -> tuple[float, list[Any]]:
    """Seconds, and the rows that were written."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    began = time.perf_counter()
    rows = spark.read.parquet(str(folder / "in")).where("amount > 10")
    rows = rows.selectExpr("key % 100 AS key", "amount * 2 AS amount")
    totals = rows.groupBy("key").sum("amount").withColumnRenamed("sum(amount)", "total")
    totals.write.parquet(str(folder / "out"))
    seconds = time.perf_counter() - began
    return seconds, sorted(map(tuple, spark.read.parquet(str(folder / "out")).collect()))


def run_in_a_way(spark: SparkSession, folder: Path, way: str) -> dict[str, float]:
    """One run.

    Raises:
        RuntimeError: a row fulfilled a condition.
    """
    from lineage_emitter import LineageContext

    store = f"sqlite:///{folder / 'lineage.db'}"
    settings = {"store": store, "watch_frames": way != WITHOUT}
    with LineageContext(spark.sparkContext, **settings) as lc, ExitStack() as stack:
        assert lc.session is not None
        folder_watched = lc.session.watched.folder
        files = [
            stack.enter_context(closing(counting_condition(folder_watched, request)))
            for request in (REQUESTS if way == CONDITION else ())
            if folder_watched is not None
        ]
        before = cpu_s()
        seconds, rows = run_job(spark, folder)
        cpu = cpu_s() - before
        texts = [path.read_text() for file in files for path in hit_files(file.hits)]
        if any('"text"' in text for text in texts):
            raise RuntimeError("a row fulfilled a condition that none does")
    return {"seconds": seconds, "cpu_s": cpu, "rows": hash(tuple(rows))}


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The row.

    Raises:
        RuntimeError: outputs differ.
    """
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{options.cores}]").appName("watching")
    builder = builder.config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(options.rows).selectExpr("id % 1000 AS key", "id % 97 AS amount").write.parquet(
        str(folder / "in")
    )
    ratios: dict[str, dict[str, list[float]]] = {
        way: {"job_ratio": [], "cpu_ratio": []} for way in (ALLOWED, CONDITION)
    }
    plain_seconds: list[float] = []
    for number in range(options.rounds + 1):
        runs = {way: run_in_a_way(spark, folder, way) for way in WAYS}
        if len({run["rows"] for run in runs.values()}) != 1:
            raise RuntimeError("outputs differ")
        if number:  # the first round warms everything
            plain = runs[WITHOUT]
            plain_seconds.append(plain["seconds"])
            for way, of_way in ratios.items():
                of_way["job_ratio"].append(runs[way]["seconds"] / plain["seconds"])
                of_way["cpu_ratio"].append(runs[way]["cpu_s"] / plain["cpu_s"])
    spark.stop()
    return {
        **{
            way: {name: median_interval(values) for name, values in of_way.items()}
            for way, of_way in ratios.items()
        },
        "benchmark": "watching_frames",
        "input_rows": options.rows,
        "rounds": options.rounds,
        "without_s": median_interval(plain_seconds),
    }


def main() -> int:
    """Print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json-out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        row = measure(options, Path(name)) | {"provenance": provenance()}
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
