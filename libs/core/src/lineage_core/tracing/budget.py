"""Limits of the cost of one query, and whether its client still waits for the answer.

The caller that answers a query sets a :class:`Budget` by :func:`use_budget`; code below it that reads stores and files
gets it by :func:`current_budget`, without a parameter. A new thread has no budget: run it in a copy of the context.

BudgetError
├── TimeUpError     it takes more seconds than it may
├── TooMuchError    it loads more blocks, messages or text than it may
│   └── TooManyMessagesError    of one application alone
├── BusyError       other queries hold as many messages as may be held at once
└── ClientGoneError the client no longer waits for the answer
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from lineage_core.errors import LineageError

NARROWER_HINT = "narrow it: fewer rows, one step (steps), or a node nearer by (until)"
MIB = 1 << 20
MEMORY_OF_MESSAGES = 20
"""Bytes of memory that a byte of messages takes, about."""
SHORT_NAME_BYTES = 1_024
"""Memory of a path or another name that answers may repeat without counting it."""
SMALL_MESSAGES = 1 << 20
"""Bytes of messages that may always be loaded, however many other queries hold."""


class BudgetError(LineageError):
    """A query exceeds its limits. ``hint``: how to request less, or raise the limit."""

    def __init__(self, detail: str, hint: str = "") -> None:
        super().__init__(f"{detail}: {hint}" if hint else detail)
        self.detail = detail
        self.hint = hint


class TimeUpError(BudgetError):
    """The answer takes more seconds than it may."""


class TooMuchError(BudgetError):
    """The answer loads more blocks, messages or text of rows than it may."""


class TooManyMessagesError(TooMuchError):
    """The messages of one application alone are more than may be held."""


class BusyError(BudgetError):
    """Other queries hold as many messages as may be held at once."""


class ClientGoneError(BudgetError):
    """The client no longer waits for the answer."""


@dataclass(slots=True)
class _Counter:
    """How many were used, of ``most`` at most; None: not bounded."""

    most: int | None
    used: int = 0


class MessageRoom:
    """How many bytes of messages all queries together hold in memory, of ``most`` at most.

    A message takes `MEMORY_OF_MESSAGES` times as much memory as bytes in the store.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        # A list of messages may be collected, and so released, in any thread at any time: even in one that counts here.
        self._lock = threading.RLock()

    @property
    def held(self) -> int:
        """Bytes of the messages that are held now."""
        return self._held

    def hold(self, holder: object, amount: int, small: int = SMALL_MESSAGES) -> None:
        """Count messages until ``holder`` is collected; up to ``small`` whatever other queries hold.

        Raises:
            TooManyMessagesError: these messages alone exceed the limit.
            BusyError: they exceed it together with those of other queries.
        """
        if amount > self._most:
            raise TooManyMessagesError(
                f"the messages of the application have more than {self._most / MIB:,.0f} MiB",
                "raise LINEAGE_API_MESSAGE_MB and the memory of the server, or use the command line",
            )
        with self._lock:
            if amount > small and self._held + amount > self._most:
                raise BusyError(
                    "other queries hold as many messages as fit into memory", "try again later"
                )
            self._held += amount
        weakref.finalize(holder, self._release, amount).atexit = False

    def _release(self, amount: int) -> None:
        with self._lock:
            self._held -= amount


