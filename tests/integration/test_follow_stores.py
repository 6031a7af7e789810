"""Messages of an application that come into a store of any kind while it runs, as rows are followed through it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from lineage_core.contract import message as m
from lineage_query.message_feed import LOST_S, Item, Lost, MessageFeed
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.stores import empty_neo4j

pytestmark = pytest.mark.integration
APP = "followed"


@pytest.fixture(params=["sqlite", "lake", pytest.param("neo4j", marks=pytest.mark.long)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GraphStore]:
    if request.param == "neo4j":
        with empty_neo4j(request.getfixturevalue("neo4j")) as neo4j:
            yield neo4j
    elif request.param == "lake":
        with LakeStore(LakeAddress(str(tmp_path / "lake"))) as lake:
            yield lake
    else:
        with SqliteStore(tmp_path / "lineage.db") as sqlite:
            yield sqlite


def batch(number: int, state: str = "batch") -> m.Stream:
    fields = {"app": APP, "query": "q", "run": "r", "state": state, "number": number}
    return m.Stream.model_validate(fields)


def recipe(number: int) -> m.Recipe:
    return m.Recipe(app=APP, node=f"{number}", recipe=f'{{"version": 1, "number": {number}}}')


def test_what_is_written_while_it_runs_is_given_once(store: GraphStore) -> None:
    now = 0.0
    feed = MessageFeed(None, lambda: nullcontext(store), is_shared=True, clock=lambda: now)
    # The first look at a store may take long.
    step_s = 1_000.0

    def read() -> list[Item]:
        nonlocal now
        now += step_s
        return list(feed.read())

    store.write(APP, [m.Begin(app=APP, name="job", started_at=1.0), batch(-1, "started")])
    assert read() == [batch(-1, "started")]
    # A sign of life comes with each, or it would be lost after so long.
    assert step_s > LOST_S
    given: list[Item] = []
    for number in range(4):
        beat = m.Heartbeat(app=APP, at=2.0 + number, beat=1 + number)
        store.write(APP, [recipe(number), beat])
        given += read()
        store.write(APP, [batch(number), batch(number)])
        given += [item for item in read() if not isinstance(item, Lost)]
    assert given == [item for number in range(4) for item in (recipe(number), batch(number))]
    store.write(APP, [batch(3, "over"), m.End(app=APP, ended_at=9.0, status="ok")])
    assert [item for item in read() if not isinstance(item, Lost)] == [
        batch(3, "over"),
        m.End(app=APP, ended_at=9.0, status="ok"),
    ]
    assert read() == []


def test_an_application_whose_driver_is_gone_is_lost_once(store: GraphStore) -> None:
    now = 0.0
    clock: Callable[[], float] = lambda: now  # noqa: E731 - reads the variable
    feed = MessageFeed(None, lambda: nullcontext(store), is_shared=True, clock=clock)
    store.write(APP, [m.Begin(app=APP, name="job", started_at=1.0), batch(0)])
    assert list(feed.read()) == [batch(0)]
    now = LOST_S
    assert [type(item) for item in feed.read()] == [Lost]
    now = 3 * LOST_S
    assert list(feed.read()) == []
