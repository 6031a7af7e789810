"""Topics of Kafka that micro-batches read: the batch reads of the very offsets that the query's checkpoint names."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lineage_core.contract.message import TOPIC_PARTITIONS_MAX, TOPICS_MAX, TopicOfStream
from lineage_core.recipe.document import Source
from lineage_core.recipe.names import KAFKA
from lineage_emitter.dataframes import topics
from lineage_emitter.dataframes.topic_ids import (
    SERVERS,
    STREAM,
    SeenTopics,
    initial_offsets,
    parameters_of,
    sorted_servers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_NAMED = re.compile(r".*\[(Subscribe|Assign)\[([\w., -]+)\]\]", re.ASCII)
"""How a stream says which topics it reads, or which partitions."""


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """What a batch read of a stream of topics. ``sources``: without those that gave nothing; none: the batch read nothing.

    ``rows``: the plan that reads them as a batch (Spark's object); None: there are none, or a ``problem``. ``reads``: what that reads.
    """

    sources: tuple[Source, ...] = ()
    rows: Any | None = None
    reads: topics.TopicReads = field(default_factory=dict)
    problem: str = ""


def topics_read(
    spark: SparkSession, stream: Any, schema: str, start: str, end: str, seen: SeenTopics
) -> TopicsRead:
    """What a batch read of a stream.

    Args:
        spark: The query's session.
        stream: Spark's object.
        schema: Of its rows, as Spark's JSON.
        start: Where the batch begins, as JSON; empty: where the query began.
        end: Where it ends, as JSON.
        seen: Ids of topics as they were before the batch read them.
    """
    parameters = parameters_of(stream)
    servers = sorted_servers(parameters["bootstrap.servers"])
    isolation = parameters.get("isolation.level")
    sources: list[Source] = []
    frames: list[DataFrame] = []
    reads: dict[str, topics.TopicRead] = {}
    for topic, ranges in ranges_of(start or str(stream.initialOffset().json()), end).items():
        if not any(last > first for first, last in ranges.values()):
            continue
        ids = {name: topic_id for (where, name), topic_id in seen.ids.items() if where == servers}
        read = topics.TopicRead({(topic, at): span for at, span in ranges.items()}, ids)
        sources.append(topics.source(servers, topic, schema, read, isolation))
        frame = _frame(spark, servers, topic, ranges, isolation, has_headers='"headers"' in schema)
        reads[topics.key_of(frame._jdf.queryExecution().analyzed().relation())] = read
        frames.append(frame)
    problem = next(filter(None, map(topics.untraced_reason, sources)), "")
    if problem or not frames:
        return TopicsRead(tuple(sources), problem=problem)
    rows = frames[0]
    for frame in frames[1:]:
        rows = rows.union(frame)
    return TopicsRead(tuple(sources), rows._jdf.queryExecution().analyzed(), reads)


def topics_of_query(
    spark: SparkSession, execution: Any, seen: SeenTopics, *, is_first: bool | None
) -> tuple[tuple[TopicOfStream, ...], bool]:
    """Which topics the streams of a query read, and from where on.

    Args:
        spark: Its session.
        execution: The query (Spark's object).
        seen: Ids of topics.
        is_first: No earlier run of the query has committed a batch; None: that is not known yet.

    Returns:
        Those of each stream; of a stream of which that is not known, any. And whether this is all that will be known.

    Raises:
        py4j.protocol.Py4JError: The checkpoint can't be read.
    """
    streams, named, is_final = execution.sources(), list[TopicOfStream](), True
    for place in range(streams.size()):
        stream = streams.apply(place)
        kind = str(stream.getClass().getSimpleName())
        if kind == STREAM:
            servers, initial = sorted_servers(parameters_of(stream)["bootstrap.servers"]), ""
            # Between two runs, or before ids were looked up, another topic may have had the name.
            if is_first is not False and not seen.at:
                initial = initial_offsets(spark, stream)
                is_final = is_final and is_first is not None and bool(initial)
            text = str(stream.toString())
            named += topics_of_stream(text, initial if is_first else "", servers, seen)
        elif kind.startswith("Kafka"):
            named.append(TopicOfStream())
    return (tuple(named) if len(named) <= TOPICS_MAX else (TopicOfStream(),)), is_final


def topics_of_stream(
    text: str, initial: str, servers: str, seen: SeenTopics
) -> tuple[TopicOfStream, ...]:
    """Which topics a stream reads.

    Args:
        text: What it says of itself.
        initial: Where the query began in it, as JSON; empty: that is not known yet.
        servers: Of Kafka, sorted.
        seen: Ids of topics.
    """
    named = _NAMED.fullmatch(text)
    if named is None:
        # Topics of a pattern may be made later.
        return (TopicOfStream(),)
    kind, names = named[1], {name.strip() for name in named[2].split(",")}
    if kind == "Assign":
        names = {name.rpartition("-")[0] for name in names}
    firsts: Mapping[str, Mapping[str, int]] = json.loads(initial) if initial else {}
    return tuple(
        TopicOfStream(
            topic=name,
            id=seen.ids.get((servers, name), ""),
            firsts=_firsts(firsts.get(name)),
            assigned=kind == "Assign",
        )
        for name in sorted(names)
    )


def _firsts(offsets: Mapping[str, int] | None) -> dict[int, int] | None:
    if offsets is None:
        return None
    known = {int(number): int(offset) for number, offset in offsets.items()}
    is_known = len(known) <= TOPIC_PARTITIONS_MAX and all(offset >= 0 for offset in known.values())
    return known if is_known else None


def with_offsets(source: Source, start: str, end: str) -> Source | None:
    """The source of a batch that read just one topic, for another batch; None: it is no such batch, or read nothing.

    ``start``, ``end``: where that begins and ends, as JSON; empty: it is not known.
    """
    if not start or not end:
        return None
    topic = source.options["topic"]
    ranges = ranges_of(start, end)
    if set(ranges) != {topic}:
        return None
    version = topics.version(topic, {(topic, at): span for at, span in ranges[topic].items()})
    return None if version is None else replace(source, version=version)


def ranges_of(start: str, end: str) -> dict[str, dict[int, tuple[int, int]]]:
    """By topic and partition the first offset and the one behind the last, of two places in a stream, as JSON."""
    begins: Mapping[str, Mapping[str, int]] = json.loads(start)
    ends: Mapping[str, Mapping[str, int]] = json.loads(end)
    return {
        topic: {
            # A partition that is new is read from its beginning, of which no record is gone where all are there.
            int(number): (int(begins.get(topic, {}).get(number, 0)), int(last))
            for number, last in partitions.items()
        }
        for topic, partitions in sorted(ends.items())
    }


def _frame(
    spark: SparkSession,
    servers: str,
    topic: str,
    ranges: Mapping[int, tuple[int, int]],
    isolation: str | None,
    *,
    has_headers: bool,
) -> DataFrame:
    """A frame that would read ranges of a topic. It is planned, and not run."""
    first, last = (
        json.dumps({topic: {str(number): span[at] for number, span in ranges.items()}})
        for at in (0, 1)
    )
    options = {
        SERVERS: servers,
        "subscribe": topic,
        "startingOffsets": first,
        "endingOffsets": last,
        "includeHeaders": str(has_headers).lower(),
        **({} if isolation is None else {"kafka.isolation.level": isolation}),
    }
    return spark.read.format(KAFKA).options(**options).load()
