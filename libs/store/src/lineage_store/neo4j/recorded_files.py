"""Versions of files that applications recorded, in Neo4j."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import neo4j

from lineage_core.contract.message import parse_message
from lineage_store.neo4j.connection import Connection
from lineage_store.neo4j.rows import Row, file_version_rows, parts
from lineage_store.neo4j.statements import FILE_VERSIONS
from lineage_store.recorded_files import (
    FILE_MESSAGES,
    FileQuery,
    FileRow,
    StoredFile,
    rows_of_message,
)

if TYPE_CHECKING:
    from typing_extensions import LiteralString

MESSAGES_AT_ONCE = 20
"""Number of older messages that are read at once."""

_ROWS: Final[LiteralString] = """
MATCH (a:Application {id: replace(replace(f.app, '%', '%25'), '|', '%7C')})
RETURN a.app, a.started_at, f.number, f.name, f.folder, f.file, f.node, f.wrote, f.size, f.mtime, coalesce(f.checksum, '')
LIMIT $limit
"""
_OF_APPS: Final[LiteralString] = "WITH f WHERE f.app IN $apps " + _ROWS
_COUNTS: Final[LiteralString] = "RETURN f.app, count(*), sum(size(f.file) + size(f.folder))"
_ALL: Final[LiteralString] = "MATCH (f:FileVersion) "
_OF_NAME: Final[LiteralString] = (
    "MATCH (f:FileVersion) USING INDEX f:FileVersion(name) WHERE f.name IN $names "
)
_OF_CHECKSUM: Final[LiteralString] = (
    "MATCH (f:FileVersion) USING INDEX f:FileVersion(checksum) WHERE f.checksum = $checksum "
)
_OF_APP: Final[LiteralString] = (
    "MATCH (f:FileVersion) USING INDEX f:FileVersion(app, name) "
    "WHERE f.app = $app AND f.name IN $names "
)
_ALL_OF_APP: Final[LiteralString] = (
    "MATCH (f:FileVersion) WHERE f.app = $app AND f.name IS NOT NULL "
)
_OF_STATE: Final[LiteralString] = (
    "MATCH (f:FileVersion) USING INDEX f:FileVersion(name, size, mtime) "
    "WHERE f.name IN $names AND f.size = $size AND $first <= f.mtime <= $last "
)
_NOT_INDEXED: Final[LiteralString] = """
MATCH (m:Message)
USING INDEX m:Message(type, keyed)
WHERE m.type IN $types AND m.keyed = true
MATCH (a:Application {id: replace(replace(m.app, '%', '%25'), '|', '%7C')})
RETURN a.app, a.started_at, m.number, m.body
"""
_SOME_NOT_INDEXED: Final[LiteralString] = """
MATCH (m:Message)
USING INDEX m:Message(type, keyed)
WHERE m.type IN $types AND m.keyed = true
RETURN m.id, m.number, m.body LIMIT $limit
"""
_INDEXED: Final[LiteralString] = """
UNWIND $ids AS id
MATCH (m:Message {id: id})
REMOVE m.keyed
"""


class Neo4jFileRows:
    """Implements :class:`lineage_store.recorded_files.FileRows`."""

    def __init__(self, connection: Connection, query: FileQuery) -> None:
        self._connection = connection
        self._match: LiteralString = _OF_NAME
        self._values: dict[str, Any] = {"names": list(query.names)}
        if query.checksum:
            self._match, self._values["checksum"] = _OF_CHECKSUM, query.checksum
        elif query.by_links and query.app is not None:
            self._match, self._values["app"] = _ALL_OF_APP, query.app
        elif query.by_links:
            self._match = _ALL
        elif query.app is not None:
            self._match, self._values["app"] = _OF_APP, query.app
        elif query.state is not None:
            self._match = _OF_STATE
            first, last = query.times
            self._values |= {"size": query.state.size, "first": first, "last": last}

    def read(self, apps: Collection[str] | None, limit: int) -> Iterator[StoredFile]:
        values = self._values | {"limit": limit}
        if apps is None:
            rows = self._connection.read(self._match + _ROWS, **values)
        else:
            rows = self._connection.read(self._match + _OF_APPS, apps=list(apps), **values)
        for app, started_at, number, *columns in rows:
            yield StoredFile(app, started_at, number, FileRow(*columns))

    def count(self) -> Mapping[str, tuple[int, int]]:
        counts = self._connection.read(self._match + _COUNTS, **self._values)
        return {app: (rows, characters) for app, rows, characters in counts}

    def not_indexed(self) -> Iterator[StoredFile]:
        rows = self._connection.read(_NOT_INDEXED, types=list(FILE_MESSAGES))
        for app, started_at, number, body in rows:
            yield from rows_of_message(app, started_at, number, parse_message(body))

    def unread(self) -> Collection[str]:
        return ()


def store_files(rows: list[Row], transaction: neo4j.ManagedTransaction) -> None:
    """Store versions of files: rows of :func:`lineage_store.neo4j.rows.file_version_rows`."""
    transaction.run(FILE_VERSIONS, rows=rows).consume()


def add_files(connection: Connection) -> None:
    """Store the files of messages that an older program stored. May be interrupted and repeated."""
    while True:
        messages = connection.read(
            _SOME_NOT_INDEXED, types=list(FILE_MESSAGES), limit=MESSAGES_AT_ONCE
        )
        if not messages:
            return
        for _, number, body in messages:
            # A message may name more files than one transaction has memory for.
            for part in parts(file_version_rows(parse_message(body), number)):
                connection.write(partial(store_files, part))
        ids = [message_id for message_id, *_ in messages]
        connection.write(partial(_mark_indexed, ids))


def _mark_indexed(ids: list[str], transaction: neo4j.ManagedTransaction) -> None:
    transaction.run(_INDEXED, ids=ids).consume()
