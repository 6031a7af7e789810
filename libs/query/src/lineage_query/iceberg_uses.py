"""Snapshots of tables of Apache Iceberg that applications recorded that they read and wrote, with the ids of the rows of their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from lineage_core.contract.graph import NodeRecord
from lineage_core.errors import LineageError
from lineage_core.recipe.names import ICEBERG
from lineage_core.recipe.row_ids import FileRowIds
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.iceberg_log import Snapshot
from lineage_query.rows.row_tracking import NUMBERS_END, FileIds, IdColumns
from lineage_query.table_versions import TableFiles, files_read, files_written
from lineage_store.errors import UNREAD, DamagedError
from lineage_store.materialised import whose_rows
from lineage_store.paths import RowsError, Spellings
from lineage_store.port import GraphStore

APPLICATIONS_MAX = 1_000
"""Maximum number of applications of which it is looked up which tables they read: takes a few seconds."""
LOST_ID = "app="
"""What the id of an application of a lake begins with that was lost with its files: the name of its folder."""
COLUMNS = IdColumns("_row_id", "_last_updated_sequence_number")
"""Columns of files, reserved by Iceberg, of the ids of rows and of the commits that changed them last."""


@dataclass(frozen=True, slots=True)
class IcebergUse:
    """A snapshot that a node of an application read or wrote."""

    app: str
    node: str
    of: TableFiles

    def ids_of(self, path: str) -> FileIds:
        """What was recorded of the rows of a file, by the path that the application named.

        Raises:
            RowsError: nothing.
        """
        ids = self.of.row_ids.get(path)
        if ids is None or not _is_in_bounds(ids):
            raise RowsError(f"{self.app} recorded no ids of the rows of its files")
        file = self.of.files[path]
        return FileIds(ids.first, ids.sequence, ids.rows, file.size, file.mtime / 1000)

    def is_after(self, sequence: int) -> bool:
        """Whether a write is known to be later than a snapshot, by its number in the order of commits."""
        return any(
            ids is not None and _is_in_bounds(ids) and ids.sequence > sequence
            for ids in self.of.row_ids.values()
        )


def _is_in_bounds(ids: FileRowIds) -> bool:
    return max(ids.first, ids.rows, ids.sequence) < NUMBERS_END


class IcebergUses:
    """What the applications of a store recorded. Caches what it found for one query.

    Args:
        store: has the applications.
        spellings: whose links are followed now.
    """

    def __init__(self, store: GraphStore, spellings: Spellings) -> None:
        self._store = store
        self._spellings = spellings
        self._ids = store.application_ids()
        self._nodes: dict[str, dict[str, NodeRecord]] = {}
        self._writes: dict[str, tuple[IcebergUse, ...]] = {}

    def nodes(self, app: str) -> dict[str, NodeRecord]:
        """The nodes of an application, by their ids."""
        if app not in self._nodes:
            self._nodes[app] = {node.node: node for node in self._store.graph(app).nodes()}
        return self._nodes[app]

    def captured(self, snapshot: Snapshot) -> list[str]:
        """The applications that may have committed a snapshot: several may have run in one Spark application.

        One whose id was lost with its files is among them, whichever it was.
        """
        spark_app = snapshot.spark_app
        return [
            app
            for app in self._ids
            if spark_app
            and (
                app == spark_app
                or app.startswith(LOST_ID)
                or (app.startswith(f"{spark_app}-") and app[len(spark_app) + 1 :].isdecimal())
            )
        ]

    def writers(self, snapshot: Snapshot, apps: Iterable[str]) -> list[IcebergUse]:
        """The writes of some applications that recorded that they made the snapshot, and so all files that it added.

        Raises:
            RowsError: none of those that can be read did, and others recorded more than a query may hold, or are damaged.
        """
        number = str(snapshot.number)
        writes: list[IcebergUse] = []
        unread: LineageError | None = None
        for app in apps:
            try:
                written = self._written(app)
            except UNREAD as error:
                unread = error
            else:
                writes += (write for write in written if write.of.table.version == number)
        if unread is not None and not writes:
            raise RowsError(f"who wrote snapshot {number} is not known: {unread}") from unread
        return writes

    def is_recorded(self, snapshot: Snapshot) -> bool:
        """Whether an application recorded that it wrote a snapshot.

        Raises:
            RowsError: that is not known.
        """
        return bool(self.writers(snapshot, self.captured(snapshot)))

    def _written(self, app: str) -> tuple[IcebergUse, ...]:
        if app not in self._writes:
            frames = [name for name, node in self.nodes(app).items() if node.kind == "frame"]
            graph = self._store.graph(app)
            self._writes[app] = tuple(
                IcebergUse(app, node, written)
                for node in frames
                for written in files_written(graph, [node])
                if written.table.kind == ICEBERG
            )
        return self._writes[app]

    def writes(self, table_path: str) -> Iterator[IcebergUse]:
        """The snapshots of a table that applications wrote, except those that recorded more than a query may hold, or are damaged.

        Raises:
            RowsError: they are not known.
        """
        path = self._spellings.of(table_path)
        for app in self._apps():
            writes: tuple[IcebergUse, ...] = ()
            with suppress(*UNREAD):
                writes = self._written(app)
            yield from (use for use in writes if self._spellings.of(use.of.table.path) == path)

    def reads(self, table_path: str) -> Iterator[IcebergUse]:
        """The snapshots of a table that nodes of all applications read.

        Raises:
            RowsError: they are not known.
        """
        path = self._spellings.of(table_path)
        for app in self._apps():
            try:
                nodes = self.nodes(app)
            except DamagedError as error:
                raise RowsError(f"whether {app} read them is not known: {error}") from error
            for node, record in nodes.items():
                is_source = record.kind == "frame-source" and record.op == ICEBERG
                if is_source and record.path and self._spellings.of(record.path) == path:
                    yield from self.read_by(app, node)

    def _apps(self) -> Iterator[str]:
        if len(self._ids) > APPLICATIONS_MAX:
            raise RowsError(f"any of {len(self._ids):,} applications may have used them")
        for app in self._ids:
            current_budget().check()
            if whose_rows(app, self._ids) is None:
                yield app

    def read_by(self, app: str, node: str) -> list[IcebergUse]:
        """The snapshots of its table that a node read.

        Raises:
            RowsError: they are not known.
        """
        graph = self._store.graph(app)
        record = self.nodes(app)[node]
        users = [link.dest for link in graph.links() if link.src == node]
        reads = [
            IcebergUse(app, node, read)
            for read in files_read(graph, users)
            if read.table.kind == ICEBERG and read.table.path == record.path
        ]
        if not reads:
            raise RowsError(f"which snapshot {app} read is not recorded")
        return reads

    def spelled(self, use: IcebergUse, path: str) -> str:
        """The path of a file as an application named it.

        Raises:
            RowsError: it named no such file.
        """
        wanted = self._spellings.of(path)
        for named in use.of.files:
            if self._spellings.of(named) == wanted:
                return named
        raise RowsError(f"{use.app} did not record the file as one of that snapshot")
