"""Topics of Kafka that Spark reads and writes as batches: their offsets, as far as these are certain.

Spark looks up offsets such as ``latest`` when it runs an action. They are looked up here before and after it: offsets only grow, so where
both are the same, the action had these. With the topic's id (`topic_ids`) they say which records were read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_core.contract.offsets import offsets_text
from lineage_core.recipe.document import Source
from lineage_core.recipe.names import KAFKA
from lineage_emitter.dataframes.jvm import pairs_of
from lineage_emitter.dataframes.plan_text import said
from lineage_emitter.dataframes.topic_ids import RELATION, SERVERS, ids_of, sorted_servers
from lineage_emitter.dataframes.walking import leaves
from lineage_store.dataset_paths import ANY_TOPIC, UnfiledDataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lineage_core.recipe.document import Output
    from lineage_emitter.dataframes.outputs import Target

OutputOrTarget = TypeVar("OutputOrTarget", "Output", "Target")

VERSION_MAX = 4_000
"""Maximum number of characters of ranges; more are recorded as not known."""
ACKNOWLEDGED_BY_ALL = ("all", "-1")
"""Values of ``acks`` with which a write returns when readers see what it wrote."""

EARLIEST, LATEST = -2, -1
"""Offsets that tasks look up."""
_BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
_PREFIX = "kafka."
UNCOMMITTED = "read_uncommitted"
"""The level of isolation of clients that name none."""
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


@dataclass(frozen=True, slots=True)
class TopicRead:
    """What a relation reads. ``ids``: of topics, by name, as they were before it was read, as far as they are known."""

    ranges: Ranges
    ids: Mapping[str, str] = field(default_factory=dict)


TopicReads = Mapping[str, TopicRead]
"""By relation, as Spark names it, what it reads."""


def read_now(frame: DataFrame) -> dict[str, TopicRead]:
    """What a frame would read of topics if it ran now, cached frames aside; nothing where Kafka does not say."""
    try:
        return _read_now(frame) if is_used(frame.sparkSession) else {}
    except Exception:
        # The ranges are then recorded as not known.
        return {}


def is_used(spark: SparkSession) -> bool:
    """Whether Spark has what reads topics."""
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    return loader.getResource(f"{RELATION.replace('.', '/')}.class") is not None


def _read_now(frame: DataFrame) -> dict[str, TopicRead]:
    execution = frame._jdf.queryExecution()
    if "KafkaRelation(" not in said(execution.analyzed(), "toString"):
        return {}
    reads = {}
    for leaf in leaves(execution.withCachedData()):
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            relation = leaf.relation()
            if relation.getClass().getName() == RELATION:
                ranges = _ranges(frame.sparkSession, relation)
                parameters = pairs_of(_field(relation, "specifiedKafkaParams"))
                ids = ids_of(frame.sparkSession, parameters, {topic for topic, _ in ranges})
                reads[key_of(relation)] = TopicRead(ranges, ids)
    return reads


def certain(before: TopicReads, after: TopicReads) -> dict[str, TopicRead]:
    """What was read between two moments."""
    return {key: read for key, read in before.items() if after.get(key) == read}


def sources(relation: Any, reads: TopicReads) -> list[Source]:
    """The topics that a relation (Spark's object) read, each with its ranges where they are certain."""
    read = reads.get(key_of(relation), TopicRead({}))
    named = _NAMES.search(str(relation.toString()))
    names = re.split(r",\s*", named[1]) if named else []
    topics = sorted({*names, *(topic for topic, _ in read.ranges)})
    schema, servers = str(relation.schema().json()), _servers_of(relation)
    isolation = pairs_of(_field(relation, "specifiedKafkaParams")).get("isolation.level")
    return [source(servers, topic, schema, read, isolation) for topic in topics]


def source(servers: str, topic: str, schema: str, read: TopicRead, isolation: str | None) -> Source:
    """A topic that was read, with its ranges and its id where they are known.

    ``servers``: sorted (`sorted_servers`). ``isolation``: the level of isolation that was set; None: none was.
    """
    options = {"servers": servers, "topic": topic, "isolation": isolation or UNCOMMITTED}
    if topic in read.ids:
        options["id"] = read.ids[topic]
    return Source(
        KAFKA,
        (),
        schema,
        options=options,
        table=f"{_address(servers)}/{topic}",
        version=version(topic, read.ranges),
    )


def untraced_reason(source: Source) -> str:
    """Why rows of a topic that was read can't be traced; empty: they can."""
    if source.version is None:
        return "rows of a topic of Kafka whose offsets are not known"
    if "id" not in source.options:
        return "rows of a topic of Kafka that is not known by its id"
    return ""


def version(topic: str, ranges: Ranges) -> str | None:
    """Ranges of a topic as text; None: there are too many, or none."""
    text = offsets_text({number: span for (name, number), span in ranges.items() if name == topic})
    return text if 0 < len(text) <= VERSION_MAX else None


def dataset(format: str | None, options: Mapping[str, str]) -> UnfiledDataset | None:
    """The topic that options of a source or an output name, or `ANY_TOPIC` where rows name it; None: none."""
    if format != KAFKA or not options.get("servers"):
        return None
    return UnfiledDataset(_address(options["servers"]), (options.get("topic") or ANY_TOPIC,))


def named_by_rows(output: OutputOrTarget, options: Mapping[str, str]) -> OutputOrTarget:
    """An output or a target whose rows name their topics themselves. ``options``: of the writer, with secrets."""
    if not options.get(SERVERS):
        return output
    servers = sorted_servers(options[SERVERS])
    place = {"servers": servers}
    return replace(output, table=f"{_address(servers)}/{ANY_TOPIC}", format=KAFKA, options=place)


@dataclass(frozen=True, slots=True)
class TopicWrite:
    """A write to one topic.

    ``options``: of the writer, with secrets. ``id``: the topic's, before the write; empty: it was not there, or Kafka does not say. ``before``: its
    ends, by partition, before the write; None: not known.
    """

    spark: SparkSession
    options: Mapping[str, str]
    topic: str
    id: str
    before: Mapping[int, int] | None

    @classmethod
    def begun(cls, spark: SparkSession, options: Mapping[str, str]) -> TopicWrite | None:
        """A write that is about to begin; None: rows themselves say to which topics they go."""
        topic, servers = options.get("topic"), options.get(SERVERS)
        if not topic or not servers:
            return None
        return cls(
            *(spark, options, topic, id_of_written(spark, options, topic)),
            ends_of_written(spark, options, topic),
        )

    @property
    def place(self) -> dict[str, str]:
        """What names the topic, without secrets."""
        place = {"servers": sorted_servers(self.options[SERVERS]), "topic": self.topic}
        return {**place, "id": self.id} if self.id else place

    @property
    def name(self) -> str:
        """The topic with its address."""
        return f"{_address(self.place['servers'])}/{self.topic}"

    def version(self) -> str | None:
        """The ranges in which the rows are that were written, among others maybe; empty: none were; None: not known."""
        return self.version_until(ends_of_written(self.spark, self.options, self.topic))

    def version_until(self, after: Mapping[int, int] | None) -> str | None:
        """The same where the topic has these ends behind the write; None: they are not known."""
        acks = self.options.get("kafka.acks", "all")
        if self.before is None or after is None or acks not in ACKNOWLEDGED_BY_ALL:
            return None
        # Who compares the id with that of the topic as it is then, sees whether it was made anew.
        text = offsets_text(
            {number: (self.before.get(number, 0), end) for number, end in after.items()}
        )
        return text if len(text) <= VERSION_MAX else None


def id_of_written(spark: SparkSession, options: Mapping[str, str], topic: str) -> str:
    """The id that a topic has now, by options of a writer; empty: there is none, or Kafka does not say."""
    parameters = {
        name.removeprefix(_PREFIX): value
        for name, value in options.items()
        if name.startswith(_PREFIX)
    }
    return ids_of(spark, parameters, [topic]).get(topic, "")


def ends_of_written(
    spark: SparkSession, options: Mapping[str, str], topic: str
) -> dict[int, int] | None:
    """The offset behind the last one of each partition, now, by options of a writer; None: not known."""
    of_kafka = {
        name: value
        for name, value in options.items()
        # What was written may lie behind a transaction of others that is still open.
        if name.startswith(_PREFIX) and name != "kafka.isolation.level"
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


def key_of(relation: Any) -> str:
    """What tells a relation from others that read otherwise."""
    # Where transactions are open, what is read ends sooner for one isolation level than for another.
    isolation = _field(relation, "specifiedKafkaParams").get("isolation.level").toString()
    return f"{_servers_of(relation)} {isolation} {relation.toString()}"


def _servers_of(relation: Any) -> str:
    return sorted_servers(str(_field(relation, "specifiedKafkaParams").apply("bootstrap.servers")))


def _field(relation: Any, name: str) -> Any:
    field = relation.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(relation)


def _address(servers: str) -> str:
    return f"kafka://{servers}"
