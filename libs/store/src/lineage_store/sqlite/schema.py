"""Tables and indexes of the SQLite store, one step a version.

``PRAGMA user_version`` holds the version. A file of a newer version is refused, never guessed at.

Positions are unsigned 64-bit integers and SQLite's are signed: they are stored less 2**63, which
keeps their order.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from lineage_store.errors import StoreError
from lineage_store.sqlite.file_rows import add_files

_VERSION_1 = (
    """
    CREATE TABLE application (
        id INTEGER PRIMARY KEY,
        app TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL DEFAULT '',
        started_at REAL NOT NULL DEFAULT 0,
        ended_at REAL,
        status TEXT NOT NULL DEFAULT 'running',
        seen_at REAL NOT NULL DEFAULT 0,
        spool_bytes INTEGER NOT NULL DEFAULT 0
    )
    """,
    """
    CREATE TABLE message (
        id INTEGER PRIMARY KEY,
        app INTEGER NOT NULL,
        type TEXT NOT NULL,
        digest BLOB NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (app, type, digest)
    )
    """,
    """
    CREATE TABLE task (
        id INTEGER PRIMARY KEY,
        app INTEGER NOT NULL,
        node TEXT NOT NULL,
        partition INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        committed INTEGER NOT NULL,
        file TEXT NOT NULL DEFAULT '',
        digest TEXT NOT NULL DEFAULT '',
        expected INTEGER NOT NULL DEFAULT 0,
        received INTEGER NOT NULL DEFAULT 0,
        file_bytes INTEGER NOT NULL DEFAULT 0,
        done INTEGER NOT NULL DEFAULT 0,
        UNIQUE (app, node, partition, attempt)
    )
    """,
    """
    CREATE TABLE problem (
        app INTEGER NOT NULL,
        place TEXT NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (app, place)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE space (
        id INTEGER PRIMARY KEY,
        app INTEGER NOT NULL,
        text TEXT NOT NULL,
        claimed INTEGER NOT NULL DEFAULT 0,
        UNIQUE (app, text)
    )
    """,
    """
    CREATE TABLE block (
        id INTEGER PRIMARY KEY,
        app INTEGER NOT NULL,
        node TEXT NOT NULL,
        partition INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        task INTEGER,
        in_space INTEGER NOT NULL,
        in_low INTEGER,
        in_high INTEGER,
        count INTEGER NOT NULL,
        associations INTEGER NOT NULL,
        exact INTEGER NOT NULL,
        reason TEXT NOT NULL,
        unmatched INTEGER NOT NULL DEFAULT 0,
        UNIQUE (app, node, partition, attempt, seq)
    )
    """,
    "CREATE INDEX block_in ON block (in_space)",
    "CREATE TABLE block_columns (block INTEGER PRIMARY KEY, data BLOB NOT NULL)",
    """
    CREATE TABLE section (
        space INTEGER NOT NULL,
        block INTEGER NOT NULL,
        low INTEGER NOT NULL,
        high INTEGER NOT NULL,
        PRIMARY KEY (space, block)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX section_block ON section (block)",
    """
    CREATE TABLE edge (
        consumer INTEGER NOT NULL,
        producer INTEGER NOT NULL,
        pairs INTEGER NOT NULL,
        data BLOB,
        PRIMARY KEY (consumer, producer)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX edge_producer ON edge (producer)",
)

_VERSION_2 = (
    """
    CREATE TABLE recipe (
        app INTEGER NOT NULL,
        node TEXT NOT NULL,
        message INTEGER NOT NULL,
        PRIMARY KEY (app, node)
    ) WITHOUT ROWID
    """,
)
"""For recipes of DataFrames: bodies of such messages are compressed (a blob), this finds them by node."""

_VERSION_3 = (
    """
    UPDATE block SET exact = 0, reason = 'recomputed differently' WHERE exact AND id IN (
        SELECT block.id FROM (
            SELECT app, node, partition, count(DISTINCT digest) AS digests FROM task
            WHERE committed GROUP BY app, node, partition HAVING count(*) > 1
        ) AS twice
        JOIN task ON task.app = twice.app AND task.node = twice.node
            AND task.partition = twice.partition AND task.committed
        JOIN block ON block.task = task.id
        JOIN space AS origin ON origin.id = block.in_space
        JOIN section ON section.block = block.id
        JOIN space AS target ON target.id = section.space
        WHERE target.text GLOB '[^*]*@*' AND (twice.digests > 1 OR origin.text GLOB '*#*.*')
    )
    """,
)
"""Flows by key of partitions that were computed twice: no record says which attempt's were read, and rows
that an attempt numbered were taken for those of every other."""

_VERSION_4 = ("ALTER TABLE space ADD COLUMN seal TEXT NOT NULL DEFAULT ''",)
"""See :mod:`lineage_core.contract.sealing`. What was stored before has no seals: its traces load more blocks."""

_VERSION_5 = (
    "ALTER TABLE message ADD COLUMN keyed INTEGER",
    """
    CREATE TABLE noted_folder (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE
    )
    """,
    """
    CREATE TABLE file_use (
        name INTEGER NOT NULL,
        folder INTEGER NOT NULL,
        app INTEGER NOT NULL,
        PRIMARY KEY (name, folder, app)
    ) WITHOUT ROWID
    """,
    """
    CREATE INDEX message_without_keys ON message (app)
    WHERE keyed IS NULL AND type IN ('splits', 'record_splits', 'sink_files', 'record_files')
    """,
)
"""Names and folders of files by application. Only programs of this version use them; they stay for those that have the store open
when it gets the next version."""

_VERSION_6 = (
    """
    CREATE TABLE recorded_folder (
        id INTEGER PRIMARY KEY,
        path TEXT NOT NULL UNIQUE
    )
    """,
    """
    CREATE TABLE file_version (
        app INTEGER NOT NULL,
        name INTEGER NOT NULL,
        folder INTEGER NOT NULL,
        file TEXT NOT NULL,
        node TEXT NOT NULL,
        wrote INTEGER NOT NULL,
        size INTEGER NOT NULL,
        mtime REAL NOT NULL,
        checksum TEXT NOT NULL,
        message INTEGER NOT NULL,
        PRIMARY KEY (app, name, folder, file, node, wrote, size, mtime, checksum)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX file_version_state ON file_version (name, size, mtime)",
    "CREATE INDEX file_version_checksum ON file_version (checksum) WHERE checksum <> ''",
    "DELETE FROM file_use",
    "DROP INDEX message_without_keys",
    """
    CREATE INDEX message_not_indexed ON message (app)
    WHERE (keyed IS NULL OR keyed < 2) AND type IN ('splits', 'record_splits', 'sink_files', 'record_files')
    """,
    """
    CREATE TRIGGER file_version_delete AFTER DELETE ON application BEGIN
        DELETE FROM file_version WHERE app = OLD.id;
        UPDATE application_number SET last = max(last, OLD.id);
    END
    """,
    "CREATE TABLE application_number (last INTEGER NOT NULL)",
    "INSERT INTO application_number VALUES (0)",
)
"""Versions of files: :mod:`lineage_store.recorded_files`. An older program that has the store open writes messages without rows
of files: the index finds them; and it deletes applications without their rows: the trigger does. ``application_number``: the largest number of a deleted application,
which no other gets: whoever has opened the one would read the other."""

_VERSION_7 = (
    "ALTER TABLE message ADD COLUMN base INTEGER",
    """
    CREATE TABLE message_base (
        app INTEGER NOT NULL,
        type TEXT NOT NULL,
        message INTEGER NOT NULL,
        PRIMARY KEY (app, type, message)
    ) WITHOUT ROWID
    """,
)
"""Messages of streams refer to others (``base``): :mod:`lineage_store.sqlite.folding`. What was stored before stays as it is."""

STEPS: tuple[Sequence[str], ...] = (
    _VERSION_1,
    _VERSION_2,
    _VERSION_3,
    _VERSION_4,
    _VERSION_5,
    _VERSION_6,
    _VERSION_7,
)
"""``STEPS[n]`` makes version n + 1 of version n."""


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Take every step that the database still lacks, all or nothing.

    Raises:
        StoreError: the database is of a newer version, or not a lineage store.
    """
    newest = len(STEPS)
    if version_of(connection) == newest:
        return
    connection.execute("BEGIN EXCLUSIVE")
    try:
        check_version(connection, path)  # another process may have been quicker
        for step in STEPS[version_of(connection) :]:
            for statement in step:
                connection.execute(statement)
            if step is _VERSION_6:
                add_files(connection)
        connection.execute(f"PRAGMA user_version = {newest}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse a database that this program can't use.

    Raises:
        StoreError: the database is of a newer version, or not a lineage store.
    """
    # One statement sees one state: another process may make the store at this moment.
    version, tables = connection.execute(
        "SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version"
    ).fetchone()
    if version > len(STEPS):
        raise StoreError(
            f"{path} is of version {version}, this program knows {len(STEPS)}: "
            "update the program, or choose another store"
        )
    if version == 0 and tables:
        raise StoreError(f"{path} is an SQLite database, but not a lineage store")


def version_of(connection: sqlite3.Connection) -> int:
    """The schema's version; 0 of an empty file."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version
