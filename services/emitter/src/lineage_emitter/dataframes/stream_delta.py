"""Tables of Delta Lake that micro-batches read as streams: the files that the query's checkpoint names by version and place in the commit.

A stream gives the files of the version that the table has when the query begins, then those that each commit adds. The commits say which, and
Delta Lake's own offsets say up to which of them a batch went. A file is read as it is in a version that has it as the commit wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from lineage_core.recipe.document import File, Source
from lineage_core.recipe.names import DELTA
from lineage_emitter.dataframes import delta
from lineage_emitter.dataframes.files import Folder
from lineage_emitter.dataframes.plan_text import compiled
from lineage_emitter.dataframes.stream_state import PLANS_CLASS, Offsets
from lineage_emitter.dataframes.table_parts import TablePart, TableRead, read_of, same_columns
from lineage_emitter.pyspark_parts import WITH_DELTA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAM = "DeltaSource"
"""The class of streams that read tables."""
SKIPS_CHANGES = "skipChangeCommits"
COMMITS_MAX = 1_000
"""Maximum number of commits that a batch has read."""
UNKNOWN_BEGIN = (
    "it is not known from which version of the table on an earlier run of the query read it"
)


class UnknownFilesError(Exception):
    """Which files a batch read can't be determined; the message says why."""


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a stream of a table: behind a file of a version.

    ``table``: its id. ``index``: of the file; below 0: before all of them. ``in_snapshot``: among all files that the version has, with which a
    query begins; else among those that its commit added.
    """

    table: str
    version: int
    index: int
    in_snapshot: bool

    @classmethod
    def of(cls, text: str) -> Place:
        """By an offset of Delta Lake, as JSON."""
        raw = json.loads(text)
        version, index = int(raw["reservoirVersion"]), int(raw["index"])
        return cls(str(raw["reservoirId"]), version, max(index, -1), bool(raw["isStartingVersion"]))


@dataclass(frozen=True, slots=True)
class Commit:
    """What a commit did. ``added``: the files that a stream gives of it, in their order. ``touched``: paths of all that it added or removed."""

    added: tuple[File, ...]
    touched: frozenset[str]

    @classmethod
    def of(
        cls,
        actions: Sequence[Mapping[str, Any]],
        path_of: Callable[[str], str],
        *,
        skips_changes: bool,
    ) -> Commit:
        """By the actions of a commit. ``path_of``: gives a file's path. ``skips_changes``: the stream leaves out commits that remove rows."""
        adds = [action["add"] for action in actions if "add" in action]
        removes = [action["remove"] for action in actions if "remove" in action]
        touched = frozenset(path_of(one["path"]) for one in (*adds, *removes))
        if skips_changes and any(remove.get("dataChange", True) for remove in removes):
            return cls((), touched)
        added = tuple(
            File(path_of(add["path"]), int(add["size"]), int(add["modificationTime"]))
            for add in adds
            if add["dataChange"]
        )
        return cls(added, touched)


@dataclass(slots=True)
class _Group:
    """Files that are read in one version. ``version``: the last one that added some of them."""

    version: int
    files: dict[str, File] = field(default_factory=dict)

    def add(self, version: int, files: Sequence[File]) -> None:
        """More files, of a version behind which no commit has touched those that are there."""
        if files:
            self.version = version
            self.files |= {file.path: file for file in files}


def files_between(
    start: Place,
    end: Place,
    snapshot: Callable[[int], Sequence[File]],
    commit: Callable[[int], Commit],
) -> Iterator[tuple[int, tuple[File, ...]]]:
    """The files that a stream gives between two places, each with a version that has it as it was given.

    Args:
        start: Behind what was given before.
        end: Behind the last file.
        snapshot: Gives the files of a version, in the order in which streams give them.
        commit: Gives what a version's commit did.

    Yields:
        A version, and files of it, in the order of versions.

    Raises:
        UnknownFilesError: the places are not of one table, or not in order.
    """
    is_in_order = (start.version, start.index) <= (end.version, end.index)
    if (
        start.table != end.table
        or not is_in_order
        or (end.in_snapshot and end.version != start.version)
    ):
        raise UnknownFilesError("offsets of the stream that are not of one table, or not in order")
    group, first = _Group(start.version), start.version
    if start.in_snapshot:
        files = snapshot(start.version)
        stop = end.index + 1 if end.version == start.version else len(files)
        group.add(start.version, files[start.index + 1 : stop])
        first += 1
    last = end.version if end.index >= 0 else end.version - 1
    for version in range(first, last + 1):
        of_version = commit(version)
        if of_version.touched & group.files.keys():
            yield group.version, tuple(group.files.values())
            group = _Group(version)
        begin = start.index + 1 if version == start.version else 0
        stop = end.index + 1 if version == end.version else len(of_version.added)
        group.add(version, of_version.added[begin:stop])
    if group.files:
        yield group.version, tuple(group.files.values())


