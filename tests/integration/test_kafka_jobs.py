"""Captured Spark jobs over Kafka: the same output, and the same lineage as through the spool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lineage.stack.ports import LOOPBACK, free_ports
from lineage_core.codec.record_batch import read_record_batches
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.verdict import Verdict
from lineage_kafka.topics import Topics
from lineage_store.sqlite.ingest import ingest_all
from lineage_store.sqlite.store import SqliteStore
from tests.support.drained import Drained, as_spool, drain
from tests.support.job_runs import (
    CLI,
    STORE,
    Row,
    contents,
    environment,
    judged,
    run_program,
    traced,
    write_job,
)
from tests.support.servers import KafkaUnderTest

pytestmark = [pytest.mark.integration, pytest.mark.timeout(900)]

JOB = """
import os, sys, time
from pyspark import SparkConf, SparkContext, TaskContext

conf = SparkConf().setAppName("kafka").set("spark.ui.enabled", "false")
conf.set("spark.ui.showConsoleProgress", "false").set("spark.driver.host", "127.0.0.1")
sc = SparkContext(sys.argv[1], conf=conf)


def fails_once(line):
    context = TaskContext.get()
    if context.partitionId() == 1 and context.attemptNumber() == 0 and "27" in line:
        raise RuntimeError("the first attempt fails")
    return line


def eager(records):
    # Reads all of its input before the functions behind it are called.
    return iter(list(records))


def pause(name):
    # The test does something to Kafka meanwhile.
    if os.environ.get("PAUSE"):
        open(name, "w").close()
        until = time.monotonic() + 120
        while not os.path.exists(name + ".over"):
            assert time.monotonic() < until
            time.sleep(0.02)


lines = sc.textFile("in.txt", 4)
words = lines.map(fails_once).flatMap(lambda line: line.split())
counts = words.map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b, 3)
counts.map(lambda kv: f"{kv[0]}={kv[1]}").saveAsTextFile("counts")
pause("first")
numbered = lines.map(lambda line: (int(line.split()[1]), line))
joined = numbered.join(counts.map(lambda kv: (kv[1] % 50, kv[0])), 2)
joined.map(str).sortBy(lambda text: text, numPartitions=2).saveAsTextFile("joined")
cached = lines.mapPartitions(eager).filter(lambda line: "1" in line).repartition(2).cache()
cached.union(cached).coalesce(1).saveAsTextFile("twice")
print(lines.union(lines).take(5), cached.count(), words.distinct().count())
sc.stop()
"""

SINKS = ("counts", "joined", "twice")
CALM = "local[2,3]"


@dataclass(frozen=True)
class Outcome:
    """One run of the job."""

    output: dict[str, dict[str, bytes]]
    stdout: str
    stderr: str
    lineage: Counter[Row]
    verdict: Verdict


def prepare(folder: Path, job: str = JOB) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"line {number} a{number % 7} b{number % 11}\n" for number in range(400))
    (folder / "in.txt").write_text(text, encoding="utf-8")
    return write_job(folder, job)


def output(folder: Path) -> dict[str, dict[str, bytes]]:
    return {sink: contents(folder / sink) for sink in SINKS}


def lineage_of(folder: Path, app: str) -> Counter[Row]:
    return sum((traced(folder, folder / sink, app) for sink in SINKS), Counter())


def over_kafka(kafka: str, topics: Topics, **more: str) -> dict[str, str]:
    return {
        "LINEAGE_DISPATCHER": "kafka",
        "LINEAGE_KAFKA": kafka,
        "LINEAGE_TOPIC_PREFIX": topics.prefix,
        "LINEAGE_STORE": "neo4j://127.0.0.1:1",
        "LINEAGE_KAFKA_TIMEOUT_S": "2",
        **more,
    }


def run(
    folder: Path, settings: Mapping[str, str], *arguments: str
) -> subprocess.CompletedProcess[str]:
    return run_program(folder, [*CLI, "run", "--json", "job.py", *arguments], settings)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one application of ``lineage run --json``."""
    (found,) = json.loads(done.stderr.splitlines()[-1])["applications"]
    return dict(found)


def embedded(folder: Path, drained: Drained) -> tuple[Counter[Row], Verdict]:
    """The lineage that the embedded default makes of what arrived."""
    (folder / STORE).parent.mkdir(exist_ok=True)
    (app,) = drained.apps
    store = SqliteStore(folder / STORE)
    ingest_all(store, as_spool(drained, folder / "arrived"))
    store.close()
    return lineage_of(folder, app), judged(folder, app)


