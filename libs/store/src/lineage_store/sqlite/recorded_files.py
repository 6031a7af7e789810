"""Versions of files that applications recorded, in SQLite."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from lineage_core.contract.message import parse_message
from lineage_store.recorded_files import FileQuery, FileRow, StoredFile, rows_of_message
from lineage_store.sqlite.connection import Query, in_parts
from lineage_store.sqlite.file_rows import NOT_INDEXED

_ROWS = (
    "SELECT application.app, application.started_at, file_version.message, file_version.name, "
    "recorded_folder.path, file, node, wrote, size, mtime, checksum FROM file_version "
    "JOIN application ON application.id = file_version.app "
    "JOIN recorded_folder ON recorded_folder.id = file_version.folder"
)
_COUNTS = (
    "SELECT application.app, count(*), sum(length(CAST(file AS BLOB)) + length(CAST(recorded_folder.path AS BLOB))) FROM file_version "
    "JOIN application ON application.id = file_version.app "
    "JOIN recorded_folder ON recorded_folder.id = file_version.folder"
)
_NOT_INDEXED = (
    "SELECT application.app, application.started_at, message.id, message.body FROM message "
    f"JOIN application ON application.id = message.app WHERE {NOT_INDEXED}"
)


class SqliteFileRows:
    """Implements :class:`lineage_store.recorded_files.FileRows`."""

    def __init__(self, query: Query, wanted: FileQuery) -> None:
        self._query = query
        conditions = ["1"]
        self._values: list[str | int | float] = []
        if wanted.checksum:
            # The second condition is that of the index.
            conditions.append("checksum = ? AND checksum <> ''")
            self._values.append(wanted.checksum)
        elif not wanted.by_links:
            conditions.append(f"file_version.name IN ({', '.join('?' * len(wanted.names))})")
            self._values += wanted.names
        if wanted.state is not None:
            conditions.append("size = ? AND mtime BETWEEN ? AND ?")
            self._values += (wanted.state.size, *wanted.times)
        if wanted.app is not None:
            conditions.append("file_version.app = (SELECT id FROM application WHERE app = ?)")
            self._values.append(wanted.app)
        self._where = f"WHERE {' AND '.join(conditions)}"

    def read(self, apps: Collection[str] | None, limit: int) -> Iterator[StoredFile]:
        if apps is None:
            yield from self._read("", (), limit)
            return
        for some, places in in_parts(apps):
            for stored in self._read(f" AND application.app IN ({places})", some, limit):
                limit -= 1
                yield stored

    def _read(self, condition: str, values: Sequence[str], limit: int) -> Iterator[StoredFile]:
        where = f"{_ROWS} {self._where}{condition} LIMIT ?"
        rows = self._query(where, *self._values, *values, limit)
        for app, started_at, message, name, folder, file, node, wrote, *version in rows:
            row = FileRow(name, folder, file, node, bool(wrote), *version)
            yield StoredFile(app, started_at, message, row)

    def count(self) -> Mapping[str, tuple[int, int]]:
        counts = self._query(f"{_COUNTS} {self._where} GROUP BY file_version.app", *self._values)
        return {app: (rows, characters) for app, rows, characters in counts}

    def not_indexed(self) -> Iterator[StoredFile]:
        for app, started_at, number, body in self._query(_NOT_INDEXED):
            yield from rows_of_message(app, started_at, number, parse_message(body))

    def unread(self) -> Collection[str]:
        return ()
