"""When Kafka may forget a record: once what it brought about outlives Redis, and in order.

Acks go out in the order in which records came: a consumer's commit steps over one record at the
head that is not acked (faust-streaming issue 606), so there must never be one.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog

from lineage_linker.records import Incoming
from lineage_linker.redis_access import RedisRun

log = structlog.get_logger(__name__)
E = TypeVar("E")


class Processing(Protocol):
    """What batches are given to (:class:`lineage_linker.processing.Processor`)."""

    async def process(self, records: Sequence[Incoming]) -> RedisRun: ...

    async def run(self) -> RedisRun: ...

    async def rewind(self) -> None: ...

    async def acked(self, records: Sequence[Incoming]) -> None: ...


@dataclass(slots=True)
class _FinishedBatch(Generic[E]):
    """A batch whose results are in Kafka and in Redis, but which is not acked yet."""

    events: Sequence[E]
    records: Sequence[Incoming]
    run: RedisRun
    finished_at: float

    @property
    def size(self) -> int:
        return sum(record.size for record in self.records)


class Acks(Generic[E]):
    """Does batches of events and acks them.

    ``unsafe_s``: for so long a Redis that can't be asked may lose its last writes; should
    another process of it answer by then, what was done meanwhile is done again. ``unsafe_bytes``:
    records that wait for that; beyond, no further batch starts.
    """

    def __init__(
        self,
        processing: Processing,
        ack: Callable[[E], object],
        *,
        unsafe_s: float,
        unsafe_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processing = processing
        self._ack = ack
        self._unsafe_s = unsafe_s
        self._unsafe_bytes = unsafe_bytes
        self._clock = clock
        self._finished_batches: deque[_FinishedBatch[E]] = deque()
        self._lock = asyncio.Lock()

    async def batch(self, events: Sequence[E], records: Sequence[Incoming]) -> None:
        """Do a batch; its acks follow, perhaps later (:meth:`release`)."""
        async with self._lock:
            run = await self._processing.process(records)
            self._finished_batches.append(_FinishedBatch(events, records, run, self._clock()))
            await self._release()
        while (
            sum(finished_batch.size for finished_batch in self._finished_batches)
            > self._unsafe_bytes
        ):
            await asyncio.sleep(self._unsafe_s / 10)
            await self.release()

    async def release(self) -> None:
        """Ack what is safe by now; call it regularly."""
        async with self._lock:
            await self._release()

    async def _release(self) -> None:
        if not self._finished_batches or not self._is_due(self._finished_batches[0]):
            return
        run = await self._processing.run()
        if any(
            finished_batch.run.run_id != run.run_id for finished_batch in self._finished_batches
        ):
            log.warning("redis_was_restarted", batches_done_again=len(self._finished_batches))
            await self._processing.rewind()
            for finished_batch in self._finished_batches:
                finished_batch.run = await self._processing.process(finished_batch.records)
                finished_batch.finished_at = self._clock()
        while self._finished_batches and self._is_due(self._finished_batches[0]):
            oldest = self._finished_batches.popleft()
            for event in oldest.events:
                self._ack(event)
            await self._processing.acked(oldest.records)

    def _is_due(self, finished_batch: _FinishedBatch[E]) -> bool:
        safe = finished_batch.run.answers_for_disk or not finished_batch.run.is_persistent
        return safe or self._clock() - finished_batch.finished_at >= self._unsafe_s
