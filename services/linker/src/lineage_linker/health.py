"""What is wrong right now, server by server: readiness, and patience until it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from lineage_linker.errors import BrokerUnavailableError, StateUnavailableError, UnavailableError
from lineage_linker.metrics import Metrics

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
REDIS, KAFKA = "redis", "kafka"

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Health:
    """Problems by server; nothing is ready while there is one."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.problems: dict[str, str] = {KAFKA: "not connected yet"}

    def mark_available(self, *servers: str) -> None:
        """Record that servers answer."""
        for server in servers:
            if self.problems.pop(server, None) is not None:
                log.info("server_is_back", server=server)

    def mark_failed(self, server: str, problem: Exception) -> None:
        """Record why a server does not answer."""
        if self.problems.get(server) != str(problem):
            log.warning("server_is_away", server=server, problem=str(problem))
        self.problems[server] = str(problem)
        self._metrics.retry(server)

    async def retry_until_available(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works: with pauses that grow, for as long as it takes.

        Raises:
            Exception: anything but :class:`UnavailableError` is none of a server's.
        """
        pause = FIRST_PAUSE_S
        while True:
            try:
                return await attempt()
            except UnavailableError as problem:
                self.mark_failed(server_of(problem), problem)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)


def server_of(problem: UnavailableError) -> str:
    """Which server is away."""
    match problem:
        case StateUnavailableError():
            return REDIS
        case BrokerUnavailableError():
            return KAFKA
        case _:
            raise AssertionError(problem)
