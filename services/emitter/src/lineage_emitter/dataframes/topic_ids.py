"""Ids of topics: Kafka gives each topic a new one, so what was read of a topic is bound to the topic that had it.

An id that was looked up before rows were read says, where the topic has it still, that these rows were this topic's. Looked up
later, it may be that of another topic which took the name meanwhile.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.names import KAFKA
from lineage_emitter.dataframes.jvm import activate
from lineage_emitter.dataframes.walking import leaves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RELATION = "org.apache.spark.sql.kafka010.KafkaRelation"
"""The class of relations that read topics as a batch."""
STREAM = "KafkaMicroBatchStream"
"""The class of streams that read topics."""
SERVERS = "kafka.bootstrap.servers"
_TIMEOUTS = {"default.api.timeout.ms": "15000", "request.timeout.ms": "15000"}
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
"""What servers that give topics no ids say."""


@dataclass(frozen=True, slots=True)
class SeenTopics:
    """Ids of topics by their servers (sorted) and names, as they were ``at`` a time (unix seconds); 0: before all that reads them."""

    ids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    at: float = 0.0

    def before(self, began_at: float | None) -> SeenTopics:
        """What was seen before a moment; None: it is not known when that was."""
        is_before = not self.at or (began_at is not None and self.at <= began_at)
        return self if is_before else SeenTopics()


def ids_of(
    spark: SparkSession, parameters: Mapping[str, str], topics: Iterable[str]
) -> dict[str, str]:
    """The ids that topics have now; nothing where Kafka does not say.

    Args:
        spark: any session.
        parameters: settings of clients of Kafka, with logins.
        topics: their names.

    Returns:
        By name the ids.
    """
    jvm: Any = spark._jvm
    settings, names = jvm.java.util.HashMap(), jvm.java.util.ArrayList()
    for name, value in {**parameters, **_TIMEOUTS}.items():
        settings.put(name, value)
    for topic in topics:
        names.add(topic)
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        try:
            described = admin.describeTopics(names).allTopicNames().get()
            ids = {
                str(topic): str(described.get(topic).topicId().toString()) for topic in described
            }
        finally:
            admin.close(jvm.java.time.Duration.ofSeconds(1))
    except Exception:
        # What is read of these topics is then not traced.
        return {}
    return {topic: topic_id for topic, topic_id in ids.items() if topic_id != _NO_ID}


def ids_of_stream(frame: DataFrame) -> SeenTopics:
    """The ids of the topics that a query over a frame of streams would read, before it begins."""
    try:
        spark = frame.sparkSession
        seen: dict[tuple[str, str], str] = {}
        for leaf in leaves(frame._jdf.queryExecution().analyzed()):
            if leaf.getClass().getSimpleName() != "StreamingRelationV2":
                continue
            if str(leaf.sourceName()) == KAFKA:
                options = leaf.extraOptions().asCaseSensitiveMap()
                given = {str(name): str(options.get(name)) for name in options}
                seen |= _ids_of_options(spark, given)
        return SeenTopics(seen)
    except Exception:
        return SeenTopics()


def ids_of_query(spark: SparkSession, execution: Any) -> SeenTopics:
    """The ids of the topics that a query which runs (Spark's object) has read so far, as of now."""
    seen: dict[tuple[str, str], str] = {}
    try:
        streams = execution.sources()
        for place in range(streams.size()):
            stream = streams.apply(place)
            if stream.getClass().getSimpleName() != STREAM:
                continue
            text = initial_offsets(spark, stream)
            if not text:
                return SeenTopics()
            parameters = parameters_of(stream)
            ids = ids_of(spark, parameters, json.loads(text))
            servers = sorted_servers(parameters["bootstrap.servers"])
            seen |= {(servers, topic): topic_id for topic, topic_id in ids.items()}
    except Exception:
        return SeenTopics()
    return SeenTopics(seen, time.time())


def initial_offsets(spark: SparkSession, stream: Any) -> str:
    """Where a query began in a stream of topics, as its checkpoint says.

    A stream that is asked before would itself look up where it begins, beside the query.

    Args:
        spark: the query's session.
        stream: Spark's object.

    Returns:
        By topic and partition the first offsets, as JSON; empty: the query has not looked that up yet.

    Raises:
        py4j.protocol.Py4JError: the checkpoint can't be read.
    """
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"{_private(stream, 'metadataPath')}/0")
    if not path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(path):
        return ""
    activate(spark)
    return str(stream.initialOffset().json())


def parameters_of(stream: Any) -> dict[str, str]:
    """The settings of clients with which a stream (Spark's object) reads Kafka, with logins."""
    settings = _private(stream, "executorKafkaParams")
    # Those of Spark's own are of other types, and none of how Kafka is reached.
    return {
        str(name): str(settings.get(name))
        for name in settings
        if isinstance(settings.get(name), str) and not str(name).endswith(".deserializer")
    }


def sorted_servers(servers: str) -> str:
    """Addresses of servers in one order, however a program lists them."""
    return ",".join(sorted(part.strip() for part in servers.split(",") if part.strip()))


def _private(stream: Any, name: str) -> Any:
    field = stream.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(stream)


def _ids_of_options(spark: SparkSession, options: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """``options``: of a reader, with logins. Topics that a pattern names are not looked up."""
    by_name = {name.lower(): value for name, value in options.items()}
    if "subscribe" in by_name:
        topics = [topic.strip() for topic in by_name["subscribe"].split(",") if topic.strip()]
    elif "assign" in by_name:
        topics = list(json.loads(by_name["assign"]))
    else:
        return {}
    parameters = {
        name.lower().removeprefix("kafka."): value
        for name, value in options.items()
        if name.lower().startswith("kafka.")
    }
    servers = sorted_servers(parameters["bootstrap.servers"])
    ids = ids_of(spark, parameters, topics)
    return {(servers, topic): topic_id for topic, topic_id in ids.items()}
