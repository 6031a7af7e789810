"""One batch from beginning to end: handled, sent, acknowledged, sealed, finished, on disk.

Whatever server is away, the batch waits for it. Nothing of it is given up: when Redis has lost
writes meanwhile, the batch is done again, which makes the same of it.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

import structlog

from lineage_linker.batch import LinkBatch
from lineage_linker.errors import BrokerUnavailableError, RecordRefusedError
from lineage_linker.health import KAFKA, REDIS, Health
from lineage_linker.metrics import Metrics
from lineage_linker.records import Incoming, Layout, Outgoing
from lineage_linker.redis_access import RedisAccess, RedisRun
from lineage_linker.redis_state import RedisState, StateBounds
from lineage_linker.side_cache import SideCache
from lineage_linker.state_positions import Partition, StatePositions

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Sender(Protocol):
    """The way to Kafka."""

    async def layout(self) -> Layout:
        """Topics and their partitions.

        Raises:
            BrokerUnavailableError: they can't be asked for now.
        """

    async def send(self, record: Outgoing) -> Awaitable[object]:
        """Send a record; what is returned is done when it is acknowledged.

        Raises:
            BrokerUnavailableError: now, or from what is returned: it may not have arrived.
            RefusedError: now, or from what is returned: it is too large.
        """


class Processor:
    """Does batches, one at a time. ``clock``: unix seconds."""

    def __init__(
        self,
        access: RedisAccess,
        sender: Sender,
        health: Health,
        metrics: Metrics,
        cache: SideCache,
        bounds: StateBounds,
        positions: StatePositions,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._access = access
        self._positions = positions
        self._sender = sender
        self._health = health
        self._metrics = metrics
        self._cache = cache
        self._bounds = bounds
        self._clock = clock
        # One thread: also where a batch was cancelled no two of them use Redis at once.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="linking")

    async def process(self, records: Sequence[Incoming]) -> RedisRun:
        """Do a batch; when this returns, all that it brought about is in Kafka and in Redis.

        Returns the process of Redis that holds the results, on its disk if it can confirm that.

        Raises:
            StateLostError: Redis has lost what was acked before; nothing is said of what it linked since.
        """
        begin = time.perf_counter()
        while True:
            layout = await self._health.retry_until_available(self._sender.layout)
            run, batch = await self._run_until_available(partial(self._handle, layout, records))
            await self._send(batch)
            await self._send_all(batch, await self._run_until_available(partial(self._seal, batch)))
            moved = await self._run_until_available(partial(self._finish, batch, records))
            if await self._run_until_available(partial(self._has_survived, run)):
                self._positions.confirm(moved)
                break
        self._health.mark_available(REDIS, KAFKA)
        by_topic = Tally(record.place.topic for record in records)
        self._metrics.batch(batch.counts, by_topic, time.perf_counter() - begin)
        self._metrics.cache_bytes.set(self._cache.nbytes)
        for dead in batch.dead:
            log.warning("dead_letter", app=dead.app, place=str(dead.place), reason=dead.reason)
        for app in batch.complete:
            log.info("application_complete", app=app)
        return run

    async def locate(
        self, generation: int, committed: Mapping[Partition, int | None]
    ) -> Mapping[Partition, int]:
        """Where the state stands in the partitions of a new assignment."""
        work = partial(self._positions.locate, generation, committed)
        return await self._run_until_available(partial(self._access.guarded, work))

    async def rewind(self) -> None:
        """Another process of Redis answers: what it does not have is done again.

        Raises:
            StateLostError: it has not what was acked.
        """
        await self._run_until_available(partial(self._access.guarded, self._positions.rewind))

    async def check(self) -> None:
        """Check that the state is still there.

        Raises:
            StateLostError: it is not.
            StateUnavailableError: Redis does not answer now.
        """
        status = await self.run_in_redis_thread(
            partial(self._access.guarded, self._positions.check)
        )
        self._metrics.records_to_reread.set(status.records_to_reread)

    async def acked(self, records: Sequence[Incoming]) -> None:
        """Record that records are acked."""
        await self.run_in_redis_thread(partial(self._positions.acked, records))

    async def run(self) -> RedisRun:
        """Which process of Redis answers."""
        return await self._run_until_available(self._access.run)

    async def run_in_redis_thread(self, work: Callable[[], T]) -> T:
        """Run work in the thread that uses Redis."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        """No more batches; one that is under way is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run_until_available(self, work: Callable[[], T]) -> T:
        return await self._health.retry_until_available(lambda: self.run_in_redis_thread(work))

    def _handle(self, layout: Layout, records: Sequence[Incoming]) -> tuple[RedisRun, LinkBatch]:
        run = self._access.run()
        batch = LinkBatch(layout, self._state_of, self._clock())

        def work() -> None:
            # What is said of nodes first: a block of one that is not registered yet has to be held.
            for record in sorted(records, key=lambda one: one.place.topic != layout.topics.node):
                batch.handle(record)
            batch.recount_unmatched()
            # After all reads of the state, before anything is published from it.
            batch.send_links(self._positions.check().epoch)

        self._access.guarded(work)
        return run, batch

    def _seal(self, batch: LinkBatch) -> list[Outgoing]:
        """What says which spaces are sealed."""

        def work() -> list[Outgoing]:
            batch.seal()
            # After all reads of the state, before anything is published from it.
            return batch.send_seals(self._positions.check().epoch)

        return self._access.guarded(work)

    def _finish(self, batch: LinkBatch, records: Sequence[Incoming]) -> dict[Partition, int]:
        def work() -> dict[Partition, int]:
            batch.finish()
            # Last: where the state stands, all before it is written.
            return self._positions.advance(records)

        return self._access.guarded(work)

    def _state_of(self, app: str) -> RedisState:
        return RedisState(self._access.redis, app, self._cache, self._bounds)

    def _has_survived(self, run: RedisRun) -> bool:
        """Whether the process of Redis that took all writes still runs."""
        if run.answers_for_disk:
            self._access.flush_to_disk()
        return self._access.run().run_id == run.run_id

    async def _send(self, batch: LinkBatch) -> None:
        first = [record for record in batch.outgoing if not record.after]
        await self._send_all(batch, first)
        # What calls blocks visible: their edges have arrived.
        await self._send_all(batch, [record for record in batch.outgoing if record.after])

    async def _send_all(self, batch: LinkBatch, records: Sequence[Outgoing]) -> None:
        unsent = list(records)

        async def attempt() -> None:
            nonlocal unsent
            unsent, problem = await self._send_some(batch, unsent)
            if problem is not None:
                raise problem

        await self._health.retry_until_available(attempt)

    async def _send_some(
        self, batch: LinkBatch, records: Sequence[Outgoing]
    ) -> tuple[list[Outgoing], BrokerUnavailableError | None]:
        """Send records; those that have to be sent (again), and why."""
        answers = await _answers(
            [await _start_sending(self._sender.send(record)) for record in records]
        )
        unsent: list[Outgoing] = []
        problem: BrokerUnavailableError | None = None
        for record, answer in zip(records, answers, strict=True):
            match answer:
                case BrokerUnavailableError():
                    unsent.append(record)
                    problem = answer
                case RecordRefusedError() if record.source is not None:
                    unsent += batch.dead_letters_of_refused(record.source)
                case BaseException():
                    raise answer
                case _:
                    self._metrics.sent(1, len(record.value))
        if unsent and problem is None:
            problem = BrokerUnavailableError("a record was refused: its dead letter is to be sent")
        return unsent, problem


async def _start_sending(sending: Awaitable[Awaitable[object]]) -> Awaitable[object] | Exception:
    try:
        return await sending
    except (BrokerUnavailableError, RecordRefusedError) as error:
        return error


async def _answers(sends: Sequence[Awaitable[object] | Exception]) -> list[object]:
    waiting = [sending for sending in sends if not isinstance(sending, Exception)]
    answers = iter(await asyncio.gather(*waiting, return_exceptions=True))
    return [sending if isinstance(sending, Exception) else next(answers) for sending in sends]
