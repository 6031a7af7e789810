"""Harm at a place that is drawn: what strikes, behind which operator, at which of a task's records.

A harm strikes once: the first task to come to its place makes a mark (a file that must not be there yet). So it is
not a matter of time. ``unsteady`` functions give another key in each attempt at a task, as random ones do.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pyspark import TaskContext

from tests.oracle import functions

Function = Callable[[Any], Any]
DRIVER, FULL, OVERTAKEN = "driver", "full", "overtaken"
WAITS_S = 5.0
"""Of a task that nothing stands beside: a job's only one, say, where the cluster has no room."""


@dataclass(frozen=True)
class Harm:
    """What strikes, and where.

    ``strike``: none, raise, exit, files (of shuffles are deleted), full (is the disk, for the task's process), kill (the
    executor), driver (is killed) or wait (for a second attempt). ``operator``: behind which it lies, in order of the program. ``record``: which of a task's records it waits for.
    ``unsteady``: keys are other ones in each attempt. ``evict``: what is cached is dropped between two actions.
    ``arrival``: groups are as their rows arrived.
    ``home``: where it leaves its mark. ``local``: Spark's own folders. ``driver``: its process.
    """

    strike: str = "none"
    operator: int = -1
    record: int = 0
    unsteady: bool = False
    arrival: bool = False
    evict: bool = False
    home: str = ""
    local: str = ""
    driver: int = 0

    def at_home(self, home: Path) -> Harm:
        """The harm with a folder for its mark."""
        return replace(self, home=str(home))

    def behind(self, operator: int, real: Any) -> Any:
        """The RDD of an operator, with the harm behind it where it is this one's turn."""
        if self.strike == "none" or operator != self.operator:
            return real
        return real.map(Striking(self))

    def instead_of(self, function: Function) -> Function:
        """The function that a program calls instead of one of `tests.oracle.functions`."""
        if self.arrival and function in (functions.in_order, functions.groups_in_order):
            return _as_they_came
        return UNSTEADY.get(function.__name__, function) if self.unsteady else function

    @property
    def has_struck(self) -> bool:
        """Whether it came to its place, and what it waits for came, too."""
        return Path(self.home, OVERTAKEN if self.strike == "wait" else "struck").exists()

    def is_over(self) -> bool:
        """Give a disk that was full room again; whether it was full."""
        full = Path(self.home, FULL)
        if not full.exists():
            return False
        with suppress(ProcessLookupError):
            process = int(full.read_text())
            _, most = resource.prlimit(process, resource.RLIMIT_FSIZE)
            resource.prlimit(process, resource.RLIMIT_FSIZE, (most, most))
        return True

    def comes_by(self) -> None:
        """Another task than the first has come to the place."""
        if self.strike == "wait":
            Path(self.home, _task()).touch()

    @property
    def struck(self) -> Counter[str]:
        """Harm that did come, by name."""
        struck = Counter({NAMES[self.strike]: 1} if self.has_struck else {})
        struck["keys are others in each attempt"] += self.unsteady
        struck["cache evicted"] += self.evict
        return struck

    def __str__(self) -> str:
        struck = f"{self.strike} behind operator {self.operator} at record {self.record}"
        named = [name for name in ("unsteady", "arrival", "evict") if getattr(self, name)]
        struck_by = [struck] if self.strike != "none" else []
        return ", ".join(struck_by + named) or "none"


CALM = Harm()


class Striking:
    """Hands records on; at one of them the harm strikes."""

    def __init__(self, harm: Harm) -> None:
        self.harm, self.passed = harm, 0

    def __call__(self, record: Any) -> Any:
        if self.passed == self.harm.record:
            if self._is_first():
                STRIKES[self.harm.strike](self.harm)
            else:
                self.harm.comes_by()
        self.passed += 1
        return record

    def _is_first(self) -> bool:
        try:
            os.close(os.open(Path(self.harm.home, "struck"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


class StrikeError(Exception):
    """A task fails."""


def _raise(harm: Harm) -> None:
    raise StrikeError("a task fails halfway")


def _exit(harm: Harm) -> None:
    os._exit(1)


def _files(harm: Harm) -> None:
    """Delete all files of shuffles, and fail: who reads them next has to wait until they are computed again."""
    for file in Path(harm.local).rglob("shuffle_*"):
        file.unlink(missing_ok=True)
    raise StrikeError("the files of shuffles are gone")


def _full(harm: Harm) -> None:
    """Let no file of this process grow any more: what it writes fails, as on a disk that is full."""
    Path(harm.home, FULL).write_text(str(os.getpid()))
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))


def _kill(harm: Harm) -> None:
    """Kill the executor: the parent of the daemon that forked this worker."""
    stat = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(stat.rsplit(")", 1)[1].split()[1]), signal.SIGKILL)
    signal.pause()


def _kill_driver(harm: Harm) -> None:
    os.kill(harm.driver, signal.SIGKILL)
    signal.pause()


def _wait(harm: Harm) -> None:
    """Go on once another attempt at this task is here, too: Spark begins one beside a slow one."""
    other, due = Path(harm.home, _task()), time.monotonic() + WAITS_S
    while not other.exists():
        if time.monotonic() > due:
            return
        time.sleep(0.005)
    Path(harm.home, OVERTAKEN).touch()


def _task() -> str:
    """The name of the task that calls, the same in all its attempts."""
    context = TaskContext.get()
    return "task" if context is None else f"task-{context.stageId()}-{context.partitionId()}"


STRIKES: dict[str, Callable[[Harm], None]] = {
    "raise": _raise,
    "exit": _exit,
    "files": _files,
    FULL: _full,
    "kill": _kill,
    DRIVER: _kill_driver,
    "wait": _wait,
}


NAMES = {
    "raise": "a task failed",
    "exit": "a worker ended",
    "files": "files of shuffles were deleted",
    FULL: "the disk was full",
    "kill": "an executor was killed",
    DRIVER: "a driver was killed",
    "wait": "a task ran twice at once",
}
"""What was done, for the tally."""


def _attempt() -> int:
    """The attempt at a task that calls: another number each time."""
    context = TaskContext.get()
    return 0 if context is None else context.taskAttemptId()


def _as_they_came(rows: Any) -> tuple[Any, ...]:
    return tuple(tuple(row) if isinstance(row, list) else row for row in rows)


def _small_int(x: Any) -> Any:
    return functions.small_int((x, _attempt()))


def _one_of_two(x: Any) -> Any:
    return functions.one_of_two((x, _attempt()))


def _pair_small(x: Any) -> Any:
    return _small_int(x), x


def _pair_skewed(x: Any) -> Any:
    return functions.mostly_one((x, _attempt())), x


UNSTEADY: dict[str, Function] = {
    "small_int": _small_int,
    "one_of_two": _one_of_two,
    "pair_small": _pair_small,
    "pair_skewed": _pair_skewed,
}
