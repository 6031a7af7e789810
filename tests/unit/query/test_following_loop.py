"""How long rows are followed, and what the last event says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from lineage_core.tracing.trace_result import TraceError
from lineage_query.follow_events import Done, Ending, Event, Gap
from lineage_query.followed import FollowedFile
from lineage_query.following import Follow
from lineage_query.following_loop import FollowLoop, Note, Waiting
from lineage_query.message_feed import Lost, MessageFeed


class Feed:
    """Gives nothing but what is put into it."""

    def __init__(self) -> None:
        self.items: list[Lost] = []
        self.notes: list[str] = []
        self.is_partial = False

    def read(self) -> Iterator[Lost]:
        while self.items:
            yield self.items.pop(0)


class Queries:
    """Of one query: how far it is, and what the end of an application gives."""

    followed = FollowedFile("/in/a.csv")

    def __init__(self, ending: Ending | None) -> None:
        self.ending = ending
        self.given: list[Event[str]] = []

    def endings(self) -> dict[str, Ending]:
        return {} if self.ending is None else {"q": self.ending}

    def open_reasons(self) -> dict[str, str]:
        return {"q": "more may come"} if self.ending in {Ending.OPEN, Ending.OVER} else {}

    def end_application(self, app: str, reason: str) -> Iterator[Event[str]]:
        yield from self.given


class Case:
    """A loop that waits for ten seconds of a clock that stands."""

    def __init__(self, ending: Ending | None) -> None:
        self.now, self.feed, self.queries = 0.0, Feed(), Queries(ending)
        self.seen: list[Any] = []
        follow = cast("Follow[str]", self.queries)
        feed = cast("MessageFeed", self.feed)
        self.looks: list[str] = []
        """What is to be said of what is followed, look by look."""
        self.loop = FollowLoop(
            follow,
            feed,
            10,
            self.seen.append,
            lambda: self.looks.pop(0) if self.looks else "",
            clock=lambda: self.now,
        )

    def step(self, now: float) -> list[Any]:
        self.now = now
        return list(self.loop.step())


def test_a_query_that_runs_is_followed_and_why_is_said_once() -> None:
    case = Case(Ending.OPEN)
    assert case.step(0) == [Waiting("q", "more may come")]
    assert case.step(1_000) == []
    assert not case.loop.is_over
    assert not case.loop.end()["done"]
    case.queries.ending = Ending.OVER
    case.step(1_009)
    assert not case.loop.is_over
    case.step(1_010)
    assert case.loop.is_over
    reasons = {"q": "more may come"}
    end = {"event": "end", "done": False, "open": reasons, "complete": True}
    assert case.loop.end() == end


def test_what_is_followed_is_looked_at_now_and_then_and_no_row_waits_for_that() -> None:
    case = Case(Ending.OPEN)
    case.looks = ["it is not there yet", "it is not there yet", "", "it is gone", "never"]
    assert case.step(0) == [Note("it is not there yet"), Waiting("q", "more may come")]
    assert case.step(4) == case.step(5) == case.step(10) == []
    case.feed.items.append(Lost("app", "gone"))
    case.queries.given = [Done("q", "it has read it")]
    assert case.step(15) == case.queries.given
    assert case.step(15.1) == [Note("it is gone")]
    assert case.looks == ["never"]


def test_a_gap_is_never_forgotten() -> None:
    case = Case(Ending.DONE)
    case.feed.items.append(Lost("app", "gone"))
    case.feed.notes.append("app is not read")
    case.queries.given = [Gap("q", "batch 2 is not recorded"), Done("q", "it has read it")]
    assert case.step(0) == [*case.queries.given, Note("app is not read")]
    assert case.seen == [Lost("app", "gone")]
    assert case.loop.is_over
    assert case.loop.end() == {"event": "end", "done": True, "open": {}, "complete": False}


def test_it_is_complete_once_all_messages_are_read() -> None:
    case = Case(Ending.DONE)
    case.feed.is_partial = True
    assert case.step(0) == []
    assert (case.loop.end()["done"], case.loop.end()["complete"]) == (True, False)
    case.feed.is_partial = False
    assert case.loop.end()["complete"]


def test_where_no_query_may_read_the_file_that_is_said_after_the_wait() -> None:
    case = Case(None)
    assert case.step(9) == []
    with pytest.raises(TraceError, match=r"/in/a\.csv was recorded within 10 s"):
        case.step(10)
