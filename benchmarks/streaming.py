"""What recording streams costs: python -m benchmarks.streaming --pairs 7 --batches 20.

Prints one JSON line. The same stream of files in one Spark, plain and recorded in turn (A B A B), one file a batch: ``batch_ratio`` is the median
time of a batch, recorded over plain, pair by pair, ``batch_more_ms`` the same as a difference, and ``batch_ms`` are these medians. ``record_ms`` is how
long the thread that records took for one batch. ``recipe_bytes`` is the median length of a recipe. ``bytes_a_batch`` is by how much the store grows with
each batch: a query of many batches (``--long-batches``) is compared with one of few, each in a store of its own, which is closed before it is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.intervals import median_interval
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_store.url import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000, help="of a file")
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--long-batches", type=int, default=200, help="at least twice --batches")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    options = parser.parse_args(words)
    if options.long_batches < 2 * options.batches:
        parser.error("--long-batches is less than twice --batches")
    return options


def write_files(folder: Path, count: int, rows: int) -> None:
    """Write the files of a stream: one a batch."""
    folder.mkdir()
    lines = "".join(f"{number % 1000},{number % 97}\n" for number in range(rows))
    for number in range(count):
        (folder / f"{number}.csv").write_text(lines)


def run_stream(spark: SparkSession, folder: Path, name: str, source: str = "in") -> list[int]:
    """Run a stream over all files; milliseconds of each batch but the first."""
    reader = spark.readStream.schema("key int, amount double").option("maxFilesPerTrigger", 1)
    rows = (
        reader.csv(str(folder / source))
        .where("amount > 10")
        .selectExpr("key", "amount * 2 AS twice")
    )
    writer = rows.writeStream.format("parquet").option("path", str(folder / name / "out"))
    writer = writer.option("checkpointLocation", str(folder / name / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    reports = [json.loads(str(report.json())) for report in query._jsq.recentProgress()]
    return [report["durationMs"]["triggerExecution"] for report in reports][1:]


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The row."""
    from pyspark.sql import SparkSession

    from lineage_emitter.attaching import attach, detach

    builder = SparkSession.builder.master(f"local[{options.cores}]").appName("streaming")
    builder = builder.config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    write_files(folder / "in", options.batches, options.rows)
    store = f"sqlite:///{folder / 'lineage.db'}"
    medians: dict[str, list[float]] = {"plain": [], "recorded": []}
    record_ms: list[float] = []
    for pair in range(options.pairs + 1):
        plain = run_stream(spark, folder, f"plain-{pair}")
        session = attach(spark, store=store).session
        assert session is not None
        recorded = run_stream(spark, folder, f"recorded-{pair}")
        detach(spark)
        seconds = list(session.frames.seconds)
        if len(seconds) != options.batches:
            raise RuntimeError(f"{len(seconds)} of {options.batches} batches were recorded")
        if pair:  # the first pair warms everything
            medians["plain"].append(statistics.median(plain))
            medians["recorded"].append(statistics.median(recorded))
            record_ms += [second * 1000 for second in seconds]
    few, many = (
        store_bytes(spark, folder, count, options.rows)
        for count in (options.batches, options.long_batches)
    )
    spark.stop()
    pairs = list(zip(medians["plain"], medians["recorded"], strict=True))
    return {
        "benchmark": "streaming",
        "rows": options.rows,
        "batches": options.batches,
        "pairs": options.pairs,
        "batch_ratio": median_interval([recorded / plain for plain, recorded in pairs]),
        "batch_more_ms": median_interval([recorded - plain for plain, recorded in pairs]),
        "batch_ms": {kind: statistics.median(values) for kind, values in medians.items()},
        "record_ms": {
            "median": round(statistics.median(record_ms), 1),
            "max": round(max(record_ms), 1),
        },
        "recipe_bytes": recipe_bytes(store),
        "bytes_a_batch": round((many - few) / (options.long_batches - options.batches)),
    }


def store_bytes(spark: SparkSession, folder: Path, batches: int, rows: int) -> int:
    """The bytes of a store that has the lineage of one query of so many batches."""
    from lineage_emitter.attaching import attach, detach

    name = f"of-{batches}"
    write_files(folder / f"{name}-in", batches, rows)
    path = folder / f"{name}.db"
    attach(spark, store=f"sqlite:///{path}")
    run_stream(spark, folder, name, f"{name}-in")
    detach(spark)
    with open_store(f"sqlite:///{path}") as store:
        (application,) = store.applications()
        if application.recipes != batches:
            raise RuntimeError(f"{application.recipes} of {batches} batches were recorded")
    return sum(file.stat().st_size for file in folder.glob(f"{path.name}*"))


def recipe_bytes(store_url: str) -> float:
    """The median length of the recipes in a store."""
    with open_store(store_url) as store:
        graphs = [store.graph(application.app) for application in store.applications()]
        texts = [graph.recipe(node.node) for graph in graphs for node in graph.nodes()]
    return statistics.median(len(text.encode()) for text in texts if text is not None)


def main() -> int:
    """Command line entry."""
    options = arguments_of()
    with tempfile.TemporaryDirectory() as folder:
        row = measure(options, Path(folder)) | {"provenance": provenance()}
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
