"""Kafka's records as what is to be stored. Pure: no I/O, the clock is passed in.

What comes from a topic is not trusted: sizes are checked before anything is decoded, and what can't
be read becomes a dead letter, never an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, TypeAlias

from lineage_core.codec.edge_message import Links, StoredBlock, parse_edge_record
from lineage_core.contract.dead_letter import (
    DeadRecord,
    TopicPartitionOffset,
    app_of_key,
    dead_letter_reason,
)
from lineage_core.contract.message import Message, parse_message
from lineage_core.errors import ContractError

SERVICE = "writer"
Content: TypeAlias = Message | StoredBlock | Links


class Record(Protocol):
    """A record as Kafka's client gives it; ``timestamp`` in milliseconds since 1970."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...


class Partition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A record and what is to be stored of it.

    ``dead``: why it is a dead letter; then ``content`` is the message for the verdict, None
    where its application is not known or the store refuses that too.
    """

    record: Record
    content: Content | None
    dead: DeadRecord | None = None

    @property
    def size(self) -> int:
        """Bytes of the record's value."""
        return len(self.record.value or b"")

    @property
    def rows(self) -> int:
        """About how many rows the store writes for it."""
        match self.content:
            case StoredBlock():
                return 2 + len(self.content.sections)
            case Links():
                links = self.content
                return 1 + len(links.visible) + len(links.unmatched) + len(links.edges)
            case _:
                return 1


@dataclass(frozen=True, slots=True)
class StoreBatch:
    """Records of one partition in order.

    They are stored with the move of its offset from ``first`` to ``next``; between the two there
    may be offsets without a record. ``new``: the store may have no offset of the partition yet.
    """

    first: int
    next: int
    entries: Sequence[Entry]
    new: bool = False

    def halves(self) -> tuple[StoreBatch, StoreBatch]:
        """Two batches that follow on each other, of one with several entries."""
        middle = len(self.entries) // 2
        split_offset = self.entries[middle].record.offset
        return (
            StoreBatch(self.first, split_offset, self.entries[:middle], self.new),
            StoreBatch(split_offset, self.next, self.entries[middle:]),
        )


def read_batch(
    partition: Partition,
    first: int,
    records: Sequence[Record],
    record_bytes: int,
    now: float,
    *,
    new: bool = False,
) -> StoreBatch:
    """The batch that moves the offset from ``first`` past ``records`` (at least one)."""
    entries = [read_record(partition, record, record_bytes, now) for record in records]
    return StoreBatch(first, records[-1].offset + 1, entries, new)


def read_record(partition: Partition, record: Record, record_bytes: int, now: float) -> Entry:
    """What is to be stored of a record."""
    try:
        return Entry(record, _content(record.value, record_bytes))
    except Exception as error:
        # Whatever a hostile record makes of a parser, it must not stop its partition.
        return dead_entry(partition, record, dead_letter_reason(error), now)


def dead_entry(partition: Partition, record: Record, reason: str, now: float) -> Entry:
    """A record that can't be used, for ``reason``."""
    dead = DeadRecord(
        TopicPartitionOffset(partition.topic, partition.partition, record.offset),
        reason,
        SERVICE,
        now,
        app_of_key(record.key),
        len(record.value or b""),
    )
    return Entry(record, dead.message(), dead)


def without_content(entry: Entry) -> Entry:
    """A dead letter without a message for the store."""
    return replace(entry, content=None)


def cut(batch: StoreBatch, rows_max: int) -> Iterator[StoreBatch]:
    """Batches of about so many rows, in order; one record is never cut."""
    entries, start, first, rows = batch.entries, 0, batch.first, 0
    for index, entry in enumerate(entries[:-1]):
        rows += entry.rows
        if rows >= rows_max:
            between = entries[index + 1].record.offset
            yield StoreBatch(first, between, entries[start : index + 1], batch.new and start == 0)
            start, first, rows = index + 1, between, 0
    yield StoreBatch(first, batch.next, entries[start:], batch.new and start == 0)


def _content(value: bytes | None, record_bytes: int) -> Content:
    if not value:
        raise ContractError("empty", where="record")
    if len(value) > record_bytes:
        raise ContractError(f"{len(value)} bytes, at most {record_bytes} are read", where="record")
    if value.startswith(b"{"):
        return parse_message(value)
    return parse_edge_record(value)
