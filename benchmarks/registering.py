"""What registering datasets costs a job: python -m benchmarks.registering --size 100MB --files 200.

Prints one JSON line. Two jobs run in one Spark with lineage on, each over a folder of ``--files`` files of the same text: a word count of RDDs,
and a DataFrame job that groups the same words and writes Parquet. All that registers what a job reads and writes is timed,
in whatever thread it runs: listing files and reading their sizes and times, a folder's listing before a write, the messages that
name files, and their rows and index in the store. ``share`` is the sum of these times over the time from the job's first call until
its lineage is linked and stored: what waits for the processor or the disk meanwhile counts, and so does what runs beside the
job. ``bytes_a_version`` is what the store holds for each version of a file that was read or written: its size less that of
a copy without them. Links between versions are look-ups of a trace, and take no time of a job.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.generate import parse_size, write_text
from benchmarks.intervals import median_interval
from benchmarks.provenance import provenance
from benchmarks.row import put_out
from lineage_core.contract.message import Message
from lineage_store.recorded_files import FILE_MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lineage_emitter import LineageContext

PARTITIONS = 8
"""Of outputs."""


class Meter:
    """Sums the time of calls; one within another counts once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = threading.Lock()
        self._inside = threading.local()

    def time(self, owner: Any, name: str, counts: Callable[..., bool] | None = None) -> None:
        """Time all calls of a function of a module or class from now on; ``counts``: those of these arguments alone."""
        function = getattr(owner, name)
        title = f"{getattr(owner, '__name__', owner)}.{name}".rpartition("lineage_")[2]

        @functools.wraps(function)
        def timed(*positional: Any, **named: Any) -> Any:
            if getattr(self._inside, "is_on", False) or (counts and not counts(*positional)):
                return function(*positional, **named)
            self._inside.is_on = True
            began = time.perf_counter()
            try:
                return function(*positional, **named)
            finally:
                taken = time.perf_counter() - began
                self._inside.is_on = False
                with self._lock:
                    self.seconds[title] = self.seconds.get(title, 0.0) + taken

        setattr(owner, name, timed)


def names_files(_: Any, message: Message) -> bool:
    """Whether a message says what was read or written."""
    return message.type in FILE_MESSAGES


def time_registering() -> Meter:
    """Time all that registers datasets, of both kinds of job."""
    from lineage_emitter.dataframes import catalog, outputs, recorder
    from lineage_emitter.sdk.api import LineageApi
    from lineage_emitter.session import hadoop
    from lineage_emitter.session.commit_thread import CommitThread
    from lineage_emitter.session.job_files import JobFiles
    from lineage_store.sqlite.writing import SqliteWriter

    meter = Meter()
    meter.time(JobFiles, "record_sources")
    meter.time(JobFiles, "_send_sink_files")
    meter.time(hadoop, "sink_files")
    meter.time(catalog, "listed")
    meter.time(catalog, "source")
    meter.time(outputs, "_before")
    meter.time(outputs.Target, "output")
    meter.time(recorder, "_source_splits")
    meter.time(recorder, "_output_files")
    meter.time(CommitThread, "send", names_files)
    meter.time(LineageApi, "send", names_files)
    meter.time(SqliteWriter, "message", names_files)
    return meter


def count_words(lc: LineageContext, source: Path, output: Path) -> None:
    """A word count of RDDs."""
    words = lc.textFile(str(source)).flatMap(str.split).map(lambda word: (word, 1))
    words.reduceByKey(lambda a, b: a + b, PARTITIONS).saveAsTextFile(str(output))


def group_words(lc: LineageContext, source: Path, output: Path) -> None:
    """The same by DataFrames."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = SparkSession.getActiveSession()
    assert spark is not None
    words = spark.read.text(str(source)).select(f.explode(f.split("value", " ")).alias("word"))
    words.groupBy("word").count().repartition(PARTITIONS).write.parquet(str(output))


JOBS = {"rdd": count_words, "dataframe": group_words}


def run_job(
    spark: SparkSession, name: str, folder: Path, meter: Meter
) -> tuple[float, dict[str, float]]:
    """Seconds of one job until all of its lineage is stored, and those that registering took by function."""
    from lineage_emitter import LineageContext

    shutil.rmtree(folder / "out", ignore_errors=True)
    for left in folder.glob("lineage.db*"):
        left.unlink()
    meter.seconds = {}
    began = time.perf_counter()
    with LineageContext(spark.sparkContext, store=f"sqlite:///{folder / 'lineage.db'}") as lc:
        JOBS[name](lc, folder / "in", folder / "out")
    return time.perf_counter() - began, dict(meter.seconds)


def versions_and_bytes(folder: Path) -> tuple[int, int]:
    """How many versions of files a store holds, and in how many bytes."""
    types = ", ".join(f"'{kind}'" for kind in FILE_MESSAGES)
    sizes = []
    versions = 0
    for is_without in (False, True):
        copy = folder / "copy.db"
        with (
            closing(sqlite3.connect(folder / "lineage.db")) as stored,
            closing(sqlite3.connect(copy)) as copied,
        ):
            stored.backup(copied)
            if is_without:
                copied.execute("DELETE FROM file_version")
                copied.execute("DELETE FROM recorded_folder")
                copied.execute(f"DELETE FROM message WHERE type IN ({types})")
                copied.commit()
            copied.execute("VACUUM")
            found = stored.execute(
                "SELECT count(DISTINCT folder || '/' || file || wrote) FROM file_version"
            )
            versions = int(found.fetchone()[0])
        sizes.append(copy.stat().st_size)
        copy.unlink()
    return versions, sizes[0] - sizes[1]


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The row."""
    from pyspark.sql import SparkSession

    (folder / "in").mkdir()
    write_text(folder / "text", options.size // options.files)
    for number in range(options.files):
        shutil.copy(folder / "text", folder / "in" / f"{number:05d}.txt")
    builder = SparkSession.builder.master(f"local[{options.cores}]").appName("registering")
    builder = builder.config("spark.ui.enabled", "false")
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    meter = time_registering()
    jobs = {}
    for name in JOBS:
        runs = [run_job(spark, name, folder, meter) for _ in range(options.rounds + 1)][1:]
        versions, size = versions_and_bytes(folder)
        parts = {part: statistics.median(of[part] for _, of in runs) for part in runs[-1][1]}
        jobs[name] = {
            "job_s": median_interval([seconds for seconds, _ in runs]),
            "share": median_interval([sum(of.values()) / seconds for seconds, of in runs]),
            "registering_ms": {part: round(seconds * 1e3, 1) for part, seconds in parts.items()},
            "versions": versions,
            "bytes_a_version": round(size / versions),
        }
    spark.stop()
    return {
        "benchmark": "registering",
        "source_bytes": options.size,
        "files": options.files,
        "rounds": options.rounds,
        "jobs": jobs,
    }


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.registering", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--size", type=parse_size, default=parse_size("100MB"))
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--json-out", type=Path, help="append the row to this file, too")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        row = measure(options, Path(name).resolve()) | {"provenance": provenance()}
    put_out(row, options.json_out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
