"""Versions of files that applications recorded, in SQLite."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping

from lineage_core.contract.message import parse_message
from lineage_store.recorded_files import FileQuery, FileRow, StoredFile, rows_of_message
from lineage_store.sqlite.connection import Query
from lineage_store.sqlite.file_rows import NOT_INDEXED

_ROWS = (
    "SELECT application.app, application.started_at, file_version.message, file_version.name, "
    "recorded_folder.path, file, node, wrote, size, mtime, checksum FROM file_version "
    "JOIN application ON application.id = file_version.app "
    "JOIN recorded_folder ON recorded_folder.id = file_version.folder"
)
_COUNTS = (
    "SELECT application.app, count(*), sum(length(file) + length(recorded_folder.path)) FROM file_version "
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
        where, values = self._where, [*self._values]
        if apps is not None:
            where += " AND application.app IN (SELECT value FROM json_each(?))"
            values.append(json.dumps(list(apps)))
        rows = self._query(f"{_ROWS} {where} LIMIT ?", *values, limit)
        for app, started_at, message, name, folder, file, node, wrote, *version in rows:
            row = FileRow(name, folder, file, node, bool(wrote), *version)
            yield StoredFile(app, started_at, message, row)

    def count(self) -> Mapping[str, tuple[int, int]]:
        counts = self._query(f"{_COUNTS} {self._where} GROUP BY file_version.app", *self._values)
        return {app: (rows, characters) for app, rows, characters in counts}

    def not_indexed(self) -> Iterator[StoredFile]:
        for app, started_at, number, body in self._query(_NOT_INDEXED):
            yield from rows_of_message(app, started_at, number, parse_message(body))
