"""The store from asyncio: its calls block, so they run in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, TypeVar

from lineage_store.neo4j.server_statistics import ServerStatistics
from lineage_writer.loading import Store, record_lost, store_batch
from lineage_writer.records import Partition, StoreBatch

T = TypeVar("T")


class ThreadedStore:
    """A store for one consumer group. Writing never waits for reading, nor the other way round."""

    def __init__(self, store: Store, group: str, parallel: int) -> None:
        self._store = store
        self._group = group
        self._writes = ThreadPoolExecutor(parallel, "write")
        self._reads = ThreadPoolExecutor(2, "read")
        self._calls: set[asyncio.Future[Any]] = set()

    async def store_batch(self, partition: Partition, batch: StoreBatch) -> None:
        """:func:`lineage_writer.loading.store_batch`. Once begun it runs to its end."""
        await self._call(self._writes, store_batch, self._store, self._group, partition, batch)

    async def offset(self, partition: Partition) -> int | None:
        """The stored offset of the partition; None if there is none yet.

        Raises:
            StoreError: the store can't be read.
        """
        return await self._call(self._reads, self._store.offset, self._group, *partition)

    async def record_lost(self, partition: Partition, first: int, first_available: int) -> None:
        """:func:`lineage_writer.loading.record_lost`.

        Raises:
            StoreError: the store can't be read or written.
        """
        await self._call(self._writes, record_lost, self._store, partition, first, first_available)

    async def prepare(self) -> None:
        """See :meth:`lineage_writer.loading.Store.prepare`.

        Raises:
            StoreError: the store can't be changed.
        """
        await self._call(self._reads, self._store.prepare)

    async def server_statistics(self) -> ServerStatistics | None:
        """How the server is; None: there is none.

        Raises:
            StoreError: the store can't be read.
        """
        return await self._call(self._reads, self._store.server_statistics)

    async def close(self, limit_s: float) -> bool:
        """Release the store; False: a thread still waits for it."""
        for executor in (self._reads, self._writes):
            executor.shutdown(wait=False, cancel_futures=True)
        closer = ThreadPoolExecutor(1, "close")
        closing = asyncio.wrap_future(closer.submit(self._store.close))
        closer.shutdown(wait=False)
        _, open_calls = await asyncio.wait({closing, *self._calls}, timeout=limit_s)
        return not open_calls

    async def _call(self, executor: Executor, work: Callable[..., T], *arguments: Any) -> T:
        call = asyncio.wrap_future(executor.submit(work, *arguments))
        self._calls.add(call)
        call.add_done_callback(self._ended)
        # Cancelling the wait does not end the thread, so running calls are recorded.
        return await asyncio.shield(call)

    def _ended(self, call: asyncio.Future[Any]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # retrieved, because the caller may no longer wait for it
