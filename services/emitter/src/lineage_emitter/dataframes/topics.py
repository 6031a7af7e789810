"""Topics of Kafka that Spark reads and writes as batches: their offsets, as far as these are certain.

Spark looks up offsets such as ``latest`` when it runs an action. They are looked up here before and after it: offsets only grow, so where
both are the same, the action had these. Rows of topics are not traced: which offsets were read is what is recorded of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import KAFKA
from lineage_emitter.dataframes.jvm import pairs_of
from lineage_emitter.dataframes.plan_text import said
from lineage_emitter.dataframes.walking import leaves
from lineage_store.dataset_paths import UnfiledDataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RELATION = "org.apache.spark.sql.kafka010.KafkaRelation"
"""The class of relations that read topics as a batch."""
SERVERS = "kafka.bootstrap.servers"
VERSION_MAX = 4_000
"""Maximum number of characters of ranges; more are recorded as not known."""
ACKNOWLEDGED_BY_ALL = ("all", "-1")
"""Values of ``acks`` with which a write returns when readers see what it wrote."""

EARLIEST, LATEST = -2, -1
"""Offsets that tasks look up."""
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_CONSUMER = {
    "key.deserializer": _BYTES, "value.deserializer": _BYTES, "allow.auto.create.topics": "false",
    "default.api.timeout.ms": "15000",
}  # fmt: skip

_RANGE = re.compile(r"KafkaOffsetRange\(([\w.-]+)-(\d+),(-?\d+),(-?\d+)\b")
_OFFSET = re.compile(r"([\w.-]+)-(\d+)=(\d+)\b")
_NAMES = re.compile(r"strategy=Subscribe\[([\w., -]+)\]")
_MISSING = "UnknownTopicOrPartitionException"

Ranges = Mapping[tuple[str, int], tuple[int, int]]
"""By topic and partition the first offset and the one behind the last."""
TopicReads = Mapping[str, Ranges]
"""By relation, as Spark names it, what it reads."""


def read_now(frame: DataFrame) -> dict[str, Ranges]:
    """What a frame would read of topics if it ran now, cached frames aside; nothing where Kafka does not say."""
    try:
        return _read_now(frame) if _is_used(frame.sparkSession) else {}
    except Exception:
        # The ranges are then recorded as not known.
        return {}


def _is_used(spark: SparkSession) -> bool:
    """Whether Spark has what reads topics."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    return loader.getResource(f"{RELATION.replace('.', '/')}.class") is not None


def _read_now(frame: DataFrame) -> dict[str, Ranges]:
    execution = frame._jdf.queryExecution()
    if "KafkaRelation(" not in said(execution.analyzed(), "toString"):
        return {}
    reads = {}
    for leaf in leaves(execution.withCachedData()):
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            relation = leaf.relation()
            if relation.getClass().getName() == RELATION:
                reads[_key(relation)] = _ranges(frame.sparkSession, relation)
    return reads


def certain(before: TopicReads, after: TopicReads) -> dict[str, Ranges]:
    """What was read between two moments."""
    return {key: ranges for key, ranges in before.items() if after.get(key) == ranges}


def sources(relation: Any, reads: TopicReads) -> list[Source]:
    """The topics that a relation (Spark's object) read, each with its ranges where they are certain."""
    ranges = reads.get(_key(relation))
    named = _NAMES.search(str(relation.toString()))
    names = re.split(r",\s*", named[1]) if named else []
    topics = sorted({*names, *(topic for topic, _ in ranges or ())})
    schema, servers = str(relation.schema().json()), _servers_of(relation)
    return [source(servers, topic, schema, ranges) for topic in topics]


def source(servers: str, topic: str, schema: str, ranges: Ranges | None) -> Source:
    """A topic that was read, with its ranges; None: they are not known. ``servers``: sorted (`sorted_servers`)."""
    return Source(
        KAFKA,
        (),
        schema,
        options={"servers": servers, "topic": topic},
        table=f"{_address(servers)}/{topic}",
        version=None if ranges is None else version(topic, ranges),
    )


def version(topic: str, ranges: Ranges) -> str | None:
    """Ranges of a topic as text; None: there are too many, or none."""
    parts = sorted(
        (number, first, end) for (name, number), (first, end) in ranges.items() if name == topic
    )
    text = " ".join(f"{number}:{first}-{end}" for number, first, end in parts if end > first)
    return text if 0 < len(text) <= VERSION_MAX else None


def dataset(format: str | None, options: Mapping[str, str]) -> UnfiledDataset | None:
    """The topic that options of a source or an output name; None: none."""
    if format != KAFKA or not options.get("servers") or not options.get("topic"):
        return None
    return UnfiledDataset(_address(options["servers"]), (options["topic"],))


