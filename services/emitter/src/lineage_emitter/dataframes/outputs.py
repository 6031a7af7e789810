"""What an action on a DataFrame gives or writes, and where to: known before the action runs."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from lineage_core.recipe.document import Failure, File, Output
from lineage_core.recipe.names import DELTA, HIVE_TEXT, ICEBERG, JDBC, KAFKA
from lineage_emitter.dataframes import delta, hive, iceberg, jdbc, topics
from lineage_emitter.dataframes.files import Folder, FolderListing, added_files
from lineage_emitter.dataframes.jvm import explicit_settings, pairs_of
from lineage_emitter.dataframes.own_commits import OwnCommits

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WRITER_CALLS = "_lineage_said"
"""Attribute of a writer: what the program has set on it."""
FILE_FORMATS = ("parquet", "orc", "csv", "json", "text", "xml")
"""Methods of DataFrameWriter that are formats of files."""
READABLE_OPTIONS = frozenset(
    {
        "header", "sep", "delimiter", "quote", "escape", "chartoescapequoteescaping", "escapequotes",
        "quoteall", "encoding", "charset", "linesep", "nullvalue", "emptyvalue", "dateformat",
        "timestampformat", "timestampntzformat", "compression", "codec", "locale", "multiline",
        "ignoreleadingwhitespace", "ignoretrailingwhitespace", "wholetext", "timezone",
        "ignorenullfields", "rowtag", "roottag",
    }
)  # fmt: skip
"""Options that say how to read a file; others may be secrets and are not recorded."""
_FIRST_ROWS = {"first": 1, "isEmpty": 1, "head": 1, "show": 20}
"""How many rows an action gives at most, where its caller gives no number."""


@dataclass(slots=True)
class WriterCalls:
    """What a program has set on a writer so far."""

    format: str = ""
    mode: str = ""
    options: dict[str, str] = field(default_factory=dict)
    path: str = ""
    table: str = ""
    topic: dict[str, str] = field(default_factory=dict)
    """Options that name a topic and how Kafka is reached; they may hold secrets, and are not recorded."""
    database: dict[str, object] = field(default_factory=dict)
    """Options that name a table of a database. The URL may hold secrets: `to_database` leaves them out."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where an action's rows go. ``folder``: of a write to files, with what lay there ``before``."""

    kind: Literal["driver", "files", "table"]
    action: str
    path: str | None = None
    table: str | None = None
    format: str | None = None
    limit: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    folder: Folder | None = None
    before: FolderListing = field(default_factory=dict)
    began_at: float = field(default_factory=time.time)
    """When the action began, or sooner, in unix seconds."""
    log: delta.DeltaWrite | None = None
    snapshots: iceberg.IcebergWrite | None = None
    topic: topics.TopicWrite | None = None
    columns: tuple[str, ...] = ()
    """Of a table that is there, in order."""

    def output(self) -> Output:
        """The output as it is now, after the action: with the files that it has written, but for those of Iceberg's tables.

        Raises:
            OSError, py4j.protocol.Py4JError: they can't be listed.
        """
        files, version = self._written()
        output = Output(
            kind=self.kind,
            action=self.action,
            path=self.path,
            table=self.table,
            format=self.format,
            limit=self.limit,
            options=dict(self.options),
            files=files,
            version=version if self.topic is None else self.topic.version(),
            commits=() if self.log is None else self.log.candidates(),
        )
        return output if self.snapshots is None else self.snapshots.output(output)

    def failed(self, failure: Failure) -> Output:
        """The output of an action that failed: where its rows would have gone, and no files."""
        return Output(
            kind=self.kind,
            action=self.action,
            path=self.path,
            table=self.table,
            format=self.format,
            limit=self.limit,
            options=dict(self.options),
            failure=failure,
        )

    def record_return(self, commits: OwnCommits) -> None:
        """The action has returned. ``commits``: those that were observed while it ran."""
        if self.snapshots is not None:
            self.snapshots.record_return(commits)
        if self.log is not None:
            self.log.record_return(commits)

    @property
    def may_commit(self) -> bool:
        """Whether it may be a table with versions, or one that is made and may become one."""
        is_versioned = self.log is not None or self.snapshots is not None
        return is_versioned or (self.kind == "table" and self.folder is None)

    def with_files(self, output: Output) -> Output:
        """The output with its files."""
        return output if self.snapshots is None else self.snapshots.with_files(output)

    def _written(self) -> tuple[tuple[File, ...], str | None]:
        """The files that were written, and the version of a table that they made."""
        if self.folder is None:
            return (), None
        if self.log is not None:
            return self.log.files(), None if self.log.version is None else str(self.log.version)
        files = added_files(self.before, self.folder.files())
        return tuple(
            File(path=path, size=facts.size, mtime=facts.mtime_ms) for path, facts in files.items()
        ), None


