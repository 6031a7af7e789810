"""When the writer tells OpenLineage of what, and what it does where that fails."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Self

import pytest

from lineage_core.contract.message import Begin, End, Totals
from lineage_openlineage.errors import OpenLineageError, OpenLineageUnavailableError
from lineage_openlineage.publishing import publish_events
from lineage_openlineage.settings import OpenLineageSettings
from lineage_store.errors import StoreUnavailableError
from lineage_store.sqlite.store import SqliteStore
from lineage_writer import publishing
from lineage_writer.metrics import Metrics
from lineage_writer.publishing import EVERY_S, LONGEST_S, Publisher
from tests.support.stored_lineage import store_run
from tests.support.writer_process import wait_until

pytestmark = pytest.mark.unit


class Remembering(SqliteStore):
    """A store whose memory of what was told is this object's."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.remembered: set[str] = set()
        self.claimed: set[str] = set()
        self.away = False

    def __enter__(self) -> Self:
        return self

    def published_runs(self) -> Remembering:
        return self

    def unpublished(self) -> list[str]:
        if self.away:
            raise StoreUnavailableError("away")
        found = [one.app for one in self.applications() if one.status != "running"]
        return sorted(set(found) - self.remembered)

    def claim(self, app: str, now: float) -> bool:
        free = app not in self.claimed
        self.claimed.add(app)
        return free

    def release(self, app: str) -> None:
        self.claimed.discard(app)

    def record_published(self, app: str, status: str) -> None:
        self.remembered.add(app)
        self.claimed.discard(app)


class Rig:
    """A teller over a store with one application, a clock that stands, and a file for events."""

    def __init__(self, folder: Path) -> None:
        store_run(f"sqlite:///{folder}/lineage.db", folder)
        self.store = Remembering(folder / "lineage.db")
        self.file = folder / "events.ndjson"
        self.now = 10_000.0
        self.metrics = Metrics()
        settings = OpenLineageSettings(openlineage_file=str(self.file), openlineage_namespace="n")
        self.teller = Publisher(settings, lambda: self.store, self.metrics, lambda: self.now)

    def publish_ended(self, later_s: float = 0.0) -> list[str]:
        """What is in the file after a look."""
        self.now += later_s
        self.teller.publish_ended()
        if not self.file.exists():
            return []
        events = [json.loads(line) for line in self.file.read_text().splitlines()]
        assert {event["job"]["namespace"] for event in events} <= {"n"}
        return [event["eventType"] for event in events]

    def counted(self, outcome: str) -> float:
        labels = {"outcome": outcome}
        value = self.metrics.registry.get_sample_value(
            "lineage_writer_openlineage_runs_total", labels
        )
        assert value is not None
        return value


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_what_is_final_is_told_of_once(rig: Rig) -> None:
    assert rig.publish_ended() == ["START", "COMPLETE"]
    assert rig.publish_ended(later_s=1_000) == ["START", "COMPLETE"]
    assert (rig.counted("told"), rig.counted("failed")) == (1, 0)


def test_what_is_on_its_way_is_waited_for(rig: Rig) -> None:
    begin = Begin(app="later", name="job", started_at=1.0)
    end = End(app="later", status="ok", ended_at=2.0, totals=Totals(tasks=1))
    rig.store.write("later", [begin, end])
    assert rig.publish_ended() == ["START", "COMPLETE"]
    assert rig.store.remembered == {"app-1"}
    assert not rig.store.claimed
    assert rig.metrics.registry.get_sample_value("lineage_writer_openlineage_waiting") == 2
    rig.publish_ended(later_s=EVERY_S)
    assert rig.store.remembered == {"app-1"}
    rig.store.write("later", [End(app="later", status="failed", ended_at=2.0, totals=Totals())])
    assert rig.publish_ended(later_s=LONGEST_S) == ["START", "COMPLETE", "START", "FAIL"]


def test_a_backend_that_is_away_is_tried_less_and_less(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_run(f"sqlite:///{rig.file.parent}/lineage.db", rig.file.parent, "app-2")
    tried: list[str] = []

    def away(store: object, app: str, settings: object) -> str:
        tried.append(app)
        raise OpenLineageUnavailableError("away")

    monkeypatch.setattr(publishing, "publish_events", away)
    rig.publish_ended()
    # It would not take the other one either.
    assert tried == ["app-1"]
    for _ in range(60):
        rig.publish_ended(later_s=1)
    # At once, and after 2, 4, 8 and 16 seconds more.
    assert len(tried) == rig.counted("failed") == 5
    assert not rig.store.claimed
    monkeypatch.setattr(publishing, "publish_events", publish_events)
    assert rig.publish_ended(later_s=LONGEST_S) == ["START", "COMPLETE"] * 2


def test_an_event_that_is_refused_keeps_no_other_from_being_told(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_run(f"sqlite:///{rig.file.parent}/lineage.db", rig.file.parent, "app-2")

    def picky(store: SqliteStore, app: str, settings: OpenLineageSettings) -> str | None:
        if app == "app-1":
            raise OpenLineageError("refused")
        return publish_events(store, app, settings)

    monkeypatch.setattr(publishing, "publish_events", picky)
    assert rig.publish_ended() == ["START", "COMPLETE"]
    assert rig.store.remembered == {"app-2"}
    assert rig.counted("failed") == 1


def test_who_is_told_of_by_another_writer_is_left_to_it(rig: Rig) -> None:
    rig.store.claimed.add("app-1")
    assert rig.publish_ended() == []
    rig.store.claimed.clear()
    assert rig.publish_ended(later_s=EVERY_S) == ["START", "COMPLETE"]


def test_a_store_that_is_away_is_waited_for(rig: Rig) -> None:
    rig.store.away = True
    assert rig.publish_ended() == []
    rig.store.away = False
    assert rig.publish_ended() == []
    assert rig.publish_ended(later_s=EVERY_S) == ["START", "COMPLETE"]


def test_what_nobody_thought_of_does_not_end_the_telling(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def odd(store: SqliteStore, app: str, settings: OpenLineageSettings) -> str | None:
        tried.append(app)
        if len(tried) == 1:
            raise ZeroDivisionError
        return publish_events(store, app, settings)

    monkeypatch.setattr(publishing, "publish_events", odd)
    monkeypatch.setattr(publishing, "EVERY_S", 0.001)
    settings = OpenLineageSettings(openlineage_file=str(rig.file))
    path = rig.file.parent / "lineage.db"
    clock = itertools.count(10_000.0, 10.0)

    def opened() -> Remembering:
        store = Remembering(path)
        # It forgets the claim that was left, as a real one does after a while.
        store.claim = lambda app, now: True  # type: ignore[method-assign]
        return store

    teller = Publisher(settings, opened, rig.metrics, lambda: next(clock))
    teller.start()
    wait_until(lambda: rig.counted("told") == 1, "it is told of")
    teller.stop(60)
    assert rig.counted("failed") == 1
    assert tried == ["app-1", "app-1"]
