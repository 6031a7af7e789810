"""Linking state over the SQLite store: join columns are kept while there is room, else re-read."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence

from lineage_core.block import BlockId
from lineage_core.columns import unpack_block
from lineage_core.joining import JoinEntry, entry_of
from lineage_core.linking import TaskId
from lineage_store.packing import BIAS, PackedBlock
from lineage_store.writing import Writer

CACHE_BYTES = 32 * 2**20
"""Join columns kept in memory, in bytes."""


class SqliteLinkState:
    """Implements :class:`lineage_core.linking.LinkState`; the caller holds a transaction.

    Only visible blocks are stored. A block that must wait stays in its file, so nothing ever waits
    here: the caller reads the file when the task is committed or the block claimed, and offers
    each block by :meth:`offer` before it gives its entry to the linker.
    """

    def __init__(
        self, connection: sqlite3.Connection, writer: Writer, is_source: Callable[[str], bool]
    ) -> None:
        self._db = connection
        self._writer = writer
        self._is_source = is_source
        self._offered: dict[BlockId, tuple[PackedBlock, int | None]] = {}
        self._kept: OrderedDict[int, JoinEntry] = OrderedDict()
        self._kept_bytes = 0
        self._committed: set[TaskId] = set()
        self._claimed: dict[str, bool] = {}

    def offer(self, packed: PackedBlock, task_row: int | None) -> None:
        """Have a block at hand, should the linker find it visible."""
        self._offered = {packed.block_id: (packed, task_row)}

    def forget(self, row_id: int) -> None:
        """A stored block was changed or removed."""
        entry = self._kept.pop(row_id, None)
        if entry is not None:
            self._kept_bytes -= entry.nbytes

    def is_visible(self, block: BlockId) -> bool:
        return self._writer.block_row(block) is not None

    def add(self, entry: JoinEntry) -> None:
        packed, task_row = self._offered.pop(entry.block_id)
        row_id = self._writer.block(packed, task_row)
        if row_id is not None:
            self._keep(row_id, entry)

    def producers(self, space: str, first: int, last: int) -> Iterator[JoinEntry]:
        rows = self._db.execute(
            "SELECT block FROM section WHERE space = ? AND low <= ? AND high >= ? ORDER BY block",
            (self._writer.space(space), last - BIAS, first - BIAS),
        ).fetchall()
        for (row_id,) in rows:
            yield self._entry(row_id)

    def consumers(self, space: str, first: int, last: int) -> Iterator[JoinEntry]:
        rows = self._db.execute(
            "SELECT id FROM block WHERE in_space = ? AND in_low <= ? AND in_high >= ? ORDER BY id",
            (self._writer.space(space), last - BIAS, first - BIAS),
        ).fetchall()
        for (row_id,) in rows:
            entry = self._entry(row_id)
            if entry.inputs is not None:
                yield entry

    def unmatched(self, block: BlockId) -> int:
        row_id = self._writer.block_row(block)
        found = self._db.execute("SELECT unmatched FROM block WHERE id = ?", (row_id,)).fetchone()
        return 0 if found is None else int(found[0])

    def set_unmatched(self, block: BlockId, positions: int) -> None:
        row_id = self._writer.block_row(block)
        self._db.execute("UPDATE block SET unmatched = ? WHERE id = ?", (positions, row_id))

    def is_committed(self, task: TaskId) -> bool:
        return task in self._committed

    def commit(self, task: TaskId) -> None:
        # The row is the caller's to write, with all else that the commit says.
        self._committed.add(task)

    def is_claimed(self, space: str) -> bool:
        found = self._claimed.get(space)
        if found is None:
            row = self._db.execute(
                "SELECT claimed FROM space WHERE id = ?", (self._writer.space(space),)
            ).fetchone()
            found = self._claimed[space] = bool(row[0])
        return found

    def claim(self, space: str) -> None:
        self._db.execute("UPDATE space SET claimed = 1 WHERE id = ?", (self._writer.space(space),))
        self._claimed[space] = True

    def wait(self, task: TaskId, entry: JoinEntry) -> None:
        pass

    def waiting_of(self, task: TaskId) -> Sequence[JoinEntry]:
        return ()

    def waiting_into(self, space: str) -> Sequence[JoinEntry]:
        return ()

    def _entry(self, row_id: int) -> JoinEntry:
        entry = self._kept.get(row_id)
        if entry is not None:
            self._kept.move_to_end(row_id)
            return entry
        data = self._db.execute(
            "SELECT data FROM block_columns WHERE block = ?", (row_id,)
        ).fetchone()[0]
        entry = entry_of(unpack_block(data), self._is_source)
        self._keep(row_id, entry)
        return entry

    def _keep(self, row_id: int, entry: JoinEntry) -> None:
        self._kept[row_id] = entry
        self._kept_bytes += entry.nbytes
        while self._kept_bytes > CACHE_BYTES and len(self._kept) > 1:
            _, old = self._kept.popitem(last=False)
            self._kept_bytes -= old.nbytes
