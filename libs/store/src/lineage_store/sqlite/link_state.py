"""Linking state over the SQLite store: join columns lie in a temporary table, not in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from lineage_core.codec.columns import unpack_block
from lineage_core.codec.packing import PackedBlock
from lineage_core.contract.block import BlockId
from lineage_core.contract.region import Region
from lineage_core.contract.sealing import seal_of
from lineage_core.linking.joining import JoinEntry, Side, join_entry_of
from lineage_core.linking.linker import Members, SidesWithin, TaskId
from lineage_store.signed import BIAS
from lineage_store.sqlite.sealed_spaces import is_read, members_of
from lineage_store.sqlite.writing import SqliteWriter

_PRODUCER, _CONSUMER = 0, 1


class SqliteLinkState:
    """Implements :class:`lineage_core.linking.linker.LinkState`; the caller holds a transaction.

    Only visible blocks are stored. A block that must wait stays in its file, so nothing ever waits
    here: the caller reads the file when the task is committed or the block claimed, and offers
    each block by :meth:`offer` before it gives its entry to the linker.

    Sorted join columns go to a temporary table (a file of SQLite's own that goes with the
    connection), by space: a reduce partition reads its share of each map task's blocks, in memory
    is one side at a time. Blocks of earlier calls are unpacked when their space is first needed.
    """

    def __init__(
        self, connection: sqlite3.Connection, writer: SqliteWriter, is_source: Callable[[str], bool]
    ) -> None:
        self._db = connection
        self._writer = writer
        self._is_source = is_source
        self._offered: dict[BlockId, tuple[PackedBlock, int | None]] = {}
        self._spread_blocks: set[int] = set()
        """Row ids of blocks whose sides are in the temporary table."""
        self._added: set[BlockId] = set()
        """Since :meth:`clear_added`: each was joined with all that there was."""
        self._committed: set[TaskId] = set()
        self._claimed: dict[str, bool] = {}
        connection.execute("DROP TABLE IF EXISTS temp.side")
        connection.execute(
            "CREATE TEMP TABLE side (space INTEGER, role INTEGER, block INTEGER, low INTEGER, "
            "high INTEGER, row_low INTEGER, runs INTEGER, single INTEGER, once INTEGER, data BLOB, "
            "attempts TEXT)"
        )
        connection.execute("CREATE INDEX temp.side_of ON side (space, role)")

    def offer(self, packed: PackedBlock, task_row: int | None) -> None:
        """Have a block at hand, should the linker find it visible."""
        self._offered = {packed.block_id: (packed, task_row)}

    def is_visible(self, block: BlockId) -> bool:
        return self._writer.block_row(block) is not None

    def add(self, entry: JoinEntry) -> None:
        packed, task_row = self._offered.pop(entry.block_id)
        row_id = self._writer.block(packed, task_row)
        if row_id is not None:
            self._added.add(entry.block_id)
            self._spread(row_id, entry)

    def producers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        yield from self._sides(
            _PRODUCER, "SELECT block FROM section WHERE space = ?", space, first, last
        )

    def consumers(self, space: str, first: int, last: int) -> Iterator[tuple[BlockId, Side]]:
        yield from self._sides(
            _CONSUMER, "SELECT id FROM block WHERE in_space = ?", space, first, last
        )

    def members(self, spaces: Collection[str]) -> Iterator[Members | None]:
        for space in spaces:
            row_id = self._writer.space(space)
            if not is_read(self._rows, row_id):
                yield None  # checked first: a space of many map tasks' outputs has many producers
                continue
            members = members_of(self._rows, row_id)
            yield members if self._was_joined(space, members) else None

    def clear_added(self) -> None:
        """What was added is sealed: the last act in a transaction."""
        self._added.clear()

    def _was_joined(self, space: str, members: Members) -> bool:
        """Whether the blocks that were there before are joined with each other.

        Those that :meth:`SqliteStore.write` stored, copies of a store that had lost some edges, need not be.
        """
        before = [
            [block_id for block_id in side if block_id not in self._added] for side in members
        ]
        if not all(before):
            return True
        seal = seal_of(space, *before)
        ((text,),) = self._rows("SELECT seal FROM space WHERE id = ?", self._writer.space(space))
        return bool(text == seal.to_text())

    def outputs_of(self, space: str) -> SidesWithin:
        return partial(self.producers, space)

    def unmatched(self, block: BlockId) -> int:
        row_id = self._writer.block_row(block)
        row = self._db.execute("SELECT unmatched FROM block WHERE id = ?", (row_id,)).fetchone()
        return 0 if row is None else int(row[0])

    def set_unmatched(self, block: BlockId, positions: int) -> None:
        row_id = self._writer.block_row(block)
        self._db.execute(
            "UPDATE block SET unmatched = ? WHERE id = ? AND unmatched <> ?",
            (positions, row_id, positions),
        )

    def is_committed(self, task: TaskId) -> bool:
        return task in self._committed

    def commit(self, task: TaskId) -> None:
        # The caller writes the row, with the other facts of the commit.
        self._committed.add(task)

    def is_claimed(self, space: str) -> bool:
        claimed = self._claimed.get(space)
        if claimed is None:
            row = self._db.execute(
                "SELECT claimed FROM space WHERE id = ?", (self._writer.space(space),)
            ).fetchone()
            claimed = self._claimed[space] = bool(row[0])
        return claimed

    def claim(self, space: str) -> None:
        self._db.execute("UPDATE space SET claimed = 1 WHERE id = ?", (self._writer.space(space),))
        self._claimed[space] = True

    def wait(self, task: TaskId, entry: JoinEntry) -> None:
        pass

    def waiting_of(self, task: TaskId) -> Sequence[JoinEntry]:
        return ()

    def waiting_into(self, space: str) -> Sequence[JoinEntry]:
        return ()

    def _sides(
        self, role: int, blocks: str, space: str, first: int, last: int
    ) -> Iterator[tuple[BlockId, Side]]:
        space_row = self._writer.space(space)
        block_rows = self._db.execute(blocks, (space_row,)).fetchall()
        for (row_id,) in block_rows:
            if row_id not in self._spread_blocks:
                self._spread_stored(row_id)
        rows = self._db.execute(
            "SELECT block.node, block.partition, block.attempt, block.seq, side.low, side.high, "
            "side.row_low, side.runs, side.single, side.once, side.data, side.attempts "
            "FROM temp.side JOIN block ON block.id = side.block "
            "WHERE side.space = ? AND side.role = ? AND side.low <= ? AND side.high >= ?",
            (space_row, role, last - BIAS, first - BIAS),
        )
        for node, partition, attempt, seq, *columns in rows:
            yield BlockId(node, partition, attempt, seq), _unpack(*columns)

    def _rows(self, query: str, *values: object) -> list[Any]:
        return self._db.execute(query, values).fetchall()

    def _spread_stored(self, row_id: int) -> None:
        data = self._db.execute(
            "SELECT data FROM block_columns WHERE block = ?", (row_id,)
        ).fetchone()[0]
        self._spread(row_id, join_entry_of(unpack_block(data), self._is_source))

    def _spread(self, row_id: int, entry: JoinEntry) -> None:
        sides = [(space, _PRODUCER, side) for space, side in entry.outputs.items()]
        if entry.inputs is not None:
            sides.append((entry.in_space, _CONSUMER, entry.inputs))
        self._db.executemany(
            "INSERT INTO temp.side VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (self._writer.space(space), role, row_id, *_pack(side))
                for space, role, side in sides
            ],
        )
        self._spread_blocks.add(row_id)


def _pack(side: Side) -> tuple[int, int, int, int, bool, bool, bytes, str | None]:
    """low, high, row_low, runs, single (positions only), once (none twice), columns, attempts."""
    single = side.last is side.first
    last = b"" if single else side.last.tobytes()
    data = b"".join((side.first.tobytes(), last, side.row.tobytes()))
    low, high = side.low - BIAS, side.high - BIAS
    attempts = None if side.attempts is None else side.attempts.to_text()
    return low, high, side.row_low, len(side.first), single, side.distinct, data, attempts


def _unpack(
    low: int,
    high: int,
    row_low: int,
    runs: int,
    single: int,
    once: int,
    data: bytes,
    attempts: str | None,
) -> Side:
    first = np.frombuffer(data, np.uint64, runs)
    last = first if single else np.frombuffer(data, np.uint64, runs, 8 * runs)
    row = np.frombuffer(data, np.uint32, runs, (8 if single else 16) * runs)
    attempts_read = None if attempts is None else Region.from_text(attempts)
    return Side(first, last, row, low + BIAS, high + BIAS, row_low, bool(once), attempts_read)
