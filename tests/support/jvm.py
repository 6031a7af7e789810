"""Options of the JVMs that tests start.

Drivers and servers of tests live for a short time, so what counts is how quickly one starts.

    python -m tests.support.jvm FILE

writes an archive of the classes that Spark loads, as the JVM has them in memory (class data sharing): with it a
driver takes a third less time to start. A JVM that the archive does not fit leaves it aside.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHIVE = Path(__file__).resolve().parents[2] / ".venv" / "spark-classes.jsa"
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A JVM that compiles little starts a fifth quicker, and takes less processor time to."""
SILENT = "-Xlog:disable"
"""A program's output is its own."""

PROGRAM = """
import sys
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
sc, out = spark.sparkContext, sys.argv[1]
counted = sc.parallelize(["a b", "b"], 2).flatMap(str.split).map(lambda word: (word, 1))
counted.reduceByKey(int.__add__).map(str).saveAsTextFile(f"{out}/text")
sc.textFile(f"{out}/text").count()
rows = spark.range(10).selectExpr("id", "id % 2 AS odd", "CAST(id AS STRING) AS name")
for kind in ("parquet", "csv", "json"):
    rows.write.format(kind).save(f"{out}/{kind}")
    read = spark.read.schema("id long, odd long, name string").format(kind).load(f"{out}/{kind}")
    read.join(read.groupBy("odd").count(), "odd").where("id > 2").orderBy("id").collect()
read._jdf.queryExecution().optimizedPlan().toJSON()
jvm = sc._gateway.proc
spark.stop()
jvm.stdin.close()  # it ends then, and writes the archive
sys.exit(jvm.wait(120))
"""


def quick() -> dict[str, str]:
    """Environment variables for programs with Spark."""
    archived = f" -XX:SharedArchiveFile={ARCHIVE} {SILENT}" if ARCHIVE.exists() else ""
    return {"SPARK_SUBMIT_OPTS": OPTIONS + archived}


def write_archive(file: Path) -> None:
    """Run a program that needs most of Spark, and archive the classes that it has loaded.

    Raises:
        SystemExit: it did not run; the message is what it said.
    """
    draft = file.with_name(f"{file.name}.new").resolve()
    draft.unlink(missing_ok=True)
    options = f"{OPTIONS} {SILENT} -XX:ArchiveClassesAtExit={draft}"
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": options},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    draft.replace(file)


if __name__ == "__main__":
    write_archive(Path(sys.argv[1]))
