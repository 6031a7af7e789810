"""Delta Lake: the version of a table that a frame read, and the files that a write added.

A frame over a Delta table reads the version that is the latest when it runs, which its plan does not say before.
It can't be older than the one that the frame was made with, nor newer than the one after the action: where both
are the same, it is that one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from lineage_core.recipe.document import File, Source
from lineage_core.recipe.names import DELTA
from lineage_emitter.dataframes.files import STATUS, Folder
from lineage_emitter.dataframes.own_commits import OwnCommits
from lineage_emitter.dataframes.walking import leaves
from lineage_emitter.pyspark_parts import WITH_DELTA

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

PACKAGE = "org.apache.spark.sql.delta."
_INDEX = f"{PACKAGE}files.TahoeLogFileIndex"
_RELATION = f"{PACKAGE}DeltaLog$$anon$"
_COMMIT = re.compile(r"/_delta_log/(\d{20})\.json\b")
_ENCODED = re.compile(r"[^-\w./:=@,+~]")
"""Signs that a file's name has otherwise in an address: names with these are not compared."""

COMMITS_MAX = 100
"""Maximum number of commits that were made during a write of which its own is looked for, the latest ones."""
_OWN_UPKEEP = "OPTIMIZE"
"""The operation that Delta Lake runs by itself behind a write (`delta.autoOptimize.autoCompact`)."""


class TableVersion(NamedTuple):
    """A version of a table. ``id``: the table's, which another one at its path has not."""

    number: int
    id: str


Versions = Mapping[str, TableVersion]
"""Tables, by path, with their latest version when an action had returned."""


class UnknownVersionError(Exception):
    """Which rows of a table were read can't be determined; the message says why."""


def is_used(settings: Mapping[str, str] | None) -> bool:
    """Whether the session has Delta Lake."""
    return settings is None or any(
        "delta" in value.lower()
        for name, value in settings.items()
        if name.startswith(("spark.sql.extensions", "spark.sql.catalog."))
    )


def is_delta(relation: Any) -> bool:
    """Whether a relation (Spark's object) is a Delta table's."""
    name = relation.getClass().getName()
    # Until it is optimised, a table's relation is of a class of Delta Lake's own.
    if not name.endswith(".HadoopFsRelation") and not name.startswith(_RELATION):
        return False
    return str(relation.location().getClass().getName()).startswith(PACKAGE)


def reads(plan: Any) -> bool:
    """Whether a plan (Spark's object, not yet optimised) reads a Delta table, cached frames aside."""
    return any(is_delta(relation) for relation in _relations(plan, cached=False))


def latest(frame: DataFrame) -> dict[str, TableVersion]:
    """The latest versions, now, of the Delta tables that a frame reads."""
    relations = _relations(frame._jdf.queryExecution().withCachedData(), cached=True)
    return latest_of(map(_followed, relations))


def latest_of(indexes: Iterable[Any | None]) -> dict[str, TableVersion]:
    """The latest versions, now, of tables by what lists their files (Spark's objects; None: of another table)."""
    known = (index for index in indexes if index is not None)
    return {str(index.path().toString()): _version(index.getSnapshotToScan()) for index in known}


def version_of(index: Any) -> TableVersion:
    """The version that a table had when a frame was made, by what lists its files (Spark's object)."""
    return _version(index.snapshotAtAnalysis())


def _version(snapshot: Any) -> TableVersion:
    return TableVersion(int(snapshot.version()), str(snapshot.metadata().id()))


def followed(plan: Any) -> list[tuple[Any, Any]]:
    """The leaves of a plan (Spark's object) that read the latest versions of Delta tables, with what lists their files."""
    found = [
        (leaf, _followed(leaf.relation()))
        for leaf in leaves(plan, cached=False)
        if leaf.getClass().getSimpleName() == "LogicalRelation"
    ]
    return [(leaf, index) for leaf, index in found if index is not None]


def _followed(relation: Any) -> Any | None:
    """What lists the files of a Delta table whose latest version is read (Spark's object); None: it is no such relation."""
    if not is_delta(relation) or relation.location().getClass().getName() != _INDEX:
        return None
    index = relation.location()
    return None if index.isTimeTravelQuery() else index


