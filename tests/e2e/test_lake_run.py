"""Jobs whose store is a lake: captured, linked beside it, and moved into it however they end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.support.job_runs import CLI, run_program, write_job

pytestmark = pytest.mark.e2e

JOB = """
import os, signal, sys
from pyspark import SparkConf, SparkContext

conf = SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false")
sc = SparkContext(conf=conf)
words = sc.textFile("in.txt", 2).flatMap(str.split).map(lambda word: (word, 1))
words.reduceByKey(lambda one, other: one + other, 1).sortByKey(numPartitions=1).saveAsTextFile("out")
if sys.argv[1:] == ["killed"]:
    os.kill(os.getpid(), signal.SIGKILL)
sc.stop()
"""


@pytest.mark.long
def test_a_job_is_in_the_lake_when_it_has_ended_or_was_killed(tmp_path: Path) -> None:
    write_job(tmp_path, JOB)
    (tmp_path / "in.txt").write_text("a b\nb\nc a\n")
    store = {"LINEAGE_STORE": f"lake:{tmp_path}/lake"}

    def run(*words: str, code: int = 0) -> str:
        done = run_program(tmp_path, [*CLI, *words], store)
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    said = run("run", "job.py")
    assert "complete, answerable" in said
    back = json.loads(run("back", "out/part-00000:1", "--json"))
    assert [item["location"] for group in back["sources"] for item in group["items"]] == [
        "in.txt:1",
        "in.txt:3",
    ]
    assert json.loads(run("verify", "--json"))["complete"]
    shutil.rmtree(tmp_path / "out")
    run("run", "job.py", "killed", code=137)
    # What was linked of it is there, and is not said to be all.
    applications = json.loads(run("apps", "--json"))
    assert [one["status"] for one in applications] != ["ok", "ok"]
    assert len(applications) == 2
    assert not json.loads(run("verify", "--json", code=1))["complete"]
    spool = tmp_path / "lake.staging" / "spool"
    assert not spool.exists() or not any(spool.iterdir())
