"""Following rows until nothing more can come of them: what `lineage follow` and the API repeat."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

from lineage_core.tracing.trace_result import TraceError
from lineage_query.follow_events import Ending, Event, Gap, Rows
from lineage_query.following import Follow
from lineage_query.message_feed import Item, Lost, MessageFeed

POLL_S = 0.1
LOOK_EVERY_S = 5.0
"""How often what is followed is looked at while it is waited for."""


@dataclass(frozen=True, slots=True)
class Note:
    """What could not be read."""

    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why more may come of a query; said once, and again when it has changed."""

    query: str
    reason: str


class FollowLoop(Generic[Rows]):
    """One following of rows.

    Args:
        follow: takes the messages.
        feed: gives them.
        wait_s: for how long a query is waited for that may read it, or that is started again.
        listener: is shown each message before it is taken.
        look: gives what is to be said of what is followed, as it is now; empty: nothing.
        clock: in seconds, as ``time.monotonic``.
    """

    def __init__(
        self,
        follow: Follow[Rows],
        feed: MessageFeed,
        wait_s: float,
        listener: Callable[[Item], object],
        look: Callable[[], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._follow = follow
        self._feed = feed
        self._wait_s = wait_s
        self._listener = listener
        self._look = look
        self._looked_at: float | None = None
        self._looks = ""
        self._clock = clock
        self._idle_since = clock()
        self._named: dict[str, str] = {}
        self.is_over = False
        """Nothing more can come, or no query that may give more has run for ``wait_s``."""
        self._has_gap = False

    def step(self) -> Iterator[Event[Rows] | Note | Waiting]:
        """What has happened since the last step.

        Raises:
            TraceError: no query may read it.
            LineageError: what is followed is gone for good.
        """
        is_quiet = True
        if self._looked_at is None:
            yield from self._looked()
        for event in self._events():
            is_quiet = False
            self._has_gap |= isinstance(event, Gap)
            yield event
        if is_quiet:
            # It takes a while, for which no row is to wait.
            yield from self._looked()
        while self._feed.notes:
            yield Note(self._feed.notes.pop(0))
        endings = self._follow.endings().values()
        if Ending.OPEN in endings:
            self._idle_since = self._clock()
        is_done = bool(endings) and all(ending is Ending.DONE for ending in endings)
        self.is_over = is_done or self._clock() - self._idle_since >= self._wait_s
        if not self.is_over:
            yield from self._waiting()
        elif not endings:
            raise TraceError(
                f"no streaming query that may read {self._follow.followed.name} was recorded within {self._wait_s:g} s: "
                "run its program by `lineage run`, or wait for longer"
            )

    @property
    def is_complete(self) -> bool:
        """Whether no gap was named, and all messages were read."""
        return not self._has_gap and not self._feed.is_partial

    def open_reasons(self) -> dict[str, str]:
        """By query of which more may come: why."""
        return self._follow.open_reasons()

    def end(self) -> dict[str, Any]:
        """The last event in the JSON shape that tools rely on."""
        reasons = self.open_reasons()
        return {
            "event": "end",
            "done": self.is_over and not reasons,
            "open": reasons,
            "complete": self.is_complete,
        }

    def _events(self) -> Iterator[Event[Rows]]:
        for item in self._feed.read():
            self._listener(item)
            yield from (
                self._follow.end_application(item.app, item.reason)
                if isinstance(item, Lost)
                else self._follow.take(item)
            )

    def _looked(self) -> Iterator[Note]:
        if self._looked_at is not None and self._clock() - self._looked_at < LOOK_EVERY_S:
            return
        note, self._looked_at = self._look(), self._clock()
        if note and note != self._looks:
            yield Note(note)
        self._looks = note

    def _waiting(self) -> Iterator[Waiting]:
        reasons = self._follow.open_reasons()
        for query, reason in reasons.items():
            if self._named.get(query) != reason:
                yield Waiting(query, reason)
        self._named = reasons
