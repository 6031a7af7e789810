"""Tables of Spark's catalog whose files are searched for when an action runs, not when the frame is made.

Those are tables with partitions, and text tables that Hive's own reader reads. Their files are listed before and
after an action: where both lists are the same, but for what the action itself wrote, these are what it read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from lineage_core.recipe.document import File, Source
from lineage_core.recipe.names import HIVE_TEXT
from lineage_emitter.dataframes import hive, iceberg
from lineage_emitter.dataframes.files import Folder, FolderListing
from lineage_emitter.dataframes.plan_text import said
from lineage_emitter.dataframes.walking import leaves

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Listed = Mapping[str, FolderListing]
"""The files of each table that a frame reads, by the table and the folders that are read of it."""

_NAMED = re.compile(r"HiveTableRelation \[|Relation [^\[\s]+\.[^\[\s]+\[")
"""How plans say that they read a table of the catalog."""
_PARTITION = re.compile(
    r"CatalogPartition\(\n\tPartition Values: \[(.*?)\]\n\tLocation: (.*?)\n(.*?)(?=, CatalogPartition\(\n|\)$|\Z)",
    re.DOTALL,
)


class UnknownFilesError(Exception):
    """Which files of a table were read, or what they hold, can't be determined; the message says why."""


def listed(frame: DataFrame) -> dict[str, FolderListing]:
    """The files, now, of such tables that a frame reads, those of cached frames aside."""
    execution, spark = frame._jdf.queryExecution(), frame.sparkSession
    if not _NAMED.search(said(execution.analyzed(), "toString")):
        return {}
    if iceberg.reads(execution.analyzed()):
        execution = iceberg.execution(spark, execution.analyzed(), refreshed=True)
    listings: dict[str, FolderListing] = {}
    for leaf in leaves(execution.optimizedPlan()):
        if is_listed(leaf):
            table = _Table.of(spark, leaf)
            if table.key not in listings:
                listings[table.key] = table.files()
    return listings


def unchanged(before: Listed, after: Listed, written: Iterable[File]) -> dict[str, FolderListing]:
    """Of the tables those whose files stayed what they were, but for those that the action wrote."""
    own = {file.path for file in written}
    return {
        key: files
        for key, files in before.items()
        if key in after
        and files == {path: facts for path, facts in after[key].items() if path not in own}
    }


def is_listed(leaf: Any) -> bool:
    """Whether a leaf (Spark's object) reads such a table."""
    kind = leaf.getClass().getSimpleName()
    if kind == "HiveTableRelation":
        return True
    if kind != "LogicalRelation" or not leaf.catalogTable().isDefined():
        return False
    relation = leaf.relation()
    if not relation.getClass().getName().endswith(".HadoopFsRelation"):
        return False
    where = str(relation.location().getClass().getName())
    if where.endswith(".CatalogFileIndex"):
        return True
    partitions = leaf.catalogTable().get().partitionColumnNames()
    return where.endswith(".InMemoryFileIndex") and not partitions.isEmpty()


def source(spark: SparkSession, leaf: Any, listed_tables: Listed) -> Source:
    """The source that a leaf reads; of a relation of files just its table, folder and files.

    Raises:
        UnknownFilesError: which files were read can't be determined.
        UnreadableError: Hive alone can read them.
    """
    table = _Table.of(spark, leaf)
    files = listed_tables.get(table.key)
    if files is None:
        raise UnknownFilesError(f"which files of {table.name} were read is not certain")
    table.check(files)
    metadata = table.metadata
    table_source = Source(
        format=HIVE_TEXT,
        paths=(table.folder,),
        schema=str(metadata.dataSchema().json()),
        partitions=_fields(metadata.partitionSchema()),
        files=tuple(
            File(path, facts.size, facts.mtime_ms) for path, facts in sorted(files.items())
        ),
        table=table.name,
    )
    if leaf.getClass().getSimpleName() == "HiveTableRelation":
        table.check_form()
        return replace(table_source, options=hive.options(spark, metadata))
    return table_source


