"""Topics of Kafka that micro-batches read: the batch reads of the very offsets that the query's checkpoint names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lineage_core.recipe.document import Source
from lineage_core.recipe.names import KAFKA
from lineage_emitter.dataframes import topics
from lineage_emitter.dataframes.topic_ids import (
    SERVERS,
    SeenTopics,
    parameters_of,
    sorted_servers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
