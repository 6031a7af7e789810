"""Everything is killed while jobs run: afterwards the lineage is what the operators mean, or says why not.

Redis is also full at times, and Kafka holds records that come again, in any order, or are none.
"""

from __future__ import annotations

import logging
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import Popen

import psutil
import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Producer,
    TopicPartition,
)
from redis.exceptions import RedisError

from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_query.verdicts import verdict_of
from lineage_store.neo4j.store import Neo4jStore
from tests.support.job_runs import (
    CLI,
    Row,
    run_program,
    write_job,
)
from tests.support.pipeline import (
    COMPLETE_LIMIT_S,
    POLL_S,
    Chaos,
    Fault,
    Pipeline,
    kill_process,
    pipeline,
)
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest, RedisUnderTest
from tests.support.stores import address_of

pytestmark = pytest.mark.faults

logger = logging.getLogger(__name__)

JOB = """
import sys, time
from operator import add
from pyspark import SparkConf, SparkContext

master, name, out, pause, halvings = sys.argv[1:]
program = name.split("-")[0]


def slowly(record):
    # A job that takes its time, so that there is something to kill it in.
    time.sleep(float(pause))
    return record


conf = SparkConf().setMaster(master).setAppName(name)
conf.set("spark.excludeOnFailure.enabled", "false").set("spark.task.maxFailures", "20")
conf.set("spark.stage.maxConsecutiveAttempts", "20").set("spark.python.worker.reuse", "true")
conf.set("spark.deploy.maxExecutorRetries", "-1")
sc = SparkContext(conf=conf)
lines = sc.textFile("in.txt", 6).map(slowly)
if program == "count":
    words = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(add, 4)
    words.map(lambda pair: f"{pair[0]} {pair[1]}").saveAsTextFile(out)
elif program == "join":
    pairs = lines.map(lambda line: line.split(" ")).map(lambda words: (words[0], words[1]))
    names = sc.textFile("names.txt", 2).map(lambda line: tuple(line.split(" ")))
    joined = pairs.join(names, 3).map(lambda kv: (kv[1][1], int(kv[1][0])))
    joined.sortBy(lambda kv: (kv[0], kv[1]), numPartitions=3).map(str).saveAsTextFile(out)
elif program == "loop":
    ranks = lines.map(lambda line: (line.split(" ")[0], 1)).reduceByKey(add, 3).cache()
    for _ in range(int(halvings)):
        ranks.count()
        ranks = ranks.map(lambda kv: (str(int(kv[0]) // 2), kv[1])).reduceByKey(add, 3).cache()
    ranks.map(str).saveAsTextFile(out)
sc.stop()
"""
QUIET = "spark.ui.enabled false\nspark.ui.showConsoleProgress false\n"
MASTERS = {"count": "local[2]", "join": "local-cluster[2,1,1024]", "loop": "local[2]"}
PAUSE_S = "0.02"
IN = [f"{n % 37} {n}" for n in range(600)]
"""Each row is traced in Neo4j: as many as take seconds to."""
NAMES = [f"{n} name-{n}" for n in range(0, 37, 2)]
HALVINGS = 3
"""How often the loop combines keys."""
STRIKES = 4
"""Faults of the short form; the long form goes on for the time it is given."""
SHORT = ("count", "join")
"""Programs of the short form; the long form runs all of them at once."""


def prepare(folder: Path) -> Path:
    """A folder with the job and its inputs."""
    folder.mkdir(parents=True)
    write_job(folder, JOB)
    (folder / "in.txt").write_text("".join(f"{line}\n" for line in IN))
    (folder / "names.txt").write_text("".join(f"{line}\n" for line in NAMES))
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(QUIET)
    return folder