@pytest.fixture(scope="module")
def spooled(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The job as it is by default."""
    folder = tmp_path_factory.mktemp("spooled")
    prepare(folder)
    done = run(folder, {}, CALM)
    assert done.returncode == 0, done.stderr
    app = told(done)["app"]
    outcome = Outcome(
        output(folder), done.stdout, done.stderr, lineage_of(folder, app), judged(folder, app)
    )
    assert outcome.verdict.complete, outcome.verdict.reasons
    assert len(outcome.lineage) > 400
    return outcome


def check_same(folder: Path, drained: Drained, spooled: Outcome) -> None:
    lineage, verdict = embedded(folder, drained)
    assert verdict.complete, verdict.reasons
    assert lineage == spooled.lineage
    assert verdict.flows == spooled.verdict.flows
    assert verdict.blocks_expected == spooled.verdict.blocks_expected


def test_the_same_output_and_lineage_as_through_the_spool(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path, spooled: Outcome
) -> None:
    prepare(tmp_path)
    done = run(tmp_path, over_kafka(kafka.bootstrap, kafka_topics), CALM)
    assert done.returncode == 0, done.stderr
    assert (output(tmp_path), done.stdout) == (spooled.output, spooled.stdout)
    said = told(done)
    assert (said["kafka"], said["waiting_files"]) == (kafka.bootstrap, 0)
    assert not list((tmp_path / ".lineage").rglob("*.lmf")), "nothing waits in the spool"
    drained = drain(kafka.bootstrap, kafka_topics)
    assert drained.apps == [said["app"]]
    commits = {(one["node"], one["partition"], one["attempt"]) for one in drained.commits()}
    assert len(commits) == drained.records["commit"]
    assert all(one["spooled"] == 0 for one in drained.commits())
    # Every block of a committed task names that task, also the ones that were made ahead of its end.
    blocks = Counter(task_of(value) for versions in drained.frames.values() for value in versions)
    assert blocks.keys() & commits == {key for key in commits if blocks[key]}
    assert sum(blocks[key] for key in commits) == sum(one["blocks"] for one in drained.commits())
    check_same(tmp_path, drained, spooled)


def task_of(value: bytes) -> tuple[str, int, int]:
    import io

    (frame,) = read_record_batches(io.BytesIO(value))
    header = BlockHeader.from_json(frame.header)
    return header.task_node, header.block_id.partition, header.block_id.attempt


@pytest.mark.long
def test_without_any_kafka_all_waits_in_the_spool(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path, spooled: Outcome
) -> None:
    prepare(tmp_path)
    (port,) = free_ports(1)
    done = run(tmp_path, over_kafka(f"{LOOPBACK}:{port}", kafka_topics), CALM)
    assert done.returncode == 0, done.stderr
    assert (output(tmp_path), done.stdout) == (spooled.output, spooled.stdout)
    said = told(done)
    assert said["waiting_files"] > 10
    sent = run_program(
        tmp_path,
        [*CLI, "send", "--spool", said["spool"], "--json"],
        over_kafka(kafka.bootstrap, kafka_topics),
    )
    assert sent.returncode == 0, sent.stderr
    assert not any(Path(said["spool"]).iterdir())
    check_same(tmp_path, drain(kafka.bootstrap, kafka_topics), spooled)


@pytest.mark.long
@pytest.mark.parametrize("how", ["frozen", "killed"])
def test_kafka_goes_away_in_the_middle_of_the_job(
    how: str, kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path, spooled: Outcome
) -> None:
    prepare(tmp_path)
    settings = environment(over_kafka(kafka.bootstrap, kafka_topics, PAUSE="yes"))
    process = subprocess.Popen(
        [*CLI, "run", "--json", "job.py", CALM],
        cwd=tmp_path,
        env=settings,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_for(tmp_path / "first", process)
        with kafka.paused() if how == "frozen" else kafka.down():
            (tmp_path / "first.over").touch()
            out, err = process.communicate(timeout=280)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, err
    assert (output(tmp_path), out) == (spooled.output, spooled.stdout)
    (said,) = json.loads(err.splitlines()[-1])["applications"]
    assert said["waiting_files"] > 1
    before = drain(kafka.bootstrap, kafka_topics)
    assert before.records["frame"] > 0
    assert before.records["end"] == 0
    sent = run_program(tmp_path, [*CLI, "send"], over_kafka(kafka.bootstrap, kafka_topics))
    assert sent.returncode == 0, sent.stderr
    assert not any(Path(said["spool"]).iterdir())
    check_same(tmp_path, drain(kafka.bootstrap, kafka_topics), spooled)


def wait_for(path: Path, process: subprocess.Popen[str], limit_s: float = 200) -> None:
    deadline = time.monotonic() + limit_s
    while not path.exists():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.05)


# -- executors in an environment of their own ------------------------------------------------------

CLUSTER = "local-cluster[2,1,1024]"
SMALL_JOB = """
import os, sys
from pyspark import SparkConf, SparkContext

conf = SparkConf().setMaster(sys.argv[1]).setAppName("elsewhere").set("spark.ui.enabled", "false")
conf.set("spark.ui.showConsoleProgress", "false").set("spark.driver.host", "127.0.0.1")
conf.set("spark.executorEnv.PYTHONPATH", os.path.abspath("missing"))
sc = SparkContext(conf=conf)
counts = sc.textFile("in.txt", 4).map(lambda line: (line[-3:-1], 1)).reduceByKey(lambda a, b: a + b)
counts.map(str).saveAsTextFile("counts")
print(counts.count())
sc.stop()
"""


def executors_without(folder: Path, module: str) -> None:
    """As if the module were not installed where executors run."""
    missing = folder / "missing"
    missing.mkdir()
    text = f'raise ModuleNotFoundError("No module named {module}")\n'
    (missing / f"{module}.py").write_text(text, encoding="utf-8")


@pytest.mark.long
def test_executors_without_confluent_kafka_leave_blocks_in_the_spool(
    kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path
) -> None:
    prepare(tmp_path, SMALL_JOB)
    executors_without(tmp_path, "confluent_kafka")
    settings = over_kafka(kafka.bootstrap, kafka_topics, PYSPARK_PYTHON=sys.executable)
    done = run(tmp_path, settings, CLUSTER)
    assert done.returncode == 0, done.stderr
    drained = drain(kafka.bootstrap, kafka_topics)
    # The driver has it, and sends at the end what tasks left in the spool that they share with it.
    assert told(done)["waiting_files"] == 0
    spooled = [one for one in drained.commits() if one["blocks"]]
    assert all(one["spooled"] == one["blocks"] for one in spooled)
    assert all("confluent-kafka" in one["spooled_reason"] for one in spooled)
    store = SqliteStore(tmp_path / "lineage.db")
    ingest_all(store, as_spool(drained, tmp_path / "arrived"))
    from lineage_core.contract.verdict import judge

    (app,) = drained.apps
    verdict = judge(store.messages(app), store.counts(app), now=time.time())
    store.close()
    assert verdict.complete, verdict.reasons


@pytest.mark.long
@pytest.mark.parametrize("dispatcher", ["spool", "kafka"])
def test_executors_without_capture_run_the_job_as_it_is(
    dispatcher: str, kafka: KafkaUnderTest, kafka_topics: Topics, tmp_path: Path
) -> None:
    prepare(tmp_path, SMALL_JOB)
    executors_without(tmp_path, "lineage_emitter")
    settings = {"PYSPARK_PYTHON": sys.executable}
    plain = run_program(tmp_path, [sys.executable, "job.py", CLUSTER], settings)
    assert plain.returncode == 0, plain.stderr
    expected = contents(tmp_path / "counts")
    os.rename(tmp_path / "counts", tmp_path / "plain")
    if dispatcher == "kafka":
        settings |= over_kafka(kafka.bootstrap, kafka_topics)
    done = run(tmp_path, settings, CLUSTER)
    assert (done.returncode, done.stdout) == (0, plain.stdout), done.stderr
    assert contents(tmp_path / "counts") == expected
    if dispatcher == "kafka":
        drained = drain(kafka.bootstrap, kafka_topics)
        (unknown,) = [one for one in drained.messages if one["type"] == "unknown"]
        assert "executors can't load it" in unknown["reason"]
        assert drained.records["end"] == 1
    else:
        verdict = judged(tmp_path, told(done)["app"])
        assert not verdict.complete
        assert any("executors can't load it: ModuleNotFound" in one for one in verdict.reasons)
