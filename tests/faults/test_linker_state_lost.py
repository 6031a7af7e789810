"""Redis is emptied, or comes back as it was before: what is linked in the end is what would have been."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from lineage_kafka.topics import Topics
from tests.support.linker_job import Job, make_job
from tests.support.linker_memory import MemoryLinker
from tests.support.linker_worker import Pipeline, Worker, until
from tests.support.servers import KafkaUnderTest, RedisUnderTest

pytestmark = pytest.mark.faults

Keys = dict[Any, Any]
LIMIT_S = 240.0
"""Workers begin anew: on a busy machine a process takes a minute to start."""


@pytest.fixture
def pipeline(
    kafka: KafkaUnderTest, redis_server: RedisUnderTest, kafka_topics: Topics
) -> Iterator[Pipeline]:
    redis_server.clear()
    found = Pipeline(kafka, redis_server, kafka_topics)
    yield found
    found.close()


def copy_of(redis: Redis) -> Keys:
    return {key: redis.dump(key) for key in redis.keys("*")}


def restore(redis: Redis, keys: Keys) -> None:
    """As a replica that lagged, or an old dump, would answer."""
    with redis.pipeline(transaction=True) as pipe:
        pipe.flushall()
        for key, value in keys.items():
            pipe.restore(key, 0, value)
        pipe.execute()


class Sending:
    """Sends a job bit by bit."""

    def __init__(self, pipeline: Pipeline, job: Job) -> None:
        self._pipeline = pipeline
        self._job = job
        self._sent = 0

    def send(self, node: list[bytes], flow: list[tuple[int, bytes]]) -> None:
        for value in node:
            self._pipeline.put(self._pipeline.topics.node, 0, self._job.app, value)
        self._pipeline.flow(self._job.app, flow)
        self._sent += len(node) + len(flow)

    def acked(self) -> bool:
        """Whether all that was sent is."""
        topics = self._pipeline.topics
        committed = map(self._pipeline.committed, (topics.node, topics.flow))
        return sum(committed) == self._sent


@pytest.mark.parametrize(
    "loss", ["older copy", pytest.param("emptied while nothing is sent", marks=pytest.mark.long)]
)
def test_what_was_linked_before_is_linked_with_what_comes_after(
    pipeline: Pipeline, tmp_path: Path, loss: str
) -> None:
    job, expected = make_job("app-1", 5, maps=6, reduces=2), MemoryLinker()
    expected.batch(job.values())
    # Three map tasks, what reads their keys, three more.
    job.flow = [*job.flow[:9], *job.flow[18:22], *job.flow[9:18], *job.flow[22:]]
    early, late = 6, 13
    workers = [
        Worker({**pipeline.settings, "LINEAGE_LINKER_BATCH": "7"}, tmp_path, f"linker-{number}")
        for number in range(2)
    ]
    sending = Sending(pipeline, job)
    positions = f"lm:positions:{pipeline.topics.prefix}linker"

    def said() -> str:
        return "\n".join(one.tail() for one in workers)

    try:
        for worker in workers:
            worker.ready()
        sending.send(job.node[:-1], job.flow[:early])
        until(sending.acked, "the first are acked", LIMIT_S)
        with pipeline.redis.client() as redis:
            kept = copy_of(redis) if loss == "older copy" else {}
            sending.send([], job.flow[early:late])
            until(sending.acked, "more are acked", LIMIT_S)
            restore(redis, kept)
            if "while" in loss:
                until(lambda: redis.hlen(positions) > 2, said, LIMIT_S)
        sending.send(job.node[-1:], job.flow[late:])

        def same() -> bool:
            return pipeline.polled() and pipeline.received.linked() == expected.received.linked()

        until(same, said, LIMIT_S)
        seen = pipeline.received.apps["app-1"]
        until(
            lambda: pipeline.polled() and seen.seals == expected.seen.seals,
            "the same seals",
            LIMIT_S,
        )
        assert len(seen.epochs) > 1
        until(
            lambda: sum(one.metric("lineage_linker_state_behind_messages") for one in workers) == 0,
            "all is read again",
        )
    finally:
        for worker in workers:
            worker.kill()
