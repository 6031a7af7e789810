"""Stages are computed again and put out other records: lineage is of what each task read."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.faults.test_recomputation import LOGGING, QUIET, environment
from tests.support.job_runs import STORE, run_captured, verify, write_job

pytestmark = pytest.mark.faults

LINES = 120

JOB = """
import os, random, signal, sys
from pyspark import SparkConf, SparkContext, TaskContext

master, out, *names = sys.argv[1:]
marks = os.path.join(os.getcwd(), out + "-marks")
os.makedirs(marks)


def executor():
    # The JVM: the worker's parent is the daemon that forked it, whose parent is the executor.
    with open(f"/proc/{os.getppid()}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


def striking(name):
    # The executor dies in the last stage, when others of its tasks have read what is lost with it.
    def function(record):
        if TaskContext.get().partitionId() >= 2:
            try:
                os.close(os.open(os.path.join(marks, name), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return record
            os.kill(executor(), signal.SIGKILL)
            signal.pause()
        return record
    return function


def some(line):
    return f"k{random.SystemRandom().randrange(12)}", line


def together(one, other):
    return one + "+" + other


def saved(name, rdd):
    if name not in names:
        return
    texts = rdd.map(striking(name)).map(lambda kv: f"{kv[0]}={kv[1]}")
    texts.saveAsTextFile(os.path.join(out, name))


sc = SparkContext(conf=SparkConf().setMaster(master))
lines = sc.textFile("in.txt", 4)
keyed = sc.textFile("in.txt", 6).map(lambda line: (int(line[1:]) % 12, line))

saved("cached", lines.map(some).cache().reduceByKey(together, 4))
placed = keyed.partitionBy(3).map(lambda kv: some(kv[1]))
saved("partitioned", placed.reduceByKey(together, 4))
pairs = lines.map(some).zip(lines.map(str)).map(lambda both: (both[0][0], both[1]))
saved("zipped", pairs.groupByKey(4).mapValues("+".join))
# Nothing random: which value of a group comes first depends on which output is fetched first.
groups = keyed.groupByKey(3).mapValues(list).map(lambda kv: (kv[1][0], "+".join(kv[1])))
saved("ordered", groups.reduceByKey(together, 4))
# The partitioner is that of the data: keys are combined where they are.
there = lines.map(some).partitionBy(4).mapValues(str).reduceByKey(together, 4).cache()
if "in-place" in names:
    there.count()
saved("in-place", there)
assert sorted(os.listdir(marks)) == sorted(names), os.listdir(marks)
sc.stop()
"""


PROGRAMS = [
    pytest.param(("cached",), id="one"),
    pytest.param(
        ("partitioned", "zipped", "ordered", "in-place"), id="others", marks=pytest.mark.long
    ),
]


@pytest.fixture(scope="module", params=PROGRAMS)
def folder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """What the job left after an executor of each of its programs was killed."""
    folder = tmp_path_factory.mktemp("recomputed")
    write_job(folder, JOB)
    (folder / "in.txt").write_text("".join(f"r{n}\n" for n in range(LINES)))
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(QUIET)
    (folder / "conf" / "log4j2.properties").write_text(LOGGING)
    result = run_captured(
        folder, "job.py", "local-cluster[2,1,1024]", "out", *request.param, env=environment(folder)
    )
    assert result.returncode == 0, result.stderr[-5000:]
    return folder


def held_against(answer: dict[str, Any], ends: str, truth: set[str]) -> None:
    """An exact answer is the truth, a superset contains it; here every answer can be exact."""
    items = [item["location"] for end in answer[ends] for item in end["items"]]
    # What ``count`` gave has no place in a file.
    found = {"/".join(Path(location).parts[-2:]) for location in items if location is not None}
    assert found == truth if answer["exact"] else found >= truth, answer
    assert answer["exact"], answer["reasons"]


def test_rows_are_from_what_was_read_and_go_to_who_read_them(folder: Path) -> None:
    verdict = verify(folder)
    assert verdict["complete"], verdict["reasons"]
    assert verdict["superset"] == {}
    went: defaultdict[str, set[str]] = defaultdict(set)
    with open_store(f"sqlite:///{folder / STORE}") as store:
        query_engine = QueryEngine(store, RowReader(folder / ".lineage" / "index"))
        for part in sorted((folder / "out").glob("*/part-*")):
            for number, text in enumerate(part.read_text().splitlines(), start=1):
                row = f"{part.parent.name}/{part.name}:{number}"
                numbers = [int(one[1:]) + 1 for one in text.split("=")[1].split("+")]
                lines = {f"{folder.name}/in.txt:{line}" for line in numbers}
                for line in lines:
                    went[line].add(row)
                question = TraceQuery(Direction.BACKWARD, (f"{part}:{number}",), texts=False)
                held_against(query_engine.ask(question).to_json(), "sources", lines)
        # A line whose key was drawn anew may go nowhere, or twice.
        assert len(went) > LINES / 2
        for line, to in went.items():
            question = TraceQuery(Direction.FORWARD, (str(folder.parent / line),), texts=False)
            held_against(query_engine.ask(question).to_json(), "sinks", to)
