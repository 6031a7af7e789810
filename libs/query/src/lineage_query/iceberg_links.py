"""Rows of tables of Apache Iceberg that one application wrote and another read in another file of the table.

The metadata name the snapshots, not which file holds whose rows. In tables of format version 3 each row has an id, which it keeps when a
commit puts it into another file: such rows are followed one by one. Elsewhere a trace ends after a commit that may have moved rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from lineage_core.recipe.names import ICEBERG
from lineage_core.tracing.budget import current_budget
from lineage_query.answers import NotQueried
from lineage_query.delta_links import unknown_reader, unknown_writer
from lineage_query.iceberg_moves import MovedRows
from lineage_query.iceberg_origins import RowOrigins
from lineage_query.iceberg_uses import IcebergUses
from lineage_query.job_links import NAMED_MAX, others_text
from lineage_query.rows.iceberg_log import Snapshot, ancestors, newest_snapshots, snapshots_in
from lineage_query.rows.reader import RowReader
from lineage_query.rows.table_log import opened_log
from lineage_query.table_versions import TableVersion
from lineage_query.tracked_rows import LinkedRow, RowLinks, explained
from lineage_store.paths import RowsError, Spellings, canonical, plain_path

SNAPSHOTS_MAX = 500
"""Maximum number of snapshots of one table that are looked up for one file."""


class IcebergLinks:
    """What the metadata of tables say about files of one query, and the files about ids of rows.

    Args:
        uses: what the applications recorded.
        reader: decides which files may be read.
        spellings: whose links are followed now.
    """

    def __init__(self, uses: IcebergUses, reader: RowReader, spellings: Spellings) -> None:
        self._uses = uses
        self._reader = reader
        self._moved = MovedRows(uses, reader, spellings)

    def before(
        self, table: TableVersion, app: str, node: str, path: str, ordinals: Sequence[int] | None
    ) -> RowLinks:
        """As :meth:`lineage_query.table_links.TableLinks.before`, of the snapshot that ``app`` read.

        Raises:
            RowsError: the table's metadata can't be read, or do not say it.
        """
        snapshots = self._snapshots_read(table, app)
        before, is_whole = ancestors(snapshots, int(table.version))
        if ordinals is None:
            return RowLinks(refused=self._of_file(table, app, path, before, is_whole, ""))
        origins = RowOrigins(self._uses, table, app, _bounded(before))
        rows: dict[int, tuple[LinkedRow, ...]] = {}
        refused: dict[NotQueried, None] = {}
        problems: dict[str, None] = {}
        try:
            found = origins.rows_at(self._reader.of_application(app), node, path, ordinals)
        except RowsError as problem:
            return RowLinks(refused=self._of_file(table, app, path, before, is_whole, str(problem)))
        for row in found:
            current_budget().check()
            origin = origins.of(row)
            if origin.problem is not None:
                problems[origin.problem] = None
            refused.update(dict.fromkeys(origin.refused))
            if origin.link is not None:
                rows[row.ordinal] = (origin.link,)
        for why in problems:
            refused.update(dict.fromkeys(self._of_file(table, app, path, before, is_whole, why)))
        return RowLinks(rows, tuple(refused), of_any=False)

    def _snapshots_read(self, table: TableVersion, app: str) -> Mapping[int, Snapshot]:
        with opened_log(self._reader.of_application(app), table.path) as log:
            return snapshots_in(log.files, Path(plain_path(canonical(table.metadata))))

    def _of_file(
        self,
        table: TableVersion,
        app: str,
        path: str,
        before: list[Snapshot],
        is_whole: bool,
        problem: str,
    ) -> tuple[NotQueried, ...]:
        """Whose rows a file may hold, by the snapshots alone. ``problem``: why ids of rows don't tell more (empty: there are none)."""
        if not is_whole or not before:
            why = f" ({problem})" if problem else ""
            unlisted = f"its metadata do not list all earlier snapshots{why}"
            writers = self._unlisted_writers(table, app, path)
            return (unknown_writer(app, table, path, unlisted), *writers)
        return tuple(explained(self._committed_before(table, app, path, before), problem))

    def _unlisted_writers(self, table: TableVersion, app: str, path: str) -> list[NotQueried]:
        """Applications that recorded that they wrote snapshots which the metadata that ``app`` read do not list."""
        listed = self._snapshots_read(table, app)
        read = listed.get(int(table.version))
        reasons = {
            write.app: f"it wrote {write.of.table}, which the metadata that {app} read do not list, and {app} read snapshot "
            f"{table.version}, in which {path} may hold its rows"
            for write in self._uses.writes(table.path)
            if write.app != app
            and int(write.of.table.version) not in listed
            and not (read is not None and write.is_after(read.sequence))
        }
        return _first_named(reasons)

    def _committed_before(
        self, table: TableVersion, app: str, path: str, before: list[Snapshot]
    ) -> Iterator[NotQueried]:
        are_moved = False
        for snapshot in _bounded(before):
            captured = self._uses.captured(snapshot)
            writers = self._uses.writers(snapshot, captured)
            recorded_by = list(dict.fromkeys(write.app for write in writers))
            for writer in recorded_by or captured if are_moved or not recorded_by else ():
                yield NotQueried(
                    writer,
                    f"it wrote snapshot {snapshot.number} of {plain_path(table.path)}, and {app} read snapshot {table.version}, "
                    f"in which {path} may hold its rows",
                )
            are_moved = are_moved or not (snapshot.appends or recorded_by)

    def after(
        self, table: TableVersion, app: str, node: str, path: str, ordinals: Sequence[int] | None
    ) -> RowLinks:
        """As :meth:`lineage_query.table_links.TableLinks.after`, of the snapshot that ``app`` wrote.

        Raises:
            RowsError: it is not known who read its rows in other files.
        """
        with opened_log(self._reader.of_application(app), table.path) as log:
            if log.kind != ICEBERG:
                raise RowsError("it is a table of another kind now")
            snapshots = newest_snapshots(log.files, log.folder / "metadata")
        written = snapshots.get(int(table.version))
        if written is None:
            return RowLinks(refused=self._unlisted_readers(table, app, path))
        moving = self._moving_after(snapshots, written)
        if moving is None:
            return RowLinks()
        if ordinals is None:
            raise RowsError(f"snapshot {moving.number} may hold them")
        return self._moved.after(table, app, node, path, ordinals, snapshots, written)

    def _unlisted_readers(self, table: TableVersion, app: str, path: str) -> tuple[NotQueried, ...]:
        """Applications that read other snapshots than the one that ``app`` wrote, which is not listed any more."""
        problem = "its metadata do not list that snapshot any more"
        reasons = {
            read.app: f"{app} wrote {table}, and it read {read.of.table}, in which other files may hold its rows ({problem})"
            for read in self._uses.reads(table.path)
            if read.app != app and read.of.table.version != table.version
        }
        return (unknown_reader(app, table, path, problem), *_first_named(reasons))

    def _moving_after(
        self, snapshots: Mapping[int, Snapshot], written: Snapshot
    ) -> Snapshot | None:
        """A later snapshot that may hold rows of one in other files, if there is one."""
        earlier = {one.number for one in ancestors(snapshots, written.number)[0]}
        for snapshot in _bounded(list(snapshots.values())):
            if snapshot.number in earlier:
                continue
            before, is_whole = ancestors(snapshots, snapshot.number)
            # Those between may have expired.
            is_after = written in before or (
                not is_whole and not 0 < snapshot.sequence < written.sequence
            )
            may_move = not is_whole and written not in before
            if is_after and (
                may_move or not (snapshot.appends or self._uses.is_recorded(snapshot))
            ):
                return snapshot
        return None


def _first_named(reasons: Mapping[str, str]) -> list[NotQueried]:
    """The reasons of the first of many applications."""
    others = others_text(len(reasons))
    return [NotQueried(app, reason + others) for app, reason in [*reasons.items()][:NAMED_MAX]]


def _bounded(snapshots: list[Snapshot]) -> list[Snapshot]:
    if len(snapshots) > SNAPSHOTS_MAX:
        raise RowsError(f"its metadata list {len(snapshots):,} snapshots")
    return snapshots
