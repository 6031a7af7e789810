"""The store from asyncio: its calls block, so they run in threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from lineage_writer.loading import Store, store_batch
from lineage_writer.records import Batch, Partition


class ThreadedStore:
    """A store for one consumer group. Writing never waits for reading, nor the other way round."""

    def __init__(self, store: Store, group: str, parallel: int) -> None:
        self._store = store
        self._group = group
        self._writes = ThreadPoolExecutor(parallel, "write")
        self._reads = ThreadPoolExecutor(2, "read")

    async def store_batch(self, partition: Partition, batch: Batch) -> None:
        """:func:`lineage_writer.loading.store_batch`. Once begun it runs to its end."""
        loop = asyncio.get_running_loop()
        work = (self._store, self._group, partition, batch)
        await loop.run_in_executor(self._writes, store_batch, *work)

    async def offset(self, partition: Partition) -> int | None:
        """Where the partition's offset stands; None if it never moved.

        Raises:
            StoreError: the store can't be read.
        """
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reads, self._store.offset, self._group, *partition)

    def close(self) -> None:
        """Release the store when nothing runs any more."""
        self._reads.shutdown(wait=False, cancel_futures=True)
        self._writes.shutdown(wait=False, cancel_futures=True)
        self._store.close()
