"""Linker, Kafka and Redis are killed, paused and filled; at the end all edges are there, once."""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lineage_kafka.topics import Topics
from tests.support.linker_job import Job, make_job
from tests.support.linker_memory import MemoryLinker
from tests.support.linker_worker import Pipeline, Worker, until
from tests.support.servers import KafkaUnderTest, RedisUnderTest

pytestmark = pytest.mark.faults

SEED = int(os.environ.get("LINEAGE_FAULTS_SEED", "20261"))
KILLS = int(os.environ.get("LINEAGE_FAULTS_KILLS", "4"))
SMALL = {"LINEAGE_LINKER_BATCH": "7"}


@pytest.fixture
def pipeline(
    kafka: KafkaUnderTest,
    redis_server: RedisUnderTest,
    kafka_topics: Topics,
    record_property: Callable[[str, object], None],
) -> Iterator[Pipeline]:
    record_property("seed", SEED)
    sys.stdout.write(f"seed {SEED}\n")
    redis_server.clear()
    found = Pipeline(kafka, redis_server, kafka_topics)
    yield found
    found.close()


class Sending:
    """Jobs that send while things happen."""

    def __init__(self, pipeline: Pipeline, rng: random.Random, jobs: int) -> None:
        self.expected = MemoryLinker()
        self._pipeline = pipeline
        self._pause_s = 0.05
        self._rng = rng
        made = [self._job(f"app-{n}") for n in range(jobs)]
        self._thread = threading.Thread(target=self._send, args=(made, rng.getrandbits(30)))
        self._thread.start()

    def late(self, app: str) -> None:
        """Send one more job, after the others."""
        self._thread.join()
        self._send([self._job(app)], self._rng.getrandbits(30))

    def _job(self, app: str) -> Job:
        job = make_job(app, self._rng.getrandbits(30), maps=6, reduces=5)
        self.expected.batch(job.values())
        return job

    def _send(self, jobs: list[Job], seed: int) -> None:
        rng = random.Random(seed)
        for job in jobs:
            records = list(job.flow)
            # Blocks of other tasks come between, some come twice.
            records += rng.sample(records, len(records) // 5)
            self._pipeline.send(Job(job.app, job.node, records))
            time.sleep(self._pause_s)

    def arrives(self, *workers: Worker) -> None:
        """All is there; nothing is there that should not be. ``workers``: who do it."""
        self._thread.join()

        def same() -> bool:
            assert all(one.alive() for one in workers)
            return self._pipeline.polled() and not self._differences()

        def problem() -> str:
            logs = "\n".join(one.tail() for one in workers)
            return f"as in one process, but for {self._differences()}: {logs}"

        until(same, problem, 150)
        assert not self._pipeline.dead

    def _differences(self) -> dict[str, list[str]]:
        """By application, in what there is too little, too much or something else."""
        expected, found = (
            one.linked() for one in (self.expected.received, self._pipeline.received)
        )
        names = "blocks", "visible", "unmatched", "edges"
        return {
            app: [
                f"{len(other)} of {len(one)} {name}"
                for name, one, other in zip(names, expected[app], found[app], strict=True)
                if one != other
            ]
            if app in expected and app in found
            else [f"expected: {app in expected}, there: {app in found}"]
            for app in sorted(expected.keys() | found.keys())
            if expected.get(app) != found.get(app)
        }


def test_workers_killed_at_random(pipeline: Pipeline, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    workers = [Worker({**pipeline.settings, **SMALL}, tmp_path, f"linker-{n}") for n in range(2)]
    try:
        for one in workers:
            one.ready()
        sending = Sending(pipeline, rng, 12)
        for _ in range(KILLS):
            time.sleep(rng.uniform(0.0, 1.5))
            victim = rng.randrange(len(workers))
            workers[victim].kill()
            workers[victim] = Worker({**pipeline.settings, **SMALL}, tmp_path, f"linker-{victim}")
        sending.arrives(*workers)
    finally:
        for one in workers:
            one.kill()


@pytest.mark.long
def test_redis_killed_paused_and_full(pipeline: Pipeline, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    worker = Worker({**pipeline.settings, **SMALL}, tmp_path).ready()
    try:
        sending = Sending(pipeline, rng, 12)
        for _ in range(2):
            time.sleep(rng.uniform(0.0, 0.5))
            with pipeline.redis.down():
                until(lambda: worker.alive() and worker.get("/readyz")[0] == 503, "not ready")
            until(lambda: worker.alive() and worker.get("/readyz")[0] == 200, "ready again")
        with pipeline.redis.paused():
            until(lambda: worker.alive() and worker.get("/readyz")[0] == 503, "not ready")
        until(lambda: worker.alive() and worker.get("/readyz")[0] == 200, "ready again")
        with pipeline.redis.client() as redis:
            before = redis.config_get("maxmemory")["maxmemory"]
            redis.config_set("maxmemory", "1mb")
            sending.late("app-late")
            until(lambda: "OutOfMemory" in worker.get("/readyz")[1], "not ready")
            redis.config_set("maxmemory", before)
        sending.arrives(worker)
        assert worker.metric("lineage_linker_retries_total") > 0
    finally:
        worker.kill()


@pytest.mark.long
def test_kafka_killed(pipeline: Pipeline, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    worker = Worker({**pipeline.settings, **SMALL}, tmp_path).ready()
    try:
        sending = Sending(pipeline, rng, 10)
        for _ in range(2):
            until(lambda: worker.alive() and worker.get("/readyz")[0] == 200, "ready")
            time.sleep(rng.uniform(0.0, 0.5))
            with pipeline.kafka.down():
                until(lambda: worker.alive() and worker.get("/readyz")[0] == 503, "not ready")
                assert worker.get("/healthz")[0] == 200
        sending.arrives(worker)
        with pipeline.kafka.down():
            assert worker.stop() < 10
            assert worker.process.returncode == 0
    finally:
        worker.kill()
