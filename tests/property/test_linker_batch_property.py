"""Batches over Redis, given up at any request and done again by anybody, bring everything to the store."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import ConnectionError

from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_kafka.topics import flow_partition
from lineage_linker.batch import LinkBatch
from lineage_linker.records import Incoming
from lineage_linker.redis_state import RedisState
from lineage_linker.side_cache import SideCache
from tests.property.test_linker_redis_property import PausingRedis
from tests.support.linker_job import Job, make_job
from tests.support.linker_memory import LAYOUT, MemoryLinker, Received
from tests.support.servers import RedisUnderTest

pytestmark = pytest.mark.property

PARTITIONS = 3
WORKERS = 2
REQUESTS_MAX = 80
"""Of a batch, about."""
_apps = itertools.count()


class Failing:
    """``left``: requests until one fails, which Redis never hears of; below 0 none does."""

    left = -1

    def pause(self) -> None:
        """Before a request."""
        self.left -= 1
        if self.left == -1:
            raise ConnectionError("made up")


def queues_of(job: Job, random: Random) -> dict[int, deque[Incoming]]:
    """Records by partition, some twice; those of the driver (partition -1) may come late."""
    values: defaultdict[int, list[bytes]] = defaultdict(list, {-1: job.node})
    for part, value in [*job.flow, *random.sample(job.flow, len(job.flow) // 4)]:
        values[flow_partition(job.app, part, PARTITIONS)].append(value)
    return {
        part: deque(
            Incoming(
                TopicPartitionOffset(
                    LAYOUT.topics.node if part < 0 else LAYOUT.topics.flow, max(part, 0), offset
                ),
                job.app.encode(),
                value,
                1000.0,
            )
            for offset, value in enumerate(some)
        )
        for part, some in values.items()
    }


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 1 << 32))
def test_batches_given_up_lose_nothing(redis_server: RedisUnderTest, seed: int) -> None:
    random = Random(seed)
    job = make_job(f"batches-{next(_apps)}", random.getrandbits(30), maps=3, reduces=2, words=8)
    expected, received = MemoryLinker(), Received()
    expected.batch(job.values())
    queues = queues_of(job, random)
    failing = Failing()
    client = PausingRedis.from_url(redis_server.url)
    client.connection_pool.pause = failing.pause  # type: ignore[attr-defined]
    caches = [SideCache(random.choice([0, 1 << 20])) for _ in range(WORKERS)]
    fails = 12

    def attempt(worker: int, records: list[Incoming]) -> None:
        state = RedisState(client, job.app, caches[worker])
        batch = LinkBatch(LAYOUT, lambda _: state, 5.0)
        for record in sorted(records, key=lambda one: one.place.topic != LAYOUT.topics.node):
            batch.handle(record)
        batch.recount_unmatched()
        batch.send_links("")
        for sent in batch.outgoing:
            assert sent.topic == LAYOUT.topics.edge
            received.value(sent.value)
        batch.seal()
        for sent in batch.send_seals(""):
            received.value(sent.value)
        batch.finish()
        failing.pause()  # all of it is done, and done again

    while any(queues.values()):
        worker = random.randrange(WORKERS)
        mine = [part for part in queues if part % WORKERS == worker and queues[part]]
        # Some records of each partition, in its order.
        taken = {part: random.randint(0, min(3, len(queues[part]))) for part in mine}
        records = [one for part, many in taken.items() for one in list(queues[part])[:many]]
        failing.left = -1
        if fails and random.random() < 0.5:
            fails -= 1
            failing.left = random.randrange(REQUESTS_MAX)
        try:
            attempt(worker, records)
        except ConnectionError:
            continue
        for part, many in taken.items():
            for _ in range(many):
                queues[part].popleft()
    client.close()
    assert received.linked() == expected.received.linked()
    assert received.apps[job.app].seals == expected.seen.seals
