"""How long stored lineage may be read: what reads it in parts looks between them whether its time is up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from lineage_arrays.errors import GivenUpError


@dataclass(frozen=True)
class _Deadline:
    due: float
    clock: Callable[[], float]


_DEADLINE: ContextVar[_Deadline | None] = ContextVar("lineage_arrays_deadline", default=None)


@contextmanager
def give_up_after(seconds: float, clock: Callable[[], float]) -> Iterator[None]:
    """Let the body read stored lineage for so long.

    Raises:
        GivenUpError: the time was up while there was more to read.
    """
    token = _DEADLINE.set(_Deadline(clock() + seconds, clock))
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def check_reading() -> None:
    """Between parts of a reading (so many cells as are compared at once, a call of an operator's function): whether to go on. Nothing that is kept may be half done here.

    Raises:
        GivenUpError: the time is up.
    """
    deadline = _DEADLINE.get()
    if deadline is not None and deadline.clock() >= deadline.due:
        raise GivenUpError("reading took as long as running the operator again would")
