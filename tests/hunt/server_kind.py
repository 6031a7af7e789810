"""The pipeline as it runs: Kafka, Redis and Neo4j, a linker and a writer as processes, and all of them harmed.

Records of several made-up jobs are sent, mixed; between any two of them something is killed, emptied, or put back to an
older state, or all that was sent comes again. Mostly nobody waits until the pipeline has done what it has, so a harm
meets it at work, or while it gets over the one before. When linker and writer have taken all there is, the rows of all
jobs are traced in Neo4j. The harms themselves are in `striking`.
"""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from confluent_kafka import KafkaException, Producer, TopicPartition
from hypothesis import strategies as st
from neo4j.exceptions import DriverError, Neo4jError

from benchmarks.kafka import committed
from lineage_core.codec.record_batch import RECORD_BATCH_MAGIC
from lineage_core.contract.message import Commit, parse_message
from lineage_kafka.topics import app_partition, flow_partition
from lineage_store.errors import StoreError
from lineage_store.neo4j.store import Neo4jStore
from tests.hunt.claims import Finding
from tests.hunt.hunting import Kind
from tests.hunt.pure_kinds import held, orders
from tests.hunt.simulated import Simulated, jobs
from tests.hunt.striking import OFTEN, STRIKES, Victims
from tests.support.linker_job import record_batch_of, value_of
from tests.support.pipeline import Pipeline, pipeline
from tests.support.servers import guarded
from tests.support.stores import address_of
from tests.support.writer_process import ends

PATIENCE_S = 120.0
POLL_S = 0.2
JOBS = 6
HARMS = 8
AGAIN = "all records come again"
Sent = tuple[str, int, bytes]
"""Topic, partition, value."""


@dataclass(frozen=True)
class Delivered:
    """Jobs, each with the order of its records; ``mixed``: seed of how those of several jobs mix.

    ``harms``: before which of all records, what, and whether the pipeline has done all it has by then.
    """

    jobs: tuple[tuple[Simulated, tuple[int, ...]], ...]
    mixed: int
    harms: tuple[tuple[int, str, bool], ...]

    @property
    def struck(self) -> Counter[str]:
        """Harm, by name."""
        return Counter(name for _, name, _ in self.harms)


@st.composite
def delivered(draw: st.DrawFn) -> Delivered:
    """Some jobs with some harms."""
    made = []
    for _ in range(draw(st.integers(1, JOBS) | st.just(JOBS))):
        job = draw(jobs(twice=False))
        made.append((job, draw(orders(job))))
    many = sum(len(order) for _, order in made)
    harm = st.tuples(
        st.integers(1, many),
        st.sampled_from((*STRIKES, *OFTEN, *OFTEN, AGAIN)),
        st.integers(0, 3).map(lambda n: n == 1),
    )
    least = HARMS // 2 if len(made) == JOBS else 1
    harms = draw(st.lists(harm, min_size=least, max_size=HARMS))
    return Delivered(tuple(made), draw(st.integers(0, 2**16)), tuple(sorted(harms)))


@dataclass
class Servers:
    """The pipeline and what was sent to it so far."""

    whole: Pipeline
    producer: Producer
    store: Neo4jStore
    victims: Victims
    counts: dict[str, int] = field(default_factory=dict)
    sent: int = 0

    def put(self, records: list[tuple[str, Sent]]) -> None:
        """Send records (by application), and wait until Kafka has them."""
        for app, (topic, partition, value) in records:
            self.producer.produce(topic, value, app, partition)
        left = self.producer.flush(PATIENCE_S)
        assert not left, f"Kafka did not take {left} records"
        self.sent += len(records)

    def settle(self, patience_s: float = PATIENCE_S) -> bool:
        """Wait until linker and writer have taken everything; False when they do not in time."""
        for service in self.whole.services:
            service.start()  # Nothing where it runs: one that gave up is started again, as in a cluster.
        return _becomes(lambda: self._linked() >= self.sent and self._written(), patience_s)

    def _linked(self) -> int:
        topics = self.whole.topics
        places = [
            TopicPartition(topic, part)
            for topic in (topics.flow, topics.node)
            for part in range(self.counts[topic])
        ]
        group = self.whole.settings["LINEAGE_LINKER_GROUP"]
        return sum(max(one, 0) for one in committed(self.whole.kafka.bootstrap, group, places))

    def _written(self) -> bool:
        edge, group = self.whole.topics.edge, self.whole.settings["LINEAGE_WRITER_GROUP"]
        last = ends(self.whole.kafka, edge, self.counts[edge])
        stored = [self.store.offset(group, edge, part) or 0 for part in range(len(last))]
        return stored == last


