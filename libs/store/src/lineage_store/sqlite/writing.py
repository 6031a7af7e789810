"""Writing into the SQLite store, within a transaction that the caller holds. Idempotent."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lineage_core.codec.packing import PackedBlock, pack_edge
from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Heartbeat,
    Message,
    Recipe,
    dump_message,
)
from lineage_core.contract.sealing import Seal
from lineage_core.linking.linker import TaskId
from lineage_store.recomputing import (
    NAMED,
    RECOMPUTED,
    UNCOMMITTED,
    attempt_digest,
    may_differ,
    merges_by_key,
)
from lineage_store.recorded_files import FILE_MESSAGES
from lineage_store.signed import BIAS, INTEGER_MAX
from lineage_store.sqlite.file_rows import INDEXED, store_files
from lineage_store.sqlite.folding import Folding


@dataclass(frozen=True, slots=True)
class TaskRow:
    """The stored state of a task. ``done``: all that its commit promised is stored.

    ``expected``/``received``: blocks. ``file_bytes``: size of the file when it was last read.
    """

    id: int
    task: TaskId
    committed: bool
    file: str
    digest: str
    expected: int
    received: int
    file_bytes: int
    done: bool


class SqliteWriter:
    """Writes one application's lineage over a connection; the caller holds a transaction."""

    def __init__(self, connection: sqlite3.Connection, app: str, heard_at: float) -> None:
        """``heard_at``: unix seconds by the store's clock, at which the driver wrote the messages that follow."""
        self._db = connection
        self._heard_at = heard_at
        self._spaces: dict[str, int] = {}
        connection.execute(
            "INSERT OR IGNORE INTO application (id, app, seen_at) SELECT 1 + max(last, "
            "(SELECT coalesce(max(id), 0) FROM application)), ?, ? FROM application_number",
            (app, heard_at),
        )
        row = connection.execute("SELECT id FROM application WHERE app = ?", (app,)).fetchone()
        self.app_id: int = row[0]
        self._folding = Folding(connection, self.app_id)

    def message(self, message: Message) -> None:
        """Store a message, and what follows from it for the application and its tasks."""
        match message:
            case Begin():
                self._begin(message)
            case Heartbeat():
                if not self._heartbeat(message):
                    return
            case End():
                self._db.execute(
                    "UPDATE application SET ended_at = ?, status = ? WHERE id = ?",
                    (message.ended_at, message.status, self.app_id),
                )
            case Commit():
                self.commit(message)
            case _:
                pass
        body = dump_message(message)
        digest = hashlib.blake2b(body.encode(), digest_size=16).digest()
        stored_body, base = self._folding.stored(message, body)
        inserted = self._db.execute(
            "INSERT OR IGNORE INTO message (app, type, digest, body, keyed, base) VALUES (?, ?, ?, ?, ?, ?)",
            (
                self.app_id,
                message.type,
                digest,
                stored_body,
                INDEXED if message.type in FILE_MESSAGES else None,
                base,
            ),
        )
        if base is None and inserted.rowcount and inserted.lastrowid:
            self._folding.add_base(message, inserted.lastrowid)
        if message.type in FILE_MESSAGES and inserted.rowcount and inserted.lastrowid:
            store_files(self._db, self.app_id, inserted.lastrowid, message)
        if isinstance(message, Recipe) and inserted.rowcount:
            self._db.execute(
                "INSERT OR REPLACE INTO recipe VALUES (?, ?, ?)",
                (self.app_id, message.node, inserted.lastrowid),
            )

    def _begin(self, message: Begin) -> None:
        # One that comes again is no sign of life.
        self._db.execute(
            "UPDATE application SET name = ?, started_at = ?, "
            "seen_at = CASE started_at WHEN ? THEN seen_at ELSE ? END WHERE id = ?",
            (message.name, *2 * (message.started_at,), self._heard_at, self.app_id),
        )

    def _heartbeat(self, message: Heartbeat) -> bool:
        """Whether it is the latest."""
        stored = self._db.execute(
            "SELECT id, coalesce(json_extract(body, '$.beat'), 0), json_extract(body, '$.at') "
            "FROM message WHERE app = ? AND type = 'heartbeat'",
            (self.app_id,),
        ).fetchall()
        if any((beat, at) >= (message.beat, message.at) for _, beat, at in stored):
            return False
        # Only the latest is of use; a notebook that is open for a week would leave thousands.
        self._db.executemany(
            "DELETE FROM message WHERE id = ?", [(row_id,) for row_id, *_ in stored]
        )
        self._db.execute(
            "UPDATE application SET seen_at = ? WHERE id = ?", (self._heard_at, self.app_id)
        )
        return True

    def commit(self, commit: Commit) -> TaskRow:
        """Remember a task as committed; its row."""
        task = TaskId(commit.node, commit.partition, commit.attempt)
        self._db.execute(
            "INSERT INTO task (app, node, partition, attempt, committed, file, digest, expected) "
            "VALUES (?, ?, ?, ?, 1, ?, ?, ?) ON CONFLICT DO UPDATE SET "
            "committed = 1, file = excluded.file, digest = excluded.digest, "
            "expected = excluded.expected, done = done AND expected = excluded.expected",
            (self.app_id, *task, commit.file, attempt_digest(commit), commit.blocks),
        )
        return self._task_row(task)

    def claim(self, task: TaskId, file: str) -> TaskRow:
        """Remember a task that is visible, for now, because its records were read."""
        self._db.execute(
            "INSERT OR IGNORE INTO task (app, node, partition, attempt, committed, file) "
            "VALUES (?, ?, ?, ?, 0, ?)",
            (self.app_id, *task, file),
        )
        return self._task_row(task)

    def adopt(self, claim: TaskRow, committed: TaskRow) -> None:
        """A claimed file turned out to be of another task: its blocks are that task's."""
        self._db.execute("UPDATE block SET task = ? WHERE task = ?", (committed.id, claim.id))
        self._db.execute("DELETE FROM task WHERE id = ? AND NOT committed", (claim.id,))

    def _task_row(self, task: TaskId) -> TaskRow:
        return next(self._tasks("node = ? AND partition = ? AND attempt = ?", *task))

    def tasks(self) -> list[TaskRow]:
        """All tasks in the order they became known."""
        return list(self._tasks("1"))

    def _tasks(self, where: str, *values: str | int) -> Iterator[TaskRow]:
        rows = self._db.execute(
            "SELECT id, node, partition, attempt, committed, file, digest, expected, received, "
            f"file_bytes, done FROM task WHERE app = ? AND {where} ORDER BY id",
            (self.app_id, *values),
        )
        for row in rows:
            counts = (row[7], row[8], row[9], bool(row[10]))
            yield TaskRow(row[0], TaskId(*row[1:4]), bool(row[4]), row[5], row[6], *counts)

    def finish(self, task: TaskId, *, received: int, file_bytes: int, done: bool) -> None:
        """Note what of a task has arrived."""
        self._db.execute(
            "UPDATE task SET received = max(received, ?), file_bytes = ?, done = ? "
            "WHERE app = ? AND node = ? AND partition = ? AND attempt = ?",
            (received, file_bytes, done, self.app_id, *task),
        )

    def block(self, packed: PackedBlock, task_row: int | None = None) -> int | None:
        """Store a visible block; its row id, or None when it was there."""
        inserted = self._db.execute(
            "INSERT OR IGNORE INTO block (app, node, partition, attempt, seq, task, in_space, "
            "in_low, in_high, count, associations, exact, reason) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self.app_id,
                *_key(packed.block_id),
                task_row,
                self.space(packed.in_space),
                None if packed.in_low is None else packed.in_low - BIAS,
                None if packed.in_high is None else packed.in_high - BIAS,
                packed.rows,
                min(packed.associations, INTEGER_MAX),
                packed.exact,
                packed.reason,
            ),
        )
        if inserted.rowcount == 0:
            return None
        row_id = inserted.lastrowid
        self._db.execute("INSERT INTO block_columns VALUES (?, ?)", (row_id, packed.data))
        self._db.executemany(
            "INSERT INTO section VALUES (?, ?, ?, ?)",
            [
                (self.space(space), row_id, low - BIAS, high - BIAS)
                for space, low, high in packed.sections
            ],
        )
        return row_id

    def visible_block(self, task: TaskId, packed: PackedBlock) -> None:
        """Store a block of a task that need not be committed, and count it."""
        row = self.claim(task, "")
        if self.block(packed, row.id) is not None:
            self._db.execute("UPDATE task SET received = received + 1 WHERE id = ?", (row.id,))

    def unmatched(self, block_id: BlockId, positions: int) -> None:
        """Note how many input positions of a stored block no block puts out."""
        self._db.execute(
            "UPDATE block SET unmatched = ? WHERE id = ?",
            (min(positions, INTEGER_MAX), self.block_row(block_id)),
        )

    def edges(self, edges: Iterable[EdgeBatch]) -> None:
        """Store edges between stored blocks; those of unknown blocks are an error.

        Raises:
            KeyError: a block is not in the store.
        """
        rows = {}
        for edge in edges:
            ends = []
            for block_id in (edge.consumer, edge.producer):
                if block_id not in rows:
                    rows[block_id] = self.block_row(block_id)
                if rows[block_id] is None:
                    raise KeyError(f"edge of block {block_id}, which is not in the store")
                ends.append(rows[block_id])
            self._db.execute(
                "INSERT OR IGNORE INTO edge VALUES (?, ?, ?, ?)",
                (*ends, min(edge.pairs, INTEGER_MAX), pack_edge(edge)),
            )

    def seals(self, seals: Iterable[Seal]) -> None:
        """Store seals; all edges of their blocks are stored."""
        self._db.executemany(
            "UPDATE space SET seal = ? WHERE id = ?",
            [(seal.to_text(), self.space(seal.space)) for seal in seals],
        )

    def block_row(self, block_id: BlockId) -> int | None:
        """Row id of a stored block."""
        row = self._db.execute(
            "SELECT id FROM block WHERE app = ? AND node = ? AND partition = ? AND attempt = ? "
            "AND seq = ?",
            (self.app_id, *_key(block_id)),
        ).fetchone()
        return None if row is None else int(row[0])

    def space(self, text: str) -> int:
        """Row id of a space, made when it is new."""
        row_id = self._spaces.get(text)
        if row_id is None:
            key = (self.app_id, text)
            self._db.execute("INSERT OR IGNORE INTO space (app, text) VALUES (?, ?)", key)
            row_id = int(
                self._db.execute("SELECT id FROM space WHERE app = ? AND text = ?", key).fetchone()[
                    0
                ]
            )
            self._spaces[text] = row_id
        return row_id

    def store_problem(self, location: str, reason: str) -> None:
        """Record a problem of a file or a line; a later one of the same location replaces it."""
        self._db.execute(
            "INSERT OR REPLACE INTO problem VALUES (?, ?, ?)", (self.app_id, location, reason)
        )

    def clear_problem(self, location: str) -> None:
        """Remove the recorded problem of a location, if any."""
        self._db.execute("DELETE FROM problem WHERE app = ? AND place = ?", (self.app_id, location))

    def mark_recomputed(self, task: TaskId) -> None:
        """Where attempts at a partition may differ, their merged flows are supersets.

        Flows of an attempt may be visible although its commit never arrives: then nothing says that it put out the
        same as another.
        """
        partition_key = (self.app_id, task.node, task.partition)
        digests_by_attempt = dict(
            self._db.execute(
                "SELECT attempt, CASE WHEN committed THEN digest END FROM task "
                "WHERE app = ? AND node = ? AND partition = ?",
                partition_key,
            ).fetchall()
        )
        if len(digests_by_attempt) < 2:
            return
        merged: dict[int, _Merged] = {}
        rows = self._db.execute(
            "SELECT block.id, task.attempt, block.exact, block.reason, origin.text, target.text "
            "FROM task JOIN block ON block.task = task.id JOIN space origin "
            "ON origin.id = block.in_space JOIN section ON section.block = block.id "
            "JOIN space target ON target.id = section.space "
            "WHERE task.app = ? AND task.node = ? AND task.partition = ?",
            partition_key,
        )
        for row_id, attempt, exact, reason, origin, target in rows:
            if merges_by_key([target]):
                merged[row_id] = _Merged(attempt, bool(exact), reason, origin)
        committed = {
            attempt: digest for attempt, digest in digests_by_attempt.items() if digest is not None
        }
        digests = set(committed.values())
        attempts = {*committed, *(block.attempt for block in merged.values())}
        is_uncertain = len(attempts) > 1 and len(attempts) > len(committed) and digests != {NAMED}
        for row_id, block in merged.items():
            reason = UNCOMMITTED if is_uncertain else ""
            if may_differ(len(committed), digests, block.in_space):
                reason = RECOMPUTED
            if reason != block.reason and (block.exact or block.reason == UNCOMMITTED):
                self._db.execute(
                    "UPDATE block SET exact = ?, reason = ? WHERE id = ?",
                    (not reason, reason, row_id),
                )


@dataclass(frozen=True, slots=True)
class _Merged:
    """A stored block whose flows merge with those of other attempts."""

    attempt: int
    exact: bool
    reason: str
    in_space: str


def _key(block_id: BlockId) -> tuple[str, int, int, int]:
    return block_id.node, block_id.partition, block_id.attempt, block_id.seq
