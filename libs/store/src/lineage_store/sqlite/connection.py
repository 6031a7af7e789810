"""How a database file of SQLite is opened: its rights, its write-ahead log, its version."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lineage_core.environment.private_files import (
    PRIVATE_NAME,
    ensure_private_file,
    ensure_private_folder,
    restrict_mode,
)
from lineage_store.errors import StoreError
from lineage_store.sqlite.schema import check_version, migrate, version_of

BUSY_TIMEOUT_S = 60.0
"""How long one process waits for another's transaction; those are bounded to some megabytes."""
BUSY_PAUSE_S = 0.01
PAGE_BYTES = 4096
WAL_RETAINED_BYTES = 0
"""What a checkpoint may leave of the write-ahead log: nothing (it counts as lineage on disk)."""

Query = Callable[..., list[Any]]
"""Reads all rows of a statement, which is its first argument; its values follow."""
VALUES_AT_ONCE = 500
"""Values that are named in one statement; old versions of SQLite take 999."""


def in_parts(values: Iterable[str]) -> Iterator[tuple[list[str], str]]:
    """Values that a statement names, some at a time, with their placeholders: a list in JSON would end a text at its NUL."""
    remaining = list(values)
    for first in range(0, len(remaining), VALUES_AT_ONCE):
        some = remaining[first : first + VALUES_AT_ONCE]
        yield some, ", ".join("?" * len(some))


def has_rows(connection: sqlite3.Connection, rows: str, *values: str | float) -> bool:
    """Whether there are such rows: ``rows`` is what a statement has behind SELECT, as ``FROM message WHERE app = ?``."""
    ((is_there,),) = connection.execute(f"SELECT EXISTS (SELECT 1 {rows})", values)
    return bool(is_there)


def connect(path: Path) -> sqlite3.Connection:
    """Open a database, make it or bring it up to date.

    Transactions are explicit (``BEGIN IMMEDIATE``), durable when they return, and readers in other
    processes never wait. The connection may pass between threads, one at a time.

    Raises:
        StoreError: the file can't be opened, is no lineage store, or is of a newer version.
    """
    try:
        if path.parent.name == PRIVATE_NAME or not path.parent.exists():
            ensure_private_folder(path.parent)
        ensure_private_file(path)
        connection = sqlite3.connect(
            path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"can't open the lineage store {path}: {error}") from error
    try:
        # Before anything in a file that may be someone else's is changed.
        check_version(connection, path)
        # SQLite gives what it makes beside a database the mode of the database.
        for suffix in ("", "-wal", "-shm"):
            restrict_mode(path.with_name(path.name + suffix))
        _set_up(connection)
        migrate(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise StoreError(f"{path} can't be used as a lineage store: {error}") from error
    except StoreError:
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection) -> None:
    # These two only take effect before the first table is made; later, the second writes to the file for nothing.
    if version_of(connection) == 0:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    _log_ahead(connection)
    # A block file is deleted once its blocks are in here: they must survive a power cut by then.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_RETAINED_BYTES}")
    connection.execute("PRAGMA temp_store = FILE")


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Have a write-ahead log; SQLite does not wait where others open the new file at the same moment."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(BUSY_PAUSE_S)
        else:
            return