def _becomes(true: Callable[[], bool], patience_s: float) -> bool:
    """Ask until it is so; servers that are away for a moment are asked again."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        with suppress(KafkaException, Neo4jError, DriverError, StoreError):
            if true():
                return True
        time.sleep(POLL_S)
    return False


def records_of(job: Simulated) -> list[tuple[int | None, bytes]]:
    """(partition of its task, None for the driver's; value) of each record."""
    found: list[tuple[int | None, bytes]] = [
        (None, value_of(message)) for message in (*job.head(), *job.tail())
    ]
    for task, commit, blocks in job.tasks():
        found += [(task.partition, record_batch_of(block, task)) for block in blocks]
        found.append((task.partition, value_of(commit)))
    return found


def _addressed(servers: Servers, app: str, record: tuple[int | None, bytes]) -> Sent:
    part, value = record
    topics, counts = servers.whole.topics, servers.counts
    if part is None:
        assert not value.startswith(RECORD_BATCH_MAGIC)
        assert not isinstance(parse_message(value), Commit)
        return topics.node, app_partition(app, counts[topics.node]), value
    return topics.flow, flow_partition(app, part, counts[topics.flow]), value


def _mixed(servers: Servers, one: Delivered) -> list[tuple[str, Sent]]:
    """The records of all jobs, each job's in its order."""
    waiting = []
    for job, order in one.jobs:
        records = records_of(job)
        waiting.append([(job.app, _addressed(servers, job.app, records[n])) for n in order])
    turns = [n for n, records in enumerate(waiting) for _ in records]
    random.Random(one.mixed).shuffle(turns)
    left = [iter(records) for records in waiting]
    return [next(left[n]) for n in turns]


def tried(servers: Servers, one: Delivered) -> Finding:
    """Send the jobs' records, do the harm, and hold what Neo4j says against the truth."""
    records, at = _mixed(servers, one), 0
    for place, harm, waits in one.harms:
        servers.put(records[at:place])
        at = place
        if waits:
            servers.settle()
        if harm == AGAIN:
            servers.put(records[:place])
        else:
            STRIKES[harm](servers.victims)
    servers.put(records[at:])
    servers.settle()
    finding = Finding(complete=True, programs=len(one.jobs))
    for job, _ in one.jobs:
        _hold(servers, job, finding)
    finding.harmed_by(one.struck)
    return finding


def _hold(servers: Servers, job: Simulated, finding: Finding) -> None:
    """What is said at once, while linker and writer may still get over a harm, and what is said in the end."""
    said: list[Finding] = []

    def is_complete() -> bool:
        with suppress(KeyError):  # not there yet
            said.append(held(servers.store, job, time.time()))
        return bool(said) and (said[-1].complete or bool(said[-1].faults))

    _becomes(is_complete, PATIENCE_S)
    if not said:
        finding.complete, finding.note = False, "Neo4j knows nothing of an application"
        return
    for fault in {fault for one in said for fault in one.faults}:
        finding.faults.append(f"{job.app}: {fault}")
    finding.rows += said[-1].rows
    finding.exact += said[-1].exact
    if not said[-1].complete:
        finding.complete, finding.note = False, said[-1].note


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
            known = kafka.admin().list_topics(timeout=30).topics
            counts = {name: len(known[name].partitions) for name in whole.topics.all()}
            servers = Servers(whole, producer, store, Victims(whole), counts)

            def run(one: Delivered) -> Finding:
                named = ((replace(job, app=f"app-{next(numbers)}"), at) for job, at in one.jobs)
                return tried(servers, replace(one, jobs=tuple(named)))

            yield run


SERVER_KINDS = (Kind("servers", delivered, delivering, batch=10),)
