"""Which applications may know a file, in SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from lineage_core.contract.message import Message
from lineage_store.file_keys import FILE_MESSAGES, applications_by_folders, keys_in, names_of
from lineage_store.paths import Spellings
from lineage_store.sqlite.connection import Query

_TYPES = ", ".join(f"'{kind}'" for kind in FILE_MESSAGES)


def applications_knowing(query: Query, path: str, spellings: Spellings) -> Sequence[str]:
    """As :meth:`lineage_store.port.GraphStore.applications_knowing`."""
    names = list(names_of(path, spellings).values())
    rows = query(
        "SELECT application.app, application.started_at, noted_folder.path FROM file_use "
        "JOIN application ON application.id = file_use.app "
        "JOIN noted_folder ON noted_folder.id = file_use.folder "
        f"WHERE file_use.name IN ({', '.join('?' * len(names))}) "
        "UNION SELECT application.app, application.started_at, '' FROM message "
        "JOIN application ON application.id = message.app WHERE keyed IS NULL "
        f"AND type IN ({_TYPES})",
        *names,
    )
    return applications_by_folders(rows, path, spellings)


def store_file_uses(connection: sqlite3.Connection, app_id: int, message: Message) -> None:
    """Store which files a message names; the caller holds a transaction."""
    keys = keys_in(message)
    connection.executemany(
        "INSERT OR IGNORE INTO noted_folder (path) VALUES (?)", {(key.folder,) for key in keys}
    )
    connection.executemany(
        "INSERT OR IGNORE INTO file_use SELECT ?, id, ? FROM noted_folder WHERE path = ?",
        [(key.name, app_id, key.folder) for key in sorted(keys)],
    )
