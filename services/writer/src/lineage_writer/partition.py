"""Stores the records of one partition in order: reads them, stores them, and advances the position.

The position is the store's: it moves in the transaction that stores the records, and only from
where this writer believes it to be. Kafka's own committed offset decides nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import structlog
from aiokafka.errors import KafkaError

from lineage_core.contract.dead_letter import DeadRecord, dead_letter_reason
from lineage_store.errors import StoreError
from lineage_writer.errors import FencedError, OffsetGoneError, SourceLostError
from lineage_writer.health import Health
from lineage_writer.metrics import Metrics
from lineage_writer.records import (
    Entry,
    Partition,
    Record,
    StoreBatch,
    cut,
    dead_entry,
    read_batch,
    without_content,
)
from lineage_writer.refusals import StoreRefusal, read_refusal
from lineage_writer.settings import WriterSettings
from lineage_writer.waiting import StoppedError, StopSign, pauses

FETCHED_AT_ONCE = 64
"""Records taken from Kafka's client at a time; it holds no more than a fetch of bytes."""
IDLE_S = 1.0
"""How long one wait for records lasts."""
COMMON_RETRIES = 3
"""Retries that are not reported: of two writers that conflict, one has to retry."""
SOURCE_TRIES = 12
"""Failures of Kafka's client in a row before it is replaced: about half a minute."""

T = TypeVar("T")


class RecordSource(Protocol):
    """The part of Kafka's client that a partition needs."""

    async def fetch(self, partition: Partition, limit: int, wait_s: float) -> Sequence[Record]:
        """The next records, none when ``wait_s`` is over.

        Raises:
            OffsetGoneError: there is no record at the position sought.
            KafkaError: not now.
        """

    async def bounds(self, partition: Partition) -> tuple[int, int]:
        """The first offset that Kafka holds, and the next one to be written.

        Raises:
            KafkaError: not now.
        """

    def seek(self, partition: Partition, offset: int) -> None:
        """Fetch from here on."""


class DeadLetterSink(Protocol):
    """Sends dead letters."""

    async def send(self, record: Record, dead: DeadRecord) -> None:
        """Send one; it is durable when this returns.

        Raises:
            KafkaError: not now.
        """


