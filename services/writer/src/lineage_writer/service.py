"""The writer as a service: wires its parts, starts them again where that helps, stops in time."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog
from aiokafka.errors import KafkaError

from lineage_core.contract.dead_letter import dead_letter_reason
from lineage_kafka.bootstrap import bootstrap_problem
from lineage_service.probes import Probes
from lineage_store.errors import StoreUnavailableError
from lineage_writer.consumption import Consumption
from lineage_writer.errors import SourceLostError
from lineage_writer.health import Health
from lineage_writer.loading import Store
from lineage_writer.metrics import Metrics
from lineage_writer.publishing import Publisher, PublishingStore
from lineage_writer.settings import WriterSettings
from lineage_writer.threads import ThreadedStore
from lineage_writer.waiting import StoppedError, StopSign, pauses

PROBE_S = 3.0
"""For finding out why a server does not answer."""
CLOSE_LIMIT_S = 1.0
"""To close what may hang: a client whose server is away."""

T = TypeVar("T")


class Service:
    """One process of the writer."""

    def __init__(
        self,
        settings: WriterSettings,
        open_store: Callable[[], Store],
        open_publishing_store: Callable[[], PublishingStore] | None = None,
    ) -> None:
        """``open_publishing_store``: opens the store again, for publishing to OpenLineage."""
        self._settings = settings
        self._open_store = open_store
        self._metrics = Metrics()
        self._publisher = None
        if open_publishing_store is not None and settings.tells_openlineage:
            self._publisher = Publisher(settings, open_publishing_store, self._metrics)
        self._health = Health(self._metrics)
        self._stop = StopSign()
        self._log = structlog.get_logger()

    async def run(self) -> bool:
        """Serve until SIGTERM or SIGINT; False: a transaction is still open, and is to be dropped.

        Raises:
            StoreError: the store can't be used, now or later.
            OSError: the port can't be had.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        probes = Probes(self._metrics.registry, self._problems)
        port = await probes.start(self._settings.writer_http_host, self._settings.writer_http_port)
        self._log.info("writer_started", http_port=port, group=self._settings.writer_group)
        try:
            store = await self._connected()
            if self._publisher is not None:
                self._publisher.start()
            threaded = ThreadedStore(
                store, self._settings.writer_group, self._settings.writer_parallel
            )
            finished = await self._consume(threaded)
            return await threaded.close(CLOSE_LIMIT_S) and finished
        except StoppedError:
            # A thread may wait for the store to answer.
            return False
        finally:
            if self._publisher is not None:
                await loop.run_in_executor(None, self._publisher.stop, CLOSE_LIMIT_S)
            self._log.info("writer_stopped")
            await asyncio.wait_for(probes.stop(), CLOSE_LIMIT_S)

    async def _problems(self) -> Mapping[str, str]:
        return self._health.problems

    async def _connected(self) -> Store:
        """The store, as soon as it is there."""
        loop = asyncio.get_running_loop()
        executor = ThreadPoolExecutor(1, "open")
        for pause in pauses():
            try:
                opening = loop.run_in_executor(executor, self._open_store)
                store = await self._stop.unless_set(_result(opening))
            except StoreUnavailableError as error:
                if self._health.fails("store", dead_letter_reason(error)):
                    self._log.warning("store_unavailable", reason=dead_letter_reason(error))
                await self._stop.pause(pause)
            else:
                self._health.answers("store")
                return store
        raise AssertionError("pauses never end")

    async def _consume(self, store: ThreadedStore) -> bool:
        """Consume until a signal to stop; returns whether all transactions have ended."""
        tries = pauses()
        while True:
            consumption = Consumption(self._settings, store, self._metrics, self._health)
            limit_s = CLOSE_LIMIT_S
            try:
                await self._stop.unless_set(consumption.start())
                tries = pauses()
                await self._stop.unless_set(consumption.run())
            except StoppedError:
                limit_s = self._settings.writer_stop_s
            except (KafkaError, SourceLostError, OSError) as error:
                reason = await bootstrap_problem(self._settings, error, PROBE_S)
                self._health.fails("kafka", reason)
                self._log.warning("kafka_client_restarted", reason=reason)
            finally:
                finished = await consumption.stop(limit_s)
            if self._stop.is_set:
                return finished
            try:
                await self._stop.pause(next(tries))
            except StoppedError:
                return finished


async def _result(awaited: Awaitable[T]) -> T:
    return await awaited
