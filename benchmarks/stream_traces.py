"""How long a trace of a row of a stream takes, over that of the equal batch query: python -m benchmarks.stream_traces --samples 15.

Prints one JSON line, and on stderr how far it is. Two streams of the same files, one file a batch, and the batch queries over the same records, all recorded in
one store: ``select`` keeps no state, and its batch query reads the one file of a batch; ``windows`` are due once the last file has come, so their batch query reads
all files. Rows of stream and batch query are then traced in turn by one Spark (A B A B), some pairs to warm it up and those that are measured: ``p50_ms`` are the
medians, ``ratio`` is stream over batch, pair by pair, ``ratio_worst`` the larger of both medians. Both answers of a pair must name the same rows, exactly.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.generate import SEED
from benchmarks.intervals import median_interval
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage.access import StoredAccess, open_access
from lineage.frame_traces import spark_session
from lineage_core.tracing.trace_result import Direction
from lineage_query.trace_query import TraceQuery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id long, key int, amount double, second long"
KINDS = ("select", "windows")
HOURS = 8
"""Over which event times are spread, in each file."""
WARM_PAIRS = 3
"""Of each kind, before those that are measured: the first traces of a Spark take some ten times as long as later ones."""


def arguments_of(words: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stream_traces", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000, help="of a file")
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--samples", type=int, default=15, help="pairs of traces of each kind")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    return parser.parse_args(words)


def write_files(folder: Path, batches: int, rows: int) -> None:
    """Write the files of a stream, the oldest first; behind them one whose only row lets all windows be due."""
    folder.mkdir()
    for number in range(batches):
        lines = (
            f"{number * rows + at},{at % 50},{at % 97},{at * 7919 % (HOURS * 3600)}\n"
            for at in range(rows)
        )
        (folder / f"{number}.csv").write_text("".join(lines), encoding="ascii")
    (folder / "last.csv").write_text(f"{batches * rows},0,0,{100 * HOURS * 3600}\n")
    for place, path in enumerate([*(f"{n}.csv" for n in range(batches)), "last.csv"]):
        os.utime(folder / path, (1_700_000_000 + place,) * 2)


def made_of(kind: str, rows: DataFrame) -> DataFrame:
    """The query, over a stream or not."""
    from pyspark.sql import functions as F

    if kind == "select":
        return rows.where("amount > 10").selectExpr("id", "amount * 2 AS twice")
    times = rows.withColumn("at", F.timestamp_seconds("second")).withWatermark("at", "10 minutes")
    groups = times.groupBy(F.window("at", "1 hour"), "key").agg(F.count("id").alias("n"))
    return groups.select(F.unix_seconds("window.end").alias("end"), "key", "n")


def run_queries(spark: SparkSession, folder: Path, batches: int) -> None:
    """The streams, and the batch queries: ``select`` of the file in the middle."""
    for kind in KINDS:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        stream = made_of(kind, reader.csv(str(folder / "in"))).coalesce(1).writeStream
        stream = stream.option("checkpointLocation", str(folder / f"checkpoints-{kind}"))
        stream = stream.format("json").option("path", str(folder / f"stream-{kind}"))
        stream.trigger(availableNow=True).start().awaitTermination()
        read = "in" if kind == "windows" else f"in/{batches // 2}.csv"
        rows = made_of(kind, spark.read.schema(SCHEMA).csv(str(folder / read)))
        rows.coalesce(1).write.json(str(folder / f"batch-{kind}"))


def places_of(folder: Path) -> dict[str, str]:
    """Where the rows of an output stand, by their texts; all differ."""
    return {
        line: f"{path}:{at}"
        for path in sorted(folder.glob("part-*.json"))
        for at, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    }


def timed(access: StoredAccess, place: str) -> tuple[float, frozenset[str]]:
    """How long a trace takes, and which rows it names."""
    began = time.perf_counter()
    answer = access.ask(TraceQuery(Direction.BACKWARD, (place,), texts=False))
    seconds = time.perf_counter() - began
    found = frozenset(str(item.location) for group in answer.groups for item in group.items)
    if not (answer.exact and answer.complete and found):
        raise RuntimeError(f"{place} goes back to {len(found)} rows: {answer.warnings}")
    return seconds, found


def pairs_of(
    folder: Path, kind: str, samples: int, ask: Callable[[str], tuple[float, frozenset[str]]]
) -> Iterator[tuple[float, float]]:
    """Seconds of pairs of traces, of the stream and of the batch query, those that warm Spark up left out."""
    stream, batch = (places_of(folder / f"{name}-{kind}") for name in ("stream", "batch"))
    both = sorted(stream.keys() & batch.keys())
    for pair, row in enumerate(random.Random(SEED).sample(both, WARM_PAIRS + samples)):
        of_stream, of_batch = ask(stream[row]), ask(batch[row])
        if of_stream[1] != of_batch[1]:
            raise RuntimeError(f"{row} goes back to other rows in {stream[row]}, {batch[row]}")
        seconds = of_stream[0], of_batch[0]
        _report(f"{kind}, pair {pair + 1} of {WARM_PAIRS + samples}: %.2f s, %.2f s" % seconds)
        if pair >= WARM_PAIRS:
            yield seconds


def _report(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The row."""
    from pyspark.sql import SparkSession

    from lineage_emitter.attaching import attach, detach

    store = f"sqlite:///{folder / 'lineage.db'}"
    write_files(folder / "in", options.batches, options.rows)
    builder = SparkSession.builder.master(f"local[{options.cores}]").appName("stream-traces")
    builder = builder.config("spark.ui.enabled", "false")
    # A state of 200 partitions, as by default, takes a stream of small files minutes.
    builder = builder.config("spark.sql.shuffle.partitions", str(options.cores))
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    attach(spark, store=store)
    run_queries(spark, folder, options.batches)
    detach(spark)
    _report("streams and batch queries have run")
    spark.stop()
    access = open_access(store)
    if not isinstance(access, StoredAccess):
        raise TypeError(f"{store} is no store")
    pairs: dict[str, list[tuple[float, float]]] = {}
    with access, spark_session():
        for kind in KINDS:
            ask = partial(timed, access)
            pairs[kind] = list(pairs_of(folder, kind, options.samples, ask))
    ratios = {
        kind: median_interval([stream / batch for stream, batch in of_kind])
        for kind, of_kind in pairs.items()
    }
    return {
        "benchmark": "stream-traces",
        "rows": options.rows,
        "batches": options.batches,
        "samples": options.samples,
        "ratio": ratios,
        "ratio_worst": max(ratio["median"] for ratio in ratios.values()),
        "p50_ms": {
            kind: {
                name: round(statistics.median(seconds) * 1000)
                for name, seconds in zip(
                    ("stream", "batch"), zip(*of_kind, strict=True), strict=True
                )
            }
            for kind, of_kind in pairs.items()
        },
    }


def main() -> int:
    """Command line entry."""
    options = arguments_of()
    with tempfile.TemporaryDirectory() as folder:
        row = measure(options, Path(folder).resolve()) | {"provenance": provenance()}
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