class BatchStore(Protocol):
    """The store, see :class:`lineage_writer.threads.ThreadedStore`."""

    async def store_batch(self, partition: Partition, batch: StoreBatch) -> None: ...
    async def offset(self, partition: Partition) -> int | None: ...
    async def record_lost(self, partition: Partition, first: int, first_available: int) -> None: ...
    async def prepare(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """Shared objects of all partitions of a writer. ``slots``: limits concurrent transactions."""

    source: RecordSource
    store: BatchStore
    dead_letters: DeadLetterSink
    settings: WriterSettings
    metrics: Metrics
    health: Health
    slots: asyncio.Semaphore
    clock: Callable[[], float] = time.time


class PartitionWriter:
    """Stores one partition until :meth:`stop`."""

    def __init__(self, partition: Partition, tools: Tools) -> None:
        self.partition = partition
        self.position: int | None = None
        """Next offset to be stored; None before it is read from the store."""
        self._tools = tools
        self._stop = StopSign()
        self._new = False
        """Whether the store has no offset of the partition yet."""
        self._lost = False
        """Whether the stored offset is lower than :attr:`position`."""
        self._lost_until = 0
        """Up to where lost records are counted."""
        self._waiting_since: float | None = None
        """When the oldest record in hand was sent."""
        self._lagging_since: float | None = None
        self._log = structlog.get_logger().bind(
            topic=partition.topic, partition=partition.partition
        )

    def stop(self) -> None:
        """End :meth:`run` after the transaction that is open, if any."""
        self._stop.set()

    async def check_stored_position(self) -> None:
        """Whether the store still has what was stored: it may be emptied, or restored from an old copy.

        Raises:
            StoreError: it can't be read.
        """
        position, new = self.position, self._new
        if position is not None and not new:
            stored_offset = await self._tools.store.offset(self.partition)
            self._lost = self._lost or stored_offset is None or stored_offset < position

    def lag_seconds(self, end: int, now: float) -> float:
        """Age of the oldest record that waits, as far as it is known; ``end``: the log's."""
        if self.position is None or self.position >= end:
            self._lagging_since = None
            return 0.0
        if self._lagging_since is None:
            self._lagging_since = now
        since = self._lagging_since if self._waiting_since is None else self._waiting_since
        return max(0.0, now - since)

    async def run(self) -> None:
        """Store records until :meth:`stop`.

        Raises:
            SourceLostError: Kafka's client does not recover.
        """
        try:
            while True:
                await self._locate()
                try:
                    while True:
                        await self._store_next()
                except FencedError:
                    # Another writer was here, or an answer of the store got lost: what it has counts.
                    self._tools.metrics.retries.labels("fenced").inc()
                    self._log.info("batch_fenced", position=self.position, store_behind=self._lost)
                except OffsetGoneError:
                    self._log.warning("offset_gone", position=self.position)
        except StoppedError:
            pass

    # -- the position ------------------------------------------------------------------------

    async def _locate(self) -> None:
        """Read the position from the store, and seek there."""
        tools, partition = self._tools, self.partition
        was_positioned = self.position is not None and not self._new
        self._lost = False
        stored_offset = await self._retry_until_success(
            "store", lambda: tools.store.offset(partition)
        )
        if stored_offset is None and was_positioned:
            self._log.error("store_emptied", position=self.position)
            await self._retry_until_success("store", tools.store.prepare)
        low, high = await self._retry_until_success("kafka", lambda: tools.source.bounds(partition))
        start = low if stored_offset is None else stored_offset
        if start < low:
            await self._skip_removed_records(start, low)
            start = low
        elif start > high:
            # The topic was created again. Records that are stored already may be stored again.
            self._log.error("log_restarted", position=start, end=high)
            start = low
        # The stored offset is unchanged: the next batch advances it from there.
        self.position = start if stored_offset is None else stored_offset
        self._new = stored_offset is None
        self._waiting_since = None
        tools.source.seek(partition, start)
        self._log.info("partition_located", stored=stored_offset, start=start, end=high)

    async def _skip_removed_records(self, first: int, first_available: int) -> None:
        """Record that Kafka removed records before they were stored: without them, no verdict may be complete."""
        tools = self._tools
        self._log.error("records_lost", position=first, first_available=first_available)
        await self._retry_until_success(
            "store", lambda: tools.store.record_lost(self.partition, first, first_available)
        )
        tools.metrics.lost_messages.inc(max(0, first_available - max(first, self._lost_until)))
        self._lost_until = max(first_available, self._lost_until)

    # -- one batch ---------------------------------------------------------------------------

    async def _store_next(self) -> None:
        """Wait for records, and store them.

        Raises:
            FencedError: the store is not where this writer believes it to be.
        """
        if self._lost:
            raise FencedError("the store has lost what it had")
        records = await self._fetch(FETCHED_AT_ONCE, IDLE_S)
        if not records:
            return
        self._waiting_since = records[0].timestamp / 1000
        tools = self._tools
        await self._stop.unless_set(tools.slots.acquire())
        try:
            records = await self._collect(list(records))
            batch = await asyncio.to_thread(
                read_batch,
                self.partition,
                self._required_position(),
                records,
                tools.settings.writer_record_bytes,
                tools.clock(),
                new=self._new,
            )
            for entry in batch.entries:
                await self._send_dead_letter(entry)
            for part in cut(batch, tools.settings.writer_batch_rows):
                await self._store(part)
            self._waiting_since = None
        finally:
            tools.slots.release()

    def _required_position(self) -> int:
        assert self.position is not None
        return self.position

    async def _collect(self, records: list[Record]) -> list[Record]:
        """More records, until a batch is full or nothing came for a moment."""
        settings, clock = self._tools.settings, asyncio.get_running_loop().time
        deadline = clock() + settings.writer_batch_wait_s
        size = sum(len(record.value or b"") for record in records)
        while size < settings.writer_batch_bytes and len(records) < settings.writer_batch_rows:
            more = await self._fetch(FETCHED_AT_ONCE, max(0.0, deadline - clock()))
            if not more:
                break
            records += more
            size += sum(len(record.value or b"") for record in more)
        return records

    async def _fetch(self, limit: int, wait_s: float) -> Sequence[Record]:
        source = self._tools.source
        return await self._retry_until_success(
            "kafka", lambda: source.fetch(self.partition, limit, wait_s)
        )

    async def _send_dead_letter(self, entry: Entry) -> None:
        """Send an entry that is a dead letter, until it is durable; other entries are ignored."""
        dead = entry.dead
        if dead is None:
            return
        await self._retry_until_success(
            "kafka", lambda: self._tools.dead_letters.send(entry.record, dead)
        )
        self._tools.metrics.dead_letters.inc()
        self._log.error("dead_letter", offset=entry.record.offset, app=dead.app, reason=dead.reason)

    async def _store(self, batch: StoreBatch) -> None:
        """Store a batch, with retries, in halves, or with a dead letter for a refused record.

        Raises:
            FencedError: another writer did.
        """
        tools, suspect = self._tools, False
        for tries, pause in enumerate(pauses(), 1):
            started_at = time.monotonic()
            try:
                await tools.store.store_batch(self.partition, batch)
            except FencedError:
                raise
            except Exception as error:
                refusal = read_refusal(error)
                tools.metrics.retries.labels(refusal.value).inc()
                if refusal is not StoreRefusal.WAIT and len(batch.entries) > 1:
                    for half in batch.halves():
                        await self._store(half)
                    return
                if refusal is StoreRefusal.SUSPECT and suspect:
                    await self._replace_by_dead_letter(batch, error)
                    return
                # It is the record's fault only if the store accepts others, and refuses this one again.
                suspect = refusal is StoreRefusal.SUSPECT and await self._store_takes_others()
                if not suspect:
                    if tries > COMMON_RETRIES:
                        self._store_fails(refusal, error)
                    await self._stop.pause(pause)
            else:
                tools.health.answers("store")
                self.position = batch.next
                self._new = False
                took, now = time.monotonic() - started_at, tools.clock()
                tools.metrics.stored(batch, took, now)
                return

    def _store_fails(self, refusal: StoreRefusal, error: Exception) -> None:
        reason = dead_letter_reason(error)
        if self._tools.health.fails("store", reason):
            self._log.warning("store_unavailable", refusal=refusal.value, reason=reason)

    async def _store_takes_others(self) -> bool:
        """Whether the store can be written at all; if not, the record is not at fault.

        Raises:
            FencedError: another writer has moved the offset.
        """
        at = self._required_position()
        try:
            await self._tools.store.store_batch(self.partition, StoreBatch(at, at, (), self._new))
        except FencedError:
            raise
        except Exception:
            return False
        return True

    async def _replace_by_dead_letter(self, batch: StoreBatch, error: Exception) -> None:
        """Replace a record that the store always refuses by a dead letter."""
        (entry,) = batch.entries
        if entry.dead is None:
            # The server's own message, because a verdict must not show its address.
            cause = error.__cause__ if isinstance(error, StoreError) and error.__cause__ else error
            reason = f"refused by the store: {dead_letter_reason(cause)}"
            entry = dead_entry(self.partition, entry.record, reason, self._tools.clock())
            await self._send_dead_letter(entry)
        else:
            entry = without_content(entry)
        await self._store(StoreBatch(batch.first, batch.next, (entry,), batch.new))

    async def _retry_until_success(self, server: str, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of ``attempt``, tried until it works.

        Raises:
            StoppedError: the work is to stop.
            SourceLostError: Kafka does not come back.
        """
        for tries, pause in enumerate(pauses(), 1):
            try:
                result = await self._stop.unless_set(_coroutine(attempt))
            except (StoreError, KafkaError, asyncio.TimeoutError, OSError) as error:
                if server == "kafka" and tries >= SOURCE_TRIES:
                    raise SourceLostError(f"Kafka: {dead_letter_reason(error)}") from error
                self._tools.metrics.retries.labels(
                    "unavailable" if server == "store" else server
                ).inc()
                if self._tools.health.fails(server, dead_letter_reason(error)):
                    self._log.warning(f"{server}_unavailable", reason=dead_letter_reason(error))
                await self._stop.pause(pause)
            else:
                self._tools.health.answers(server)
                return result
        raise AssertionError("pauses never end")


async def _coroutine(attempt: Callable[[], Awaitable[T]]) -> T:
    return await attempt()