class Budget:
    """Limits of one query; None: no limit. Threads may share it.

    ``messages``: room for messages that all queries of a server share.
    ``text_bytes``: limit for the texts of rows that the answer reads. ``hint``: advice for a query that takes too long.
    """

    def __init__(
        self,
        *,
        seconds: float | None = None,
        blocks: int | None = None,
        text_bytes: int | None = None,
        messages: MessageRoom | None = None,
        hint: str = NARROWER_HINT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self.messages = messages
        self._hint = hint
        self._lock = threading.Lock()
        self._blocks, self._text_bytes = _Counter(blocks), _Counter(text_bytes)
        self.gone: Future[None] = Future()
        """Completed once the client no longer waits."""
        # Read far more often than ``gone``, which takes a lock to answer.
        self._is_gone = False
        self._seconds, self._due = seconds, float("inf")
        if seconds is not None:
            self.extend(seconds)

    def extend(self, seconds: float, text_bytes: int | None = None) -> None:
        """Let it take so many seconds from now on, and read so much more text and as many blocks again (None: as before); not bounded, it stays so."""
        if self._seconds is None:
            return
        with self._lock:
            self._seconds, self._due = seconds, self._clock() + seconds
            if text_bytes is not None:
                self._blocks.used = 0
                self._text_bytes.used, self._text_bytes.most = 0, text_bytes

    def hold_messages(
        self, holder: object, count_bytes: Callable[[], int], small: int = SMALL_MESSAGES
    ) -> None:
        """Count messages until ``holder`` is collected, as :meth:`MessageRoom.hold`; they are not even counted where any number may be held.

        Raises:
            TooMuchError, BusyError: they may not be held.
        """
        if self.messages is not None:
            self.messages.hold(holder, count_bytes(), small)

    @property
    def left_s(self) -> float:
        """Seconds that are left; infinite where they are not bounded."""
        return max(self._due - self._clock(), 0.0)

    @property
    def text_bytes_used(self) -> int:
        """Bytes of texts that were counted."""
        return self._text_bytes.used

    @property
    def text_bytes_left(self) -> int | None:
        """Bytes of texts that may still be read; None where they are not bounded."""
        most = self._text_bytes.most
        return None if most is None else max(most - self._text_bytes.used, 0)

    @property
    def is_over(self) -> bool:
        """Whether work on the answer has to stop."""
        return self._is_gone or self._clock() > self._due

    def abandon(self) -> None:
        """Record that the client no longer waits for the answer."""
        with self._lock:
            if not self._is_gone:
                self._is_gone = True
                self.gone.set_result(None)

    def check(self) -> None:
        """Check that time is left and that the client still waits.

        Raises:
            TimeUpError: the time is up.
            ClientGoneError: the client no longer waits.
        """
        if self._is_gone:
            self.check_client()
        if self._clock() > self._due:
            raise self.time_up_error()

    def check_client(self) -> None:
        """Check that the client still waits.

        Raises:
            ClientGoneError: it does not.
        """
        if self._is_gone:
            raise ClientGoneError("the client no longer waits for the answer")

    def time_up_error(self) -> TimeUpError:
        """The error of an answer that takes too long."""
        return TimeUpError(f"the answer takes more than {self._seconds:g} s", self._hint)

    def count_blocks(self, blocks: int) -> None:
        """Count blocks that are about to be loaded.

        Raises:
            BudgetError: they are more than may be, or as :meth:`check`.
        """
        self._count(
            self._blocks,
            blocks,
            lambda most: TooMuchError(
                f"the answer crosses more than {most:,} blocks", NARROWER_HINT
            ),
        )

    def count_text(self, text_bytes: int) -> None:
        """Count texts of rows that were read for the answer.

        Raises:
            BudgetError: they are more than may be, or as :meth:`check`.
        """
        self._count(
            self._text_bytes,
            text_bytes,
            lambda most: TooMuchError(
                f"the rows of the answer, and long names in it, have more than {most / MIB:,.0f} MiB of text",
                "ask for fewer items (limit), page by page, or for a file without texts",
            ),
        )

    def count_name(self, name: str, times: int = 1) -> None:
        """Count a name that an answer repeats, as text: what it takes beyond `SHORT_NAME_BYTES`, each time.

        Raises:
            BudgetError: as :meth:`count_text`.
        """
        # In memory, where one rare character makes each of a text take four bytes.
        beyond = sys.getsizeof(name) - SHORT_NAME_BYTES
        if beyond > 0 and times > 0:
            self.count_text(beyond * times)

    def _count(
        self, counter: _Counter, amount: int, too_much: Callable[[int], TooMuchError]
    ) -> None:
        self.check()
        with self._lock:
            counter.used += amount
            used, most = counter.used, counter.most
        if most is not None and used > most:
            raise too_much(most)


_UNBOUNDED = Budget()
_CURRENT: ContextVar[Budget] = ContextVar("lineage_budget", default=_UNBOUNDED)


def current_budget() -> Budget:
    """The budget of the query that is being answered; one without limits where none is set."""
    return _CURRENT.get()


@contextmanager
def use_budget(budget: Budget) -> Iterator[Budget]:
    """Set the budget of the query that the body answers."""
    token = _CURRENT.set(budget)
    try:
        yield budget
    finally:
        _CURRENT.reset(token)
