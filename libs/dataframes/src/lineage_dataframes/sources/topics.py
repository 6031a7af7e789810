"""Records of topics of Kafka, named ``TOPIC[PARTITION]@OFFSET``: the very ranges of offsets that the job read.

Within one topic an offset never gets another record, as long as no replica that lags becomes the leader; but records are removed,
and a topic may be made anew under its name. So the topic must have the id that it had before the job read it, and hold every offset of
the ranges; else what is gone is named. A trace reads the ranges once.

The servers and the login are those of the environment, as for databases (`jdbc`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.contract.offsets import OFFSETS, offsets_text, parse_offsets
from lineage_core.recipe.document import Source
from lineage_core.recipe.names import KAFKA
from lineage_dataframes.errors import ChangedSourceError, NotComputedError, RefusedError
from lineage_dataframes.sandbox.starting import explain_problem
from lineage_dataframes.sources.schemas import check_names
from lineage_dataframes.sources.topic_admin import (
    SERVERS,
    Cluster,
    bounds,
    topic_admin,
    topic_id,
)
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS, is_connected, spark_reason

RECORDS_MAX = 10_000_000
"""Maximum number of offsets that a trace reads of one source."""
ISOLATIONS = ("read_uncommitted", "read_committed")
_CONNECTOR = "org/apache/spark/sql/kafka010/KafkaRelation.class"
_TOPIC = re.compile(r"[\w.-]{1,249}", re.ASCII)

Ranges = Mapping[int, tuple[int, int]]
"""By partition the first offset and the one behind the last."""


def untraced_reason(source: Source) -> str:
    """Why records of a topic can't be traced; empty: they can."""
    options = source.options
    if not OFFSETS.fullmatch(source.version or ""):
        return f"which offsets of {source.name} were read is not known"
    if not options.get("id"):
        return f"it is not known which topic was called {source.name} when it was read"
    if options.get("isolation") not in ISOLATIONS or not _TOPIC.fullmatch(options.get("topic", "")):
        return f"{source.name} is no topic of Kafka"
    # Who may see rows is decided by the name, and what is read by the options.
    if source.name != f"kafka://{options.get('servers')}/{options['topic']}":
        return f"{source.name} is another topic than the one that its options name"
    return ""


def partitions_of(source: Source) -> list[str]:
    """The partitions that were read, by their names; an offset is the ordinal of a row in one."""
    return [_partition_name(source, number) for number in parse_offsets(source.version or "")]


def record_names(partition: str, offsets: NDArray[np.uint64]) -> list[str]:
    """Records of a partition as ``TOPIC[PARTITION]@OFFSET``."""
    return [f"{partition}@{offset}" for offset in offsets.tolist()]


def rows_at_offset(
    source: Source, values: Iterable[tuple[str, str | None]]
) -> dict[str, NDArray[np.uint64]] | None:
    """The record that values name by partition and offset alone, by its partition; None: they name records otherwise.

    Nothing is read: empty where the offset is outside of what was read.
    """
    given = dict(values)
    if set(given) != {"partition", "offset"}:
        return None
    partition, offset = given["partition"] or "", given["offset"] or ""
    if not (partition.isdecimal() and offset.isdecimal()):
        return None
    first, end = parse_offsets(source.version or "").get(int(partition), (0, 0))
    if not first <= int(offset) < end:
        return {}
    return {_partition_name(source, int(partition)): np.array([int(offset)], np.uint64)}


def narrowed(source: Source, offsets_by_partition: Mapping[str, NDArray[np.uint64]]) -> Source:
    """The source with no more of its offsets than some records need."""
    ranges: dict[int, tuple[int, int]] = {}
    for number in parse_offsets(source.version or ""):
        offsets = offsets_by_partition.get(_partition_name(source, number))
        if offsets is not None and len(offsets):
            ranges[number] = int(offsets.min()), int(offsets.max()) + 1
    return replace(source, version=offsets_text(ranges)) if ranges else source


