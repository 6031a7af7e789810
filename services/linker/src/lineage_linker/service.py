"""The linker as a service: wires its parts, waits for its servers, stops in time."""

from __future__ import annotations

import asyncio
import signal
import tempfile
import time
from collections.abc import Awaitable
from contextlib import suppress
from enum import Enum
from typing import Any

import faust
import structlog
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from faust.exceptions import FaustError
from faust.types import EventT
from redis import Redis

from lineage_kafka.bootstrap import bootstrap_problem
from lineage_kafka.errors import RIGHTS, kafka_problem
from lineage_linker.acks import Acks
from lineage_linker.app import (
    FaustPositions,
    FaustSender,
    add_agent,
    log_assignments,
    make_app,
    set_start_locator,
)
from lineage_linker.continuity import Continuity
from lineage_linker.errors import (
    BrokerUnavailableError,
    ReadingError,
    StateLostError,
    StateUnavailableError,
)
from lineage_linker.health import KAFKA, REDIS, Health
from lineage_linker.lag import Lag
from lineage_linker.metrics import Metrics
from lineage_linker.processing import Processor
from lineage_linker.redis_access import RedisAccess, unavailable_or_broken
from lineage_linker.redis_state import StateBounds
from lineage_linker.settings import LinkerSettings
from lineage_linker.side_cache import SideCache
from lineage_linker.state_positions import StatePositions
from lineage_service.probes import Probes

STOP_S = 5.0
"""Longest that a stop takes; what is not acked by then is done again by whoever comes next."""
PROBE_S = 2.0
RELEASE_EVERY_S = 0.2
MEASURE_EVERY_S = 2.0

log = structlog.get_logger(__name__)


class ServiceOutcome(Enum):
    """How a run of the service ended."""

    STOPPED = "stopped"
    """By a signal."""
    AWAY = "away"
    """Kafka was away for longer than Faust bears, or Faust lost its way: begin anew."""
    BROKEN = "broken"
    """An error of its own: nothing was skipped, and somebody has to look."""


