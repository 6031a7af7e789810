"""What strikes the pipeline, by name: a process of the test is killed, or what it keeps is gone, older, or set back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from redis.exceptions import RedisError

from lineage.stack.errors import StackError
from lineage.stack.neo4j_server import DATABASE
from tests.support.pipeline import Pipeline, ServiceUnderTest

ASKED_S = 30.0


@dataclass
class Victims:
    """The pipeline, and what Redis held at the last harm that took it back. ``kills``: of processes that ran."""

    whole: Pipeline
    older: dict[bytes, bytes] = field(default_factory=dict)

    def service(self, kind: str) -> ServiceUnderTest:
        """The first process of a service."""
        return next(one for one in self.whole.services if one.name.startswith(kind))

    def ready(self, kind: str) -> ServiceUnderTest:
        """The service at work: a kill of what only starts would prove little."""
        service = self.service(kind)
        try:
            service.wait_ready()
        except StackError:
            # It ended by itself, as it may where a server is away: as an operator's supervisor does, start it anew.
            service.start()
            service.wait_ready()
        return service


Strike = Callable[[Victims], None]


def _empty_redis(victims: Victims) -> None:
    victims.whole.redis.clear()


def _lose_redis(victims: Victims) -> None:
    victims.whole.redis.kill()
    victims.whole.redis.start()
    victims.whole.redis.clear()


def _older_redis(victims: Victims) -> None:
    """As after a fail-over to a replica that lagged: back to what it held at the harm before, empty at the first."""
    with victims.whole.redis.client() as redis:
        now = {key: redis.dump(key) for key in redis.scan_iter()}
        redis.flushall()
        for key, value in victims.older.items():
            with suppress(RedisError):
                redis.restore(key, 0, value)
    victims.older = {key: value for key, value in now.items() if value is not None}


def _empty_neo4j(victims: Victims) -> None:
    with victims.whole.neo4j.driver() as driver, driver.session(database=DATABASE) as session:
        session.run("MATCH (n) DETACH DELETE n").consume()


def _kill_service(kind: str) -> Strike:
    def strike(victims: Victims) -> None:
        service = victims.ready(kind)
        service.kill()
        service.start()

    return strike


def _kill_server(name: str) -> Strike:
    def strike(victims: Victims) -> None:
        server = getattr(victims.whole, name)
        server.kill()
        server.start()

    return strike


def _set_back_linker(victims: Victims) -> None:
    """All that was linked is read again: its group's offsets stand at the beginning."""
    service, group = victims.ready("linker"), victims.whole.settings["LINEAGE_LINKER_GROUP"]
    # By SIGTERM, which leaves the group: offsets of a group with members can't be moved.
    service.stop()
    admin, topics = victims.whole.kafka.admin(), victims.whole.topics
    known = admin.list_topics(timeout=ASKED_S).topics
    places = [
        TopicPartition(topic, part, 0)
        for topic in (topics.flow, topics.node)
        for part in range(len(known[topic].partitions))
    ]
    with suppress(KafkaException):
        moved = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
        moved[group].result(ASKED_S)
    service.start()


def _set_back_writer(victims: Victims) -> None:
    """All that was written is read again: where the writer stands is kept in Neo4j."""
    service = victims.ready("writer")
    service.kill()
    with victims.whole.neo4j.driver() as driver, driver.session(database=DATABASE) as session:
        session.run("MATCH (o:KafkaOffset) SET o.next = 0").consume()
    service.start()


STRIKES: dict[str, Strike] = {
    "redis is emptied": _empty_redis,
    "redis is killed, its volume lost": _lose_redis,
    "redis is as it was before": _older_redis,
    "redis is killed": _kill_server("redis"),
    "linker is killed": _kill_service("linker"),
    "writer is killed": _kill_service("writer"),
    "linker's offsets are set back": _set_back_linker,
    "writer is killed, its offsets set back": _set_back_writer,
    "neo4j is emptied": _empty_neo4j,
    "neo4j is killed": _kill_server("neo4j"),
    "kafka is killed": _kill_server("kafka"),
}
OFTEN = (
    "redis is emptied",
    "redis is killed, its volume lost",
    "redis is as it was before",
    "redis is killed",
    "linker is killed",
    "writer is killed",
)
"""Drawn more often: they are quick, and what they take is what is hard to get back."""


def is_kill(name: str) -> bool:
    """Whether a harm kills a process by SIGKILL."""
    return "killed" in name and "in memory" not in name


def is_emptied(name: str) -> bool:
    """Whether a harm takes the state of a server away, or puts an older one in its place."""
    taken = any(word in name for word in ("emptied", "volume lost", "as it was before", "set back"))
    return taken and "in memory" not in name
