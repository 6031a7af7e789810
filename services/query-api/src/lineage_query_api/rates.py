"""How many requests a caller may send: counted here and, with a Redis, for all servers together."""

from __future__ import annotations

import time
from ipaddress import IPv6Address, ip_address

import structlog
from limits import RateLimitItem, parse
from limits.aio.storage import RedisStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from limits.errors import StorageError
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from prometheus_client import CollectorRegistry, Counter
from redis.asyncio import BlockingConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from lineage_query_api.errors import SettingsError
from lineage_service.redis_settings import RedisSettings, RedisSettingsError

KEY_PREFIX = "lm-rate"
"""Of the keys in Redis; not the linker's (``lm:``), so that an ACL can keep the two apart."""
ANSWER_S = 0.25
"""A request waits so long for Redis at most."""
RETRY_S = 1.0
"""Seconds between attempts after a failure of Redis; one request makes each attempt."""
CONNECTIONS_MAX = 16
CALLER_BITS = 64
"""Prefix length of an IPv6 address: a caller with one address has its whole network."""
NOBODY = "unknown"
REDIS_AWAY = "Redis does not count requests: each server limits callers by itself"

_log = structlog.get_logger()


class Rates:
    """The limit of requests of each caller.

    Each server counts by itself, so that a limit always holds; Redis counts what all of them answered. It counts by
    its own clock, in two counters for each caller (a sliding window).

    Args:
        rate: such as ``1200/minute``.
        redis: where servers count together; without a URL, nowhere.

    Raises:
        SettingsError: the login of Redis can't be read.
    """

    def __init__(self, rate: str, redis: RedisSettings, registry: CollectorRegistry) -> None:
        self.rate: RateLimitItem = parse(rate)
        self._own = MovingWindowRateLimiter(MemoryStorage())
        self._pool = _pool(redis) if redis.redis else None
        self._shared = None if self._pool is None else _shared(redis.redis, self._pool)
        self._is_redis_away = False
        self._next_try_at = 0.0
        self._failures = Counter(
            "lineage_api_rate_failures",
            "Times that Redis could not be asked how many requests a caller sent to all servers.",
            registry=registry,
        )

    @property
    def problem(self) -> str:
        """The warning for an operator; empty: none."""
        return REDIS_AWAY if self._is_redis_away else ""

    async def wait_s(self, host: str) -> int:
        """Count a request from an address; the seconds to wait where it is one too many, else 0."""
        caller = caller_of(host)
        if not self._own.hit(self.rate, caller):
            return _seconds_to(self._own.get_window_stats(self.rate, caller).reset_time)
        if self._shared is None or not self._may_try_redis():
            return 0
        try:
            wait = 0
            if not await self._shared.hit(self.rate, caller):
                wait = _seconds_to(
                    (await self._shared.get_window_stats(self.rate, caller)).reset_time
                )
        except (StorageError, OSError) as error:
            self._failed(error)
            return 0
        if self._is_redis_away:
            self._is_redis_away = False
            _log.info("rate_redis_back")
        return wait

    async def close(self) -> None:
        """Leave Redis."""
        if self._pool is not None:
            await self._pool.disconnect()

    def _may_try_redis(self) -> bool:
        if not self._is_redis_away:
            return True
        now = time.monotonic()
        if now < self._next_try_at:
            return False
        self._next_try_at = now + RETRY_S
        return True

    def _failed(self, error: Exception) -> None:
        self._failures.inc()
        self._next_try_at = time.monotonic() + RETRY_S
        if not self._is_redis_away:
            self._is_redis_away = True
            reason = error.__cause__ or error
            _log.warning(
                "rate_redis_away", reason=f"{type(reason).__name__}: {reason}", now=REDIS_AWAY
            )


def caller_of(host: str) -> str:
    """By what requests from an address are counted.

    An IPv6 network is one caller, an IPv4 address equals its IPv6-mapped form, and all texts that are not addresses (which
    proxies write if they know none) are one caller together.
    """
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return NOBODY
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        rest = 128 - CALLER_BITS
        return f"{IPv6Address(int(address) >> rest << rest)}/{CALLER_BITS}"
    return str(address)


def _seconds_to(reset_at: float) -> int:
    return max(int(reset_at - time.time()) + 1, 1)


def _pool(redis: RedisSettings) -> BlockingConnectionPool:
    try:
        arguments = redis.redis_arguments()
    except RedisSettingsError as error:
        raise SettingsError(f"LINEAGE_REDIS: {error}") from error
    return BlockingConnectionPool.from_url(
        redis.redis,
        max_connections=CONNECTIONS_MAX,
        timeout=ANSWER_S,
        socket_timeout=ANSWER_S,
        socket_connect_timeout=ANSWER_S,
        retry=Retry(NoBackoff(), 0),
        **arguments,
    )


def _shared(url: str, pool: BlockingConnectionPool) -> SlidingWindowCounterRateLimiter:
    storage = RedisStorage(
        f"async+{url}",
        wrap_exceptions=True,
        implementation="redispy",
        key_prefix=KEY_PREFIX,
        connection_pool=pool,  # type: ignore[arg-type]
    )
    return SlidingWindowCounterRateLimiter(storage)
