"""Messages of applications that run, from a store that others write to."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import cast

import pytest

from lineage_core.contract import message as m
from lineage_query.message_feed import LOST_S, SHOWN_ALIVE_S, STORED_MAX, Item, Lost, MessageFeed
from lineage_store.errors import StoreError
from lineage_store.port import GraphStore

RECIPE = m.Recipe(app="a", node="0", recipe='{"version": 1}')
END = m.End(app="a", ended_at=1.0, status="ok")


def batch(number: int) -> m.Stream:
    return m.Stream(app="a", query="q", run="r", state="batch", number=number)


class Store:
    """Has what is put into it. ``takes_s``: how long it takes to read."""

    def __init__(self) -> None:
        self.sent: list[m.Message] = []
        self.apps = ["a"]
        self.beat, self.now, self.takes_s, self.reads = 0, 0.0, 0.0, 0
        self.problem = ""

    def application_ids(self) -> Sequence[str]:
        return self.apps

    def messages(self, app: str, *kinds: str) -> Sequence[m.Message]:
        if self.problem:
            raise StoreError(self.problem)
        if kinds == ("heartbeat",):
            return [m.Heartbeat(app=app, at=1.0, beat=self.beat)]
        self.reads += "recipe" in kinds
        self.now += self.takes_s if "recipe" in kinds else 0
        return [message for message in self.sent if message.type in kinds and message.app == app]


class Case:
    def __init__(self, *sent: m.Message, is_shared: bool = True) -> None:
        self.store = Store()
        self.store.sent += sent
        opened = cast("GraphStore", self.store)
        self.feed = MessageFeed(
            None, lambda: nullcontext(opened), is_shared, clock=lambda: self.store.now
        )

    def read(self, now: float) -> list[Item]:
        self.store.now = now
        return list(self.feed.read())


def test_what_comes_into_the_store_is_given_once_in_its_order() -> None:
    case = Case()
    # It has begun, and no query of it has.
    assert case.read(0) == []
    case.store.sent += [RECIPE, batch(0)]
    assert case.read(1) == [RECIPE, batch(0)]
    assert case.read(2) == []
    # Another writer has another clock.
    case.store.sent.insert(0, batch(1))
    assert case.read(3) == [batch(1)]
    case.store.sent.append(END)
    assert case.read(3.5) == []
    assert case.read(4) == [END]
    # It has ended.
    case.store.sent.append(batch(2))
    assert case.read(5) == case.read(500) == []


def test_an_application_is_lost_when_nothing_is_heard_and_found_again() -> None:
    case = Case(batch(0))
    assert case.read(0) == [batch(0)]
    assert case.read(SHOWN_ALIVE_S - 1) == []
    case.store.beat += 1
    # From now on it is known to live.
    assert case.read(SHOWN_ALIVE_S) == case.read(SHOWN_ALIVE_S + LOST_S - 1) == []
    (lost,) = case.read(SHOWN_ALIVE_S + LOST_S)
    assert isinstance(lost, Lost)
    assert case.read(200) == []
    case.store.beat += 1
    case.store.sent.append(batch(1))
    assert case.read(300) == [batch(1)]


def test_one_that_gives_no_sign_of_life_is_soon_lost() -> None:
    case = Case(batch(0))
    assert case.read(0) == [batch(0)]
    assert [type(item) for item in case.read(SHOWN_ALIVE_S)] == [Lost]


def test_messages_that_are_removed_are_not_taken_for_others() -> None:
    case = Case(RECIPE, batch(0))
    case.read(0)
    case.store.sent = [batch(1)]
    (lost,) = case.read(1)
    assert isinstance(lost, Lost)
    assert "removed from the store" in lost.reason


def test_a_store_that_does_not_answer_is_asked_again() -> None:
    case = Case(batch(0))
    case.store.problem = "it is not there yet"
    assert case.read(-1) == []
    case.store.problem = ""
    case.feed.notes.clear()
    assert case.read(0) == [batch(0)]
    case.store.problem = "it is away"
    case.store.sent.append(batch(1))
    assert case.read(1) == []
    assert case.feed.notes == ["a is not read: it is away"]
    assert case.feed.is_partial
    case.store.problem = ""
    assert case.read(2) == [batch(1)]
    assert not case.feed.is_partial


def test_one_that_runs_is_read_however_many_began_behind_it() -> None:
    case = Case(batch(0))
    for number in range(STORED_MAX + 2):
        # A job of an hour ago, say; the latest comes first.
        case.store.apps.insert(0, f"job-{number}")
        case.store.sent.append(m.End(app=f"job-{number}", ended_at=2.0, status="ok"))
    assert case.read(0) == [batch(0)]
    case.store.sent.append(batch(1))
    assert case.read(1) == [batch(1)]
    assert not case.feed.is_partial
    assert not case.feed.notes


def test_those_that_are_left_out_are_named() -> None:
    case = Case(is_shared=False)
    # None that had no streaming query counts.
    case.store.apps = [f"{kind}-{number}" for number in range(STORED_MAX + 1) for kind in "bs"]
    case.store.sent += [
        batch(0).model_copy(update={"app": app}) for app in case.store.apps if app.startswith("s")
    ]
    read = [item.app for item in case.read(0) if isinstance(item, m.Stream)]
    assert read == [f"s-{number}" for number in reversed(range(STORED_MAX))]
    assert case.feed.is_partial
    (note,) = case.feed.notes
    assert f"only the latest {STORED_MAX} are read" in note


@pytest.mark.parametrize(("takes_s", "reads"), [(0.0, 10), (0.25, 3)])
def test_a_store_that_is_slow_is_read_rarely(takes_s: float, reads: int) -> None:
    case = Case(batch(0))
    case.store.takes_s = takes_s
    for now in range(10):
        case.read(now)
    assert case.store.reads == reads


def test_what_ended_in_a_store_of_one_machine_is_lost_at_once() -> None:
    case = Case(batch(0), is_shared=False)
    first, lost = case.read(0)
    assert first == batch(0)
    assert isinstance(lost, Lost)