def frame_of_version(spark: SparkSession, path: str, version: TableVersion) -> DataFrame:
    """A frame of a version of a table.

    Raises:
        UnknownVersionError: another table is at the path now.
    """
    frame = spark.read.format(DELTA).option("versionAsOf", version.number).load(path)
    if version_of(location_of(frame._jdf.queryExecution().analyzed())) != version:
        raise UnknownVersionError(f"{path} was removed and made anew since it was read")
    return frame


def rows_of_version(spark: SparkSession, path: str, version: TableVersion) -> Any:
    """The plan (Spark's object) of :func:`frame_of_version`."""
    return frame_of_version(spark, path, version)._jdf.queryExecution().analyzed()


def location_of(rows: Any) -> Any:
    """What lists the files of the table that a plan reads (Spark's objects)."""
    return rows.collectLeaves().apply(0).relation().location()


def source(spark: SparkSession, relation: Any, versions: Versions) -> Source:
    """The source that a relation of Delta Lake reads, with the files of its version.

    Raises:
        UnknownVersionError: the version, or the rows of it, can't be determined.
    """
    if not WITH_DELTA:
        raise UnknownVersionError(f"tables of Delta Lake are not traced in Spark {spark.version}")
    index = relation.location()
    if index.getClass().getName() != _INDEX or not index.partitionFilters().isEmpty():
        raise UnknownVersionError("a part of a Delta table, not a version of it")
    path, version = str(index.path().toString()), version_of(index)
    if not index.isTimeTravelQuery():
        now = versions.get(path)
        if now is not None and now.id != version.id:
            raise UnknownVersionError(f"{path} was removed and made anew since the frame was made")
        if now != version:
            raise UnknownVersionError(
                f"{path} had version {version.number} when the frame was made and "
                f"{'another' if now is None else now.number} after the action: "
                "which one was read is known where it is named (versionAsOf)"
            )
    files = files_of(spark, path, version)
    check_names(files)
    return Source(
        DELTA, (path,), str(relation.schema().json()), files=files, version=str(version.number)
    )


def check_names(files: Iterable[File]) -> None:
    """See that files have names which can be compared.

    Raises:
        UnknownVersionError: one has not.
    """
    if any(_ENCODED.search(file.path) for file in files):
        raise UnknownVersionError("files of a Delta table whose names hold special signs")


def files_of(spark: SparkSession, path: str, version: TableVersion) -> tuple[File, ...]:
    """The files of a version of a table, as its log has them.

    Raises:
        UnknownVersionError: another table is at the path now.
    """
    index = location_of(rows_of_version(spark, path, version))
    none = index.partitionFilters().take(0)
    listed = STATUS.findall(index.listFiles(none, none).mkString("\n"))
    files = (File(name, int(size), int(time)) for name, size, time in listed)
    return tuple(sorted(files, key=lambda file: file.path))


def _relations(plan: Any, *, cached: bool) -> Iterator[Any]:
    """The relations of leaves, those of subqueries and (``cached``) of cached frames among them."""
    for leaf in leaves(plan, cached=cached):
        if leaf.getClass().getSimpleName() == "LogicalRelation":
            yield leaf.relation()


def is_own_write(actions: Sequence[Mapping[str, Any]], transactions: frozenset[str]) -> bool | None:
    """Whether a commit wrote the rows of a write.

    Args:
        actions: of the commit.
        transactions: the ids of those that the write began.

    Returns:
        None: the commit does not say of which transaction it is.
    """
    infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
    if len(infos) != 1 or not infos[0].get("txnId"):
        return None
    return infos[0]["txnId"] in transactions and infos[0].get("operation") != _OWN_UPKEEP


