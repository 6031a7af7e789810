"""Tasks, workers and executors are lost and run again: the lineage is that of the calm run."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_query.verdicts import verdict_of
from lineage_store.sqlite.store import SqliteStore
from tests.support.job_runs import (
    STORE,
    Row,
    applications,
    contents,
    lineage,
    run_captured,
    run_plain,
    traced,
    verify,
    write_job,
)

pytestmark = pytest.mark.faults

JOB = """
import os, signal, sys
from pyspark import SparkConf, SparkContext, StorageLevel

master, out, *faults = sys.argv[1:]
marks = os.path.join(os.getcwd(), out + "-marks")
os.makedirs(marks)
driver = os.getpid()


def strikes(fault):
    # The first task to ask for a fault that is wanted, whichever it is.
    if fault not in faults:
        return False
    try:
        os.close(os.open(os.path.join(marks, fault), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def executor():
    # The JVM: the worker's parent is the daemon that forked it, whose parent is the executor.
    with open(f"/proc/{os.getppid()}/stat") as stat:
        return int(stat.read().rsplit(")", 1)[1].split()[1])


def passing(place, at):
    # Records as they are; a fault strikes at the one numbered ``at``.
    def function(records):
        for number, record in enumerate(records):
            if number == at:
                if strikes(f"raise-{place}"):
                    raise ValueError(f"a fault at {place}")
                if strikes(f"exit-{place}"):
                    os._exit(1)
                if strikes(f"kill-{place}"):
                    os.kill(executor(), signal.SIGKILL)
                    signal.pause()
                if strikes(f"driver-{place}"):
                    os.kill(driver, signal.SIGKILL)
                    signal.pause()
            yield record
    return function


def through(rdd, place, at=3):
    # As a user's whole-partition function would be superset, faults ride on a record-wise one.
    def function(split, place=place):
        counts = {}
        def one(record):
            counts[0] = counts.get(0, -1) + 1
            for _ in passing(place, at)([None] * (at + 1) if counts[0] == at else []):
                pass
            return record
        return one
    return rdd.map(function(0))


conf = SparkConf().setMaster(master).set("spark.excludeOnFailure.enabled", "false")
sc = SparkContext(conf=conf)
lines = through(sc.textFile("in.txt", 4), "source").map(lambda line: line.split(" "))
pairs = lines.map(lambda words: (words[0], int(words[1])))
cached = through(pairs.reduceByKey(lambda a, b: a + b, 3), "reduce", 1).persist(StorageLevel.MEMORY_ONLY)
print("keys", cached.count(), flush=True)
if "unpersist" in faults:
    cached.unpersist(True)
names = sc.textFile("names.txt", 2).map(lambda line: tuple(line.split(" ")))
joined = cached.join(names, 3).map(lambda kv: (kv[1][1], kv[1][0]))
united = joined.union(cached)
# Spark itself gives a job up when it loses records that were dealt out in turn.
dealt = through(united if "kept" in faults else united.repartition(4), "dealt", 0)
ordered = dealt.sortBy(lambda kv: (str(kv[0]), kv[1]), numPartitions=2)
if "driver-between" in faults:
    os.kill(driver, signal.SIGKILL)
through(ordered, "sink", 2).map(lambda kv: f"{kv[0]}={kv[1]}").saveAsTextFile(out)
print("taken", through(ordered, "take", 0).take(2), flush=True)
assert {fault for fault in faults if "-" in fault} == set(os.listdir(marks)), os.listdir(marks)
sc.stop()
"""

QUIET = """
spark.ui.enabled false
spark.ui.showConsoleProgress false
spark.app.name job
spark.task.maxFailures 4
spark.stage.maxConsecutiveAttempts 8
spark.speculation false
spark.shuffle.io.maxRetries 1
spark.shuffle.io.retryWait 200ms
"""
LOGGING = """
rootLogger.level = fatal
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %p %m%n
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job, its inputs, and a configuration that keeps Spark quiet."""
    folder = tmp_path_factory.mktemp("faults")
    write_job(folder, JOB)
    (folder / "in.txt").write_text("".join(f"k{n * 7 % 12} {n}\n" for n in range(200)))
    (folder / "names.txt").write_text("".join(f"k{n} name{n % 5}\n" for n in range(15)))
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(QUIET)
    (folder / "conf" / "log4j2.properties").write_text(LOGGING)
    return folder


@pytest.fixture(autouse=True)
def no_process_is_left(folder: Path) -> Iterator[None]:
    yield
    left = _processes_in(folder)
    _, alive = psutil.wait_procs(left, timeout=60)
    for process in alive:
        process.kill()
    assert not alive


def _processes_in(folder: Path) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def environment(folder: Path) -> dict[str, str]:
    return {"SPARK_CONF_DIR": str(folder / "conf")}


def run(folder: Path, master: str, out: str, *faults: str) -> tuple[Counter[Row], str]:
    """The lineage of the captured job, and what it printed."""
    result = run_captured(folder, "job.py", master, out, *faults, env=environment(folder))
    assert result.returncode == 0, result.stderr[-5000:]
    app = applications(folder)[-1]["app"]
    verdict = verify(folder, app)
    assert verdict["reasons"] == []
    assert verdict["superset"] == {}
    assert verdict["collisions"] == 0
    return traced(folder, folder / out, app), result.stdout


@pytest.fixture(scope="module")
def calm(folder: Path) -> tuple[Counter[Row], str]:
    """The lineage of the run in which nothing happens."""
    result = run_plain(folder, "job.py", "local[2]", "plain", env=environment(folder))
    assert result.returncode == 0, result.stderr
    rows, printed = run(folder, "local[2,4]", "calm")
    assert printed == result.stdout
    assert contents(folder / "calm") == contents(folder / "plain")
    assert len(rows) == 24
    by_key = {f"k{key}": {n for n in range(200) if n * 7 % 12 == key} for key in range(12)}
    for text, where in rows:
        name, number = text.split("=")
        (key,) = [k for k, ns in by_key.items() if sum(ns) == int(number)]
        wanted = [f"in.txt:{n + 1}" for n in by_key[key]]
        if not name.startswith("k"):
            wanted.append(f"names.txt:{int(key[1:]) + 1}")
        assert where == tuple(sorted(wanted)), text
    return rows, printed


@pytest.mark.long
def test_tasks_that_fail_are_tried_again(folder: Path, calm: tuple[Counter[Row], str]) -> None:
    faults = [f"raise-{place}" for place in ("source", "reduce", "dealt", "sink", "take")]
    assert run(folder, "local[2,4]", "raise", *faults) == calm
    assert contents(folder / "raise") == contents(folder / "calm")


@pytest.mark.long
def test_workers_that_die_are_replaced(folder: Path, calm: tuple[Counter[Row], str]) -> None:
    faults = ["exit-source", "exit-reduce", "exit-sink", "unpersist"]
    assert run(folder, "local[2,4]", "exit", *faults) == calm


@pytest.mark.long
def test_executors_in_other_processes(folder: Path, calm: tuple[Counter[Row], str]) -> None:
    assert run(folder, "local-cluster[2,1,1024]", "cluster") == calm


@pytest.mark.long
@pytest.mark.parametrize("place", ["dealt", "sink"])
def test_an_executor_that_is_killed_takes_its_shuffle_files_and_cache(
    place: str, folder: Path, calm: tuple[Counter[Row], str]
) -> None:
    out = f"kill-{place}"
    assert run(folder, "local-cluster[2,1,1024]", out, f"kill-{place}", "kept") == calm


@pytest.mark.long
@pytest.mark.parametrize("fault", ["driver-between", "driver-sink"])
def test_a_driver_that_is_killed_leaves_what_was_committed(
    fault: str, folder: Path, calm: tuple[Counter[Row], str]
) -> None:
    result = run_captured(folder, "job.py", "local[2]", fault, fault, env=environment(folder))
    assert result.returncode == 128 + signal.SIGKILL
    assert result.stdout == "keys 12\n"
    linked = lineage(folder, "link", "--json")
    assert linked.returncode == 0, linked.stderr
    app = applications(folder)[-1]["app"]
    verdict = verify(folder, app)
    assert not verdict["complete"]
    assert any(
        "still running" in reason or "never ended" in reason for reason in verdict["reasons"]
    )
    later = time.time() + 2 * ABANDONED_AFTER_S
    with SqliteStore(folder / STORE, clock=lambda: later) as store:
        abandoned = verdict_of(store, app)
    assert abandoned.status == "abandoned"
    counted = lineage(folder, "back", "count#0#0", "--app", app, "--json")
    assert counted.returncode == 0, counted.stderr
    assert '"count": 200' in counted.stdout
    assert not (folder / fault / "_SUCCESS").exists()
    if fault == "driver-sink":
        assert any("saveAsTextFile at job.py" in reason for reason in verdict["reasons"])


@pytest.mark.long
def test_spool_files_do_not_pile_up(folder: Path, calm: tuple[Counter[Row], str]) -> None:
    """Attempts that count for nothing are swept after the end."""
    spool = folder / ".lineage" / "spool"
    ended = {app["app"] for app in applications(folder) if app["status"] == "ok"}
    assert ended
    assert not ended & set(os.listdir(spool))
