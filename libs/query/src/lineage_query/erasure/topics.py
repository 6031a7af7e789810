"""Records of a subject's applications in the pipeline's topics: which there are, and which can be deleted exactly.

Kafka deletes records of a partition up to an offset alone, so those are deleted that stand before all others. Keys are the
applications', so compaction would leave the last record of each and is no way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from lineage_core.contract.block import FlowBlock
from lineage_kafka.topic_records import RecordTopics, TopicRecord
from lineage_query.erasure.erased_texts import ItemsOfTexts
from lineage_query.erasure.own_texts import SubjectTexts, content_of

OpenTopics: TypeAlias = Callable[[], AbstractContextManager[RecordTopics]]
"""Connects to the pipeline's topics; raises a LineageError where it is not known how."""


@dataclass(slots=True)
class RecordRange:
    """Some records of one kind in a partition."""

    first: int
    last: int
    count: int = 1


@dataclass(slots=True)
class RecordRanges:
    """Ranges by topic, partition and what they have in common."""

    ranges: dict[tuple[str, int, str], RecordRange] = field(default_factory=dict)

    def add(self, record: TopicRecord, what: str) -> None:
        """Count a record."""
        key = record.topic, record.partition, what
        known = self.ranges.setdefault(key, RecordRange(record.offset, record.offset, 0))
        known.count += 1
        known.last = record.offset

    def __iter__(self) -> Iterator[tuple[str, str, int]]:
        """Where they are, what they have in common, and how many there are."""
        for (topic, partition, what), known in self.ranges.items():
            yield f"{topic}/{partition}/{known.first} to {known.last}", what, known.count


def records_of(topics: RecordTopics, apps: Collection[str]) -> Iterator[TopicRecord]:
    """All records of some applications."""
    for topic, partition in topics.partitions():
        for record in topics.records(topic, partition):
            if record.app in apps:
                yield record


def not_used(topics: RecordTopics, apps: Collection[str]) -> RecordRanges:
    """Records of some applications that a service has still to use: they would bring texts back."""
    ranges = RecordRanges()
    for record in records_of(topics, apps):
        used = topics.used(record.topic, record.partition)
        if used is not None and record.offset >= used:
            ranges.add(record, record.app)
    return ranges


def delete_records(topics: RecordTopics, apps: Collection[str]) -> Mapping[str, Any]:
    """Delete the records of some applications that stand before all others in their partitions, and that are used.

    May be repeated after an interruption.

    Returns:
        ``records``: how many were deleted. ``left``: where others are, and why.
    """
    deleted, left = 0, RecordRanges()
    for topic, partition in topics.partitions():
        used = topics.used(topic, partition)
        end, reason = 0, ""
        for record in topics.records(topic, partition):
            is_own = record.app in apps
            if not reason:
                reason = _hindrance(record, used, is_own=is_own)
            if not reason:
                deleted, end = deleted + 1, record.offset + 1
            elif is_own:
                left.add(record, f"of {record.app}, {reason}")
        if end:
            topics.delete_before(topic, partition, end)
    texts = [f"{where}: {count:,} records {what}" for where, what, count in left]
    return {"records": deleted, "left": texts}


def _hindrance(record: TopicRecord, used: int | None, *, is_own: bool) -> str:
    """Why a record, and all behind it, can't be deleted."""
    if not is_own:
        return f"behind the record at {record.offset} of another application"
    if used is None:
        return "as no consumer group says which records are used"
    return "" if record.offset < used else "which are not used yet"


def records_with_texts(
    topics: RecordTopics,
    texts: SubjectTexts,
    of_app: Mapping[str, tuple[ItemsOfTexts | None, Collection[str]]],
) -> tuple[RecordRanges, RecordRanges]:
    """Records that hold texts of a subject, and those of which that is not known.

    Args:
        topics: of the pipeline; all records are read.
        texts: recognises them.
        of_app: by application, whose texts and which recipes were to be erased.
    """
    held, unknown = RecordRanges(), RecordRanges()
    for topic, partition in topics.partitions():
        for record in topics.records(topic, partition):
            items, nodes = of_app.get(record.app, (None, ()))
            what = f"of {record.app}" if record.app else "of an unknown application"
            try:
                content = content_of(record.value)
            except Exception:
                # Anybody who may write to a topic may send what makes a parser fail.
                (unknown if items is None else held).add(record, f"{what} that can't be read")
                continue
            if content is None:
                continue
            is_held = (
                texts.in_block(content, items) > 0
                if isinstance(content, FlowBlock)
                else any(texts.in_message(content, nodes))
            )
            if is_held:
                held.add(record, f"{what} with texts of the rows")
    return held, unknown
