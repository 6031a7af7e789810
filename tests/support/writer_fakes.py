"""Kafka and the store in memory, as the writer sees them; they fail when told to."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from aiokafka.errors import KafkaConnectionError

from lineage_core.codec.edge_message import Links, StoredBlock
from lineage_core.contract.dead_letter import DeadRecord
from lineage_core.contract.message import Message
from lineage_core.contract.verdict import StoreCounts
from lineage_store.neo4j.server_statistics import ServerStatistics
from lineage_writer.errors import OffsetGoneError
from lineage_writer.loading import TransactionWriter
from lineage_writer.records import Content, Partition, Record

T = TypeVar("T")
EDGES = Partition("lineage-edge", 0)


@dataclass(frozen=True)
class FakeRecord:
    offset: int
    value: bytes | None
    key: bytes | None = b"app-1"
    timestamp: int = 1_000_000


@dataclass
class FakeLoading:
    offsets_before: dict[tuple[str, str, int], int]
    moved: dict[tuple[str, str, int], int] = field(default_factory=dict)
    contents: list[Content] = field(default_factory=list)

    def offsets(
        self, group: str, topic: str, partition: int, first: int, next: int, /, *, new: bool
    ) -> bool:
        key = (group, topic, partition)
        if self.offsets_before.get(key, first if new else -1) != first:
            return False
        self.moved[key] = next
        return True

    def message(self, message: Message, /) -> None:
        self.contents.append(message)

    def block(self, block: StoredBlock, /) -> None:
        self.contents.append(block)

    def links(self, links: Links, /) -> None:
        self.contents.append(links)


class FakeStore:
    """A transaction is all or nothing. ``refuse`` may raise for what a transaction holds."""

    def __init__(self) -> None:
        self.offsets: dict[tuple[str, str, int], int] = {}
        self.contents: list[Content] = []
        self.transactions: list[int] = []
        self.prepared = 0
        self.refuse: Callable[[Sequence[Content]], None] = lambda contents: None
        self.read_errors: Iterator[Exception] = iter(())
        self.after_commit: Callable[[], None] = lambda: None

    def in_transaction(self, work: Callable[[TransactionWriter], T], /) -> T:
        loading = FakeLoading(self.offsets)
        result = work(loading)
        self.refuse(loading.contents)
        self.offsets |= loading.moved
        self.contents += loading.contents
        self.transactions.append(len(loading.contents))
        self.after_commit()
        return result

    def offset(self, group: str, topic: str, partition: int, /) -> int | None:
        for error in self.read_errors:
            raise error
        return self.offsets.get((group, topic, partition))

    def application_ids(self) -> Sequence[str]:
        messages = [one for one in self.contents if not isinstance(one, StoredBlock | Links)]
        return list(dict.fromkeys(one.app for one in messages if one is not None))

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        messages = [one for one in self.contents if not isinstance(one, StoredBlock | Links)]
        return [one for one in messages if one is not None and one.app == app]

    def counts(self, app: str) -> StoreCounts:
        return StoreCounts(0, 0, 0, 0)

    def prepare(self) -> None:
        self.prepared += 1

    def server_statistics(self) -> ServerStatistics:
        return ServerStatistics({}, 0, 0, 0, 0)

    def close(self) -> None:
        pass


class FakeSource:
    """One partition's log; ``start`` is its first offset."""

    def __init__(self, values: Sequence[bytes | None], start: int = 0) -> None:
        self.log: list[FakeRecord] = [
            FakeRecord(offset, value) for offset, value in enumerate(values, start)
        ]
        self.start = start
        self.position: int | None = None
        self.seeks: list[int] = []
        self.errors: Iterator[Exception] = iter(())

    @property
    def end(self) -> int:
        return self.log[-1].offset + 1 if self.log else self.start

    async def fetch(self, partition: Partition, limit: int, wait_s: float) -> Sequence[Record]:
        for error in self.errors:
            raise error
        assert self.position is not None
        if not self.start <= self.position <= self.end:
            raise OffsetGoneError(str(self.position))
        rest = (one for one in self.log if one.offset >= self.position)
        found = list(itertools.islice(rest, limit))
        if found:
            self.position = found[-1].offset + 1
        else:
            await asyncio.sleep(min(wait_s, 0.01))
        return found

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        return self.start, self.end

    def seek(self, partition: Partition, offset: int) -> None:
        self.position = offset
        self.seeks.append(offset)


class FakeLetters:
    def __init__(self) -> None:
        self.sent: list[tuple[Record, DeadRecord]] = []
        self.failures = 0

    async def send(self, record: Record, dead: DeadRecord) -> None:
        if self.failures:
            self.failures -= 1
            raise KafkaConnectionError("away")
        self.sent.append((record, dead))
