"""The loop: draws mutations, runs them under bounds, and keeps what broke the rules."""

from __future__ import annotations

import random
import resource
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

SECONDS_MAX = 1.0
"""Of a core, for one mutation."""
BYTES_MAX = 256 << 20
"""That one mutation may take beyond what the process has."""
HANG_S = 20
"""After so many seconds of a core a mutation that does not end is ended."""
LIMIT_EVERY = 500
"""Mutations after which the bound of memory is set anew: caches may grow."""
FINDINGS_MAX = 12
"""Of one target; more of them say nothing new."""


class HungError(Exception):
    """A mutation was ended."""


@dataclass(frozen=True)
class Target:
    """``attempt`` draws one mutation and runs it; ``refuses``: the errors that may leave it.

    ``clock``: seconds of a core that were spent where it runs.
    """

    name: str
    attempt: Callable[[random.Random], object]
    refuses: tuple[type[Exception], ...]
    group: str = "decoders"
    clock: Callable[[], float] = time.process_time


@dataclass
class Tally:
    """What a target was put through."""

    target: str
    mutations: int = 0
    refused: int = 0
    slowest_s: float = 0.0
    findings: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        share = self.refused / max(self.mutations, 1)
        return (
            f"{self.target}: {self.mutations:,} mutations, {share:.0%} refused, slowest {self.slowest_s:.3f} s, "
            f"{len(self.findings)} findings"
        )


def fuzz(
    target: Target, seed: int, *, seconds: float, first: int = 0, count: int | None = None
) -> Tally:
    """Mutations ``first`` and on, until ``seconds`` are over or ``count`` were tried."""
    tally = Tally(target.name)
    # What is imported or made for the first time is no work of a mutation.
    _try(target, seed, -1, Tally(target.name))
    end = time.monotonic() + seconds
    with _memory_bounded() as renew, _ended_when_hung():
        number = first
        while count is None or number < first + count:
            if time.monotonic() > end or len(tally.findings) >= FINDINGS_MAX:
                break
            if number % LIMIT_EVERY == 0:
                renew()
            _try(target, seed, number, tally)
            number += 1
    return tally


def _try(target: Target, seed: int, number: int, tally: Tally) -> None:
    draw = random.Random(f"{seed}/{target.name}/{number}")
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    began = target.clock()
    try:
        target.attempt(draw)
    except target.refuses:
        tally.refused += 1
    except Exception as error:
        _note(tally, number, _place(error), "".join(traceback.format_exception(error, limit=-6)))
    finally:
        took = target.clock() - began
        signal.setitimer(signal.ITIMER_PROF, 0)
    tally.mutations += 1
    tally.slowest_s = max(tally.slowest_s, took)
    if took > SECONDS_MAX:
        _note(tally, number, "too slow", f"took {took:.1f} s")


def _note(tally: Tally, number: int, place: str, said: str) -> None:
    tally.findings.setdefault(place, f"mutation {number}: {said[-2_000:]}")


def _place(error: BaseException) -> str:
    """Where an error came from: findings of one place are one."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [one for one in frames if "/src/" in one.filename] or list(frames)
    last = own[-1]
    return f"{type(error).__name__} at {last.filename.rpartition('/')[2]}:{last.lineno}"


@contextmanager
def _memory_bounded() -> Iterator[Callable[[], None]]:
    """Within it an allocation beyond `BYTES_MAX` fails; the given function counts from what is there now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)

    def renew() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (_data_bytes() + BYTES_MAX, hard))

    renew()
    try:
        yield renew
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    raise RuntimeError("this system does not tell the memory of a process")


@contextmanager
def _ended_when_hung() -> Iterator[None]:
    def ended(_signal: int, _frame: FrameType | None) -> None:
        raise HungError(f"did not end within {HANG_S} s")

    before = signal.signal(signal.SIGPROF, ended)
    try:
        yield
    finally:
        signal.signal(signal.SIGPROF, before)
