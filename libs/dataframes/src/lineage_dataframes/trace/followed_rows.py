"""Which rows of a batch's sources are followed: those at a place of a file, or a record of a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from pyspark.sql import SparkSession

from lineage_core.contract.offsets import OFFSETS, offsets_text, parse_offsets
from lineage_core.recipe.document import File, Recipe, Source
from lineage_core.recipe.names import KAFKA
from lineage_dataframes.errors import NotComputedError, RefusedError
from lineage_dataframes.sources.file_changes import check_local
from lineage_dataframes.sources.topic_records import RecordState, find_record, look_again
from lineage_dataframes.sources.topics import rows_at_offset, untraced_reason
from lineage_dataframes.trace.rows import all_ordinals, ordinal_in_file
from lineage_query.followed import Followed, FollowedFile, FollowedRecord, NamedRecord
from lineage_query.rows.places import Location
from lineage_store.paths import canonical

Place: TypeAlias = Location | FollowedRecord
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


def target_of(named: Location | NamedRecord, run: Run) -> Target:
    """What a place names. Of a record, the topic that has its name now is asked of.

    Args:
        named: as typed.
        run: runs what asks Kafka.

    Raises:
        LineageError: there is no such topic, or Kafka does not say.
    """
    if isinstance(named, Location):
        return Target(FollowedFile(named.path), named)
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


def warm_places(recipe: Recipe, like: Place) -> Iterator[Place]:
    """Places in a recipe's sources that are quickly traced, the most like first. ``like``: what is followed."""
    if isinstance(like, FollowedRecord):
        yield from _records(recipe)
        return
    files = (file for source in recipe.sources for file in source.files)
    path = next((file.path for file in files if file.size <= WARM_BYTES_MAX), None)
    if path is None:
        return
    if like.number is not None:
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