def to_driver(
    action: str, method: Callable[..., Any], frame: Any, positional: Any, named: Any
) -> Target:
    """An action that gives rows, or a figure about them, to the program."""
    name = action.rpartition(".")[2]
    limit = None
    if name in {"take", "tail", "head", "first", "show", "isEmpty"}:
        arguments = list(
            inspect.signature(method).bind(frame, *positional, **named).arguments.values()
        )
        limit = arguments[1] if arguments[1:] else None
        if type(limit) is not int:
            limit = _FIRST_ROWS.get(name)
    return Target("driver", action, limit=limit)


def to_files(spark: SparkSession, action: str, path: str, writer_calls: WriterCalls) -> Target:
    """A write below a path."""
    if writer_calls.format.lower() == ICEBERG and iceberg.is_used(None):
        return Target("table", action, path=path, snapshots=iceberg.IcebergWrite(spark, path))
    folder = Folder(spark.sparkContext, path)
    return Target(
        "files",
        action,
        path=folder.path,
        options=writer_calls.options,
        folder=folder,
        **_before(spark, folder, writer_calls.format),
    )


def _before(
    spark: SparkSession,
    folder: Folder,
    format: str | None,
    *,
    is_new: bool = False,
) -> dict[str, Any]:
    """What is in the folder now, as a target keeps it."""
    if (format or "").lower() == DELTA:
        log = delta.DeltaWrite(spark.sparkContext, folder, is_new=is_new)
        return {"log": log, "format": DELTA}
    return {"before": {} if is_new else folder.files(), "format": format}


def to_table(spark: SparkSession, action: str, table: str, writer_calls: WriterCalls) -> Target:
    """A write to a table: with its files where it is one of Spark's own catalog.

    Of a table that is not there yet the files are searched for afterwards: see :func:`located`.
    """
    if iceberg.is_used(explicit_settings(spark)):
        log = iceberg.IcebergWrite(spark, table)
        if log.columns is not None:
            return Target("table", action, table=table, columns=log.columns, snapshots=log)
    target = Target(
        "table",
        action,
        table=table,
        format=writer_calls.format or None,
        options=writer_calls.options,
    )
    return located(spark, target)


def to_database(target: Target, options: Mapping[str, object]) -> Target:
    """The target of a write to the table of a database that options name, where they name one."""
    place = jdbc.written_table(options)
    if not place:
        return target
    return replace(target, table=f"{place['url']}/{place['dbtable']}", format=JDBC, options=place)


def to_topic(spark: SparkSession, target: Target, options: Mapping[str, str]) -> Target:
    """The target of a write to the topic that options name, or to those that its rows name."""
    write = topics.TopicWrite.begun(spark, options)
    if write is None:
        return topics.named_by_rows(target, options)
    return replace(target, table=write.name, format=KAFKA, options=write.place, topic=write)


def with_columns(target: Target, columns: Sequence[str]) -> Target:
    """The target, without its files' format where these hold columns of a frame under other names.

    ``insertInto`` goes by the order of columns, ``saveAsTable`` by their names; so do formats of files.
    """
    by_name = target.action.endswith("saveAsTable") and target.format != HIVE_TEXT
    same = [column.lower() for column in columns] == [column.lower() for column in target.columns]
    if same or by_name or not target.columns:
        return target
    if target.snapshots is not None:
        target.snapshots.format = None
    return replace(target, format=None)


def located(spark: SparkSession, target: Target, *, is_new: bool = False) -> Target:
    """The target with its table's folder, where there is such a table and it has one.

    ``is_new``: what is in the folder is all of this write.
    """
    assert target.table is not None
    if is_new and iceberg.is_used(explicit_settings(spark)):
        log = iceberg.IcebergWrite(spark, target.table)
        if log.columns is not None:
            return replace(target, snapshots=log.of_new_table(), options={})
    state = spark._jsparkSession.sessionState()
    try:
        # Of the session's own catalog names have two parts.
        own = target.table.removeprefix("spark_catalog.")
        name = state.sqlParser().parseTableIdentifier(own)
        if not state.catalog().tableExists(name):
            return target
        metadata = state.catalog().getTableMetadata(name)
        provider = metadata.provider()
        if provider.isDefined() and provider.get().lower() == JDBC:
            return to_database(target, pairs_of(metadata.storage().properties()))
        folder = Folder(spark.sparkContext, metadata.location().toString())
    except Exception:
        # A table of another catalog, say: it may have no files at all.
        return target
    named = target.format or (provider.get() if provider.isDefined() else None)
    if named == "hive":
        named, options = hive.file_format(spark, metadata)
        target = replace(target, options={**target.options, **options})
    return replace(
        target,
        columns=tuple(metadata.schema().fieldNames()),
        path=folder.path,
        folder=folder,
        **_before(spark, folder, named, is_new=is_new),
    )