class Service:
    """One process of the linker."""

    def __init__(self, settings: LinkerSettings) -> None:
        self._settings = settings
        self._metrics = Metrics((settings.topics.flow, settings.topics.node))
        self._health = Health(self._metrics)
        self._stop = asyncio.Event()
        self._probe = Redis()
        self._app: faust.App | None = None
        self._lag = Lag(self._metrics)

    async def run(self) -> ServiceOutcome:
        """Serve until SIGTERM or SIGINT, or until it can't go on.

        Raises:
            LinkerSettingsError: a secret can't be read.
            KafkaSettingsError: a file of a setting can't be read.
            OSError: the port can't be had.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        self._probe = self._settings.redis_client(answer_s=PROBE_S)
        probes = Probes(self._metrics.registry, self._problems)
        port = await probes.start(self._settings.linker_http_host, self._settings.linker_http_port)
        log.info("linker_started", http_port=port, group=self._settings.linker_group)
        try:
            if not await self._until_stopped(
                self._health.retry_until_available(self._kafka_answers)
            ):
                return ServiceOutcome.STOPPED
            with tempfile.TemporaryDirectory(prefix="lineage-linker-") as folder:
                return await self._link(folder)
        finally:
            await probes.stop()
            log.info("linker_stopped")

    async def _link(self, folder: str) -> ServiceOutcome:
        redis = self._settings.redis_client()
        app = self._app = make_app(self._settings, folder)
        processor = Processor(
            RedisAccess(redis),
            FaustSender(app, self._settings),
            self._health,
            self._metrics,
            SideCache(self._settings.linker_cache_bytes),
            StateBounds(
                self._settings.linker_retention_s,
                self._settings.linker_complete_s,
                self._settings.linker_space_pairs,
            ),
            StatePositions(redis, self._settings.linker_group),
        )
        set_start_locator(app, processor.locate)
        acks: Acks[EventT[Any]] = Acks(
            processor,
            lambda event: event.ack(),
            unsafe_s=self._settings.linker_unsafe_s,
            unsafe_bytes=self._settings.linker_unsafe_bytes,
        )
        positions = FaustPositions(app, self._settings)
        continuity = Continuity(positions, self._settings.linker_stall_s)
        add_agent(app, self._settings, acks, continuity, self._lag)
        log_assignments(app)
        chores = [
            asyncio.create_task(self._release(acks)),
            asyncio.create_task(self._watch(positions, continuity)),
            asyncio.create_task(self._measure_state()),
            asyncio.create_task(self._check_state(processor)),
        ]
        crashed: BaseException | None = None
        try:
            app.finalize()
            # Where its state stands is asked for while partitions are handed over, which can't wait long.
            if await self._until_stopped(processor.run()):
                await self._until_stopped(self._serve(app, chores))
        except Exception as error:
            crashed = error
        finally:
            for chore in chores:
                chore.cancel()
            await self._close(app)
            processor.close()
        crashed = crashed or app.crash_reason
        if self._stop.is_set():
            return ServiceOutcome.STOPPED
        # Cancelled: the agent, by a thread of the consumer that crashed and had no time to say why.
        away = crashed is None or isinstance(
            crashed,
            KafkaError | OSError | ReadingError | StateLostError | asyncio.CancelledError,
        )
        reason = repr(crashed) if crashed is None else kafka_problem(crashed)
        log.error("linker_crashed", exc_info=None if away else crashed, reason=reason)
        return ServiceOutcome.AWAY if away else ServiceOutcome.BROKEN

    async def _serve(self, app: faust.App, chores: list[asyncio.Task[None]]) -> None:
        """Until the app crashes, or a chore fails."""
        await app.start()
        self._health.mark_available(KAFKA)
        waiting = asyncio.create_task(app.wait_until_stopped())
        finished, _ = await asyncio.wait([waiting, *chores], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        for task in finished:
            # A chore is cancelled with the thread of a consumer that crashes: the app says why.
            if not task.cancelled():
                task.result()

    async def _close(self, app: faust.App) -> None:
        try:
            await asyncio.wait_for(app.stop(), STOP_S)
        except Exception as error:
            log.warning("stop_failed", reason=repr(error))

    async def _until_stopped(self, work: Awaitable[object]) -> bool:
        """Do work until it ends (True), or the service is to stop."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not working.done():
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
            return False
        working.result()
        return True

    # -- chores ------------------------------------------------------------------------------

    async def _release(self, acks: Acks[EventT[Any]]) -> None:
        while True:
            await asyncio.sleep(RELEASE_EVERY_S)
            await acks.release()

    async def _watch(self, positions: FaustPositions, continuity: Continuity) -> None:
        """Raises ReadingError or KafkaError: the app's consumer is of no use any more."""
        topics = self._settings.topics
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            positions.check()
            try:
                bounds = await asyncio.wait_for(positions.bounds(), 2 * PROBE_S)
            except (KafkaError, FaustError, asyncio.TimeoutError):
                # Kafka is away, or partitions are being handed over.
                continuity.watch({})
            else:
                continuity.watch(bounds)
                self._lag.measure((topics.flow, topics.node), bounds)

    async def _check_state(self, processor: Processor) -> None:
        """Raises StateLostError: also a worker that has nothing to do must read again."""
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            with suppress(StateUnavailableError):
                await processor.check()

    async def _measure_state(self) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            answers = False
            with suppress(Exception):
                await asyncio.to_thread(self._ask_redis)
                answers = True
            self._metrics.ready.set(answers and not self._health.problems)

    def _ask_redis(self) -> None:
        probe: Any = self._probe
        started_at = time.perf_counter()
        self._metrics.state_entries.set(probe.dbsize())
        self._metrics.state_answer_seconds.set(time.perf_counter() - started_at)
        memory = probe.info("memory")
        self._metrics.state_bytes.set(memory["used_memory"])
        # Absent where a provider's Redis hides it.
        self._metrics.state_bytes_max.set(memory.get("maxmemory", 0))

    # -- readiness ---------------------------------------------------------------------------

    async def _problems(self) -> dict[str, str]:
        """What is wrong right now: what the work met, and what a probe meets."""
        problems = dict(self._health.problems)
        for server, answer in ((REDIS, self._redis_answers()), (KAFKA, self._kafka_answers())):
            try:
                await asyncio.wait_for(answer, 2 * PROBE_S)
            except Exception as error:
                problems.setdefault(server, str(error) or type(error).__name__)
        return problems

    async def _redis_answers(self) -> None:
        with unavailable_or_broken():
            await asyncio.to_thread(self._probe.ping)

    async def _kafka_answers(self) -> None:
        """Raises BrokerUnavailableError: Kafka does not answer, or lacks a topic."""
        admin = AIOKafkaAdminClient(
            **self._settings.aiokafka_config(),
            client_id="lineage-linker-probe",
            request_timeout_ms=int(PROBE_S * 1000),
        )
        try:
            await admin.start()
            missing_topics = set(self._settings.topics.all()) - set(await admin.list_topics())
        except (KafkaError, OSError) as error:
            problem = await bootstrap_problem(self._settings, error, PROBE_S)
            raise BrokerUnavailableError(problem) from error
        finally:
            with suppress(Exception):
                await admin.close()
        if missing_topics:
            names = ", ".join(sorted(missing_topics))
            raise BrokerUnavailableError(f"there is no topic {names} that it may see ({RIGHTS})")
