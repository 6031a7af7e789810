"""The one Kafka whose records traces read: its servers and login, which topics it has, and which offsets these hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lineage_dataframes.errors import ChangedSourceError, NotComputedError, RefusedError
from lineage_dataframes.sandbox.starting import explain_problem
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, spark_reason

SERVERS, PROPERTIES = "LINEAGE_TOPICS_SERVERS", "LINEAGE_TOPICS_PROPERTIES_FILE"
_TIMEOUTS = {"default.api.timeout.ms": "15000", "request.timeout.ms": "15000"}
_PROPERTY = re.compile(r"(?:security|sasl|ssl)\.[\w.]+", re.ASCII)
_NO_TOPIC = "UnknownTopicOrPartitionException"


@dataclass(frozen=True)
class Cluster:
    """The one Kafka that may be read. ``servers``: in one order. ``properties``: of the login."""

    servers: str
    properties: Mapping[str, str]

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Cluster:
        """Read it.

        Raises:
            RefusedError: there are no servers, or the file of properties can't be used.
        """
        servers = environment.get(SERVERS, "")
        if not servers:
            raise RefusedError(
                f"records of topics are traced where {SERVERS} names Kafka's servers ({PROPERTIES}: the login)"
            )
        ordered = ",".join(sorted(part.strip() for part in servers.split(",") if part.strip()))
        return cls(ordered, _properties(environment.get(PROPERTIES, "")))

    def settings(self, prefix: str = "") -> dict[str, str]:
        """How clients reach it."""
        settings = {"bootstrap.servers": self.servers, **self.properties}
        return {f"{prefix}{name}": value for name, value in settings.items()}


@contextmanager
def topic_admin(
    spark: SparkSession, cluster: Cluster, name: str, offsets: str | None = None
) -> Iterator[Any]:
    """A client of Kafka.

    Args:
        spark: any session.
        cluster: where Kafka is.
        name: of the topic that it is asked of, with its servers.
        offsets: which of them are wanted.

    Raises:
        ChangedSourceError: there is no such topic.
        NotComputedError: Kafka does not answer.
    """
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    for key, value in {**cluster.settings(), **_TIMEOUTS}.items():
        settings.put(key, value)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            yield admin
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(1))
    except SPARK_ERRORS as problem:
        if _NO_TOPIC in str(problem):
            lost = "" if offsets is None else f", and with it the offsets {offsets}"
            raise ChangedSourceError(f"{name} is gone: there is no such topic{lost}") from problem
        reason = explain_problem(problem, spark_reason(problem), may_be_denied=True)
        raise NotComputedError(f"Kafka does not answer of {name}: {reason}") from problem


def topic_id(jvm: Any, admin: Any, topic: str) -> str:
    """The id that a topic has now.

    Args:
        jvm: Spark's.
        admin: a client (`topic_admin`).
        topic: its name.
    """
    return str(_described(jvm, admin, topic).topicId().toString())


def partition_count(jvm: Any, admin: Any, topic: str) -> int:
    """How many partitions a topic has now; arguments as of `topic_id`."""
    return int(_described(jvm, admin, topic).partitions().size())


def bounds(
    jvm: Any, admin: Any, topic: str, partitions: Iterable[int], spec: str
) -> dict[int, int]:
    """The first offsets that partitions hold, or those behind the last.

    Args:
        jvm: Spark's.
        admin: a client (`topic_admin`).
        topic: its name.
        partitions: which.
        spec: ``earliest`` or ``latest``.
    """
    kafka, specs = jvm.org.apache.kafka, jvm.java.util.HashMap()
    listed = {number: kafka.common.TopicPartition(topic, number) for number in partitions}
    for partition in listed.values():
        specs.put(partition, getattr(kafka.clients.admin.OffsetSpec, spec)())
    offsets = admin.listOffsets(specs).all().get()
    return {number: int(offsets.get(partition).offset()) for number, partition in listed.items()}


def _described(jvm: Any, admin: Any, topic: str) -> Any:
    names = jvm.java.util.ArrayList()
    names.add(topic)
    return admin.describeTopics(names).allTopicNames().get().get(topic)


def _properties(path: str) -> dict[str, str]:
    """The login in a file of properties, as Kafka's own commands take it.

    Raises:
        RefusedError: it can't be read, or says something else.
    """
    if not path:
        return {}
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise RefusedError(f"{PROPERTIES} can't be read: {problem}") from problem
    properties: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.lstrip().startswith(("#", "!")):
            continue
        name, sign, value = (part.strip() for part in line.partition("="))
        if not sign or not _PROPERTY.fullmatch(name):
            raise RefusedError(
                f"line {number} of {PROPERTIES} is none of NAME=VALUE with a name of security., sasl. or ssl."
            )
        properties[name] = value
    return properties
