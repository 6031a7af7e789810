"""Which rows of a batch's sources are followed: those at a place of a file, a record of a topic, or those that fulfil a condition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from pyspark.sql import SparkSession

from lineage_core.contract.offsets import OFFSETS, offsets_text, parse_offsets
from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.recipe.names import KAFKA
from lineage_dataframes.errors import NotComputedError, RefusedError
from lineage_dataframes.sources.file_changes import check_local, check_unchanged
from lineage_dataframes.sources.topic_records import RecordState, find_record, look_again
from lineage_dataframes.sources.topics import rows_at_offset, untraced_reason
from lineage_dataframes.sources.views import (
    FILE_COLUMN,
    ROW_COLUMN,
    files_of,
    unnamed_rows_reason,
    view_of,
)
from lineage_dataframes.spark.pyspark_parts import to_arrow
from lineage_dataframes.trace.rows import (
    FORWARD_ROWS_MAX,
    all_ordinals,
    check_forward_rows,
    ordinal_in_file,
)
from lineage_dataframes.trace.session import session_with_settings
from lineage_query.followed import (
    Followed,
    FollowedFile,
    FollowedRecord,
    FollowedSource,
    Named,
)
from lineage_query.rows.places import Location
from lineage_store.paths import canonical

Place: TypeAlias = Location | FollowedRecord | FollowedSource
_NAMES = (FILE_COLUMN, ROW_COLUMN)
WARM_BYTES_MAX = 1 << 20
WARM_RECORDS_MAX = 10_000


class Rows(Protocol):
    """The followed rows."""

    def ordinals(self, spark: SparkSession, recipe: Recipe) -> dict[str, list[int]]:
        """Those that a batch has read, by file.

        Raises:
            LineageError: there are no such rows, or which they are is not known.
        """

    def alone(self, source: Source, recipe: Recipe) -> Source:
        """A source with no more than what they are in. ``recipe``: of a batch that has read them.

        Raises:
            LineageError: it has not.
        """


@dataclass(frozen=True, slots=True)
class Target:
    """What is followed. ``look``: gives what is to be said of it now, empty: nothing."""

    followed: Followed
    place: Place
    look: Callable[[], str] = str


Run = Callable[[Callable[[SparkSession], RecordState]], RecordState]
"""Runs work on Spark."""


def target_of(named: Named, run: Run) -> Target:
    """What a place names. Of a record, the topic that has its name now is asked of.

    Args:
        named: as typed.
        run: runs what asks Kafka.

    Raises:
        LineageError: there is no such topic, or Kafka does not say.
    """
    if isinstance(named, Location):
        return Target(FollowedFile(named.path), named)
    if isinstance(named, FollowedSource):
        return Target(named, named)
    topic, partition, offset = named.topic, named.partition, named.offset
    record = run(lambda spark: find_record(spark, topic, partition, offset)).record

    def look() -> str:
        try:
            return run(lambda spark: look_again(spark, record)).note
        except NotComputedError as problem:
            # It may answer later.
            return str(problem)

    return Target(record, record, look)


def rows_at(place: Place) -> Rows:
    """The rows at a place."""
    if isinstance(place, FollowedSource):
        return _OfCondition(place)
    return _OfFile(place) if isinstance(place, Location) else _OfTopic(place)


@dataclass(frozen=True)
class _OfFile:
    location: Location

    def ordinals(self, spark: SparkSession, recipe: Recipe) -> dict[str, list[int]]:
        """Where the file is read in several ways, they are the same in each."""
        known: dict[str, list[int]] = {}
        for source, file in self._reads(recipe):
            ordinals = self._ordinals_in(spark, recipe, source, file)
            if known.setdefault(file.path, ordinals) != ordinals:
                raise RefusedError(
                    f"{file.path} is read in several ways, which count its rows otherwise"
                )
        return known

    def alone(self, source: Source, recipe: Recipe) -> Source:
        """The file."""
        _, file = self._reads(recipe)[0]
        return replace(source, paths=(file.path,), files=(file,))

    def _reads(self, recipe: Recipe) -> list[tuple[Source, File]]:
        """The sources of a recipe that hold the file."""
        path = canonical(self.location.path)
        reads = [
            (source, file)
            for source in recipe.sources
            for file in source.files
            if canonical(file.path) == path
        ]
        if not reads:
            raise RefusedError(f"{path} was not read")
        return reads

    def _ordinals_in(
        self, spark: SparkSession, recipe: Recipe, source: Source, file: File
    ) -> list[int]:
        check_local(replace(source, files=(file,)))
        number = self.location.number
        if number is None:
            ordinals: list[int] = all_ordinals(spark, recipe, source, file).tolist()
            return ordinals
        return [ordinal_in_file(spark, source, file, number, line=self.location.unit == "line")]


@dataclass(frozen=True)
class _OfTopic:
    record: FollowedRecord

    def ordinals(self, spark: SparkSession, recipe: Recipe) -> dict[str, list[int]]:
        """The record in each source that has read it."""
        record = self.record
        values = [("partition", str(record.partition)), ("offset", str(record.offset))]
        known: dict[str, list[int]] = {}
        for source in recipe.sources:
            if source.format != KAFKA or source.options.get("topic") != record.topic:
                continue
            reason = untraced_reason(source)
            if reason:
                raise RefusedError(reason)
            if source.options["id"] == record.id:
                places = rows_at_offset(source, values) or {}
                known |= {path: offsets.tolist() for path, offsets in places.items()}
        if not known:
            raise RefusedError(f"{record.name} was not read")
        return known

    def alone(self, source: Source, recipe: Recipe) -> Source:
        """The record."""
        if (source.options.get("topic"), source.options.get("id")) != (
            self.record.topic,
            self.record.id,
        ):
            raise RefusedError(f"{source.name} is another topic")
        span = self.record.offset, self.record.offset + 1
        return replace(source, version=offsets_text({self.record.partition: span}))


@dataclass(frozen=True)
class _OfCondition:
    followed: FollowedSource

    def ordinals(self, spark: SparkSession, recipe: Recipe) -> dict[str, list[int]]:
        """Those of all sources that are what is followed; none: no row fulfils the condition."""
        known: dict[str, list[int]] = {}
        for source in map(self._part_of, recipe.sources):
            if source is None:
                continue
            found, paths = self._rows_in(spark, recipe, source), files_of(source)
            if not found.keys() <= set(paths):
                raise RefusedError(f"{source.name} has rows of files that it did not have")
            for path in paths:
                ordinals = found.get(path, [])
                if known.setdefault(path, ordinals) != ordinals:
                    raise RefusedError(
                        f"{path} is read in several ways, in which other rows fulfil the condition"
                    )
        check_forward_rows(self.followed.name, sum(map(len, known.values())))
        return {path: ordinals for path, ordinals in known.items() if ordinals}

    def alone(self, source: Source, recipe: Recipe) -> Source:
        """All that was read of it."""
        part = self._part_of(source)
        if part is None:
            raise RefusedError(f"{source.name} is another source")
        return part

    def _part_of(self, source: Source) -> Source | None:
        """The part of a source that is of what is followed; None: it has none."""
        followed = self.followed
        if followed.is_topic:
            is_it = source.format == KAFKA and source.options.get("topic") == followed.source
            return source if is_it else None
        files = tuple(file for file in source.files if followed.holds(file.path))
        return replace(source, files=files) if files else None

    def _rows_in(self, spark: SparkSession, recipe: Recipe, source: Source) -> dict[str, list[int]]:
        reason = unnamed_rows_reason(source)
        if reason:
            raise RefusedError(reason)
        check_unchanged(spark, source)
        condition = self.followed.condition
        view = view_of(session_with_settings(spark, recipe, [source]), source)
        condition.check_columns(name for name in view.columns if name not in _NAMES)
        # What was understood of the condition, never its text.
        rows = to_arrow(view.where(condition.sql).select(*_NAMES).limit(FORWARD_ROWS_MAX + 1))
        check_forward_rows(self.followed.name, rows.num_rows)
        known: dict[str, list[int]] = {}
        for path, ordinal in zip(*(rows[name].to_pylist() for name in _NAMES), strict=True):
            known.setdefault(path, []).append(ordinal)
        return {path: sorted(ordinals) for path, ordinals in known.items()}


def warm_places(recipe: Recipe, like: Place) -> Iterator[Place]:
    """Places in a recipe's sources that are quickly traced, the most like first. ``like``: what is followed."""
    is_topic = isinstance(like, FollowedSource) and like.is_topic
    if isinstance(like, FollowedRecord) or is_topic:
        yield from _records(recipe)
        return
    files = (file for source in recipe.sources for file in source.files)
    path = next((file.path for file in files if file.size <= WARM_BYTES_MAX), None)
    if path is None:
        return
    if isinstance(like, Location) and like.number is not None:
        # The first line may be a header.
        yield replace(like, path=path, number=2 if like.unit == "line" else 0)
    yield Location(path, None)


def _records(recipe: Recipe) -> Iterator[FollowedRecord]:
    for source in recipe.sources:
        if source.format != KAFKA or not OFFSETS.fullmatch(source.version or ""):
            continue
        ranges = parse_offsets(source.version or "")
        if sum(end - first for first, end in ranges.values()) <= WARM_RECORDS_MAX:
            options, (partition, (first, _)) = source.options, next(iter(ranges.items()))
            yield FollowedRecord(
                options.get("servers", ""),
                options.get("topic", ""),
                options.get("id", ""),
                partition,
                first,
            )
            return
