"""What Spark itself shows of a captured program is what it shows of the plain one; nothing waits longer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.support.job_runs import run_captured, run_plain, verify, write_job

pytestmark = pytest.mark.e2e

JOB = """
    import sys
    from operator import add
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")
    conf.set("spark.eventLog.enabled", "true").set("spark.eventLog.dir", sys.argv[1])
    conf.set("spark.eventLog.compress", "false").set("spark.ui.showConsoleProgress", "false")
    sc = SparkContext(conf=conf)
    lines = sc.textFile(name="in.txt", minPartitions=2, use_unicode=True)
    ones = lines.flatMap(f=str.split).map(lambda word: (word, 1))
    counts = ones.reduceByKey(add, numPartitions=2)
    counts.collect()
    joined = counts.join(
        ones.groupByKey(2).mapValues(len), 3)
    print(joined.toDebugString().decode())
    print(joined.count(), sorted(joined.sortByKey().take(num=2)))
    left = counts.partitionBy(3)
    left.distinct().max()
    left.foreachPartition(list)
    sc.runJob(rdd=left, partitionFunc=list, partitions=[0])
    SparkSession(sc).range(3).collect()
    sc.stop()
"""


def shown(log: Path) -> tuple[Counter[str], Counter[Any]]:
    """Names of stages and of SQL queries, and what is named in them: RDDs with their call sites."""
    names: Counter[str] = Counter()
    rdds: Counter[Any] = Counter()
    files = [path for path in log.rglob("*") if path.is_file() and not path.name.startswith(".")]
    events = [json.loads(line) for path in files for line in path.read_text().splitlines() if line]
    for event in events:
        if event["Event"] == "SparkListenerStageSubmitted":
            names[event["Stage Info"]["Stage Name"]] += 1
            rdds.update((rdd["Name"], rdd["Callsite"]) for rdd in event["Stage Info"]["RDD Info"])
        elif event["Event"].endswith("SQLExecutionStart"):
            names[event["description"]] += 1
    return names, rdds


def run_of(folder: Path, captured: bool) -> tuple[CompletedProcess[str], Path]:
    log = folder / ("captured" if captured else "plain")
    log.mkdir()
    done = (run_captured if captured else run_plain)(folder, "job.py", log.as_uri())
    assert done.returncode == 0, done.stderr
    return done, log


@pytest.mark.long
def test_spark_names_the_programs_own_lines(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("a b a\nb c\n" * 20, encoding="utf-8")
    write_job(tmp_path, JOB)
    (plain, plain_log), (captured, log) = (run_of(tmp_path, how) for how in (False, True))
    assert captured.stdout == plain.stdout
    assert verify(tmp_path)["complete"]
    (names, rdds), (plain_names, plain_rdds) = shown(log), shown(plain_log)
    assert names == plain_names
    assert any(name.startswith(f"join at {tmp_path / 'job.py'}:") for name in names)
    assert set(rdds) <= set(plain_rdds)


WITHOUT_EXECUTORS = """
    from pyspark import SparkConf, SparkContext

    conf = SparkConf().setMaster("local-cluster[1,1,1024]").set("spark.executor.cores", "2")
    conf.set("spark.ui.enabled", "false").set("spark.driver.host", "127.0.0.1")
    sc = SparkContext(conf=conf)
    counts = sc.textFile("in.txt", 3).map(len).keyBy(str).reduceByKey(max)
    print(counts.getNumPartitions(), sc.union([counts, counts]).cache().getNumPartitions())
    sc.stop()
"""


@pytest.mark.long
def test_nothing_waits_for_executors_but_what_runs_on_them(tmp_path: Path) -> None:
    """No executor of that size ever comes: plain PySpark waits for one in an action."""
    (tmp_path / "in.txt").write_text("a\n", encoding="utf-8")
    write_job(tmp_path, WITHOUT_EXECUTORS)
    done = run_captured(tmp_path, "job.py")
    assert (done.returncode, done.stdout) == (0, "2 2\n"), done.stderr
