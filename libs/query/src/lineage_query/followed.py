"""What is followed through streaming queries, and which queries and batches read it.

Rows of a file are followed, a record of a topic, or all rows of a source that fulfil a condition, as they come.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from lineage_core.contract.message import Stream, TopicOfStream
from lineage_core.contract.offsets import OFFSETS, parse_offsets
from lineage_core.recipe.document import StreamBatch
from lineage_core.recipe.names import KAFKA
from lineage_query.conditions import Condition, parse_condition
from lineage_query.rows.places import Location, LocationError, parse_location, parse_valued
from lineage_store.paths import RowsError, canonical

_TOPIC = re.compile(r"kafka:(?://[^/]*/)?([\w.-]+)", re.ASCII)
"""A topic, with or without servers, of which those of the settings are meant."""
GLOB = frozenset("*?[{\\")
_UNREADABLE = (ValueError, TypeError, KeyError, AttributeError, RecursionError)


class Reading(Enum):
    """Whether a batch has read what is followed.

    ``PASSED``: it has not, as batches before it have, or the query never does. ``UNSURE``: that, or what had its place in another topic.
    """

    NO = "no"
    READ = "read"
    PASSED = "passed"
    UNSURE = "unsure"


class Followed(Protocol):
    """What is followed."""

    @property
    def name(self) -> str:
        """As people read it."""

    @property
    def goes_on(self) -> bool:
        """Whether each batch may read more of it, as long as a query runs."""

    def streams(self, facts: Stream) -> int:
        """How many streams of a query may read it. ``facts``: the message that the query has begun."""

    def is_beside(self, facts: Stream) -> bool:
        """Whether each batch of a query may read it beside the query's streams."""

    def never(self, facts: Stream) -> str:
        """Why a query never reads it, though it reads what has it; empty: it may, or has nothing to do with it."""

    def reading(self, recipe: dict[str, Any]) -> Reading:
        """Whether a batch has read it. ``recipe``: as JSON; one that can't be understood raises any of the usual errors."""


class FollowedFile:
    """Rows of a file."""

    def __init__(self, path: str) -> None:
        self._path = canonical(path)
        self._spellings = (self._path, os.path.abspath(os.path.expanduser(path)))
        """The file may be a link into another folder than that of the stream."""

    @property
    def name(self) -> str:
        """The file."""
        return self._path

    @property
    def goes_on(self) -> bool:
        """As `Followed`."""
        return False

    def streams(self, facts: Stream) -> int:
        """As `Followed`."""
        return sum(bool(folder) and self._may_be_in(folder) for folder in facts.reads)

    def is_beside(self, facts: Stream) -> bool:
        """As `Followed`."""
        return any(not folder or self._may_be_in(folder) for folder in facts.beside)

    def never(self, facts: Stream) -> str:
        """As `Followed`: a file may come at any time."""
        return ""

    def reading(self, recipe: dict[str, Any]) -> Reading:
        """As `Followed`."""
        has_read = any(
            _canonical(str(file["path"])) == self._path
            for source in recipe.get("sources", ())
            for file in source.get("files", ())
        )
        return Reading.READ if has_read else Reading.NO

    def _may_be_in(self, folder: str) -> bool:
        return any(may_hold(folder, path) for path in self._spellings)


@dataclass(frozen=True)
class FollowedRecord:
    """A record of a topic of Kafka.

    Args:
        servers: sorted, as recipes have them.
        topic: its name.
        id: of the topic that has the name now: another topic under this name has other records.
        partition: where it stands.
        offset: in the partition.
    """

    servers: str
    topic: str
    id: str
    partition: int
    offset: int

    @property
    def name(self) -> str:
        """The record with its servers."""
        return f"kafka://{self.servers}/{self.topic}[{self.partition}]@{self.offset}"

    @property
    def goes_on(self) -> bool:
        """As `Followed`."""
        return False

    def streams(self, facts: Stream) -> int:
        """As `Followed`."""
        if facts.topics is None:
            # Captured before topics were named: any other stream than of files may be one.
            return sum(not folder for folder in facts.reads)
        return sum(self._is_of(of) and not self._never_in(of) for of in facts.topics)

    def is_beside(self, facts: Stream) -> bool:
        """As `Followed`."""
        return "" in facts.beside

    def never(self, facts: Stream) -> str:
        """As `Followed`."""
        reasons = [self._never_in(of) for of in facts.topics or () if self._is_of(of)]
        return reasons[0] if reasons and all(reasons) else ""

    def reading(self, recipe: dict[str, Any]) -> Reading:
        """As `Followed`."""
        readings = [self._reading_of(source) for source in recipe.get("sources", ())]
        for sure in (Reading.READ, Reading.UNSURE):
            if sure in readings:
                return sure
        passed = [reading for reading in readings if reading is Reading.PASSED]
        # Of several that read the topic, another may still come to it.
        return Reading.PASSED if len(passed) == 1 else Reading.NO

    def _is_of(self, of: TopicOfStream) -> bool:
        """Whether a stream may read its topic: one that is made anew under the name is read on, though the stream began with another."""
        return of.topic in {"", self.topic}

    def _never_in(self, of: TopicOfStream) -> str:
        if of.topic != self.topic or of.id != self.id or of.firsts is None:
            return ""
        first = of.firsts.get(self.partition)
        if first is None:
            # Others are read from their beginning once they are there.
            return f"it does not read partition {self.partition}" if of.assigned else ""
        return f"it reads partition {self.partition} from {first} on" if first > self.offset else ""

    def _reading_of(self, source: dict[str, Any]) -> Reading:
        options = source.get("options", {})
        if source.get("format") != KAFKA or options.get("topic") != self.topic:
            return Reading.NO
        # The same topic may be reached by other addresses. The id is that of when the query began.
        is_same = options.get("id", self.id) == self.id
        version = source.get("version")
        if version is None or not OFFSETS.fullmatch(version):
            # Which offsets were read is not known.
            return Reading.READ if is_same else Reading.UNSURE
        first, end = parse_offsets(version).get(self.partition, (0, 0))
        if first <= self.offset < end:
            return Reading.READ if is_same else Reading.UNSURE
        return Reading.PASSED if is_same and first > self.offset else Reading.NO


