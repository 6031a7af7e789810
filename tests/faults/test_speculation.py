"""A cluster of two hosts runs slow tasks twice: what the losing attempts wrote counts for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.job_runs import (
    lineage,
    run_captured,
    run_plain,
    traced,
    verify,
    write_job,
)
from tests.support.two_hosts import two_hosts

pytestmark = [pytest.mark.faults, pytest.mark.long]

JOB = """
import os, sys, time
from pyspark import SparkConf, SparkContext, TaskContext

master, out = sys.argv[1:]
marks = os.path.join(os.getcwd(), out + "-marks")
os.makedirs(marks)
SLOW_S = 120


def slow(stage):
    # The first attempt at partition 0 is slow; it goes on when the second has been here.
    def function(record):
        context = TaskContext.get()
        mark = os.path.join(marks, stage)
        if context.partitionId() == 0 and not master.startswith("local"):
            if context.attemptNumber():
                open(mark, "w").close()
            else:
                until = time.monotonic() + SLOW_S
                while not os.path.exists(mark):
                    assert time.monotonic() < until, "no second attempt was begun"
                    time.sleep(0.02)
        return record
    return function


conf = SparkConf().setMaster(master).setAppName("slow")
for key, value in {
    "ui.enabled": "false",
    "speculation": "true",
    "speculation.interval": "50ms",
    "speculation.quantile": "0.5",
    "speculation.multiplier": "1.0",
    "speculation.minTaskRuntime": "10ms",
    "driver.host": "127.0.0.1",
    "executor.memory": "512m",
}.items():
    conf.set("spark." + key, value)
sc = SparkContext(conf=conf)
counts = (
    sc.textFile("in.txt", 4)
    .map(slow("map"))
    .map(lambda line: (line.split(" ")[0], 1))
    .reduceByKey(lambda a, b: a + b, 4)
    .map(slow("reduce"))
)
counts.map(lambda kv: f"{kv[0]}={kv[1]}").saveAsTextFile(out)
print(sorted(os.listdir(marks)))
sc.stop()
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """URL of a standalone cluster of two hosts."""
    with two_hosts(tmp_path) as url:
        yield url


def test_slow_tasks_that_are_run_twice(master: str, tmp_path: Path) -> None:
    write_job(tmp_path, JOB)
    (tmp_path / "in.txt").write_text("".join(f"k{n % 9} {n}\n" for n in range(400)))
    plain = run_plain(tmp_path, "job.py", "local[2]", "plain")
    assert plain.returncode == 0, plain.stderr[-3000:]
    captured = run_captured(tmp_path, "job.py", master, "out")
    assert captured.returncode == 0, captured.stderr[-3000:]
    assert captured.stdout == "['map', 'reduce']\n"
    verdict = verify(tmp_path)
    assert verdict["reasons"] == []
    assert verdict["superset"] == {}
    rows = traced(tmp_path, tmp_path / "out")
    assert sorted(rows) == sorted(
        (
            f"k{key}={len(range(key, 400, 9))}",
            tuple(sorted(f"in.txt:{n + 1}" for n in range(key, 400, 9))),
        )
        for key in range(9)
    )
    assert not any((tmp_path / ".lineage" / "spool").iterdir())
    assert lineage(tmp_path, "graph").returncode == 0
