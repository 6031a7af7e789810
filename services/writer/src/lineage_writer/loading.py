"""The store as the writer needs it, and one transaction of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from lineage_core.codec.edge_message import Links, StoredBlock
from lineage_core.contract.dead_letter import TopicPartitionOffset
from lineage_core.contract.message import DeadLetter, Message
from lineage_core.contract.verdict import VERDICT_MESSAGE_TYPES, StoreCounts, judge
from lineage_store.errors import OffsetMovedError
from lineage_store.neo4j.server_statistics import ServerStatistics
from lineage_writer.errors import FencedError
from lineage_writer.records import Partition, StoreBatch

T = TypeVar("T")


class TransactionWriter(Protocol):
    """Stores records in one open transaction. Everything may be repeated, in any order."""

    def offsets(
        self, group: str, topic: str, partition: int, first: int, next: int, /, *, new: bool
    ) -> bool:
        """Move an offset that stands at ``first`` (``new``: or nowhere yet) to ``next``, before all else.

        False: it has another value, or is gone. Nobody else moves it before the transaction ends, or that fails.
        """

    def message(self, message: Message, /) -> None:
        """Store a message."""

    def block(self, block: StoredBlock, /) -> None:
        """Store a block."""

    def links(self, links: Links, /) -> None:
        """Store edges, visible blocks and seals that linking produced."""


class Store(Protocol):
    """A graph store that keeps Kafka's offsets; used by several threads."""

    def in_transaction(self, work: Callable[[TransactionWriter], T], /) -> T:
        """Run ``work`` in one transaction, which is rolled back if ``work`` raises.

        Raises:
            OffsetMovedError: another writer moved the offset meanwhile; nothing is stored.
            StoreUnavailableError: not now; the same may work later.
            StoreError: the store refuses.
        """

    def offset(self, group: str, topic: str, partition: int, /) -> int | None:
        """A stored offset; None if there is none yet."""

    def application_ids(self) -> Sequence[str]:
        """All applications."""

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        """Messages of an application, of some types or (none given) all."""

    def counts(self, app: str) -> StoreCounts:
        """The facts that the verdict of an application needs."""

    def prepare(self) -> None:
        """Create missing constraints and indexes: a database that was emptied has none."""

    def server_statistics(self) -> ServerStatistics | None:
        """Statistics of the server; None: there is none."""

    def close(self) -> None:
        """Release the store."""


def store_batch(store: Store, group: str, partition: Partition, batch: StoreBatch) -> None:
    """Store a batch and its offset in one transaction.

    Raises:
        FencedError: another writer stored these records, or some of them; or the store has lost what
            it had.
        Exception: what the store or the driver raised: see :mod:`lineage_writer.refusals`.
    """

    def work(writer: TransactionWriter) -> None:
        if not writer.offsets(group, *partition, batch.first, batch.next, new=batch.new):
            raise FencedError(f"{partition.topic}/{partition.partition} is not at {batch.first}")
        for entry in batch.entries:
            match entry.content:
                case None:
                    pass
                case StoredBlock():
                    writer.block(entry.content)
                case Links():
                    writer.links(entry.content)
                case message:
                    writer.message(message)

    try:
        store.in_transaction(work)
    except OffsetMovedError as error:
        raise FencedError(str(error)) from error


def record_lost(store: Store, partition: Partition, first: int, first_available: int) -> None:
    """Record for each incomplete application that Kafka removed records before they were stored.

    The records may have belonged to any of these. May be repeated.

    Raises:
        StoreError: the store can't be read or written.
    """
    reason = f"Kafka removed the records before offset {first_available} before they were stored"
    origin = str(TopicPartitionOffset(*partition, first))
    for app in store.application_ids():
        if not judge(
            store.messages(app, *VERDICT_MESSAGE_TYPES), store.counts(app), now=time.time()
        ).complete:
            _store_message(store, DeadLetter(app=app, place=origin, reason=reason))


def _store_message(store: Store, message: Message) -> None:
    store.in_transaction(lambda loading: loading.message(message))
