"""Gathers rows of one application and adds them to the lake in one commit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from lineage_core.codec.edge_message import Links, StoredBlock
from lineage_core.codec.packing import PackedBlock, pack_edge
from lineage_core.contract.block import BlockId
from lineage_core.contract.graph import EdgeBatch
from lineage_core.contract.message import Commit, Message, dump_message
from lineage_core.contract.sealing import Seal
from lineage_core.linking.linker import TaskId
from lineage_store.lake.columns import TYPES, USED, Kind, application_key
from lineage_store.lake.file_writing import write_file
from lineage_store.lake.table import LakeFile, LakeTable
from lineage_store.recomputing import attempt_digest
from lineage_store.recorded_files import file_rows
from lineage_store.signed import BIAS, INTEGER_MAX

FILE_BYTES: Final = 64 << 20
"""Bytes of flows and messages that are gathered for one file."""
ROWS_MAX: Final = 500_000
"""Rows that are gathered for one file."""
NUMBERS_BITS: Final = 24
"""Rows of one commit are numbered in so many bits, below the version that the commit was made on."""


class LakeWriter:
    """Rows of one application that become visible by :meth:`commit`, all at once; not for several threads.

    ``heard_at``: unix seconds by the store's clock, at which the driver wrote the messages that follow. Large numbers of
    rows are written into files meanwhile, which no reader sees before the commit. Whoever gives up leaves files that
    `lineage compact` deletes after a time, or :meth:`discard`. ``version``: of the lake, on which they are written.
    """

    def __init__(self, table: LakeTable, app: str, heard_at: float, version: int) -> None:
        self._table = table
        self._heard_at = heard_at
        self._key = application_key(app)
        # What is written later has larger numbers, whoever writes it: it was made on a later version.
        self._number = (version + 1) << NUMBERS_BITS
        self._rows: dict[Kind, list[tuple[Any, ...]]] = {}
        self._tasks: dict[tuple[TaskId, str | None], None] = {}
        self._files: list[LakeFile] = []
        self._held = self._count = 0
        self._epochs: set[str] = set()
        self.blocks: set[BlockId] = set()
        """Ids of the blocks that were given to this."""
        self._add(Kind.APPLICATION, self._number, heard_at, app)

    def message(self, message: Message) -> None:
        """Add a message, and what follows from it for files and tasks."""
        self._number += 1
        body = dump_message(message)
        encoded = body.encode()
        digest = hashlib.blake2b(encoded, digest_size=16).digest()
        node = getattr(message, "node", None)
        self._add(
            Kind.MESSAGE, self._number, self._heard_at, message.type, node, digest, body, len(encoded),
            size=len(encoded),
        )  # fmt: skip
        for row in sorted(file_rows(message)):
            self._add(Kind.FILE, self._number, *row, size=len(row.file))
        if isinstance(message, Commit):
            task = TaskId(message.node, message.partition, message.attempt)
            self._tasks[task, attempt_digest(message)] = None

    def block(self, task: TaskId, packed: PackedBlock) -> None:
        """Add a visible block of a task; one that was added already is not added again."""
        self._block(task, packed, None)

    def linked_elsewhere(self, block: StoredBlock) -> None:
        """Add a block that is invisible until :meth:`links` named it, before or after this, here or in another commit."""
        self._epoch("")
        self._block(block.task, block, committed=False)

    def links(self, links: Links) -> None:
        """Add what linking elsewhere found; its blocks may be in other commits, before or after this."""
        self._epoch(links.epoch)
        for block_id in links.visible:
            self._add(Kind.VISIBLE, *_id(block_id))
        for block_id, positions in links.unmatched:
            self.unmatched(block_id, positions)
        for edge in links.edges:
            self._edge(edge.consumer, edge.producer, edge.pairs, edge.data)
        for seal in links.seals:
            self.seal(seal)

    def _epoch(self, epoch: str) -> None:
        if epoch not in self._epochs:
            self._epochs.add(epoch)
            self._add(Kind.EPOCH, epoch)

    def _block(
        self, task: TaskId, packed: PackedBlock | StoredBlock, committed: bool | None
    ) -> None:
        if packed.block_id in self.blocks:
            return
        self._tasks[task, None] = None
        self.blocks.add(packed.block_id)
        low, high = (None if end is None else end - BIAS for end in (packed.in_low, packed.in_high))
        ref = (
            *_id(packed.block_id), *task, packed.in_space, low, high, packed.rows,
            min(packed.associations, INTEGER_MAX), packed.exact, packed.reason, self._number,
        )  # fmt: skip
        self._add(Kind.BLOCK, *ref, committed, packed.data, size=len(packed.data))
        for space, first, last in packed.sections:
            self._add(Kind.SECTION, space, first - BIAS, last - BIAS, *ref)

    def edge(self, edge: EdgeBatch) -> None:
        """Add an edge between two blocks; the caller knows that they are stored, or given to this."""
        self._edge(edge.consumer, edge.producer, edge.pairs, pack_edge(edge))

    def _edge(self, consumer: BlockId, producer: BlockId, pairs: int, data: bytes | None) -> None:
        row = (*_id(consumer), *_id(producer), min(pairs, INTEGER_MAX), data)
        self._add(Kind.EDGE, *row, size=0 if data is None else len(data))

    def unmatched(self, block_id: BlockId, positions: int) -> None:
        """Say how many input positions of a block no block puts out; of all that is said the smallest number is true."""
        self._number += 1
        self._add(Kind.UNMATCHED, self._number, *_id(block_id), min(positions, INTEGER_MAX))

    def seal(self, seal: Seal) -> None:
        """Say of which blocks of a space all edges are stored; of several of one space the largest counts."""
        self._number += 1
        self._add(Kind.SEAL, self._number, seal.space, seal.to_text())

    def problems(self, problems: Mapping[str, str]) -> None:
        """Say what could not be read of the application, by place, from now on."""
        self._number += 1
        body = json.dumps(dict(sorted(problems.items())))
        self._add(Kind.PROBLEMS, self._number, body, size=len(body))

    def commit(self, added: Iterable[LakeFile] = (), removed: Iterable[LakeFile] = ()) -> None:
        """Make all of it visible.

        Args:
            added: other files of the application, which are written already.
            removed: files that are in no version from now on.

        Raises:
            ReplacedError: some of ``removed`` are not there any more; nothing was changed.
            StoreError: the lake can't be written.
        """
        self._table.commit([*self.finish(), *added], removed)
        self._files = []

    def finish(self) -> list[LakeFile]:
        """The files that hold all of it, which no version has yet.

        Raises:
            StoreError: the lake can't be written.
        """
        self._flush()
        return self._files

    def discard(self) -> None:
        """Delete the files, which no version has.

        Raises:
            StoreUnavailableError: the storage refuses.
        """
        self._table.erase(self._files)
        self._files = []

    def _add(self, kind: Kind, *row: Any, size: int = 100) -> None:
        self._rows.setdefault(kind, []).append(row)
        self._held += size
        self._count += 1
        if self._held > FILE_BYTES or self._count > ROWS_MAX:
            self._flush()

    def _flush(self) -> None:
        for task, digest in self._tasks:
            # One row a task and file: those that are known from blocks alone have no digest.
            row = (self._number, *task, digest is not None, digest)
            self._rows.setdefault(Kind.TASK, []).append(row)
        tables = {kind: _table(kind, rows) for kind, rows in self._rows.items()}
        file = write_file(self._table, self._key, tables)
        if file is not None:
            self._files.append(file)
        self._rows, self._tasks, self._held, self._count = {}, {}, 0, 0


def _table(kind: Kind, rows: list[tuple[Any, ...]]) -> pa.Table:
    names = USED[kind]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, TYPES[name]) for name, column in zip(names, columns, strict=True)]
    return pa.table(arrays, names=list(names))


def _id(block_id: BlockId) -> tuple[str, int, int, int]:
    return block_id.node, block_id.partition, block_id.attempt, block_id.seq
