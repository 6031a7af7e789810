"""One transaction of a writer of Kafka's records: any number of applications, and the offset that it moves, in one commit."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from lineage_store.errors import OffsetMovedError, StoreUnavailableError
from lineage_store.lake.writing import LakeWriter
from lineage_store.offsets import OffsetMove, offset_key

if TYPE_CHECKING:
    from lineage_core.codec.edge_message import Links, StoredBlock
    from lineage_core.contract.message import Message
    from lineage_store.lake.table import LakeFile, LakeTable


class LakeTransaction:
    """What becomes visible by :meth:`commit`, all at once; not for several threads.

    Everything may be repeated, come in any order and from several writers at once.
    """

    def __init__(self, table: LakeTable, heard_at: float) -> None:
        """``heard_at``: unix seconds by the store's clock."""
        self._table = table
        self._heard_at = heard_at
        self._version: int | None = None
        self._writers: dict[str, LakeWriter] = {}
        self._move: OffsetMove | None = None

    def offsets(
        self, group: str, topic: str, partition: int, first: int, next: int, *, new: bool = False
    ) -> bool:
        """Move a Kafka offset from ``first`` to ``next``; to be called before anything else.

        False: it does not stand at ``first``, and the caller must give the transaction up. ``new``: an offset that was
        never stored stands anywhere. Whether it still stands there is decided when all is committed.

        Raises:
            StoreError: the lake can't be read.
        """
        key = offset_key(group, topic, partition)
        stored = self._table.offset(key)
        if stored != first and not (new and stored is None):
            return False
        self._move = OffsetMove(key, stored, next)
        return True

    def message(self, message: Message) -> None:
        """Store a message, and what follows from it."""
        self._writer(message.app).message(message)

    def block(self, block: StoredBlock) -> None:
        """Store a block; it is invisible until :class:`Links` named it, before or after this."""
        self._writer(block.app).linked_elsewhere(block)

    def links(self, links: Links) -> None:
        """Store what linking found; its blocks may not be here yet."""
        self._writer(links.app).links(links)

    def commit(self) -> None:
        """Make all of it visible.

        Raises:
            OffsetMovedError: the offset does not stand where it did; nothing is stored.
            StoreError: the lake can't be written, as far as it says.
        """
        try:
            files = [file for writer in self._writers.values() for file in writer.finish()]
        except BaseException:
            self.discard()
            raise
        if not files and self._move is None:
            return
        try:
            self._table.commit(files, move=self._move)
        except OffsetMovedError:
            self.discard()
            raise
        except StoreUnavailableError:
            if self._is_surely_lost(files):
                self.discard()
            raise

    def discard(self) -> None:
        """Delete what was written, as far as the storage lets; it was not committed."""
        for writer in self._writers.values():
            with suppress(StoreUnavailableError):
                writer.discard()

    def _is_surely_lost(self, files: list[LakeFile]) -> bool:
        """Whether a commit that failed won't be found later. Elsewhere than in a folder of this machine it may be on its way."""
        try:
            return self._table.address.is_local and not self._table.has_any_of(files)
        except StoreUnavailableError:
            return False

    def _writer(self, app: str) -> LakeWriter:
        writer = self._writers.get(app)
        if writer is None:
            if self._version is None:
                # After the offset was read: what the records before it made has smaller numbers.
                self._version = self._table.newest_version()
            writer = LakeWriter(self._table, app, self._heard_at, self._version)
            self._writers[app] = writer
        return writer
