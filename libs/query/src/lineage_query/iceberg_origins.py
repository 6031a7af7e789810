"""Who wrote rows of a table of Apache Iceberg that an application read, by the ids of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lineage_query.answers import NotQueried
from lineage_query.iceberg_uses import COLUMNS, IcebergUse, IcebergUses
from lineage_query.rows.iceberg_log import Snapshot
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RowReader
from lineage_query.rows.tracked_files import TrackedRow, rows_at
from lineage_query.table_versions import TableVersion
from lineage_query.tracked_rows import LinkedRow
from lineage_store.paths import RowsError, plain_path


@dataclass(frozen=True, slots=True)
class RowOrigin:
    """Where a row was first. ``link``: the row that an application wrote. ``refused``: what else may have had a part in it.

    ``problem``: why ids do not tell all (empty: they would not); None: they do.
    """

    link: LinkedRow | None = None
    refused: tuple[NotQueried, ...] = ()
    problem: str | None = None


class RowOrigins:
    """Follows rows of one snapshot that an application read back to the applications that wrote them.

    Args:
        uses: what the applications recorded.
        table: the snapshot.
        app: the application.
        before: the snapshot and those before it, as far as the metadata list them.
    """

    def __init__(
        self, uses: IcebergUses, table: TableVersion, app: str, before: Sequence[Snapshot]
    ) -> None:
        self._uses = uses
        self._table = table
        self._app = app
        self._before = before
        self._writers: dict[int, IcebergUse | RowsError | None] = {}

    def rows_at(
        self, reader: RowReader, node: str, path: str, ordinals: Sequence[int]
    ) -> list[TrackedRow]:
        """Rows of a file that a node of the application read.

        Raises:
            RowsError: the file is gone, is another one now, or the ids of its rows are not known.
        """
        reads = [use for use in self._uses.read_by(self._app, node) if use.of.table == self._table]
        ids = {use.ids_of(self._uses.spelled(use, path)) for use in reads}
        if len(ids) != 1:
            raise RowsError("it is recorded with several ids of its rows")
        return rows_at(reader, path, ids.pop(), COLUMNS, ordinals)

    def of(self, row: TrackedRow) -> RowOrigin:
        """Where a row was first."""
        try:
            first = snapshot_of(self._before, row.row_id)
            if row.version < first.sequence:
                raise RowsError("rows are older than the snapshot in which they were first")
            writer = self._writer(first)
            is_changed = row.version != first.sequence
            if writer is None:
                return self._of_unknown(first, is_changed=is_changed)
            link = written_row(writer, row.row_id)
        except RowsError as problem:
            return RowOrigin(problem=str(problem))
        gaps = (self._changed(writer, row),) if is_changed else ()
        versions = (
            f"{writer.app} wrote the row in snapshot {first.number} of {plain_path(self._table.path)}, and {self._app} read it in another "
            f"file in snapshot {self._table.version}"
        )
        return RowOrigin(replace(link, versions=versions), gaps)

    def _of_unknown(self, first: Snapshot, *, is_changed: bool) -> RowOrigin:
        """Of a row that no application recorded that it wrote."""
        is_end = first.appends and not is_changed and not self._uses.captured(first)
        # What a commit that does more than append made a row of is not known.
        return RowOrigin(problem=None if is_end else "")

    def _writer(self, first: Snapshot) -> IcebergUse | None:
        if first.number not in self._writers:
            writers = self._uses.writers(first, self._uses.captured(first))
            several = RowsError(f"which application wrote snapshot {first.number} is not known")
            self._writers[first.number] = several if len(writers) > 1 else next(iter(writers), None)
        writer = self._writers[first.number]
        if isinstance(writer, RowsError):
            raise writer
        return writer

    def _changed(self, writer: IcebergUse, row: TrackedRow) -> NotQueried:
        changes = [one.number for one in self._before if one.sequence == row.version]
        change = f"snapshot {changes[0]}" if len(changes) == 1 else "a later snapshot"
        written = writer.of.table.version
        return NotQueried(
            self._app,
            f"{writer.app} wrote snapshot {written} of {plain_path(self._table.path)}, and {self._app} read snapshot {self._table.version}: "
            f"{change} changed rows that it wrote, and what else it made them from is not known",
        )


def snapshot_of(snapshots: Sequence[Snapshot], row_id: int) -> Snapshot:
    """The snapshot that gave a row its id.

    Raises:
        RowsError: none of some snapshots, or several, did.
    """
    gave = [one for one in snapshots if row_id in one.row_ids]
    if len(gave) != 1:
        raise RowsError(
            "its metadata list several snapshots in which a row was first"
            if gave
            else "its metadata do not list the snapshot in which a row was first"
        )
    return gave[0]


def written_row(writer: IcebergUse, row_id: int) -> LinkedRow:
    """The row with an id, in the file in which an application wrote it.

    Raises:
        RowsError: it recorded no such row.
    """
    for path in writer.of.files:
        ids = writer.ids_of(path)
        if ids.rows is not None and ids.base <= row_id < ids.base + ids.rows:
            location = Location(plain_path(path), row_id - ids.base, "record")
            return LinkedRow(writer.app, writer.node, location)
    raise RowsError(f"{writer.app} recorded no file with a row that it wrote")
