"""Writes the versions of files that messages name as rows of SQLite."""

from __future__ import annotations

import sqlite3

from lineage_core.contract.message import Message, parse_message
from lineage_store.recorded_files import FILE_MESSAGES, file_rows

_TYPES = ", ".join(f"'{kind}'" for kind in FILE_MESSAGES)
INDEXED = 2
"""``keyed`` of messages whose files are rows; less, or NULL, of those that an older program wrote."""
NOT_INDEXED = f"(keyed IS NULL OR keyed < {INDEXED}) AND type IN ({_TYPES})"
"""Condition of the messages whose files are no rows."""


def store_files(
    connection: sqlite3.Connection, app_id: int, message_id: int, message: Message
) -> None:
    """Store the versions of files that a message names; those of earlier messages stay as they are.

    The caller holds a transaction.
    """
    rows = sorted(file_rows(message))
    folders: dict[str, int] = {}
    for folder in {row.folder for row in rows}:
        connection.execute("INSERT OR IGNORE INTO recorded_folder (path) VALUES (?)", (folder,))
        found = connection.execute("SELECT id FROM recorded_folder WHERE path = ?", (folder,))
        folders[folder] = found.fetchone()[0]
    connection.executemany(
        "INSERT OR IGNORE INTO file_version "
        "(app, name, folder, file, node, wrote, size, mtime, checksum, message) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                app_id,
                row.name,
                folders[row.folder],
                row.file,
                row.node,
                row.wrote,
                row.size,
                row.mtime,
                row.checksum,
                message_id,
            )
            for row in rows
        ],
    )


def add_files(connection: sqlite3.Connection) -> None:
    """Add the rows of all messages that have none; the caller holds a transaction."""
    messages = connection.execute(
        f"SELECT id, app, body FROM message WHERE {NOT_INDEXED} ORDER BY id"
    )
    for message_id, app_id, body in messages:
        store_files(connection, app_id, message_id, parse_message(body))
    connection.execute(f"UPDATE message SET keyed = {INDEXED} WHERE type IN ({_TYPES})")
