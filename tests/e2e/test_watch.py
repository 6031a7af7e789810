"""``lineage watch``: records of a running job that fulfil a condition, against a filter in memory over the same lines."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from lineage_query_api.app import create_app
from lineage_query_api.lazy_store import open_lazily
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from lineage_store.watch_folder import held_conditions
from tests.support.api_server import running as running_server
from tests.support.job_runs import CLI, STORE, environment, lineage, verify, write_job

pytestmark = pytest.mark.e2e

Found = Counter[tuple[str, frozenset[int]]]
"""Texts of records, and the lines that they were made from."""

JOB = """
    import os, signal, time
    from pyspark import SparkConf, SparkContext, TaskContext

    sc = SparkContext("local[2,4]", "watched", conf=SparkConf().set("spark.ui.enabled", "false"))

    def failing_at_first(how, split, at):
        seen = []
        def function(record):
            seen.append(record)
            context = TaskContext.get()
            is_here = split in (None, context.partitionId())
            if context.attemptNumber() == 0 and is_here and len(seen) == at:
                if how == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("the first attempt fails")
            return record
        return function

    lines = sc.textFile("in.txt", 3)
    pairs = lines.map(lambda line: (line.split()[0], int(line.split()[1])))  # map

    def is_slow_once(pair):
        until = time.monotonic() + 1.6 * (pair == ("e", 2))
        while time.monotonic() < until:
            pass
        return True

    spread = pairs.filter(is_slow_once)  # slow
    spread = spread.flatMap(lambda pair: [pair, (pair[0], pair[1] + 1)])  # flatMap
    totals = spread.map(failing_at_first("kill", 1, 20)).reduceByKey(int.__add__, 2)  # total
    told = totals.map(lambda pair: (pair[0], pair[1], 1))  # told
    # Of four keys in two partitions, one has two at least.
    made = told.map(failing_at_first("raise", None, 2))
    while not os.path.exists("go"):
        time.sleep(0.05)
    made.count()
    made.saveAsTextFile("out")
    sc.stop()
"""


def wait_for(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 90
    while not holds():
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.05)


@contextmanager
def running(folder: Path, source: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A captured job that can be watched by now."""
    write_job(folder, source)
    with (folder / "job.log").open("w") as log:
        job = subprocess.Popen(
            [*CLI, "run", "job.py"],
            cwd=folder,
            env=environment({"LINEAGE_WATCH": "true", **env}),
            stdout=log,
            stderr=log,
            text=True,
        )
        try:
            wait_for(lambda: list(folder.glob(".lineage/spool/*/watch/job.json")), "watch folder")
            yield job
        finally:
            (folder / "go").touch()
            job.wait(120)


