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

T = TypeVar("T")
log = structlog.get_logger(__name__)

_AWAY = (
    *(ConnectionError, TimeoutError, OutOfMemoryError, ReadOnlyError),
    *(AuthenticationError, NoPermissionError),
)
_PASSING = re.compile(
    r"(?i)\b(OOM|MISCONF|LOADING|BUSY|READONLY|CLUSTERDOWN|TRYAGAIN|MASTERDOWN|NOREPLICAS|NOAUTH"
    r"|WRONGPASS|NOPERM)\b"
)
PROBLEM_MAX = 200
NO_EVICTION = "noeviction"
_EVICTS = (
    "it drops keys when it is full (maxmemory-policy {policy}), and lineage with them: set maxmemory-policy "
    "to noeviction, in its configuration and by redis-cli config set"
)
_ADVICE = (
    (
        re.compile(r"(?i)certificate.verify.failed"),
        "its certificate is not trusted: LINEAGE_REDIS_CA_FILE must name the authority that issued "
        "it, and LINEAGE_REDIS a host that it is made out to",
    ),
    (
        re.compile(r"(?i)WRONGPASS|NOAUTH|AuthenticationError|username-password"),
        "it refuses the login: check LINEAGE_REDIS_USERNAME and LINEAGE_REDIS_PASSWORD_FILE",
    ),
    (
        re.compile(r"(?i)NOPERM|NoPermissionError"),
        "its ACL user lacks a right: docs/guide/security.md has the line to give it",
    ),
    (
        re.compile(r"(?i)closed by server|reset by peer|wrong.version.number"),
        "where it speaks TLS, and only there, LINEAGE_REDIS begins with rediss://",
    ),
)
_FENCE = f"{PREFIX}fence"
_FENCE_S = 3600
_FENCE_WAIT_MS = 5_000


@contextmanager
def unavailable_or_broken() -> Iterator[None]:
    """Errors of Redis that pass, as :class:`StateUnavailableError`; others as they are."""
    try:
        yield
    except _AWAY as error:
        raise _unavailable(f"{type(error).__name__}: {error}") from error
    except ResponseError as error:
        if _PASSING.search(str(error)):
            raise _unavailable(str(error)) from error
        raise
    except RedisError as error:
        if _PASSING.search(str(error)):
            raise _unavailable(str(error)) from error
        raise


def _unavailable(text: str) -> StateUnavailableError:
    """What Redis said, and what to do about it where that can be told."""
    advice = [f" ({advice})" for sign, advice in _ADVICE if sign.search(text)]
    return StateUnavailableError("".join([_short(text), *advice[:1]]))


def _short(text: str) -> str:
    """Without the values of a command that failed."""
    return text if len(text) <= PROBLEM_MAX else f"{text[:60]} ... {text[-100:]}"


@dataclass(frozen=True, slots=True)
class RedisRun:
    """One process of Redis: another one may have forgotten what this one was told last."""

    run_id: str
    version: tuple[int, ...]
    keeps: bool
    """Whether it has a file of what it was told."""

    @property
    def answers_for_disk(self) -> bool:
        """Whether it can be asked if its writes are on disk (WAITAOF)."""
        return self.keeps and self.version >= (7, 2)


class RedisAccess:
    """What is asked of Redis itself; for one thread at a time.

    Raises:
        StateUnavailableError: from every method: it is away for now.
    """

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self._told = ""

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
        policy = memory.get("maxmemory_policy", NO_EVICTION)
        if policy != NO_EVICTION:
            # A key that is gone while others stay is noticed by nobody.
            raise StateUnavailableError(_EVICTS.format(policy=policy))
        numbers = re.findall(r"\d+", str(server["redis_version"]))
        found = RedisRun(
            str(server["run_id"]),
            tuple(map(int, numbers)),
            bool(persistence.get("aof_enabled")),
        )
        if found.run_id != self._told:
            self._told = found.run_id
            log.info("redis", version=server["redis_version"], append_only=found.keeps)
            if not found.keeps:
                log.warning("redis_keeps_nothing", advice="set appendonly yes: its state is lost")
        return found

    def to_disk(self) -> None:
        """Return when all that Redis was told so far is on its disk."""
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