def read_records(spark: SparkSession, source: Source, file: str, row: str) -> DataFrame:
    """The records of a topic that the job read, with columns for the partition and the offset.

    Args:
        spark: The session of the trace.
        source: The topic.
        file: The name of the column for the partition.
        row: That for the offset.

    Raises:
        RefusedError: The environment names other servers, or Spark has no connector.
        ChangedSourceError: Records are gone, or the topic is another.
        NotComputedError: Kafka does not answer, or there are too many records.
    """
    reason = untraced_reason(source)
    if reason:
        raise RefusedError(reason)
    if is_connected(spark):
        raise RefusedError(f"{source.name} is of Kafka, which is not read by Spark Connect")
    cluster = Cluster.of(os.environ)
    if cluster.servers != source.options.get("servers"):
        raise RefusedError(f"{source.name} is of other servers than those that {SERVERS} names")
    ranges = parse_offsets(source.version or "")
    count = sum(max(0, end - first) for first, end in ranges.values())
    if count > RECORDS_MAX:
        raise NotComputedError(
            f"the job read {count:,} offsets of {source.name}, and a trace reads {RECORDS_MAX:,} at most"
        )
    jvm: Any = spark._jvm
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    if loader.getResource(_CONNECTOR) is None:
        raise RefusedError(
            f"{source.name} is a topic of Kafka: Spark needs its connector (spark-sql-kafka-0-10) to read it"
        )
    with topic_admin(spark, cluster, source.name or "", source.version) as admin:
        _check_topic(jvm, admin, source)
        _check_held(jvm, admin, source, ranges)
        rows = _rows(spark, cluster, source, ranges, file, row)
        # The topic that was read is the one whose id was the same before and after.
        _check_topic(jvm, admin, source)
    counted = rows.groupBy("partition").agg(F.count("*").alias("records")).collect()
    counts = {row["partition"]: row["records"] for row in counted}
    for number, (first, end) in ranges.items():
        if counts.get(number, 0) != end - first:
            raise ChangedSourceError(
                f"of the {end - first:,} offsets {number}:{first}-{end} of {source.name} {counts.get(number, 0):,} hold records: "
                "others were removed (compaction), or are marks of transactions, and it is not known which"
            )
    return rows


def _rows(
    spark: SparkSession, cluster: Cluster, source: Source, ranges: Ranges, file: str, row: str
) -> DataFrame:
    topic = source.options["topic"]
    first, end = (
        json.dumps({topic: {str(number): span[at] for number, span in ranges.items()}})
        for at in (0, 1)
    )
    options = {
        **cluster.settings("kafka."),
        "kafka.isolation.level": source.options["isolation"],
        "assign": json.dumps({topic: list(ranges)}),
        "startingOffsets": first,
        "endingOffsets": end,
        "failOnDataLoss": "true",
        "includeHeaders": str(any(name == "headers" for name, _ in source.columns())).lower(),
    }
    try:
        frame = spark.read.format(KAFKA).options(**options).load()
        check_names(source, frame)
        number = F.col("partition").cast("string")
        name = F.concat(F.lit(f"{source.name}["), number, F.lit("]"))
        return frame.select("*", name.alias(file), F.col("offset").alias(row)).localCheckpoint()
    except SPARK_ERRORS as problem:
        reason = explain_problem(problem, spark_reason(problem), may_be_denied=True)
        raise ChangedSourceError(f"{source.name} can't be read: {reason}") from problem


def _check_topic(jvm: Any, admin: Any, source: Source) -> None:
    """See that the topic is the one that the job read."""
    if topic_id(jvm, admin, source.options["topic"]) != source.options["id"]:
        raise ChangedSourceError(
            f"{source.name} is another topic: it was made anew since the job read it, and the offsets {source.version} are gone"
        )


def _check_held(jvm: Any, admin: Any, source: Source, ranges: Ranges) -> None:
    """See that no offset is gone at the beginning of a partition, or at its end."""
    topic = source.options["topic"]
    begins, ends = (bounds(jvm, admin, topic, ranges, spec) for spec in ("earliest", "latest"))
    gone: dict[int, tuple[int, int]] = {}
    for number, (first, end) in ranges.items():
        if begins[number] > first:
            gone[number] = first, min(begins[number], end)
        elif ends[number] < end:
            gone[number] = max(ends[number], first), end
    if gone:
        raise ChangedSourceError(
            f"{source.name} no longer holds the offsets {offsets_text(gone)} of {source.version}, which the job read: they are gone"
        )


def _partition_name(source: Source, number: int) -> str:
    return f"{source.name}[{number}]"
