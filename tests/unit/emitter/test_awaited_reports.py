"""Waiting for reports of streaming queries."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lineage_emitter.dataframes import awaited_reports
from lineage_emitter.dataframes.awaited_reports import AwaitedReports

pytestmark = pytest.mark.unit


class Listener:
    """Reports when it is told to, as that of Java."""

    def __init__(self) -> None:
        self.count = 0
        self.changed = threading.Condition()

    def wake(self) -> None:
        with self.changed:
            self.count += 1
            self.changed.notify_all()

    def reportsBeyond(self, seen: int, wait_ms: int) -> int:
        with self.changed:
            self.changed.wait_for(lambda: self.count > seen, wait_ms / 1000)
            return self.count


class Query:
    """A query of a session."""

    def __init__(self) -> None:
        self._jsq = self
        self.added: list[Any] = []
        self.removed: list[Any] = []

    def sparkSession(self) -> Query:
        return self

    def streams(self) -> Query:
        return self

    def equals(self, other: Any) -> bool:
        return self is other

    def addListener(self, listener: Any) -> None:
        self.added.append(listener)

    def removeListener(self, listener: Any) -> None:
        self.removed.append(listener)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Listener:
    made = Listener()
    monkeypatch.setattr(awaited_reports, "compiled", lambda _: made)
    monkeypatch.setattr(awaited_reports, "REST_S", 0.0)
    # What is not woken would wait for longer than the test may take.
    monkeypatch.setattr(awaited_reports, "LOOK_EVERY_S", 3_600.0)
    return made


def test_who_waits_is_woken_by_a_report_and_by_the_end(listener: Listener) -> None:
    reports = AwaitedReports()
    query: Any = Query()
    reports.listen(query)
    reports.listen(query)
    assert query.added == [listener]
    listener.wake()
    # A report that came before it was waited for is not missed.
    assert reports.wait()
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(reports.wait()))
    waiting.start()
    reports.close()
    waiting.join(60)
    assert found == [False]
    assert query.removed == [listener]


def test_where_nothing_reports_it_is_looked_at_every_now_and_then(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise RuntimeError("no such class")

    monkeypatch.setattr(awaited_reports, "compiled", fail)
    monkeypatch.setattr(awaited_reports, "LOOK_EVERY_S", 0.0)
    reports = AwaitedReports()
    query: Any = Query()
    reports.listen(query)
    assert reports.wait()
    reports.close()
    assert not reports.wait()
