"""Rows of versioned tables that one application wrote and another read in another file.

A file of a table links two applications as any file does. What a table's own operations put into other files (``OPTIMIZE``, ``UPDATE``,
``MERGE``, ``DELETE``) can't be followed row by row: the table's log says that they did, and the trace ends there, with both versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lineage_core.contract.graph import FlowGraph, NodeRecord
from lineage_core.errors import RecipeError, VersionError
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_core.tracing.budget import current_budget
from lineage_query.answers import NotQueried
from lineage_query.rows.delta_log import BEFORE_LOG, FileOrigins, file_origins
from lineage_query.rows.iceberg_log import Snapshot, ancestors, newest_snapshots, snapshots_in
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import opened_log
from lineage_store.paths import RowsError, Spellings, canonical, plain_path
from lineage_store.port import GraphStore
from lineage_store.recorded_files import FileQuery

LOOKUPS_MAX = 500
"""Maximum number of files, or of snapshots, of one table that are looked up for one file."""
VERSION_MAX = 20
"""Maximum number of digits of a version: those of a 64-bit integer."""
_DATA_FILES = (".parquet", ".orc", ".avro")


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table in the version that a node read or wrote. ``path``: its folder. ``metadata``: of Iceberg, the file that describes it."""

    kind: str
    path: str
    version: str
    metadata: str = ""

    def __str__(self) -> str:
        name = "version" if self.kind == DELTA else "snapshot"
        return f"{name} {self.version} of {plain_path(self.path)}"


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
        for version in sorted(held - {writer}, reverse=True):
            # A captured write has all files that its version added.
            for file in sorted(origins.added[version])[:1]:
                for other in self._users(table, file, wrote=True):
                    yield NotQueried(
                        other,
                        f"it wrote version {version} of {plain_path(table.path)}, and {app} read version {table.version}: "
                        f"{path} holds rows that version {writer} took from other files",
                    )

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
            for reader in self._users(table, file, wrote=False):
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

    def _users(self, table: TableVersion, file: str, *, wrote: bool) -> Iterator[str]:
        path = file if ":/" in file else f"{table.path}/{file}"
        recorded = self._store.recorded_files(FileQuery(path, self._spellings))
        if recorded.unread:
            raise RowsError("too many applications used files of that name")
        yield from (item.app for item in recorded.items if item.wrote == wrote)

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
            tables = self._recipe_tables(graph, frames, wrote=True)
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
            return self._recipe_tables(graph, [node], wrote=True)
        if record.op not in (DELTA, ICEBERG):
            return []
        users = [link.dest for link in graph.links() if link.src == node]
        tables = dict.fromkeys(self._recipe_tables(graph, users, wrote=False))
        read = [table for table in tables if table.path == record.path]
        if not read:
            raise RowsError("which version was read is not recorded")
        return read

    def _nodes_of(self, app: str) -> dict[str, NodeRecord]:
        if app not in self._nodes:
            self._nodes[app] = {node.node: node for node in self._store.graph(app).nodes()}
        return self._nodes[app]

    @staticmethod
    def _recipe_tables(
        graph: FlowGraph, nodes: Iterable[str], *, wrote: bool
    ) -> list[TableVersion]:
        found: list[TableVersion] = []
        for node in nodes:
            current_budget().check()
            text = graph.recipe(node)
            if text is None:
                continue
            try:
                recipe = Recipe.from_json(text)
            except (RecipeError, VersionError) as problem:
                raise RowsError(f"a recipe can't be read: {problem}") from problem
            if wrote:
                output = recipe.output
                parts = [(output.format, output.path, output.version, output.options)]
            else:
                parts = [
                    (source.format, source.name, source.version, source.options)
                    for source in recipe.sources
                ]
            found += [
                TableVersion(kind, path, version, options.get("metadata", ""))
                for kind, path, version, options in parts
                if kind in (DELTA, ICEBERG) and path is not None and version is not None
                if version.isdecimal() and len(version) <= VERSION_MAX
            ]
        return found
