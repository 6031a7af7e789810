"""``lineage verify --wait``: until the verdict is final, or time is up."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import typer

from lineage.access import Access
from lineage.options import EXIT_INCOMPLETE, print_json
from lineage.terminal import echo
from lineage_core.contract.verdict import Verdict
from lineage_core.terminal_text import plain
from lineage_query.finding import NotFoundError
from lineage_store.errors import StoreUnavailableError

POLL_S = 0.5
BUSY_SHARE = 5
"""The pause after a check, as a multiple of the time that the check took."""
SETTLED_S = 5.0
"""A final verdict that is not complete may still be on its way: counts come after blocks."""
STUCK_S = 30.0
"""Seconds without a change, after the end, after which waiting stops where dead letters explain what is missing."""


@dataclass(frozen=True, slots=True)
class Waited:
    """What waiting came to. ``app`` is None where it never appeared; ``timed_out``: it took too long."""

    app: str | None
    verdict: Verdict | None
    timed_out: bool


def wait_for_verdict(
    access: Access,
    name: str,
    timeout_s: float,
    say: Callable[[str, Verdict | None], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Waited:
    """Check until the verdict on an application is final; ``say`` receives the result of each check.

    The application need not be there yet, nor the store answer all the time.
    """
    deadline = clock() + timeout_s
    app: str | None = None
    verdict: Verdict | None = None
    patience = _Patience(clock)
    while True:
        began = clock()
        try:
            app = app or access.find(name)
            verdict = access.verdict(app)
        except (NotFoundError, KeyError, StoreUnavailableError):
            pass
        else:
            if patience.is_over(verdict):
                return Waited(app, verdict, timed_out=False)
        say(app or name, verdict)
        now = clock()
        if now >= deadline:
            return Waited(app, verdict, timed_out=True)
        sleep(min(max(POLL_S, BUSY_SHARE * (now - began)), deadline - now))


def awaited(access: Access, name: str, timeout_s: float, *, as_json: bool) -> tuple[str, Verdict]:
    """:func:`wait_for_verdict` with progress on a terminal, and a word when time is up.

    Exits with 1 when no message of the application was ever received.
    """
    line = ProgressLine()
    try:
        waited = wait_for_verdict(access, name, timeout_s, line.say)
    finally:
        line.clear()
    problem = (
        f"not final after {timeout_s:g} s: {progress_text(waited.app or name, waited.verdict)}"
    )
    if waited.timed_out:
        echo(f"lineage: {problem}", err=True)
    if waited.app is None or waited.verdict is None:
        if as_json:
            print_json({"error": {"type": "TimeoutError", "message": problem}})
        raise typer.Exit(EXIT_INCOMPLETE)
    return waited.app, waited.verdict


class _Patience:
    """Whether there is anything left to wait for."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._seen: object = None
        self._since = 0.0

    def is_over(self, verdict: Verdict) -> bool:
        if verdict.final and verdict.complete:
            return True
        now = self._clock()
        seen = _progress(verdict)
        if seen != self._seen:
            self._seen, self._since = seen, now
        unchanged_s = now - self._since
        if verdict.final:
            return unchanged_s >= SETTLED_S
        stuck = verdict.status != "running" and verdict.dead_letters > 0
        return stuck and unchanged_s >= STUCK_S


def _progress(verdict: Verdict) -> tuple[object, ...]:
    """What changes while more comes in; reasons would, with each second."""
    return (
        verdict.status,
        verdict.tasks_committed,
        verdict.tasks_expected,
        verdict.blocks_written,
        verdict.blocks_received,
        verdict.blocks_linked,
        verdict.unmatched,
        verdict.stubs,
        verdict.dead_letters,
    )


class ProgressLine:
    """One line on a terminal's stderr that is written over; nothing elsewhere."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()

    def say(self, app: str, verdict: Verdict | None) -> None:
        """Show where things stand."""
        if self._shown:
            typer.echo(f"\r\x1b[K{plain(progress_text(app, verdict))}", nl=False, err=True)

    def clear(self) -> None:
        """Leave an empty line."""
        if self._shown:
            typer.echo("\r\x1b[K", nl=False, err=True)


def progress_text(app: str, verdict: Verdict | None) -> str:
    """Where things stand, in a line."""
    if verdict is None:
        return f"{app}: nothing has arrived yet"
    parts = [
        f"{verdict.tasks_committed:,} of {verdict.tasks_expected:,} tasks",
        f"{verdict.blocks_received:,} of {verdict.blocks_expected:,} blocks",
        f"{verdict.blocks_linked:,} linked",
    ]
    parts += [f"{verdict.dead_letters:,} dead letters"] if verdict.dead_letters else []
    return f"{app} ({verdict.status}): {', '.join(parts)}"
