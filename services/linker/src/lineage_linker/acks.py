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
class _Done(Generic[E]):
    """A batch that is done, by a process of Redis, at a time of the clock."""

    events: Sequence[E]
    records: Sequence[Incoming]
    run: RedisRun
    at: float

    @property
    def size(self) -> int:
        return sum(record.size for record in self.records)


class Acks(Generic[E]):
    """Does batches of events and acks them.

    ``unsafe_s``: for so long a Redis that can't be asked may forget what it was told; should
    another process of it answer by then, what was done meanwhile is done again. ``unsafe_bytes``:
    records that wait for that; beyond, no further batch is begun.
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
        self._done: deque[_Done[E]] = deque()
        self._one_at_a_time = asyncio.Lock()

    async def batch(self, events: Sequence[E], records: Sequence[Incoming]) -> None:
        """Do a batch; its acks follow, perhaps later (:meth:`release`)."""
        async with self._one_at_a_time:
            run = await self._processing.process(records)
            self._done.append(_Done(events, records, run, self._clock()))
            await self._release()
        while sum(batch_done.size for batch_done in self._done) > self._unsafe_bytes:
            await asyncio.sleep(self._unsafe_s / 10)
            await self.release()

    async def release(self) -> None:
        """Ack what is safe by now; to be called every now and then."""
        async with self._one_at_a_time:
            await self._release()

    async def _release(self) -> None:
        if not self._done or not self._is_due(self._done[0]):
            return
        run = await self._processing.run()
        if any(batch_done.run.run_id != run.run_id for batch_done in self._done):
            log.warning("redis_was_restarted", batches_done_again=len(self._done))
            await self._processing.rewind()
            for batch_done in self._done:
                batch_done.run = await self._processing.process(batch_done.records)
                batch_done.at = self._clock()
        while self._done and self._is_due(self._done[0]):
            oldest = self._done.popleft()
            for event in oldest.events:
                self._ack(event)
            await self._processing.acked(oldest.records)

    def _is_due(self, batch_done: _Done[E]) -> bool:
        safe = batch_done.run.answers_for_disk or not batch_done.run.keeps
        return safe or self._clock() - batch_done.at >= self._unsafe_s