class DeltaLog:
    """The log of a table, which may not be there yet."""

    def __init__(self, sc: SparkContext, folder: Folder) -> None:
        self._sc = sc
        self.folder = folder

    def last(self) -> int:
        """The latest version; -1: there is no table.

        Raises:
            py4j.protocol.Py4JError: the log can't be listed.
        """
        listed = self.folder.system.globStatus(self._path("*.json")) or ()
        names = "\n".join(status.getPath().toString() for status in listed)
        return max(map(int, _COMMIT.findall(names)), default=-1)

    def has(self, version: int) -> bool:
        """Whether the log has the commit of a version.

        Raises:
            py4j.protocol.Py4JError: the log can't be read.
        """
        return bool(self.folder.system.exists(self._path(f"{version:020}.json")))

    def commit(self, version: int) -> list[Mapping[str, Any]]:
        """What the commit of a version did.

        Raises:
            py4j.protocol.Py4JError: the log has none, or can't be read.
        """
        jvm: Any = self._sc._jvm
        stream = self.folder.system.open(self._path(f"{version:020}.json"))
        try:
            text = str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
        # Not by splitlines: it takes other signs for ends of lines, too.
        return [json.loads(line) for line in text.split("\n") if line.strip()]

    def added(self, actions: Sequence[Mapping[str, Any]]) -> tuple[File, ...]:
        """The files that a commit added."""
        return tuple(sorted(self._added(actions), key=lambda file: file.path))

    def _added(self, actions: Sequence[Mapping[str, Any]]) -> Iterator[File]:
        # A file that is removed and added in one is an old one with other deletions.
        old = {action["remove"]["path"] for action in actions if "remove" in action}
        for action in (action["add"] for action in actions if "add" in action):
            if action["path"] not in old:
                yield File(self.path_of(action["path"]), action["size"], action["modificationTime"])

    def path_of(self, name: str) -> str:
        """The path of a file, as Hadoop spells it, by what the log calls it."""
        name = unquote(name)
        return name if ":/" in name else f"{self.folder.path}/{name}"

    def _path(self, name: str) -> Any:
        jvm: Any = self._sc._jvm
        return jvm.org.apache.hadoop.fs.Path(f"{self.folder.path}/_delta_log/{name}")


class DeltaWrite:
    """A write to a table, which may not be there yet. ``is_new``: there was no table before the write."""

    def __init__(self, sc: SparkContext, folder: Folder, *, is_new: bool = False) -> None:
        self._log = DeltaLog(sc, folder)
        self.before = -1 if is_new else self._log.last()
        """The version before the write; -1: there was no table."""
        self.after: int | None = None
        """The version when the write had returned."""
        self.version: int | None = None
        """The one that the write made; None: it made none, or that is not known."""
        self._is_known = False
        """Whether it is known which version the write made, if any."""
        self._actions: Sequence[Mapping[str, Any]] = ()

    def record_return(self, commits: OwnCommits) -> None:
        """The write has returned. ``commits``: those that were observed."""
        self.after = self._log.last()
        transactions = (commits.transactions or {}).get(self._log.folder.path)
        if not transactions:
            return
        first = max(self.before + 1, self.after - COMMITS_MAX + 1)
        read = {version: self._log.commit(version) for version in range(first, self.after + 1)}
        owns = {version: is_own_write(actions, transactions) for version, actions in read.items()}
        own = [version for version, is_own in owns.items() if is_own]
        if len(own) == 1:
            self.version, self._actions, self._is_known = own[0], read[own[0]], True
        elif not own:
            # A write of no rows may make no version, as does one that leaves alone what is there.
            self._is_known = None not in owns.values() and first == self.before + 1

    def others(self, versions: Versions) -> dict[str, TableVersion]:
        """Versions of tables after the write, as far as others than this write made them."""
        path = self._log.folder.path
        known = versions.get(path)
        if known is None or self.version is None:
            return dict(versions)
        own = self.version == self.before + 1 == known.number
        return {**versions, path: known._replace(number=self.before)} if own else dict(versions)

    def files(self) -> tuple[File, ...]:
        """The files that the write added, where it is known which version it made."""
        return self._log.added(self._actions)

    def candidates(self) -> tuple[int, ...]:
        """The first and the last version of which one may be the write's; none where that is known, or no version was made."""
        after = self._log.last() if self.after is None else self.after
        return (self.before + 1, after) if after > self.before and not self._is_known else ()
