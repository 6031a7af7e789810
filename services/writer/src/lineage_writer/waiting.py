"""Waiting that ends when the work is to stop."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

T = TypeVar("T")


class StoppedError(Exception):
    """The work was stopped while it waited; no work is half done."""


def pauses() -> Iterator[float]:
    """Seconds between tries: doubled each time up to a bound, and never in step with others."""
    pause = FIRST_PAUSE_S
    while True:
        yield pause * random.uniform(0.8, 1.2)
        pause = min(2 * pause, LONGEST_PAUSE_S)


class StopSign:
    """Set once; everything that waits through it ends then."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        """Stop."""
        self._event.set()

    @property
    def is_set(self) -> bool:
        """Whether to stop."""
        return self._event.is_set()

    async def pause(self, seconds: float) -> None:
        """Sleep.

        Raises:
            StoppedError: the work is to stop.
        """
        # A wait of no time would end before it looks.
        if not self._event.is_set():
            try:
                await asyncio.wait_for(self._event.wait(), seconds)
            except asyncio.TimeoutError:
                return
        raise StoppedError

    async def unless_set(self, waiting: Coroutine[Any, Any, T]) -> T:
        """The result of ``waiting``, which is cancelled when the work is to stop.

        A result that is there is given out, stop or not: it may be something to be given back.

        Raises:
            StoppedError: the work is to stop.
        """
        task = asyncio.ensure_future(waiting)
        stop_wait = asyncio.ensure_future(self._event.wait())
        try:
            await asyncio.wait({task, stop_wait}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop_wait.cancel()
            if not task.done():
                task.cancel()
            await asyncio.gather(task, stop_wait, return_exceptions=True)
        if task.cancelled():
            raise StoppedError
        return task.result()