def watching(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """``lineage watch`` whose condition counts by now."""
    return all_watching(folder, {"": arguments})[""]


def all_watching(
    folder: Path, watches: dict[str, tuple[str, ...]]
) -> dict[str, subprocess.Popen[str]]:
    """Some ``lineage watch`` whose conditions count by now."""
    conditions = ".lineage/spool/*/watch/conditions/*.json"
    before = len(list(folder.glob(conditions)))
    children = {
        name: subprocess.Popen(
            [*CLI, "watch", *arguments, "--json"],
            cwd=folder,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, arguments in watches.items()
    }
    wait_for(
        lambda: (
            len(list(folder.glob(conditions))) == before + len(children)
            or any(child.poll() is not None for child in children.values())
        ),
        "conditions",
    )
    return children


def found_by(child: subprocess.Popen[str], code: int = 0) -> tuple[Found, list[str]]:
    """The records and their lines, each of them exact, and what else was said."""
    out, errors = child.communicate(timeout=180)
    assert child.returncode == code, errors
    documents = [json.loads(line) for line in out.splitlines()]
    return found_in(documents), [d["note"] for d in documents if "note" in d]


def found_in(documents: list[dict[str, Any]]) -> Found:
    """The records and their lines, each of them exact."""
    texts = {d["record"]: d["text"] for d in documents if "text" in d}
    sources = {d["record"]: d for d in documents if "sources" in d}
    assert set(texts) == set(sources), documents
    assert all(d["exact"] for d in sources.values()), documents
    found = Counter(
        (
            text,
            frozenset(
                int(item["location"].rpartition(":")[2])
                for group in sources[number]["sources"]
                for item in group["items"]
            ),
        )
        for number, text in texts.items()
    )
    ends = [d for d in documents if "violations" in d]
    if ends:
        assert [d["violations"] for d in ends] == [len(texts)]
        assert ends[0]["tested"] > 0 or "event" in ends[0]
    return found


@contextmanager
def watched_over_http(
    folder: Path, asked: list[dict[str, Any]]
) -> Iterator[list[Future[list[dict[str, Any]]]]]:
    """What a server sends of watches, which count by now, until the job has ended."""
    url = f"sqlite:///{folder / STORE}"
    settings = read_settings(store=url, api_open=True, api_roots=str(folder))
    # The job has not made its store yet.
    store = open_lazily(lambda: open_store(url, create=True))
    (job,) = folder.glob(".lineage/spool/*/watch")
    conditions = len(held_conditions(job))
    with (
        running_server(create_app(store, settings)) as address,
        ThreadPoolExecutor(len(asked)) as threads,
    ):
        path = f"{address}/v1/applications/{job.parent.name}/watch"
        streams = [threads.submit(found_over_http, path, one) for one in asked]
        wait_for(
            lambda: (
                len(held_conditions(job)) == conditions + len(asked)
                or any(stream.done() for stream in streams)
            ),
            "conditions",
        )
        yield streams


def found_over_http(path: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    with httpx.stream("POST", path, json=asked, timeout=180) as answer:
        lines = [line for line in answer.iter_lines() if line.startswith("data: ")]
    assert answer.status_code == 200, answer
    documents = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert not documents[-1]["time_up"], documents
    return documents


def check_latency(documents: list[dict[str, Any]], records: int) -> None:
    """The slow record is the first of the slowest task, with its line; what attempts took that were killed is not told."""
    tasks = {d["task"]: d for d in documents if d["event"] == "task"}
    assert len(tasks) == 3, documents
    assert all(task["is_whole"] for task in tasks.values()), documents
    assert sum(task["records"] for task in tasks.values()) == records
    slowest = documents[-1]["tasks"][0]
    assert slowest["deviation"]["count"] == len(tasks)
    first, *_ = [d for d in documents if d.get("task") == slowest["task"] and "text" in d]
    assert (first["text"], first["may_buffer"]) == (repr(("e", 2)), False)
    assert 1.6 <= first["seconds"] <= tasks[slowest["task"]]["seconds"]
    (sources,) = [
        d for d in documents if d["event"] == "sources" and d["record"] == first["record"]
    ]
    (group,) = sources["sources"]
    assert [item["location"].rpartition(":")[2] for item in group["items"]] == ["3"]
    others = [d["seconds"] for d in documents if "text" in d and d is not first]
    assert max(others, default=0) < 1.6


def line_of(marker: str, job: str = JOB) -> str:
    """Where the job says a word, as its call sites are named."""
    lines = job.lstrip("\n").splitlines()
    number = next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {marker}"))
    return f"job.py:{number}"


def test_what_is_reported_is_what_a_filter_finds_across_failed_and_killed_attempts(
    tmp_path: Path,
) -> None:
    lines = [f"{'abcdefg'[n * n % 7]} {n % 11}" for n in range(40)] + ["a 3", "a 3"]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    with running(tmp_path, JOB):
        watches = all_watching(
            tmp_path,
            {
                "map": (line_of("map"), "record[1] > 8"),
                "flatMap": (line_of("flatMap"), "record[1] in (3, 4) and record[0] != 'b'"),
                "total": (line_of("told"), "len(record) == 3 and record[1] > 20"),
                "fails": (line_of("map"), "record['x'] == 1"),
                "broken": (line_of("flatMap"), "--must", "record[1] != 4"),
                "kept": (line_of("flatMap"), "--must", "record[1] >= 0"),
                "slow": (line_of("slow"), "--slower-than", "1s"),
            },
        )
        with watched_over_http(
            tmp_path,
            [
                {"node": line_of("flatMap"), "must": "record[1] != 4"},
                {"node": line_of("told"), "condition": "len(record) == 3 and record[1] > 20"},
                {"node": line_of("slow"), "latency": True},
            ],
        ) as streams:
            (tmp_path / "go").touch()
            over_http = [stream.result(180) for stream in streams]
        found = {name: found_by(child, name == "broken") for name, child in watches.items()}

    pairs = [((line.split()[0], int(line.split()[1])), n) for n, line in enumerate(lines, 1)]
    spread = [(made, n) for (key, value), n in pairs for made in ((key, value), (key, value + 1))]
    keys = {key for (key, _), _ in spread}
    totals = {
        key: (
            sum(v for (k, v), _ in spread if k == key),
            frozenset(n for (k, _), n in spread if k == key),
        )
        for key in keys
    }
    of_totals = [((k, total, 1), ids) for k, (total, ids) in totals.items()]
    assert found["map"][0] == Counter((repr(p), frozenset([n])) for p, n in pairs if p[1] > 8)
    assert found["flatMap"][0] == Counter(
        (repr(p), frozenset([n])) for p, n in spread if p[1] in (3, 4) and p[0] != "b"
    )
    assert found["total"][0] == Counter((repr(t), ids) for t, ids in of_totals if t[1] > 20)
    assert found["broken"][0] == Counter((repr(p), frozenset([n])) for p, n in spread if p[1] == 4)
    assert [found_in(documents) for documents in over_http[:2]] == [
        found["broken"][0],
        found["total"][0],
    ]
    check_latency(over_http[2], len(lines))
    assert not found["kept"][0]
    assert found["slow"][0] == Counter({(repr(("e", 2)), frozenset([3])): 1})
    assert not found["fails"][0]
    assert any("TypeError" in note for note in found["fails"][1])
    assert "the first attempt fails" in (tmp_path / "job.log").read_text()
    assert verify(tmp_path)["complete"]
    assert not list(tmp_path.glob(".lineage/spool/*"))


LONG_JOB = """
    import os, time
    from pyspark import SparkConf, SparkContext

    sc = SparkContext("local[1]", "watched", conf=SparkConf().set("spark.ui.enabled", "false"))

    def slow(number):
        # A portion is one such record: a condition counts from the next one on.
        time.sleep(0.15)
        while number in (5, 10) and not os.path.exists(f"go-{number}") and not os.path.exists("go"):
            time.sleep(0.02)
        return number

    source = sc.parallelize(range(16), 1)
    slowed = source.map(slow)  # slow
    print(slowed.map(str).count())
    sc.stop()
"""


@pytest.mark.long
def test_a_condition_is_changed_and_dropped_while_a_task_runs(tmp_path: Path) -> None:
    node = line_of("slow", LONG_JOB)
    with running(tmp_path, LONG_JOB):
        killed = watching(tmp_path, node, "record >= 0")
        killed.kill()
        killed.communicate()
        second = watching(tmp_path, node, "6 <= record < 8 or record > 11")
        (tmp_path / "go-5").touch()
        assert second.stdout is not None
        seen: list[str] = []
        while len(seen) < 2:
            line = second.stdout.readline()
            assert line, (seen, second.stderr and second.stderr.read())
            document = json.loads(line)
            seen += [document["text"]] if "text" in document else []
        third = watching(tmp_path, node, "record > 11", "--limit", "1")
        second.send_signal(signal.SIGINT)
        out, errors = second.communicate(timeout=60)
        (tmp_path / "go-10").touch()
        texts, rest = third.communicate(timeout=60)
    assert second.returncode == 0, errors
    assert third.returncode == 0, rest
    assert seen == ["6", "7"]
    assert not [line for line in out.splitlines() if "text" in json.loads(line)]
    documents = [json.loads(line) for line in texts.splitlines()]
    assert [d["text"] for d in documents if "text" in d] == ["12"]
    assert any("--limit" in d.get("note", "") for d in documents)
    assert not list(tmp_path.glob(".lineage/spool/*"))


def test_what_can_not_be_watched_is_refused_with_the_reason(tmp_path: Path) -> None:
    none = lineage(tmp_path, "watch", "1", "record > 1")
    assert none.returncode == 2
    assert "LINEAGE_WATCH=true" in none.stderr
    code = lineage(tmp_path, "watch", "1", "__import__('os').system('touch x')")
    assert code.returncode == 2
    assert "is no condition" in code.stderr
    assert not (tmp_path / "x").exists()
