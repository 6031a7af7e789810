"""Redis as a server that may be away, be full or forget: which is which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import structlog
from redis import Redis
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from lineage_linker.errors import StateUnavailableError
from lineage_linker.keys import PREFIX
from lineage_service.redis_settings import eviction_problem, redis_problem

T = TypeVar("T")
log = structlog.get_logger(__name__)

_UNAVAILABLE_ERRORS = (
    *(ConnectionError, TimeoutError, OutOfMemoryError, ReadOnlyError),
    *(AuthenticationError, NoPermissionError),
)
_TRANSIENT_REPLIES = re.compile(
    r"(?i)\b(OOM|MISCONF|LOADING|BUSY|READONLY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOREPLICAS|NOAUTH"
    r"|WRONGPASS|NOPERM)\b"
)
_FENCE = f"{PREFIX}fence"
_FENCE_S = 3600
_FENCE_WAIT_MS = 5_000


@contextmanager
def unavailable_or_broken() -> Iterator[None]:
    """Errors of Redis that pass, as :class:`StateUnavailableError`; others as they are."""
    try:
        yield
    except _UNAVAILABLE_ERRORS as error:
        raise _unavailable(f"{type(error).__name__}: {error}") from error
    except ResponseError as error:
        if _TRANSIENT_REPLIES.search(str(error)):
            raise _unavailable(str(error)) from error
        raise
    except RedisError as error:
        if _TRANSIENT_REPLIES.search(str(error)):
            raise _unavailable(str(error)) from error
        raise


def _unavailable(text: str) -> StateUnavailableError:
    return StateUnavailableError(redis_problem(text))


@dataclass(frozen=True, slots=True)
class RedisRun:
    """One process of Redis: another one may lack the last writes of this one."""

    run_id: str
    version: tuple[int, ...]
    is_persistent: bool
    """Whether it writes its data to a file (appendonly)."""

    @property
    def answers_for_disk(self) -> bool:
        """Whether it can confirm that its writes are on disk (WAITAOF)."""
        return self.is_persistent and self.version >= (7, 2)


class RedisAccess:
    """Commands to the server itself; for one thread at a time.

    Raises:
        StateUnavailableError: from every method: it is away for now.
    """

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self._logged_run_id = ""

    def run(self) -> RedisRun:
        """Which process answers.

        Raises:
            StateUnavailableError: also where it evicts keys: nothing is linked until it does not.
        """
        with unavailable_or_broken(), self.redis.pipeline(transaction=False) as pipe:
            pipe.info("server")
            pipe.info("persistence")
            pipe.info("memory")
            server, persistence, memory = cast("list[dict[str, Any]]", pipe.execute())
        problem = eviction_problem(memory)
        if problem:
            # A key that is gone while others stay is noticed by nobody.
            raise StateUnavailableError(problem)
        numbers = re.findall(r"\d+", str(server["redis_version"]))
        run = RedisRun(
            str(server["run_id"]),
            tuple(map(int, numbers)),
            bool(persistence.get("aof_enabled")),
        )
        if run.run_id != self._logged_run_id:
            self._logged_run_id = run.run_id
            log.info("redis", version=server["redis_version"], append_only=run.is_persistent)
            if not run.is_persistent:
                log.warning("redis_keeps_nothing", advice="set appendonly yes: its state is lost")
        return run

    def flush_to_disk(self) -> None:
        """Return when all writes so far are on the disk of Redis."""
        with unavailable_or_broken(), self.redis.pipeline(transaction=False) as pipe:
            # WAITAOF is about writes of its own connection: this one comes after all others.
            pipe.set(_FENCE, 1, ex=_FENCE_S)
            cast("Any", pipe).execute_command("WAITAOF", 1, 0, _FENCE_WAIT_MS)
            *_, answer = pipe.execute()
        if int(answer[0]) < 1:
            raise StateUnavailableError("its writes do not reach the disk")

    def guarded(self, work: Callable[[], T]) -> T:
        """Do work with Redis."""
        with unavailable_or_broken():
            return work()
