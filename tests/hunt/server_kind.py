"""The pipeline as it runs: Kafka, Redis and Neo4j, a linker and a writer as processes, and all of them harmed.

Records of made-up jobs are sent; between any two of them something is killed, emptied, or put back to an older state,
or all that was sent comes again. When linker and writer have taken all there is, the rows are traced in Neo4j.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import KafkaException, Producer, TopicPartition
from hypothesis import strategies as st
from redis.exceptions import RedisError

from benchmarks.kafka import committed
from lineage_core.frame import MAGIC
from lineage_core.message import Commit, parse_message
from lineage_core.topics import app_partition, flow_partition
from lineage_store.neo4j.store import Neo4jStore
from tests.hunt.claims import Finding
from tests.hunt.hunting import Kind
from tests.hunt.pure_kinds import held, orders
from tests.hunt.simulated import Simulated, jobs
from tests.linker_job import frame_of, value_of
from tests.pipeline import Pipeline, ServiceUnderTest, pipeline
from tests.servers import guarded
from tests.stores import address_of
from tests.writer_process import ends

PATIENCE_S = 90.0
POLL_S = 0.1
Sent = tuple[str, int, bytes]
"""Topic, partition, value."""


@dataclass(frozen=True)
class Delivered:
    """A job, the order of its records, and what happens before which of them."""

    job: Simulated
    order: tuple[int, ...]
    harms: tuple[tuple[int, str], ...]


@dataclass
class Servers:
    """The pipeline, and what was sent to it so far. ``older``: what Redis held at the harm before."""

    whole: Pipeline
    producer: Producer
    store: Neo4jStore
    sent: int = 0
    older: dict[bytes, bytes] = field(default_factory=dict)

    def put(self, app: str, records: list[Sent]) -> None:
        """Send records, and wait until Kafka has them."""
        for topic, partition, value in records:
            self.producer.produce(topic, value, app, partition)
        self.producer.flush(PATIENCE_S)
        self.sent += len(records)

    def service(self, kind: str) -> ServiceUnderTest:
        return next(one for one in self.whole.services if one.name.startswith(kind))

    def settle(self) -> bool:
        """Wait until linker and writer have taken everything; False when they do not in time."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                if self._linked() >= self.sent and self._written():
                    return True
            time.sleep(POLL_S)
        return False

    def _linked(self) -> int:
        topics, counts = self.whole.topics, self._partitions()
        places = [
            TopicPartition(topic, part)
            for topic in (topics.flow, topics.node)
            for part in range(counts[topic])
        ]
        group = self.whole.settings["LINEAGE_LINKER_GROUP"]
        return sum(max(one, 0) for one in committed(self.whole.kafka.bootstrap, group, places))

    def _written(self) -> bool:
        edge, group = self.whole.topics.edge, self.whole.settings["LINEAGE_WRITER_GROUP"]
        last = ends(self.whole.kafka, edge, self._partitions()[edge])
        stored = [self.store.offset(group, edge, part) or 0 for part in range(len(last))]
        return stored == last

    def _partitions(self) -> dict[str, int]:
        known = self.whole.kafka.admin().list_topics(timeout=30).topics
        return {name: len(known[name].partitions) for name in self.whole.topics.all()}


# Harm ---------------------------------------------------------------------------------------------


def _flush(servers: Servers) -> None:
    servers.whole.redis.clear()


def _lose_redis(servers: Servers) -> None:
    """Killed, and its volume is gone."""
    servers.whole.redis.kill()
    servers.whole.redis.start()
    servers.whole.redis.clear()


def _older_redis(servers: Servers) -> None:
    """Back to what it held at the harm before, as after a fail-over to a replica that lagged."""
    with servers.whole.redis.client() as redis:
        now = {key: redis.dump(key) for key in redis.scan_iter()}
        redis.flushall()
        for key, value in servers.older.items():
            with suppress(RedisError):
                redis.restore(key, 0, value)
        servers.older = {key: value for key, value in now.items() if value is not None}