def _fields(schema: Any) -> str:
    return "" if schema.isEmpty() else str(schema.json())


@dataclass(frozen=True)
class _Table:
    """A table as a leaf reads it. ``pruned``: the folders of the partitions that are read; None: all."""

    spark: SparkSession
    metadata: Any
    pruned: tuple[str, ...] | None

    @classmethod
    def of(cls, spark: SparkSession, leaf: Any) -> _Table:
        if leaf.getClass().getSimpleName() == "HiveTableRelation":
            metadata, pruned = leaf.tableMeta(), leaf.prunedPartitions()
            if not pruned.isDefined():
                return cls(spark, metadata, None)
            read = tuple(partition.folder for partition in _partitions(pruned.get()))
            return cls(spark, metadata, read)
        metadata, location = leaf.catalogTable().get(), leaf.relation().location()
        if location.getClass().getName().endswith(".CatalogFileIndex"):
            return cls(spark, metadata, None)
        roots = str(location.rootPaths().mkString("\n"))
        return cls(spark, metadata, tuple(roots.split("\n")) if roots else ())

    @property
    def name(self) -> str:
        return str(self.metadata.identifier().unquotedString())

    @property
    def key(self) -> str:
        return "\n".join((self.name, "*") if self.pruned is None else (self.name, *self.pruned))

    @property
    def folder(self) -> str:
        return Folder(self.spark.sparkContext, self.metadata.location().toString()).path

    def files(self) -> dict[str, Any]:
        """The files in its folders, as they are now."""
        files: dict[str, Any] = {}
        for folder in self._folders():
            files |= Folder(self.spark.sparkContext, folder).files()
        return files

    def _folders(self) -> tuple[str, ...]:
        if self.pruned is not None:
            return self.pruned
        if self.metadata.partitionColumnNames().isEmpty():
            return (self.folder,)
        return tuple(partition.folder for partition in self._all())

    def _all(self) -> list[_Partition]:
        catalog = self.spark._jsparkSession.sessionState().catalog()
        jvm: Any = self.spark._jvm
        nothing = getattr(jvm, "scala.Option").empty()
        return list(_partitions(catalog.listPartitions(self.metadata.identifier(), nothing)))

    def check(self, files: Iterable[str]) -> None:
        """See that each file lies where the values of its partition say.

        Raises:
            UnknownFilesError: one does not.
        """
        root, values_by_folder = self.folder, {self.folder: ""}
        if not self.metadata.partitionColumnNames().isEmpty():
            values_by_folder = {partition.folder: partition.values for partition in self._all()}
        for path in files:
            folder, _, name = path.rpartition("/")
            steps = folder.removeprefix(root).split("/")[1:]
            values = ", ".join(map(unquote, steps))
            if values_by_folder.get(folder, "/").lower() != values.lower() or name.endswith(
                "._COPYING_"
            ):
                raise UnknownFilesError(f"{path} does not lie where tables have their files")

    def check_form(self) -> None:
        """See that the files of each partition are read as those of the table.

        Raises:
            UnknownFilesError: some are not.
        """
        if self.metadata.partitionColumnNames().isEmpty():
            return
        form = hive.form_of(self.metadata.storage())
        for partition in self._all():
            if partition.form != form and (self.pruned is None or partition.folder in self.pruned):
                raise UnknownFilesError(f"partitions of {self.name} are of several forms")


@dataclass(frozen=True)
class _Partition:
    """``values``: as its folder says them. ``form``: how its files are read."""

    values: str
    folder: str
    form: tuple[str, ...]


def _partitions(held: Any) -> Iterator[_Partition]:
    """Partitions of a catalog, which Spark says as text in one call."""
    for values, folder, rest in _PARTITION.findall(str(held.mkString(", "))):
        yield _Partition(values, folder, hive.form(rest.split("\n")))