@dataclass(frozen=True, slots=True)
class TopicWrite:
    """A write to one topic. ``before``: its ends, by partition, before the write; None: not known."""

    spark: SparkSession
    options: Mapping[str, str]
    topic: str
    before: Mapping[int, int] | None

    @classmethod
    def begun(cls, spark: SparkSession, options: Mapping[str, str]) -> TopicWrite | None:
        """A write that is about to begin; None: rows themselves say to which topics they go.

        ``options``: of the writer, with secrets.
        """
        topic, servers = options.get("topic"), options.get(SERVERS)
        if not topic or not servers:
            return None
        return cls(spark, options, topic, _ends(spark, options, topic))

    @property
    def place(self) -> dict[str, str]:
        """What names the topic, without secrets."""
        return {"servers": sorted_servers(self.options[SERVERS]), "topic": self.topic}

    @property
    def name(self) -> str:
        """The topic with its address."""
        return f"{_address(self.place['servers'])}/{self.topic}"

    def version(self) -> str | None:
        """The ranges in which the rows are that were written, among others maybe; None: not known."""
        acks = self.options.get("kafka.acks", "all")
        if self.before is None or acks not in ACKNOWLEDGED_BY_ALL:
            return None
        after = _ends(self.spark, self.options, self.topic)
        if after is None:
            return None
        ranges = {
            (self.topic, number): (self.before.get(number, 0), end) for number, end in after.items()
        }
        return version(self.topic, ranges)


def _ends(spark: SparkSession, options: Mapping[str, str], topic: str) -> dict[int, int] | None:
    """The offset behind the last one of each partition, now; None: not known."""
    of_kafka = {
        name: value
        for name, value in options.items()
        # What was written may lie behind a transaction of others that is still open.
        if name.startswith("kafka.") and name != "kafka.isolation.level"
    }
    try:
        frame = spark.read.format(KAFKA).options(**of_kafka).option("subscribe", topic).load()
        (leaf,) = leaves(frame._jdf.queryExecution().withCachedData())
        ranges = _ranges(spark, leaf.relation())
    except Exception as problem:
        return {} if _MISSING in str(problem) else None
    return {number: end for (_, number), (_, end) in ranges.items()}


def _ranges(spark: SparkSession, relation: Any) -> Ranges:
    """What a relation would read now."""
    ranges: dict[tuple[str, int], tuple[int, int]] = {}
    # By a call for each: an array of Scala's objects is none of Java's to py4j.
    text = "\n".join(str(part.toString()) for part in relation.buildScan().partitions())
    for topic, number, first, end in _RANGE.findall(text):
        # A partition may be read in several parts, the first of which begins with EARLIEST, and the last ends with LATEST.
        key, known_end = (topic, int(number)), int(end)
        known = ranges.get(key, (int(first), known_end))
        is_open = LATEST in (known[1], known_end)
        last = LATEST if is_open else max(known[1], known_end)
        ranges[key] = min(known[0], int(first)), last
    if all(first >= 0 and end >= 0 for first, end in ranges.values()):
        return ranges
    begins, ends = _begins_and_ends(spark, relation, ranges)
    return {
        key: (begins[key] if first == EARLIEST else first, ends[key] if end == LATEST else end)
        for key, (first, end) in ranges.items()
    }


def _begins_and_ends(
    spark: SparkSession, relation: Any, partitions: Iterable[tuple[str, int]]
) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
    """The first offsets of partitions, and those behind the last, as a relation's own consumer sees them."""
    jvm: Any = spark._jvm
    settings = jvm.java.util.HashMap()
    parameters = pairs_of(_field(relation, "specifiedKafkaParams"))
    for name, value in {**parameters, **_CONSUMER}.items():
        settings.put(name, value)
    listed = jvm.java.util.ArrayList()
    for topic, number in partitions:
        listed.add(jvm.org.apache.kafka.common.TopicPartition(topic, number))
    consumer = jvm.org.apache.kafka.clients.consumer.KafkaConsumer(settings)
    try:
        begins, ends = (
            {
                (topic, int(number)): int(offset)
                for topic, number, offset in _OFFSET.findall(str(offsets.toString()))
            }
            for offsets in (consumer.beginningOffsets(listed), consumer.endOffsets(listed))
        )
    finally:
        consumer.close()
    return begins, ends


def _key(relation: Any) -> str:
    # Where transactions are open, what is read ends sooner for one isolation level than for another.
    isolation = _field(relation, "specifiedKafkaParams").get("isolation.level").toString()
    return f"{_servers_of(relation)} {isolation} {relation.toString()}"


def _servers_of(relation: Any) -> str:
    return sorted_servers(str(_field(relation, "specifiedKafkaParams").apply("bootstrap.servers")))


def _field(relation: Any, name: str) -> Any:
    field = relation.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(relation)


def sorted_servers(servers: str) -> str:
    """Addresses of servers in one order, however a program lists them."""
    return ",".join(sorted(part.strip() for part in servers.split(",") if part.strip()))


def _address(servers: str) -> str:
    return f"kafka://{servers}"
