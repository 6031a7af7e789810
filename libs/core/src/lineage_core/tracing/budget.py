"""What one question may cost, and whether somebody still waits for its answer.

Whoever answers a question holds a :class:`Budget` by :func:`within`; what reads stores and files below it asks
:func:`current`, and so needs no parameter for it. Threads of one's own begin without one: give them a copy of the context.

BudgetError
├── TimeUpError     it takes more seconds than it may
├── TooMuchError    it loads more blocks, or more text, than it may
└── AskerGoneError  whoever asked does not wait any more
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar

from lineage_core.errors import LineageError

NARROWER = "narrow it: fewer rows, one step (steps), or a node nearer by (until)"
MIB = 1 << 20


class BudgetError(LineageError):
    """A question costs more than it may. ``hint``: how to ask for less, or allow more."""

    def __init__(self, detail: str, hint: str = "") -> None:
        super().__init__(f"{detail}: {hint}" if hint else detail)
        self.detail = detail
        self.hint = hint


class TimeUpError(BudgetError):
    """The answer takes more seconds than it may."""


class TooMuchError(BudgetError):
    """The answer loads more blocks, or more text of rows, than it may."""


class ClientGoneError(BudgetError):
    """Whoever asked does not wait for the answer any more."""


class Budget:
    """Bounds of one question; None: none. May be shared by threads.

    ``text_bytes``: of texts of rows that are read for the answer. ``hint``: how to go on where it takes too long.
    """

    def __init__(
        self,
        *,
        seconds: float | None = None,
        blocks: int | None = None,
        text_bytes: int | None = None,
        hint: str = NARROWER,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._hint = hint
        self._lock = threading.Lock()
        self._blocks_max, self._text_bytes_max = blocks, text_bytes
        self._blocks = self._text_bytes = 0
        self.gone: Future[None] = Future()
        """Done once whoever asked does not wait any more."""
        # Asked far more often than ``gone``, which takes a lock to answer.
        self._is_gone = False
        self._seconds, self._due = seconds, float("inf")
        if seconds is not None:
            self.allow(seconds)

    def allow(self, seconds: float, text_bytes: int | None = None) -> None:
        """Let it take so many seconds from now on, and read so much more text and as many blocks again (None: as before); not bounded, it stays so."""
        if self._seconds is None:
            return
        with self._lock:
            self._seconds, self._due = seconds, self._clock() + seconds
            if text_bytes is not None:
                self._blocks, self._text_bytes, self._text_bytes_max = 0, 0, text_bytes

    @property
    def left_s(self) -> float:
        """Seconds that are left; infinite where they are not bounded."""
        return max(self._due - self._clock(), 0.0)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done for the answer."""
        return self._is_gone or self._clock() > self._due

    def leave(self) -> None:
        """Nobody waits for the answer any more."""
        with self._lock:
            if not self._is_gone:
                self._is_gone = True
                self.gone.set_result(None)

    def check(self) -> None:
        """Go on, if there is time and somebody waits.

        Raises:
            TimeUpError, AskerGoneError: if not.
        """
        if self._is_gone:
            self.check_client()
        if self._clock() > self._due:
            raise self.late()

    def check_client(self) -> None:
        """Go on, if somebody waits.

        Raises:
            AskerGoneError: if not.
        """
        if self._is_gone:
            raise ClientGoneError("nobody waits for the answer any more")

    def late(self) -> TimeUpError:
        """The error of an answer that takes too long."""
        return TimeUpError(f"the answer takes more than {self._seconds:g} s", self._hint)

    def load(self, blocks: int) -> None:
        """Blocks are about to be loaded.

        Raises:
            BudgetError: they are more than may be, or as :meth:`check`.
        """
        self.check()
        with self._lock:
            self._blocks += blocks
            over = self._blocks_max is not None and self._blocks > self._blocks_max
        if over:
            raise TooMuchError(
                f"the answer crosses more than {self._blocks_max:,} blocks", NARROWER
            )

    def read(self, text_bytes: int) -> None:
        """Texts of rows were read for the answer.

        Raises:
            BudgetError: they are more than may be, or as :meth:`check`.
        """
        self.check()
        with self._lock:
            self._text_bytes += text_bytes
            over = self._text_bytes_max is not None and self._text_bytes > self._text_bytes_max
        if over:
            most = (self._text_bytes_max or 0) / MIB
            raise TooMuchError(
                f"the rows of the answer have more than {most:,.0f} MiB of text",
                "ask for fewer items (limit), page by page, or for a file without texts",
            )


_UNBOUNDED = Budget()
_CURRENT: ContextVar[Budget] = ContextVar("lineage_budget", default=_UNBOUNDED)


def current() -> Budget:
    """The budget of the question that is being answered; one without bounds where there is none."""
    return _CURRENT.get()


@contextmanager
def within(budget: Budget) -> Iterator[Budget]:
    """Answer a question within a budget."""
    token = _CURRENT.set(budget)
    try:
        yield budget
    finally:
        _CURRENT.reset(token)
