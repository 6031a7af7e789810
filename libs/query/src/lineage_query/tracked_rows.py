"""Rows of tables of Delta Lake that track rows, followed by their ids into the files that other commits put them.

A row that no commit changed since has the version of the file that it was first in: the trace goes on there, as if the job had read
that file. A row that was changed is followed, too, but what else the change used is not known: the answer is not complete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lineage_core.tracing.budget import current_budget
from lineage_query import delta_links
from lineage_query.answers import NotQueried
from lineage_query.delta_links import DeltaLinks, unknown_writer
from lineage_query.rows.file_origins import FileOrigins
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RowReader
from lineage_query.rows.row_tracking import FileIds, RowPlace
from lineage_query.rows.tracked_files import TrackedRow, rows_at, rows_with_ids
from lineage_query.table_versions import TableVersion
from lineage_store.materialised import whose_rows
from lineage_store.paths import RowsError, plain_path
from lineage_store.recorded_files import FileVersion, RecordedFile


@dataclass(frozen=True, slots=True)
class LinkedRow:
    """A row of a file that a node of an application read or wrote.

    ``versions``: in which versions of the table it was written and read, for people, where the trace can't go on from it: its file may be
    gone.
    """

    app: str
    node: str
    location: Location
    versions: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class RowLinks:
    """Where a trace continues from rows of a file in other files of the table.

    ``rows``: by the row's number in the file, from 0. ``refused``: applications that may have more of its rows. ``of_any``: whether
    this holds for all rows of the file.
    """

    rows: Mapping[int, tuple[LinkedRow, ...]] = field(default_factory=dict)
    refused: tuple[NotQueried, ...] = ()
    of_any: bool = True


class TrackedRows:
    """Follows rows by their ids.

    Args:
        delta: what the logs say.
        reader: decides which files may be read.
        apps: the ids of the applications.
    """

    def __init__(self, delta: DeltaLinks, reader: RowReader, apps: Collection[str]) -> None:
        self._delta = delta
        self._reader = reader
        self._apps = apps

    def before(self, table: TableVersion, app: str, path: str, ordinals: Sequence[int]) -> RowLinks:
        """The rows that applications wrote which rows of a file are that no captured application wrote.

        Args:
            table: the version that ``app`` read.
            app: the application.
            path: of the file.
            ordinals: the rows, from 0.

        Raises:
            RowsError: the table's log can't be read.
        """
        origins = self._delta.origins(app, table.path, int(table.version))
        search = _Search(self._delta, self._apps, table, app, path, origins)
        if not origins.tracking.is_enabled:
            return RowLinks(refused=search.of_file(None, ""))
        try:
            rows = self._rows_at(app, path, origins, self._delta.within(table, path), ordinals)
        except RowsError as problem:
            return RowLinks(refused=search.of_file(None, str(problem)))
        linked: dict[int, tuple[LinkedRow, ...]] = {}
        refused: dict[NotQueried, None] = {}
        for row in rows:
            current_budget().check()
            link, gaps = search.of_row(row)
            refused.update(dict.fromkeys(gaps))
            if link is not None:
                linked[row.ordinal] = (link,)
        return RowLinks(linked, tuple(refused), of_any=False)

    def _rows_at(
        self, app: str, path: str, origins: FileOrigins, file: str, ordinals: Sequence[int]
    ) -> list[TrackedRow]:
        """Rows of a file that an application read."""
        columns, ids = origins.tracking.columns(), origins.tracking.of_file(file)
        if origins.first_added[file] not in origins.tracked:
            raise RowsError("the file is older than the ids of its rows")
        return rows_at(self._reader.of_application(app), path, ids, columns, ordinals)

    def after(self, table: TableVersion, app: str, path: str, ordinals: Sequence[int]) -> RowLinks:
        """The rows that applications read, in other files of the table, which are rows of a file that an application wrote.

        Args:
            table: the version that ``app`` wrote.
            app: the application.
            path: of the file that it wrote.
            ordinals: the rows, from 0.

        Raises:
            RowsError: it is not known who read them.
        """
        origins = self._delta.origins(app, table.path, None)
        version = int(table.version)
        linked: dict[int, dict[LinkedRow, None]] = {}
        refused: dict[NotQueried, None] = {}
        for file in self._delta.other_files(table, origins, path):
            readers = self._of_jobs(self._delta.recorded(table.path, file, wrote=False))
            if not readers:
                continue
            try:
                rows = self._rows_in(table, origins, path, file, readers, ordinals)
            except RowsError as problem:
                why = str(problem) if origins.tracking.is_enabled else ""
                gaps = (
                    self._delta.read_elsewhere(table, app, origins, file, reader)
                    for reader in readers
                )
                refused.update(dict.fromkeys(explained(gaps, why)))
                continue
            for ordinal, row in rows:
                links = (_linked(reader, row.ordinal) for reader in readers)
                linked.setdefault(ordinal, {}).update(dict.fromkeys(links))
            changes = [change for change in origins.computed[file] if change > version]
            if changes:
                refused.update(
                    {
                        _changed_after(table, app, reader.app, max(changes)): None
                        for reader in readers
                    }
                )
        rows_by_number = {at: tuple(links) for at, links in linked.items()}
        return RowLinks(rows_by_number, tuple(refused), of_any=not origins.tracking.is_enabled)

    def _of_jobs(self, recorded: Iterable[RecordedFile]) -> list[RecordedFile]:
        """Without the uses of applications that hold the materialised lineage of others."""
        return [item for item in recorded if whose_rows(item.app, self._apps) is None]

    def _rows_in(
        self,
        table: TableVersion,
        origins: FileOrigins,
        path: str,
        file: str,
        readers: Sequence[RecordedFile],
        ordinals: Sequence[int],
    ) -> list[tuple[int, TrackedRow]]:
        """The rows of another file which are rows of a file that a version wrote, each after the number of the latter."""
        version, written = int(table.version), self._delta.within(table, path)
        if version not in origins.own:
            raise RowsError("that version may have taken rows from other files, too")
        if version in origins.renumbered[file]:
            raise RowsError("they may have got other ids on the way")
        columns, ids = origins.tracking.columns(), origins.tracking.of_file(file)
        first = origins.tracking.of_file(written)
        if any(origins.tracking.place_of(first.base + at) != (written, at) for at in ordinals):
            raise RowsError("its log lists no such rows")
        if not all(reader.version.has_state_of(_state(ids)) for reader in readers):
            raise RowsError("it was another file when it was read")
        wanted = {first.base + at for at in ordinals}
        reader = self._reader.of_application(readers[0].app)
        rows = rows_with_ids(reader, readers[0].path, ids, columns, wanted)
        if any(row.version < first.version for row in rows):
            raise RowsError("rows are older than the file in which they were first")
        return [(row.row_id - first.base, row) for row in rows]


class _Search:
    """Who wrote rows that an application read in one file."""

    def __init__(
        self,
        delta: DeltaLinks,
        apps: Collection[str],
        table: TableVersion,
        app: str,
        path: str,
        origins: FileOrigins,
    ) -> None:
        self._delta = delta
        self._apps = apps
        self._table = table
        self._app = app
        self._path = path
        self._origins = origins
        self._writers: dict[str, RecordedFile | RowsError | None] = {}
        self._of_files: dict[tuple[str | None, str], tuple[NotQueried, ...]] = {}

    def of_row(self, row: TrackedRow) -> tuple[LinkedRow | None, Iterable[NotQueried]]:
        """The row that an application wrote which one is; None: none did that is known. And which may have others of its rows."""
        try:
            place = self._origins.tracking.place_of(row.row_id)
            if place is None:
                raise RowsError("its log does not list the file in which a row was first")
            ids = self._origins.tracking.of_file(place.file)
            if row.version < ids.version:
                raise RowsError("rows are older than the file in which they were first")
            writer = self._writer(place.file, ids)
        except RowsError as problem:
            return None, self.of_file(None, str(problem))
        is_changed = row.version != ids.version
        if writer is None:
            # What a change used is not known. Where there was none, only what that file may hold of others counts.
            return None, self.of_file(None if is_changed else place.file, "")
        gaps = [self._changed(writer, place, row)] if is_changed else []
        written = self._origins.first_added[place.file]
        versions = (
            f"{writer.app} wrote the row in version {written} of {plain_path(self._table.path)}, and {self._app} read it in another file in "
            f"version {self._table.version}"
        )
        return replace(_linked(writer, place.ordinal), versions=versions), gaps

    def of_file(self, file: str | None, problem: str) -> tuple[NotQueried, ...]:
        """Whose rows may be in a file in which rows were first; None: in the one that was read. ``problem``: why their ids don't tell."""
        if (file, problem) not in self._of_files:
            try:
                gaps = self._delta.written_before(self._table, self._app, self._path, file)
                found = tuple(explained(gaps, problem))
            except RowsError as error:
                found = (unknown_writer(self._app, self._table, self._path, error),)
            self._of_files[file, problem] = found
        return self._of_files[file, problem]

    def _changed(self, writer: RecordedFile, place: RowPlace, row: TrackedRow) -> NotQueried:
        written = self._origins.first_added[place.file]
        return NotQueried(
            self._app,
            f"{writer.app} wrote version {written} of {plain_path(self._table.path)}, and {self._app} read version {self._table.version}: "
            f"version {row.version} changed rows that it wrote, and what else it made them from is not known",
        )

    def _writer(self, file: str, ids: FileIds) -> RecordedFile | None:
        if file not in self._writers:
            if len(self._writers) >= delta_links.LOOKUPS_MAX:
                raise RowsError(f"rows are of more than {len(self._writers):,} files")
            try:
                self._writers[file] = self._found_writer(file, ids)
            except RowsError as problem:
                self._writers[file] = problem
        writer = self._writers[file]
        if isinstance(writer, RowsError):
            raise writer
        return writer

    def _found_writer(self, file: str, ids: FileIds) -> RecordedFile | None:
        """What wrote a file in which rows were first; None: no captured application."""
        version = self._origins.first_added[file]
        recorded = [
            item
            for item in self._delta.recorded(self._table.path, file, wrote=True)
            if whose_rows(item.app, self._apps) is None
        ]
        nodes = {(item.app, item.node) for item in recorded}
        if len(nodes) > 1 or not all(item.version.has_state_of(_state(ids)) for item in recorded):
            raise RowsError(f"which application wrote a file of version {version} is not known")
        if recorded and version not in self._origins.own:
            raise RowsError(f"version {version} may have taken rows from other files, too")
        if not recorded and self._delta.writers(self._table.path, self._origins, version):
            raise RowsError(f"which files of version {version} an application wrote is not known")
        return recorded[0] if recorded else None


def _state(ids: FileIds) -> FileVersion:
    return FileVersion(ids.size, ids.mtime)


def _linked(file: RecordedFile, ordinal: int) -> LinkedRow:
    return LinkedRow(file.app, file.node, Location(plain_path(file.path), ordinal, "record"))


def explained(gaps: Iterable[NotQueried], problem: str) -> Iterator[NotQueried]:
    """What is said of files, and why the ids of rows don't tell more (empty: there are none)."""
    why = f" (ids of rows don't tell which: {problem})" if problem else ""
    return (NotQueried(gap.app, f"{gap.reason}{why}") for gap in gaps)


def _changed_after(table: TableVersion, app: str, reader: str, change: int) -> NotQueried:
    return NotQueried(
        app,
        f"it wrote {table}, and {reader} read rows that version {change} changed or added since: "
        "whether it made others from these is not known",
    )
