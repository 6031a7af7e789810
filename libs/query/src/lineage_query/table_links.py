"""Rows of versioned tables that one application wrote and another read in another file.

A file of a table links two applications as any file does. What a table's own operations put into other files (``OPTIMIZE``, ``UPDATE``,
``MERGE``, ``DELETE``) can't be followed row by row: the table's log says that they did, and the trace ends there, with both versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from lineage_core.contract.graph import NodeRecord
from lineage_core.recipe.names import DELTA, DELTA_LOG, ICEBERG
from lineage_query.answers import NotQueried
from lineage_query.rows.delta_log import BEFORE_LOG, FileOrigins, file_origins
from lineage_query.rows.iceberg_log import Snapshot, ancestors, newest_snapshots, snapshots_in
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import opened_log
from lineage_query.table_versions import (
    TableVersion,
    UnknownCommit,
    outputs,
    tables_read,
    tables_written,
    unknown_commit,
)
from lineage_store.paths import RowsError, Spellings, canonical, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery, RecordedFile

LOOKUPS_MAX = 500
"""Maximum number of files, or of snapshots, of one table that are looked up for one file."""
_DATA_FILES = (".parquet", ".orc", ".avro")


class TableLinks:
    """What the logs of tables say about files of one query. Caches what it found.

    Args:
        store: has the applications.
        reader: decides which logs may be read.
        spellings: whose links are followed now.
    """

    def __init__(self, store: GraphStore, reader: RowReader, spellings: Spellings) -> None:
        self._store = store
        self._reader = reader
        self._spellings = spellings
        self._ids = store.application_ids()
        self._nodes: dict[str, dict[str, NodeRecord]] = {}
        self._written: dict[str, frozenset[str]] = {}
        self._unknown_commits: dict[str, tuple[UnknownCommit, ...]] = {}
        self._origins: tuple[tuple[str, str, int | None], FileOrigins] | None = None

    def unwritten(self, app: str, node: str, path: str) -> Iterator[NotQueried]:
        """Applications whose rows a file may hold that a node read, and that no captured application wrote."""
        read = "a table"
        try:
            for table in self._tables(app, node, path, wrote=False):
                read = str(table)
                yield from self._written_before(table, app, path)
        except RowsError as problem:
            reason = f"{app} read {read}; whether {path} holds rows that another application wrote is not known: {problem}"
            yield NotQueried(app, reason)

    def rewritten(self, app: str, node: str, path: str) -> Iterator[NotQueried]:
        """Applications that may have read rows of a file that a node wrote in other files of the table."""
        wrote = "a table"
        try:
            for table in self._tables(app, node, path, wrote=True):
                wrote = str(table)
                yield from self._read_after(table, app, path)
        except RowsError as problem:
            reason = f"{app} wrote {wrote}; whether another application read rows of {path} in other files is not known: {problem}"
            yield NotQueried(app, reason)

    def unlisted(self, app: str, node: str, path: str) -> Iterator[NotQueried]:
        """Applications that may have read what a node wrote to ``path``, of which no files were recorded."""
        try:
            (output,) = outputs(self._store.graph(app), [node]) or (None,)
            commit = None if output is None else unknown_commit(app, output)
            if commit is None:
                raise RowsError("no files of that write are recorded")
            yield from self._read_of_unknown(commit)
        except RowsError as problem:
            reason = f"{app} wrote to {plain_path(path)}; whether another application read its rows is not known: {problem}"
            yield NotQueried(app, reason)

    def _written_before(self, table: TableVersion, app: str, path: str) -> Iterator[NotQueried]:
        if table.kind == ICEBERG:
            return self._committed_before(table, app, path)
        return self._added_before(table, app, path)

    def _read_after(self, table: TableVersion, app: str, path: str) -> Iterator[NotQueried]:
        if table.kind == ICEBERG:
            self._check_not_rewritten(table, app)
            return iter(())
        return self._moved_after(table, app, path)

    # -- Delta Lake ---------------------------------------------------------------------------

    def _added_before(self, table: TableVersion, app: str, path: str) -> Iterator[NotQueried]:
        origins = self._delta(app, table.path, int(table.version))
        held = origins.held.get(self._within(table, path))
        if held is None or BEFORE_LOG in held:
            raise RowsError("its log does not list which version wrote the file")
        if len(held) > LOOKUPS_MAX:
            raise RowsError(f"it may hold rows of {len(held):,} versions")
        writer = origins.first_added[self._within(table, path)]
        folder = plain_path(table.path)
        for version in sorted(held, reverse=True):
            writers = self._writers(table.path, origins, version)
            if not writers:
                for commit in self._unknown_commits_of(table.path):
                    if commit.first <= version <= commit.last:
                        yield NotQueried(
                            commit.app,
                            f"it wrote {commit}, others were made meanwhile, and {app} read version {table.version}: "
                            f"{path} holds rows of version {version}",
                        )
            for other in writers if version != writer else ():
                yield NotQueried(
                    other,
                    f"it wrote version {version} of {folder}, and {app} read version {table.version}: "
                    f"{path} holds rows that version {writer} took from other files",
                )

    def _read_of_unknown(self, commit: UnknownCommit) -> Iterator[NotQueried]:
        """Applications that read files with rows of versions that a write may have made."""
        origins = self._delta(commit.app, commit.path, None)
        versions = range(commit.first, commit.last + 1)
        if len(versions) > LOOKUPS_MAX:
            raise RowsError(f"it made one of {len(versions):,} versions")
        if any(version not in origins.added for version in versions):
            raise RowsError(
                f"its log does not list all versions from {commit.first} to {commit.last}"
            )
        own = {v for v in versions if not self._writers(commit.path, origins, v)}
        files = [file for file, held in origins.held.items() if not held.isdisjoint(own)]
        if len(files) > LOOKUPS_MAX:
            raise RowsError(f"its rows may be in {len(files):,} files")
        for file in files:
            for reader in self._users(commit.path, file, wrote=False):
                yield NotQueried(
                    reader,
                    f"{commit.app} wrote {commit}, others were made meanwhile, and it read a file that may hold these rows",
                )

    def _writers(self, table_path: str, origins: FileOrigins, version: int) -> list[str]:
        """The applications that recorded that they wrote a version."""
        # A captured write has all files that its version added.
        files = sorted(origins.added[version])[:1]
        return [app for file in files for app in self._users(table_path, file, wrote=True)]

    def _unknown_commits_of(self, table_path: str) -> tuple[UnknownCommit, ...]:
        """The writes to a table of which it is not known which version they made."""
        if table_path not in self._unknown_commits:
            logs = self._recorded(table_path, DELTA_LOG, wrote=True)
            nodes = dict.fromkeys((log.app, log.node) for log in logs)
            if len(nodes) > LOOKUPS_MAX:
                raise RowsError(f"which versions {len(nodes):,} writes made is not known")
            self._unknown_commits[table_path] = tuple(
                commit
                for app, node in nodes
                for output in outputs(self._store.graph(app), [node])
                if (commit := unknown_commit(app, output)) is not None
            )
        return self._unknown_commits[table_path]

    def _moved_after(self, table: TableVersion, app: str, path: str) -> Iterator[NotQueried]:
        origins = self._delta(app, table.path, None)
        version = int(table.version)
        if self._within(table, path) not in origins.added.get(version, ()):
            raise RowsError(f"its log does not list version {version} as it was written")
        others = [
            file
            for file, held in origins.held.items()
            if version in held and file not in origins.added[version]
        ]
        if len(others) > LOOKUPS_MAX:
            raise RowsError(f"its rows may be in {len(others):,} other files")
        for file in others:
            for reader in self._users(table.path, file, wrote=False):
                yield NotQueried(
                    reader,
                    f"{app} wrote version {version} of {plain_path(table.path)}, and it read a file that holds rows which "
                    f"version {origins.first_added[file]} took from other files",
                )

    def _delta(self, app: str, path: str, until: int | None) -> FileOrigins:
        key = app, path, until
        if self._origins is None or self._origins[0] != key:
            with opened_log(self._reader.of_application(app), path) as log:
                if log.kind != DELTA:
                    raise RowsError("it is a table of another kind now")
                self._origins = key, file_origins(log.files, log.folder, until)
        return self._origins[1]

    def _within(self, table: TableVersion, path: str) -> str:
        folder = self._spellings.of(table.path).rstrip("/")
        return self._spellings.of(path).removeprefix(f"{folder}/")

    def _users(self, table_path: str, file: str, *, wrote: bool) -> list[str]:
        return [item.app for item in self._recorded(table_path, file, wrote=wrote)]

    def _recorded(self, table_path: str, file: str, *, wrote: bool) -> list[RecordedFile]:
        path = file if ":/" in file else f"{table_path}/{file}"
        recorded = self._store.recorded_files(FileQuery(path, self._spellings))
        if recorded.unread:
            raise RowsError("too many applications used files of that name")
        return [item for item in recorded.items if item.wrote == wrote]

    # -- Apache Iceberg -----------------------------------------------------------------------

    def _committed_before(self, table: TableVersion, app: str, path: str) -> Iterator[NotQueried]:
        with opened_log(self._reader.of_application(app), table.path) as log:
            snapshots = snapshots_in(log.files, Path(plain_path(canonical(table.metadata))))
        before, is_whole = ancestors(snapshots, int(table.version))
        if not is_whole or not before:
            raise RowsError("its metadata do not list all earlier snapshots")
        are_moved = False
        for snapshot in self._bounded(before):
            captured = self._captured(snapshot)
            recorded_by = self._recorded_by(snapshot, captured)
            for writer in recorded_by or captured if are_moved or not recorded_by else ():
                yield NotQueried(
                    writer,
                    f"it wrote snapshot {snapshot.number} of {plain_path(table.path)}, and {app} read snapshot {table.version}, "
                    f"in which {path} may hold its rows",
                )
            are_moved = are_moved or not (snapshot.appends or recorded_by)

    def _check_not_rewritten(self, table: TableVersion, app: str) -> None:
        """See that no later snapshot holds rows of one in other files.

        Raises:
            RowsError: one may.
        """
        with opened_log(self._reader.of_application(app), table.path) as log:
            if log.kind != ICEBERG:
                raise RowsError("it is a table of another kind now")
            snapshots = newest_snapshots(log.files, log.folder / "metadata")
        version = int(table.version)
        if version not in snapshots:
            raise RowsError("its metadata do not list that snapshot any more")
        for snapshot in self._bounded(list(snapshots.values())):
            if snapshot.appends or snapshot.number == version:
                continue
            before, is_whole = ancestors(snapshots, snapshot.number)
            follows = not is_whole or any(one.number == version for one in before)
            if follows and not self._recorded_by(snapshot, self._captured(snapshot)):
                raise RowsError(f"snapshot {snapshot.number} may hold them")

    def _bounded(self, snapshots: list[Snapshot]) -> list[Snapshot]:
        if len(snapshots) > LOOKUPS_MAX:
            raise RowsError(f"its metadata list {len(snapshots):,} snapshots")
        return snapshots

    def _captured(self, snapshot: Snapshot) -> list[str]:
        """The applications that may have committed a snapshot: several may have run in one Spark application."""
        spark_app = snapshot.spark_app
        return [
            app
            for app in self._ids
            if spark_app
            and (
                app == spark_app
                or (app.startswith(f"{spark_app}-") and app[len(spark_app) + 1 :].isdecimal())
            )
        ]

    def _recorded_by(self, snapshot: Snapshot, apps: Iterable[str]) -> list[str]:
        """Those of some applications that recorded that they wrote the snapshot, and so all files that it added."""
        return [app for app in apps if str(snapshot.number) in self._versions_written(app)]

    def _versions_written(self, app: str) -> frozenset[str]:
        if app not in self._written:
            graph = self._store.graph(app)
            frames = [name for name, node in self._nodes_of(app).items() if node.kind == "frame"]
            tables = tables_written(graph, frames)
            self._written[app] = frozenset(table.version for table in tables)
        return self._written[app]

    # -- what applications recorded ------------------------------------------------------------

    def _tables(self, app: str, node: str, path: str, *, wrote: bool) -> list[TableVersion]:
        """The tables, in the versions that a node read or ``wrote``, of which a file is.

        Raises:
            RowsError: that can't be read.
        """
        if not path.endswith(_DATA_FILES):
            return []
        record = self._nodes_of(app).get(node)
        if record is None or record.kind != ("frame" if wrote else "frame-source"):
            return []
        graph = self._store.graph(app)
        if wrote:
            return tables_written(graph, [node])
        if record.op not in (DELTA, ICEBERG):
            return []
        users = [link.dest for link in graph.links() if link.src == node]
        tables = dict.fromkeys(tables_read(graph, users))
        read = [table for table in tables if table.path == record.path]
        if not read:
            raise RowsError("which version was read is not recorded")
        return read

    def _nodes_of(self, app: str) -> dict[str, NodeRecord]:
        if app not in self._nodes:
            self._nodes[app] = {node.node: node for node in self._store.graph(app).nodes()}
        return self._nodes[app]
