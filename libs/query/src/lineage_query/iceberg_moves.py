"""Who read rows of a table of Apache Iceberg that an application wrote, in files in which other commits put them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lineage_core.tracing.budget import current_budget
from lineage_query.answers import NotQueried
from lineage_query.iceberg_uses import COLUMNS, IcebergUse, IcebergUses
from lineage_query.rows.iceberg_log import Snapshot, ancestors, snapshots_in
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RowReader
from lineage_query.rows.row_tracking import FileIds
from lineage_query.rows.table_log import opened_log
from lineage_query.rows.tracked_files import ids_held, rows_with_ids
from lineage_query.table_versions import TableVersion
from lineage_query.tracked_rows import LinkedRow, RowLinks
from lineage_store.paths import RowsError, Spellings, canonical, plain_path

FILES_MAX = 500
"""Maximum number of files of one snapshot in which rows are searched for."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Rows that an application wrote: the snapshot, its files, and the ids, the first of which is ``base``."""

    app: str
    table: TableVersion
    snapshot: Snapshot
    files: frozenset[str]
    base: int
    row_ids: frozenset[int]


class MovedRows:
    """Follows rows by their ids into the files that applications read.

    Args:
        uses: what the applications recorded.
        reader: decides which files may be read.
        spellings: whose links are followed now.
    """

    def __init__(self, uses: IcebergUses, reader: RowReader, spellings: Spellings) -> None:
        self._uses = uses
        self._reader = reader
        self._spellings = spellings

    def after(
        self,
        table: TableVersion,
        app: str,
        node: str,
        path: str,
        ordinals: Sequence[int],
        snapshots: Mapping[int, Snapshot],
        snapshot: Snapshot,
    ) -> RowLinks:
        """The rows that applications read which are rows of a file that an application wrote, in other files.

        Args:
            table: the snapshot that ``app`` wrote.
            app: the application.
            node: its node.
            path: of the file.
            ordinals: the rows, from 0.
            snapshots: those that the table has now.
            snapshot: the written one.

        Raises:
            RowsError: the ids of the rows, or the readers, are not known.
        """
        written = self._written(table, app, node, path, ordinals, snapshot)
        linked: dict[int, dict[LinkedRow, None]] = {}
        refused: dict[NotQueried, None] = {}
        for read in self._uses.reads(table.path):
            current_budget().check()
            try:
                moving = self._moving_between(read, snapshots, snapshot)
                for ordinal, row in self._rows_in(read, written, moving) if moving else ():
                    if row is None:
                        refused[_changed_after(written, read)] = None
                    else:
                        linked.setdefault(ordinal, {})[row] = None
            except RowsError as problem:
                reason = (
                    f"{app} wrote {table}, and it read snapshot {read.of.table.version}, in which other files may hold its rows "
                    f"(ids of rows don't tell which: {problem})"
                )
                refused[NotQueried(read.app, reason)] = None
        rows = {ordinal: tuple(links) for ordinal, links in linked.items()}
        return RowLinks(rows, tuple(refused), of_any=False)

    def _written(
        self,
        table: TableVersion,
        app: str,
        node: str,
        path: str,
        ordinals: Sequence[int],
        snapshot: Snapshot,
    ) -> _Written:
        writes = [use for use in self._uses.writers(snapshot, [app]) if use.node == node]
        if len(writes) != 1:
            raise RowsError("which files it wrote is not recorded")
        (write,) = writes
        ids = write.ids_of(self._uses.spelled(write, path))
        row_ids = frozenset(ids.base + ordinal for ordinal in ordinals)
        if any(row_id not in snapshot.row_ids for row_id in row_ids):
            raise RowsError("its metadata give the rows other ids")
        files = frozenset(map(self._spellings.of, write.of.files))
        return _Written(app, table, snapshot, files, ids.base, row_ids)

    def _moving_between(
        self, read: IcebergUse, snapshots: Mapping[int, Snapshot], written: Snapshot
    ) -> list[Snapshot]:
        """The snapshots after one that was written, up to one that was read, that may have put rows into other files.

        Raises:
            RowsError: they are not known.
        """
        number = int(read.of.table.version)
        before, is_whole = ancestors(snapshots, number)
        if written.number not in _numbers(before) and not is_whole:
            # As the table was when it was read.
            before, is_whole = ancestors(self._snapshots_read(read), number)
        if written.number not in _numbers(before):
            if is_whole or (before and 0 < before[0].sequence <= written.sequence):
                return []
            raise RowsError("its metadata do not list all earlier snapshots")
        between = before[: _numbers(before).index(written.number)]
        return [one for one in between if not (one.appends or self._uses.is_recorded(one))]

    def _snapshots_read(self, read: IcebergUse) -> Mapping[int, Snapshot]:
        table = read.of.table
        with opened_log(self._reader.of_application(read.app), table.path) as log:
            return snapshots_in(log.files, Path(plain_path(canonical(table.metadata))))

    def _rows_in(
        self, read: IcebergUse, written: _Written, moving: Sequence[Snapshot]
    ) -> Iterator[tuple[int, LinkedRow | None]]:
        """Rows that were read, each after the number of the row of the written file; None: some may have been made of any of them.

        Raises:
            RowsError: they are not known.
        """
        files = [path for path in read.of.files if self._spellings.of(path) not in written.files]
        if len(files) > FILES_MAX:
            raise RowsError(f"they may be in {len(files):,} files")
        reader = self._reader.of_application(read.app)
        for path in files:
            ids = read.ids_of(path)
            for row in rows_with_ids(reader, path, ids, COLUMNS, written.row_ids):
                if row.version < written.snapshot.sequence:
                    raise RowsError("rows are older than the snapshot in which they were first")
                location = Location(plain_path(path), row.ordinal, "record")
                yield row.row_id - written.base, LinkedRow(read.app, read.node, location)
                if row.version != written.snapshot.sequence:
                    yield 0, None
            if _may_be_made(reader, path, ids, moving):
                yield 0, None


def _numbers(snapshots: Sequence[Snapshot]) -> list[int]:
    return [snapshot.number for snapshot in snapshots]


def _may_be_made(reader: RowReader, path: str, ids: FileIds, moving: Sequence[Snapshot]) -> bool:
    """Whether a file may hold rows that some snapshots made of other rows, or gave other ids.

    Such a row was first in one of them, or changed last by one that does more than move rows.
    """
    ranges = [one.row_ids for one in moving if one.row_ids]
    changes = {one.sequence for one in moving if not one.moves}
    held = ids_held(reader, path, ids, COLUMNS, ranges, changes)
    of_moving = any(ids.base in one for one in ranges)
    return (
        held.has_id
        or held.has_version
        or (held.lacks_id and of_moving)
        or (held.lacks_version and ids.version in changes)
    )


def _changed_after(written: _Written, read: IcebergUse) -> NotQueried:
    return NotQueried(
        written.app,
        f"it wrote {written.table}, and {read.app} read rows that other snapshots changed or added since: "
        "whether they made others from these is not known",
    )