def in_stream_order(files: Sequence[File], folder: str) -> list[File]:
    """Files of a version of the table in a folder, in the order in which streams give them.

    Delta Lake sorts by time, then by the name that its log has, in which special signs are encoded.

    Raises:
        UnknownFilesError: a file lies elsewhere, so its name in the log is another.
        UnknownVersionError: a name in the log may be another.
    """
    delta.check_names(files)
    # Delta Lake compares UTF-16, by which letters beyond ASCII may stand otherwise.
    if not all(file.path.isascii() and file.path.startswith(f"{folder}/") for file in files):
        raise UnknownFilesError("a part of a Delta table whose files have no certain order")
    return sorted(files, key=lambda file: (file.mtime, file.path))


def reads(stream: Any, path: str) -> bool:
    """Whether a stream (Spark's object) reads the table at a path."""
    is_of_table = str(stream.getClass().getSimpleName()) == STREAM
    return is_of_table and str(stream.deltaLog().dataPath().toString()) == path


def table_read(spark: SparkSession, stream: Any, schema: str, offsets: Offsets) -> TableRead:
    """What a batch read of a stream.

    Args:
        spark: The query's session.
        stream: Spark's object.
        schema: Of its rows, as Spark's JSON.
        offsets: Of the batch.
    """
    path = str(stream.deltaLog().dataPath().toString())
    try:
        return read_of(_parts(spark, stream, path, schema, offsets))
    except (UnknownFilesError, delta.UnknownVersionError) as problem:
        return TableRead((Source(DELTA, (path,), schema),), problem=str(problem))


def _parts(
    spark: SparkSession, stream: Any, path: str, schema: str, offsets: Offsets
) -> list[tuple[TablePart, DataFrame]]:
    if not WITH_DELTA:
        raise UnknownFilesError(f"tables of Delta Lake are not traced in Spark {spark.version}")
    _check_options(stream)
    end = Place.of(offsets.end_text)
    start = _begin(stream, offsets) if offsets.start is None else Place.of(offsets.start_text)
    if end.version - start.version > COMMITS_MAX:
        raise UnknownFilesError(f"a batch of more than {COMMITS_MAX:,} commits of a Delta table")
    log = delta.DeltaLog(spark.sparkContext, Folder(spark.sparkContext, path))
    skips_changes = bool(stream.options().skipChangeCommits())
    is_whole = end.version > start.version and start.index < 0

    def snapshot(version: int) -> Sequence[File]:
        files = delta.files_of(spark, path, delta.TableVersion(version, end.table))
        return files if is_whole else in_stream_order(files, log.folder.path)

    def commit(version: int) -> Commit:
        if not log.has(version):
            raise UnknownFilesError(
                f"the log of {path} has no commit of version {version} any more"
            )
        return Commit.of(log.commit(version), log.path_of, skips_changes=skips_changes)

    # By another choice an earlier run of the query has read other files.
    options = {SKIPS_CHANGES: "true"} if skips_changes else {}
    try:
        return [
            _part(spark, path, schema, delta.TableVersion(version, end.table), files, options)
            for version, files in files_between(start, end, snapshot, commit)
        ]
    except (Py4JJavaError, PySparkException) as problem:
        reason = str(problem).partition("\n")[0][:200]
        raise UnknownFilesError(f"files of {path} are not known any more: {reason}") from problem


def _part(
    spark: SparkSession,
    path: str,
    schema: str,
    version: delta.TableVersion,
    files: tuple[File, ...],
    options: Mapping[str, str],
) -> tuple[TablePart, DataFrame]:
    delta.check_names(files)
    frame = delta.frame_of_version(spark, path, version)
    index = delta.location_of(frame._jdf.queryExecution().analyzed())
    columns = str(frame._jdf.schema().json())
    if not same_columns(columns, schema):
        raise UnknownFilesError(
            f"version {version.number} of {path} has other columns than the stream"
        )
    in_order = tuple(sorted(files, key=lambda file: file.path))
    source = Source(
        DELTA, (path,), columns, options=options, files=in_order, version=str(version.number)
    )
    return TablePart(index, source), frame


def _check_options(stream: Any) -> None:
    options = stream.options()
    refused = {
        "readChangeFeed": bool(options.readChangeFeed()),
        "excludeRegex": options.excludeRegex().isDefined(),
        "schemaTrackingLocation": stream.metadataTrackingLog().isDefined(),
        "filters": not stream.filters().isEmpty(),
    }
    for name, is_set in refused.items():
        if is_set:
            raise UnknownFilesError(f"a stream of a Delta table with the option {name}")


def _begin(stream: Any, offsets: Offsets) -> Place:
    """Where a query began in a stream of which it has read nothing before.

    Raises:
        UnknownFilesError: that is not known.
    """
    if not offsets.first_end_text:
        raise UnknownFilesError(UNKNOWN_BEGIN)
    end = Place.of(offsets.first_end_text)
    if end.in_snapshot:
        return replace(end, index=-1)
    # Delta Lake determines it when it plans the first batch, by options that may be others in another run.
    configured = compiled(PLANS_CLASS).field(stream, "getStartingVersion")
    if not offsets.is_first_own or configured is None:
        raise UnknownFilesError(UNKNOWN_BEGIN)
    if configured.isDefined():
        return Place(end.table, int(configured.get()), -1, in_snapshot=False)
    return Place(end.table, end.version - 1, -1, in_snapshot=True)