def _restart(kind: str) -> Callable[[Servers], None]:
    def strike(servers: Servers) -> None:
        servers.service(kind).kill()
        servers.service(kind).start()

    return strike


def _restart_server(name: str) -> Callable[[Servers], None]:
    def strike(servers: Servers) -> None:
        server = getattr(servers.whole, name)
        server.kill()
        server.start()

    return strike


HARMS: dict[str, Callable[[Servers], None]] = {
    "redis is emptied": _flush,
    "redis is killed, its volume lost": _lose_redis,
    "redis is as it was before": _older_redis,
    "linker is killed": _restart("linker"),
    "writer is killed": _restart("writer"),
    "redis is killed": _restart_server("redis"),
    "kafka is killed": _restart_server("kafka"),
    "neo4j is killed": _restart_server("neo4j"),
}
OFTEN = ("redis is emptied", "redis is as it was before", "redis is killed, its volume lost")
AGAIN = "all records come again"


@st.composite
def delivered(draw: st.DrawFn) -> Delivered:
    """Jobs in any order, with one to three harms."""
    job = draw(jobs(twice=False))
    order = draw(orders(job))
    harm = st.sampled_from((*HARMS, *OFTEN, AGAIN))
    places = draw(st.lists(st.integers(1, len(order)), min_size=1, max_size=3))
    return Delivered(job, order, tuple((place, draw(harm)) for place in sorted(places)))


def records_of(job: Simulated) -> list[tuple[int | None, bytes]]:
    """(partition of its task, None for the driver's; value) of each record."""
    found: list[tuple[int | None, bytes]] = [
        (None, value_of(message)) for message in (*job.head(), *job.tail())
    ]
    for task, commit, blocks in job.tasks():
        found += [(task.partition, frame_of(block, task)) for block in blocks]
        found.append((task.partition, value_of(commit)))
    return found


def _addressed(servers: Servers, app: str, record: tuple[int | None, bytes]) -> Sent:
    part, value = record
    topics, counts = servers.whole.topics, servers._partitions()
    if part is None:
        assert not value.startswith(MAGIC)
        assert not isinstance(parse_message(value), Commit)
        return topics.node, app_partition(app, counts[topics.node]), value
    return topics.flow, flow_partition(app, part, counts[topics.flow]), value


def tried(servers: Servers, one: Delivered) -> Finding:
    """Send a job's records, do the harm, and hold what Neo4j says against the truth."""
    app = one.job.app
    records = [_addressed(servers, app, record) for record in records_of(one.job)]
    ordered, at = [records[n] for n in one.order], 0
    for place, harm in one.harms:
        servers.put(app, ordered[at:place])
        at = place
        servers.settle()
        if harm == AGAIN:
            servers.put(app, ordered[:place])
        else:
            HARMS[harm](servers)
    servers.put(app, ordered[at:])
    if not servers.settle():
        return Finding(complete=False, note="linker and writer did not take all in time")
    return held(servers.store, one.job, time.time())


@contextmanager
def delivering(folder: Path) -> Iterator[Callable[[Delivered], Finding]]:
    """Tries jobs over servers that are started once."""
    folder.mkdir(parents=True)
    numbers = itertools.count()
    with guarded(folder / "servers") as made:
        kafka, redis, neo4j = made.kafka(), made.redis(), made.neo4j()
        with (
            pipeline(folder / "pipeline", kafka, redis, neo4j) as whole,
            Neo4jStore(address_of(neo4j)) as store,
        ):
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 5})
            servers = Servers(whole, producer, store)

            def run(one: Delivered) -> Finding:
                job = replace(one.job, app=f"app-{next(numbers)}")
                return tried(servers, replace(one, job=job))

            yield run


SERVER_KINDS = (Kind("servers", delivered, delivering, batch=10),)
