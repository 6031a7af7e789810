"""Records of topics by their place: whether Kafka holds them now, of the topic that has the name now."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import KAFKA
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.sandbox.starting import check_reach
from lineage_dataframes.sources.topic_admin import (
    SERVERS,
    Cluster,
    bounds,
    partition_count,
    topic_admin,
    topic_id,
)
from lineage_dataframes.spark.pyspark_parts import is_connected
from lineage_query.followed import FollowedRecord

READ_S = 10.0
"""Seconds in which Kafka must give a record that it may hold."""
_PREFIX = "kafka://"
_CLIENTS = "org/apache/kafka/clients/admin/AdminClient.class"
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


@dataclass(frozen=True, slots=True)
class RecordState:
    """Whether there is a record. ``note``: what is to be said of it; empty: it is there."""

    record: FollowedRecord
    note: str


def find_record(spark: SparkSession, topic: str, partition: int, offset: int) -> RecordState:
    """A record of the topic that has a name now.

    Args:
        spark: any session.
        topic: its name, alone or as ``kafka://SERVERS/TOPIC``.
        partition: where the record stands.
        offset: in the partition.

    Raises:
        RefusedError: the environment names no servers, or others, or Spark has no connector.
        ChangedSourceError: there is no such topic, or partition.
        NotComputedError: Kafka does not answer.
    """
    cluster = Cluster.of(os.environ)
    servers, _, name = topic.removeprefix(_PREFIX).rpartition("/")
    if servers and ",".join(sorted(servers.split(","))) != cluster.servers:
        raise RefusedError(f"{topic} is of other servers than those that {SERVERS} names")
    return _state(spark, cluster, FollowedRecord(cluster.servers, name, "", partition, offset))


def look_again(spark: SparkSession, record: FollowedRecord) -> RecordState:
    """A record that was found before.

    Raises:
        ChangedSourceError: the topic is gone, or was made anew: the record never comes, and what was made of it can't be traced.
        RefusedError, NotComputedError: as `find_record`.
    """
    return _state(spark, Cluster.of(os.environ), record)


def _state(spark: SparkSession, cluster: Cluster, record: FollowedRecord) -> RecordState:
    name = f"{_PREFIX}{cluster.servers}/{record.topic}"
    check_reach([Source(KAFKA, (), "", table=name)])
    if is_connected(spark):
        raise RefusedError(f"{name} is of Kafka, which is not read by Spark Connect")
    jvm: Any = spark._jvm
    if jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader().getResource(_CLIENTS) is None:
        raise RefusedError(
            f"{name} is a topic of Kafka: Spark needs its connector (spark-sql-kafka-0-10) to read it"
        )
    with topic_admin(spark, cluster, name) as admin:
        known = topic_id(jvm, admin, record.topic)
        if record.id and record.id != known:
            raise ChangedSourceError(
                f"{name} is another topic: it was made anew, and {record.name} is gone"
            )
        count = partition_count(jvm, admin, record.topic)
        if record.partition >= count:
            raise ChangedSourceError(
                f"{name} has no partition {record.partition}: there are {count}, from 0 on"
            )
        partitions = (record.partition,)
        first, end = (
            bounds(jvm, admin, record.topic, partitions, spec)[record.partition]
            for spec in ("earliest", "latest")
        )
        found = FollowedRecord(
            cluster.servers, record.topic, known, record.partition, record.offset
        )
        if end <= record.offset:
            return RecordState(found, f"{found.name} is not there yet: the partition ends at {end}")
        if first > record.offset:
            return RecordState(
                found, f"{found.name} is gone: Kafka holds the partition from {first} on"
            )
        if _holds(jvm, cluster, found) is False:
            return RecordState(
                found,
                f"no record is at {found.name}: it was removed (compaction), or a mark of a transaction is there",
            )
    return RecordState(found, "")


def _holds(jvm: Any, cluster: Cluster, record: FollowedRecord) -> bool | None:
    """Whether a record is at an offset within the bounds of its partition; None: Kafka did not say in time."""
    settings, listed = jvm.java.util.HashMap(), jvm.java.util.ArrayList()
    fixed = {"key.deserializer": _BYTES, "value.deserializer": _BYTES, "max.poll.records": "1",
             "auto.offset.reset": "none", "allow.auto.create.topics": "false"}  # fmt: skip
    for name, value in {**cluster.settings(), **fixed}.items():
        settings.put(name, value)
    partition = jvm.org.apache.kafka.common.TopicPartition(record.topic, record.partition)
    listed.add(partition)
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    try:
        consumer.assign(listed)
        consumer.seek(partition, record.offset)
        deadline = time.monotonic() + READ_S
        while time.monotonic() < deadline:
            records = consumer.poll(jvm.java.time.Duration.ofMillis(500)).iterator()
            if records.hasNext():
                return int(records.next().offset()) == record.offset
            if int(consumer.position(partition)) > record.offset:
                return False
    finally:
        consumer.close(jvm.java.time.Duration.ofSeconds(1))
    return None
