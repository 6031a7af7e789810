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

from lineage_core.topics import Topics
from tests.linker_job import Job, make_job
from tests.linker_memory import MemoryLinker
from tests.linker_worker import Pipeline, Worker, until
from tests.servers import KafkaUnderTest, RedisUnderTest

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
        made = [make_job(f"app-{n}", rng.getrandbits(30), maps=6, reduces=5) for n in range(jobs)]
        for job in made:
            self.expected.batch(job.values())
        self._thread = threading.Thread(target=self._send, args=(made, rng.getrandbits(30)))
        self._thread.start()

    def _send(self, jobs: list[Job], seed: int) -> None:
        rng = random.Random(seed)
        for job in jobs:
            records = list(job.flow)
            # Blocks of other tasks come between, some come twice.
            records += rng.sample(records, len(records) // 5)
            self._pipeline.send(Job(job.app, job.node, records))
            time.sleep(self._pause_s)

    def arrives(self) -> None:
        """All is there; nothing is there that should not be."""
        self._thread.join()

        def same() -> bool:
            return (
                self._pipeline.polled()
                and self._pipeline.received.linked() == self.expected.received.linked()
            )

        until(same, "the same blocks and edges as in one process", 150)
        assert not self._pipeline.dead


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
        sending.arrives()
    finally:
        for one in workers:
            one.kill()


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
            Sending(pipeline, rng, 1)._thread.join()
            until(lambda: "OutOfMemory" in worker.get("/readyz")[1], "not ready")
            redis.config_set("maxmemory", before)
        sending.arrives()
        assert worker.metric("lineage_linker_retries_total") > 0
    finally:
        worker.kill()


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
        sending.arrives()
        with pipeline.kafka.down():
            assert worker.stop() < 10
            assert worker.process.returncode == 0
    finally:
        worker.kill()
