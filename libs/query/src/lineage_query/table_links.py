"""Rows of versioned tables that one application wrote and another read in another file.

A file of a table links two applications as any file does. What a table's own operations put into other files (``OPTIMIZE``, ``UPDATE``,
``MERGE``, ``DELETE``) is followed row by row where the table tracks rows. Elsewhere the table's log says that they did, and the trace ends
there, with both versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lineage_core.contract.graph import NodeRecord
from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_query.answers import NotQueried
from lineage_query.delta_links import DeltaLinks, unknown_writer
from lineage_query.rows.iceberg_log import Snapshot, ancestors, newest_snapshots, snapshots_in
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import opened_log
from lineage_query.table_versions import (
    TableVersion,
    outputs,
    tables_read,
    tables_written,
    unknown_commit,
)
from lineage_query.tracked_rows import LinkedRow, RowLinks, TrackedRows
from lineage_store.paths import RowsError, Spellings, canonical, plain_path
from lineage_store.port import GraphStore

SNAPSHOTS_MAX = 500
"""Maximum number of snapshots of one table that are looked up for one file."""
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
        self._ids = store.application_ids()
        self._nodes: dict[str, dict[str, NodeRecord]] = {}
        self._written: dict[str, frozenset[str]] = {}
        self._delta = DeltaLinks(store, reader, spellings)
        self._tracked = TrackedRows(self._delta, reader, self._ids)

    def before(
        self, app: str, node: str, path: str, ordinals: Sequence[int] | None = None
    ) -> RowLinks:
        """The applications whose rows a file may hold that a node read, and that no captured application wrote.

        Args:
            app: the application.
            node: its node.
            path: of the file.
            ordinals: rows of the file, from 0; None: any.
        """
        links, read = list[RowLinks](), "a table"
        try:
            for table in self._tables(app, node, path, wrote=False):
                read = str(table)
                links.append(self._before(table, app, path, ordinals))
        except RowsError as problem:
            links.append(RowLinks(refused=(unknown_writer(app, read, path, problem),)))
        return _united(links)

    def _before(
        self, table: TableVersion, app: str, path: str, ordinals: Sequence[int] | None
    ) -> RowLinks:
        if table.kind == ICEBERG:
            return RowLinks(refused=tuple(self._committed_before(table, app, path)))
        if ordinals is None:
            return RowLinks(refused=tuple(self._delta.written_before(table, app, path)))
        return self._tracked.before(table, app, path, ordinals)

    def after(
        self, app: str, node: str, path: str, ordinals: Sequence[int] | None = None
    ) -> RowLinks:
        """The applications that may have read rows of a file that a node wrote in other files of the table; arguments as of :meth:`before`."""
        links, wrote = list[RowLinks](), "a table"
        try:
            for table in self._tables(app, node, path, wrote=True):
                wrote = str(table)
                links.append(self._after(table, app, path, ordinals))
        except RowsError as problem:
            reason = f"{app} wrote {wrote}; whether another application read rows of {path} in other files is not known: {problem}"
            links.append(RowLinks(refused=(NotQueried(app, reason),)))
        return _united(links)

    def _after(
        self, table: TableVersion, app: str, path: str, ordinals: Sequence[int] | None
    ) -> RowLinks:
        if table.kind == ICEBERG:
            self._check_not_rewritten(table, app)
            return RowLinks()
        if ordinals is None:
            return RowLinks(refused=tuple(self._delta.read_after(table, app, path)))
        return self._tracked.after(table, app, path, ordinals)

    def unlisted(self, app: str, node: str, path: str) -> Iterator[NotQueried]:
        """Applications that may have read what a node wrote to ``path``, of which no files were recorded."""
        try:
            (output,) = outputs(self._store.graph(app), [node]) or (None,)
            commit = None if output is None else unknown_commit(app, output)
            if commit is None:
                raise RowsError("no files of that write are recorded")
            yield from self._delta.read_of_unknown(commit)
        except RowsError as problem:
            reason = f"{app} wrote to {plain_path(path)}; whether another application read its rows is not known: {problem}"
            yield NotQueried(app, reason)

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
        if len(snapshots) > SNAPSHOTS_MAX:
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


def _united(links: Sequence[RowLinks]) -> RowLinks:
    """Those of all versions of a table that a node read or wrote."""
    rows: dict[int, dict[LinkedRow, None]] = {}
    for of_table in links:
        for ordinal, linked in of_table.rows.items():
            rows.setdefault(ordinal, {}).update(dict.fromkeys(linked))
    refused = dict.fromkeys(gap for of_table in links for gap in of_table.refused)
    rows_by_number = {at: tuple(linked) for at, linked in rows.items()}
    return RowLinks(rows_by_number, tuple(refused), all(of_table.of_any for of_table in links))