def truth() -> dict[str, Counter[Row]]:
    """What each program's rows are made of, by what its operators mean."""
    words: defaultdict[str, list[str]] = defaultdict(list)
    classes: defaultdict[str, list[str]] = defaultdict(list)
    joined: Counter[Row] = Counter()
    for number, line in enumerate(IN, start=1):
        place, (key, value) = f"in.txt:{number}", line.split()
        words[key].append(place)
        words[value].append(place)
        classes[str(int(key) // 2**HALVINGS)].append(place)
        for at, name in enumerate(NAMES, start=1):
            if name.split()[0] == key:
                row = str((name.split()[1], int(value)))
                joined[row, (place, f"names.txt:{at}")] += 1
    return {
        "count": Counter(
            (f"{word} {len(places)}", tuple(sorted(set(places)))) for word, places in words.items()
        ),
        "join": joined,
        "loop": Counter(
            (str((name, len(places))), tuple(sorted(places))) for name, places in classes.items()
        ),
    }


@pytest.fixture
def whole(
    tmp_path: Path, kafka: KafkaUnderTest, redis_server: RedisUnderTest, neo4j: Neo4jUnderTest
) -> Iterator[Pipeline]:
    """A pipeline with two linkers and two writers."""
    services = ("linker", "linker", "writer", "writer")
    with pipeline(tmp_path / "pipeline", kafka, redis_server, neo4j, services) as made:
        yield made


def app_of(whole: Pipeline, name: str) -> str | None:
    """The application of a program's name; None before its beginning has come through."""
    with whole.store() as store:
        found = [one.app for one in store.applications() if one.name == name]
    return found[0] if found else None


def arrived(whole: Pipeline, name: str) -> str:
    """The same, waited for."""
    deadline = time.monotonic() + COMPLETE_LIMIT_S
    while (app := app_of(whole, name)) is None:
        if time.monotonic() > deadline:
            whole.fail(f"{name} never arrived")
        time.sleep(POLL_S)
    return app


def start(whole: Pipeline, folder: Path, name: str) -> Popen[str]:
    master = MASTERS[name.split("-", maxsplit=1)[0]]
    return whole.run(folder, "job.py", master, name, "out", PAUSE_S, str(HALVINGS))


def executors(jobs: list[Popen[str]]) -> list[int]:
    """Processes of Spark's executors that are not the driver's own."""
    found = []
    for job in jobs:
        try:
            below = psutil.Process(job.pid).children(recursive=True)
            found += [
                one.pid for one in below if "CoarseGrainedExecutorBackend" in str(one.cmdline())
            ]
        except psutil.Error:
            continue
    return found


def faults(whole: Pipeline, jobs: list[Popen[str]], rng: random.Random) -> list[Fault]:
    """Every part that may be struck, and how."""

    def strike_executor() -> None:
        for pid in executors(jobs)[:1]:
            kill_process(pid)

    def bound_redis(most: str) -> None:
        with suppress(RedisError), whole.redis.client() as redis:  # it may be away just now
            redis.config_set("maxmemory", most)

    def send_again() -> None:
        with suppress(KafkaException):
            send_nonsense_and_again(whole, rng)

    servers = [
        Fault(name, server.kill, server.start)
        for name, server in (
            ("kafka", whole.kafka),
            ("redis", whole.redis),
            ("neo4j", whole.neo4j),
        )
    ]
    services = [Fault(one.name, one.kill, one.start) for one in whole.services]
    return [
        *servers,
        *services,
        Fault("executor", strike_executor, nothing),
        Fault("redis is full", lambda: bound_redis("1mb"), lambda: bound_redis("0")),
        Fault("records again, and nonsense", send_again, nothing),
    ]


def nothing() -> None:
    """There is nothing to mend."""


def send_nonsense_and_again(whole: Pipeline, rng: random.Random) -> None:
    """Into the flow topic: some of its records again, in any order, and bytes that are none.

    Raises:
        KafkaException: Kafka is away.
    """
    address = {"bootstrap.servers": whole.kafka.bootstrap}
    topic, wait_s = whole.topics.flow, 2.0
    reader = Consumer({**address, "group.id": "again", "enable.auto.commit": False})
    try:
        known = reader.list_topics(topic, timeout=wait_s).topics[topic].partitions
        reader.assign([TopicPartition(topic, one, OFFSET_BEGINNING) for one in known])
        found = [one for one in reader.consume(200, wait_s) if one.error() is None]
    finally:
        reader.close()
    values = [(one.partition(), one.key(), one.value() or b"") for one in found]
    again = rng.sample(values, min(10, len(values)))
    nonsense = [b"", rng.randbytes(100), b"{" * 10_000, *(value[:20] for _, _, value in again[:3])]
    producer = Producer({**address, "message.timeout.ms": int(wait_s * 1000)})
    for partition, key, value in [
        *again,
        *((rng.choice(list(known)), None, one) for one in nonsense),
    ]:
        producer.produce(topic, value, key, partition)
    producer.flush(2 * wait_s)


@pytest.mark.long
def test_parts_are_killed_at_random(
    whole: Pipeline, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed, soak_s = request.config.getoption("--fault-seed"), request.config.getoption("--soak")
    ends = time.monotonic() + soak_s
    round_ = strikes = 0
    while round_ == 0 or time.monotonic() < ends:
        logger.warning("round %d, seed %d", round_, seed + round_)
        programs = tuple(MASTERS) if soak_s else SHORT
        strikes += one_round(whole, tmp_path / f"round-{round_}", seed + round_, programs)
        round_ += 1
    logger.warning("%d faults in %d rounds: nothing lost, nothing twice", strikes, round_)


def one_round(whole: Pipeline, folder: Path, seed: int, programs: tuple[str, ...]) -> int:
    """Jobs at once while parts are struck; how many faults there were."""
    folders = {program: prepare(folder / program) for program in programs}
    jobs = {program: start(whole, folders[program], f"{program}-{seed}") for program in programs}
    running = list(jobs.values())
    chaos = Chaos(faults(whole, running, random.Random(seed)), seed)
    try:
        chaos.strike_until(lambda: all(job.poll() is not None for job in running), STRIKES)
    finally:
        for job in running:
            if job.poll() is None:
                kill_process(job.pid)
            job.wait()
    logger.warning("%s", dict(chaos.struck))
    expected = truth()
    for program, job in jobs.items():
        assert job.returncode == 0, (folders[program] / "job.log").read_text()[-4_000:]
        deliver_what_waits(whole, folder)
        app = arrived(whole, f"{program}-{seed}")
        whole.complete(app)
        assert whole.traced(folders[program] / "out", app) == expected[program], (program, seed)
    return sum(chaos.struck.values())


def deliver_what_waits(whole: Pipeline, folder: Path) -> None:
    """What could not be sent while Kafka was away lies in the spool."""
    done = run_program(folder, [*CLI, "send"], whole.settings)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_a_killed_driver_is_named(whole: Pipeline, tmp_path: Path) -> None:
    folder = prepare(tmp_path / "killed")
    job = start(whole, folder, "count")
    app = arrived(whole, "count")
    while not has_commits(whole, app):
        assert job.poll() is None, (folder / "job.log").read_text()
        time.sleep(POLL_S)
    for child in psutil.Process(job.pid).children(recursive=True):
        kill_process(child.pid)
    kill_process(job.pid)
    job.wait()
    later = time.time() + ABANDONED_AFTER_S + 1
    with Neo4jStore(address_of(whole.neo4j), clock=lambda: later) as store:
        verdict = verdict_of(store, app)
    assert not verdict.complete
    assert verdict.status == "abandoned"


def has_commits(whole: Pipeline, app: str) -> bool:
    """Whether the first commits have come through the pipeline."""
    with whole.store() as store:
        return bool(store.messages(app, "commit"))
