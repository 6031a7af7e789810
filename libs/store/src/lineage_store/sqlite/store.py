"""The graph store in one SQLite file: several processes may read while one writes."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lineage_core.codec.packing import pack_for_store
from lineage_core.contract.block import BlockId, FlowBlock
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import Commit, Message
from lineage_core.contract.sealing import Seal
from lineage_core.contract.times import JsonTime
from lineage_core.contract.verdict import ABANDONED_AFTER_S, StoreCounts
from lineage_core.linking.linker import TaskId
from lineage_core.tracing.budget import current_budget
from lineage_store.errors import DeletedError, StoreError
from lineage_store.port import ApplicationRecord, Rewrite
from lineage_store.recipes import BEGIN_CHARS, names_in
from lineage_store.recorded_files import FileQuery, FileRows, RecordedFiles, find_files
from lineage_store.sqlite.connection import Query, connect, in_parts
from lineage_store.sqlite.erasing import erase_application
from lineage_store.sqlite.graph import SqliteGraph
from lineage_store.sqlite.recorded_files import SqliteFileRows
from lineage_store.sqlite.writing import SqliteWriter

if TYPE_CHECKING:
    from typing_extensions import Self

_VACUUM_PAGES = 2_000
"""Pages that are released at a time (8 MB), so that readers never wait for long."""


STEPS_AT_ONCE = 100_000
"""Instructions of a statement, some milliseconds, after which it is seen whether somebody waits for it."""


T = TypeVar("T")
CACHED_MAX = 10_000
"""Number of values that are kept until somebody writes."""


class SqliteStore:
    """Implements :class:`lineage_store.port.GraphStore` over the file ``path``.

    One object may be used by several threads; each process opens its own. All that is given to
    :meth:`write` is visible at once: the caller decides what is committed (see
    :func:`lineage_store.sqlite.ingest.ingest`). ``clock`` gives unix seconds; it only decides whether an
    application counts as abandoned, for which no clock of a driver is used.

    Raises:
        StoreError: the file can't be opened, is no lineage store, or is of a newer version.
    """

    def __init__(self, path: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = Path(path)
        self._clock = clock
        self._lock = threading.RLock()
        self._db = connect(self.path)
        self._cached: dict[Hashable, Any] = {}
        self._cached_at: tuple[int, int] | None = None
        self._db.set_progress_handler(self._is_over, STEPS_AT_ONCE)

    def _is_over(self) -> bool:
        """Whether a statement is to be given up. What is written is written to its end."""
        return not self._db.in_transaction and current_budget().is_over

    def now(self) -> float:
        """The store's clock."""
        return self._clock()

    def write(
        self,
        app: str,
        messages: Iterable[Message] = (),
        blocks: Iterable[FlowBlock] = (),
        edges: Iterable[EdgeBatch] = (),
        *,
        tasks: Mapping[BlockId, TaskId] | None = None,
        unmatched: Mapping[BlockId, int] | None = None,
        seals: Iterable[Seal] = (),
    ) -> None:
        with self.transaction() as connection:
            writer = SqliteWriter(connection, app, self._clock())
            touched: set[TaskId] = set()
            for message in messages:
                writer.message(message)
                if isinstance(message, Commit):
                    touched.add(TaskId(message.node, message.partition, message.attempt))
            for block in blocks:
                block_id = block.block_id
                own_task = TaskId(block_id.node, block_id.partition, block_id.attempt)
                task = (tasks or {}).get(block_id, own_task)
                writer.visible_block(task, pack_for_store(block))
                touched.add(task)
            writer.edges(edges)
            for block_id, positions in (unmatched or {}).items():
                writer.unmatched(block_id, positions)
            writer.seals(seals)
            for task in sorted(touched):
                writer.mark_recomputed(task)

    def applications(self) -> Sequence[ApplicationRecord]:
        rows = self._query(
            "SELECT app, name, started_at, ended_at, status, seen_at, "
            "(SELECT coalesce(sum(count), 0) FROM block WHERE block.app = application.id), "
            "(SELECT coalesce(sum(associations >> 32), 0) FROM block "
            "WHERE block.app = application.id), "
            "(SELECT coalesce(sum(associations & 4294967295), 0) FROM block "
            "WHERE block.app = application.id), "
            "(SELECT count(*) FROM recipe WHERE recipe.app = application.id) "
            "FROM application ORDER BY started_at DESC, app DESC"
        )
        records = []
        for app, name, started_at, ended_at, status, seen_at, flows, high, low, recipes in rows:
            is_abandoned = status == "running" and self._clock() - seen_at > ABANDONED_AFTER_S
            records.append(
                ApplicationRecord(
                    app=app,
                    name=name,
                    started_at=started_at,
                    ended_at=ended_at,
                    status="abandoned" if is_abandoned else status,
                    flows=flows,
                    associations=(high << 32) + low,
                    recipes=recipes,
                )
            )
        return records

    def application_ids(self) -> Sequence[str]:
        def read() -> list[str]:
            rows = self._query("SELECT app FROM application ORDER BY started_at DESC, app DESC")
            return [app for (app,) in rows]

        return list(self._until_written("application ids", read))

    def revision(self, app: str) -> Hashable:
        revision = self._until_written(("revision", app), lambda: self.revisions([app]).get(app))
        if revision is None:
            raise KeyError(f"there is no application {app} in {self.path}")
        return revision

    def revisions(self, apps: Collection[str]) -> Mapping[str, Hashable]:
        rows = (
            row
            for some, places in in_parts(apps)
            for row in self._query(
                "SELECT app, id, started_at, (SELECT count(*) FROM message WHERE app = application.id), "
                "(SELECT max(id) FROM message WHERE app = application.id) "
                f"FROM application WHERE app IN ({places})",
                *some,
            )
        )
        return {app: tuple(revision) for app, *revision in rows}

    def _until_written(self, key: Hashable, read: Callable[[], T]) -> T:
        """What is read again only when somebody has written."""
        with self._lock:
            if self._db.in_transaction:
                return read()
            state = self._query("PRAGMA data_version")[0][0], self._db.total_changes
            if state != self._cached_at or len(self._cached) > CACHED_MAX:
                self._cached.clear()
                self._cached_at = state
            if key not in self._cached:
                self._cached[key] = read()
            value: T = self._cached[key]
            return value

    def presence(self, app: str) -> tuple[int, float] | None:
        """The number of an application, which none had before, and when it began: another once it is deleted; None: it is not there."""

        def read() -> tuple[int, float] | None:
            rows = self._query("SELECT id, started_at FROM application WHERE app = ?", app)
            return tuple(rows[0]) if rows else None

        return self._until_written(("presence", app), read)

    def starts(self) -> Mapping[str, JsonTime]:
        """When each application began."""
        return dict(self._query("SELECT app, started_at FROM application"))

    def recorded_files(self, query: FileQuery) -> RecordedFiles:
        return find_files(query, self.file_rows(query))

    def file_rows(self, query: FileQuery) -> FileRows:
        """Rows of files, as :meth:`recorded_files` looks them up."""
        return SqliteFileRows(self._query, query)

    def names(self) -> Mapping[str, frozenset[str]]:
        return names_in(
            self._query(
                "SELECT application.app, substr(message.body, 1, ?) FROM application "
                "JOIN message ON message.app = application.id AND message.type = 'begin'",
                BEGIN_CHARS,
            )
        )

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        return self.graph(app).messages(*kinds)

    def graph(self, app: str) -> SqliteGraph:
        presence = self.presence(app)
        if presence is None:
            raise KeyError(f"there is no application {app} in {self.path}")
        app_id, _ = presence
        return SqliteGraph(self._query_of(app, app_id), app_id, self._clock)

    def _query_of(self, app: str, app_id: int) -> Query:
        """Queries about an application: where it is not there any more, what they found of it may be nothing, or of a part."""

        def query(statement: str, *values: str | float) -> list[Any]:
            rows = self._query(statement, *values)
            presence = self.presence(app)
            if presence is None or presence[0] != app_id:
                raise DeletedError(app, self.path)
            return rows

        return query

    def counts(self, app: str) -> StoreCounts:
        return self.graph(app).counts()

    def delete(self, app: str) -> None:
        with self.transaction() as connection:
            cursor = connection.execute("SELECT id FROM application WHERE app = ?", (app,))
            row = cursor.fetchone()
            if row is None:
                return
            for query in (
                "DELETE FROM edge WHERE consumer IN (SELECT id FROM block WHERE app = ?)",
                "DELETE FROM section WHERE space IN (SELECT id FROM space WHERE app = ?)",
                "DELETE FROM block_columns WHERE block IN (SELECT id FROM block WHERE app = ?)",
                "DELETE FROM block WHERE app = ?",
                "DELETE FROM space WHERE app = ?",
                "DELETE FROM problem WHERE app = ?",
                "DELETE FROM task WHERE app = ?",
                "DELETE FROM recipe WHERE app = ?",
                "DELETE FROM message WHERE app = ?",
                "DELETE FROM message_base WHERE app = ?",
                "DELETE FROM application WHERE id = ?",
            ):
                connection.execute(query, row)
            connection.execute(
                "DELETE FROM recorded_folder WHERE id NOT IN (SELECT folder FROM file_version)"
            )
        self._release_pages()

    def erase(self, app: str, rewrite: Rewrite, messages: Iterable[Message]) -> int:
        app_id = self.graph(app).app_id
        with self._lock:
            # What is replaced is overwritten in the file, too.
            self._db.execute("PRAGMA secure_delete = ON").fetchall()
        with self.transaction() as connection:
            replaced = erase_application(connection, app_id, app, rewrite, messages, self._clock())
        self._release_pages()
        return replaced

    def close(self) -> None:
        with self._lock:
            self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A durable write transaction: all or nothing, one writer at a time over all processes.

        Raises:
            StoreError: the store can't be written (disk full, another process holds it for long).
        """
        with self._lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                    self._db.execute("COMMIT")
                except BaseException:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise StoreError(f"can't write the lineage store {self.path}: {error}") from error

    def _query(self, query: str, *values: str | float) -> list[Any]:
        current_budget().check()
        try:
            with self._lock:
                return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            current_budget().check()
            raise StoreError(f"can't read the lineage store {self.path}: {error}") from error

    def _release_pages(self) -> None:
        """Give free pages back to the file system."""
        with self._lock:
            while self._db.execute("PRAGMA freelist_count").fetchone()[0]:
                pages_before = self._db.execute("PRAGMA page_count").fetchone()[0]
                # The pragma frees one page for each row that is fetched.
                self._db.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})").fetchall()
                if self._db.execute("PRAGMA page_count").fetchone()[0] >= pages_before:
                    break
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