@dataclass(frozen=True)
class FollowedSource:
    """Rows of a source that fulfil a condition, as they come.

    Args:
        source: a folder or file, or a topic of Kafka.
        condition: on the source's columns.
        is_topic: it is a topic.
    """

    source: str
    condition: Condition
    is_topic: bool = False

    @property
    def name(self) -> str:
        """The source with the condition."""
        return f"rows of {self.source} where {self.condition.source}"

    @property
    def goes_on(self) -> bool:
        """As `Followed`."""
        return True

    def streams(self, facts: Stream) -> int:
        """As `Followed`."""
        if not self.is_topic:
            return sum(bool(folder) and self._is_around(folder) for folder in facts.reads)
        if facts.topics is None:
            return sum(not folder for folder in facts.reads)
        return sum(of.topic in {"", self.source} for of in facts.topics)

    def is_beside(self, facts: Stream) -> bool:
        """As `Followed`."""
        return any(not folder or self._is_around(folder) for folder in facts.beside)

    def never(self, facts: Stream) -> str:
        """As `Followed`: a row may come at any time."""
        return ""

    def reading(self, recipe: dict[str, Any]) -> Reading:
        """As `Followed`."""
        sources = recipe.get("sources", ())
        return Reading.READ if any(map(self._is_of, sources)) else Reading.NO

    def _is_of(self, source: dict[str, Any]) -> bool:
        if self.is_topic:
            return (
                source.get("format") == KAFKA
                and source.get("options", {}).get("topic") == self.source
            )
        return any(self.holds(str(file["path"])) for file in source.get("files", ()))

    def holds(self, path: str) -> bool:
        """Whether a file is of the source."""
        path = _canonical(path)
        return path == self.source or path.startswith(f"{self.source}/")

    def _is_around(self, folder: str) -> bool:
        """Whether a stream of a folder, or of files that a pattern names, may read files of the source."""
        fixed, *pattern = re.split(r"[*?\[{\\]", folder, maxsplit=1)
        if pattern:
            # The last name may go on behind the sign.
            fixed = fixed.rpartition("/")[0]
        fixed = _canonical(fixed.rstrip("/"))
        return self.holds(fixed) or self.source.startswith(f"{fixed}/") or fixed == ""


@dataclass(frozen=True, slots=True)
class NamedRecord:
    """A record of a topic as typed."""

    topic: str
    partition: int
    offset: int


Named: TypeAlias = "Location | NamedRecord | FollowedSource"
"""What is to be followed, as typed."""


def parse_followed(text: str, where: str = "") -> Named:
    """Read ``TOPIC[PARTITION]@OFFSET``, or a place in a file as `parse_location`; with a condition a source.

    Args:
        text: as typed. With a condition: a folder, a file, or ``kafka:TOPIC``.
        where: a condition on the source's columns, as `parse_condition`; empty: none.

    Returns:
        The record, the place, or rows of a source.

    Raises:
        LocationError: it is none of them.
        ConditionError: the condition is not understood.
    """
    if where:
        condition = parse_condition(where)
        topic = _TOPIC.fullmatch(text)
        if topic is not None:
            return FollowedSource(topic[1], condition, is_topic=True)
        location = parse_location(text)
        if location.number is not None:
            raise LocationError(
                f"{text} is one row: with a condition, name a folder, a file or kafka:TOPIC"
            )
        return FollowedSource(canonical(location.path), condition)
    valued = parse_valued(text)
    values = {} if valued is None else dict(valued.values)
    partition, offset = values.get("partition") or "", values.get("offset") or ""
    if valued is None or len(values) != 2 or not (partition.isdecimal() and offset.isdecimal()):
        return parse_location(text)
    return NamedRecord(valued.of, int(partition), int(offset))


def may_hold(folder: str, path: str) -> bool:
    """Whether a stream of files of a folder, which may be a pattern, may hold a file (canonical). Too often rather than too rarely."""
    cut = next((at for at, letter in enumerate(folder) if letter in GLOB), len(folder))
    is_pattern = cut < len(folder)
    plain = folder[:cut].rpartition("/")[0] if is_pattern else folder
    try:
        root = canonical(plain or "/").rstrip("/")
    except RowsError:
        return True
    return path == root or path.startswith(f"{root}/")


def batch_of(text: str, followed: Followed) -> tuple[StreamBatch, Reading] | None:
    """The batch that a recipe is of, and whether it has read what is followed; None: it is of none, or can't be read."""
    if '"batch":{' not in text:
        return None
    try:
        document = json.loads(text)
        batch = document.get("batch")
        known = StreamBatch(str(batch["query"]), str(batch["run"]), int(batch["number"]))
    except _UNREADABLE:
        return None
    try:
        return known, followed.reading(document)
    except _UNREADABLE:
        return known, Reading.NO


@lru_cache(maxsize=4_096)
def _canonical(path: str) -> str:
    try:
        return canonical(path)
    except RowsError:
        return path
