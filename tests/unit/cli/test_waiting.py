"""``lineage verify --wait``: when waiting is over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from typer.testing import CliRunner

from lineage.access import StoredAccess
from lineage.main import app
from lineage.waiting import SETTLED_S, STUCK_S, Waited, wait_for_verdict
from lineage_core.contract.message import (
    Begin,
    Commit,
    DeadLetter,
    End,
    Heartbeat,
    Job,
    Message,
    Register,
    Totals,
)
from lineage_core.contract.verdict import StoreCounts, Verdict
from lineage_store.errors import StoreUnavailableError
from lineage_store.port import GraphStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.unit

APP = "app-1"
NOW = 1_000_000.0
BEGIN = Begin(app=APP, name="job", started_at=NOW)
RUNNING: tuple[Message, ...] = (
    BEGIN,
    Register(app=APP, node="4", kind="sink", op="collect"),
    Commit(app=APP, node="4", partition=0, attempt=0, blocks=2),
    Job(app=APP, job=0, action="collect", sink="4"),
)
END = End(app=APP, ended_at=NOW, status="ok", totals=Totals(tasks=1, blocks=2))
ENDED = (*RUNNING, END)
ALL = StoreCounts(received=2, unlinked=0, unmatched=0, flows=5)
LETTER = DeadLetter(app=APP, place="lineage-edge/0/1", reason="no")


class World:
    """A store that changes as time passes; sleeping is what makes it pass."""

    def __init__(self) -> None:
        self.now = 0.0
        self.known: Callable[[float], bool] = lambda now: True
        self.said: Callable[[float], tuple[Message, ...]] = lambda now: ENDED
        self.counted: Callable[[float], StoreCounts] = lambda now: ALL
        self.away: Callable[[float], bool] = lambda now: False
        self.looks: list[Verdict | None] = []

    def application_ids(self) -> list[str]:
        if self.away(self.now):
            raise StoreUnavailableError("away")
        return [APP] if self.known(self.now) else []

    def messages(self, app: str, *kinds: str) -> tuple[Message, ...]:
        if self.away(self.now):
            raise StoreUnavailableError("away")
        return self.said(self.now)

    def counts(self, app: str) -> StoreCounts:
        return self.counted(self.now)

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.now += seconds

    def wait(self, timeout_s: float = 100.0) -> Waited:
        store = cast("GraphStore", self)
        return wait_for_verdict(
            StoredAccess(store, "sqlite:///unused.db"),
            "latest",
            timeout_s,
            lambda _, verdict: self.looks.append(verdict),
            clock=lambda: self.now,
            sleep=self.sleep,
        )


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr("lineage_query.verdicts.time.time", lambda: NOW + made.now)
    return made


def test_what_is_complete_is_not_waited_for(world: World) -> None:
    waited = world.wait()
    assert waited.verdict is not None
    assert (waited.verdict.complete, waited.timed_out, world.now) == (True, False, 0.0)


def test_waiting_for_an_application_to_appear_and_to_end(world: World) -> None:
    world.known = lambda now: now >= 3
    world.away = lambda now: 5 <= now < 8
    world.said = lambda now: ENDED if now >= 12 else (*RUNNING, Heartbeat(app=APP, at=NOW + now))
    world.counted = lambda now: ALL if now >= 20 else replace(ALL, received=1)
    waited = world.wait()
    assert waited.app == APP
    assert waited.verdict is not None
    assert waited.verdict.complete
    assert 20 <= world.now < 21


def test_counts_may_come_after_blocks(world: World) -> None:
    world.counted = lambda now: ALL if now >= 3 else replace(ALL, unlinked=1, unmatched=4)
    waited = world.wait()
    assert waited.verdict is not None
    assert waited.verdict.complete
    assert world.now < 4


def test_a_final_verdict_may_be_incomplete(world: World) -> None:
    world.counted = lambda now: replace(ALL, unlinked=1, unmatched=4)
    waited = world.wait()
    assert waited.verdict is not None
    assert (waited.verdict.complete, waited.timed_out) == (False, False)
    assert SETTLED_S <= world.now < SETTLED_S + 1


def test_an_application_that_died(world: World) -> None:
    world.said = lambda now: RUNNING
    waited = world.wait()
    assert waited.verdict is not None
    assert (waited.verdict.status, waited.timed_out) == ("abandoned", False)
    assert world.now < 60 + SETTLED_S + 2


def test_dead_letters_are_not_waited_for_as_long_as_others(world: World) -> None:
    world.said = lambda now: (*ENDED, LETTER)
    world.counted = lambda now: replace(ALL, received=1)
    waited = world.wait()
    assert not waited.timed_out
    assert STUCK_S <= world.now < STUCK_S + 1


def test_time_is_up(world: World) -> None:
    world.counted = lambda now: replace(ALL, received=1)
    waited = world.wait(timeout_s=50)
    assert (waited.app, waited.timed_out, world.now) == (APP, True, 50.0)
    assert not any(one is None for one in world.looks)


def test_nothing_was_ever_heard_of_it(world: World) -> None:
    world.known = lambda now: False
    assert world.wait(timeout_s=2) == Waited(None, None, timed_out=True)


def test_the_command_waits_on_an_embedded_store_too(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lineage.db'}"
    store_run(url, tmp_path)
    words = ["verify", "app-1", "--wait", "--store", url, "--json"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 0
    verdict = json.loads(found.stdout)
    assert (verdict["complete"], verdict["final"]) == (True, True)
    store_run(url, tmp_path, "app-2", committed=False)
    words[1:2] = ["app-2", "--timeout", "0"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1
    assert "not final after 0 s: app-2 (ok): " in found.stderr
