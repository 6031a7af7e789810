"""What the query API tells Prometheus of applications: the latest, judged anew, within its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from lineage_core.contract.verdict import Verdict
from lineage_query.rows.reader import RowReader
from lineage_query_api.completeness import SCRAPE_S, Completeness
from lineage_query_api.lineages import Lineages
from lineage_query_api.settings import read_settings
from lineage_store.errors import StoreError
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.unit


class Scraped:
    """A store with its metrics. ``tick``: seconds that each look at the clock takes."""

    def __init__(self, folder: Path, store: SqliteStore, latest: int) -> None:
        self.folder = folder
        self.store = store
        self.tick = 0.0
        self._now = 0.0
        self.registry = CollectorRegistry()
        self.lineages = Lineages(store, RowReader(folder), read_settings())
        self.registry.register(Completeness(self.lineages, latest, self._clock))

    def _clock(self) -> float:
        self._now += self.tick
        return self._now

    def run(self, app: str, started_at: float, *, committed: bool = True) -> None:
        url = f"sqlite:///{self.folder}/lineage.db"
        store_run(url, self.folder, app, started_at=started_at, committed=committed)

    def value(self, name: str, app: str, **labels: str) -> float | None:
        found = {"app": app, "name": "job", **labels}
        return self.registry.get_sample_value(f"lineage_api_application_{name}", found)

    def apps(self) -> set[str]:
        return {
            sample.labels["app"] for metric in self.registry.collect() for sample in metric.samples
        }


@pytest.fixture
def scraped(tmp_path: Path) -> Iterator[Callable[[int], Scraped]]:
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield lambda latest: Scraped(tmp_path, store, latest)


def test_complete_and_incomplete_ones(scraped: Callable[[int], Scraped]) -> None:
    metrics = scraped(5)
    assert metrics.apps() == set()
    metrics.run("whole", 1000.0)
    metrics.run("part", 2000.0, committed=False)
    told = {
        app: [metrics.value(name, app) for name in ("complete", "final", "dead_letters")]
        for app in ("whole", "part")
    }
    assert told == {"whole": [1, 1, 0], "part": [0, 1, 0]}
    assert metrics.value("started_timestamp_seconds", "part") == 2000
    assert metrics.value("tasks", "part", state="expected") == 3
    assert metrics.value("tasks", "part", state="committed") == 2
    assert metrics.value("blocks", "whole", state="linked") == 3
    assert metrics.value("flows", "whole") == 3 + 3 + 4


def test_only_the_latest_are_told(scraped: Callable[[int], Scraped]) -> None:
    metrics = scraped(2)
    for number in range(3):
        metrics.run(f"app-{number}", 1000.0 + number)
    assert metrics.apps() == {"app-1", "app-2"}
    metrics.store.delete("app-2")
    assert metrics.apps() == {"app-0", "app-1"}


def test_what_there_is_no_time_for_comes_with_the_next_scrape(
    scraped: Callable[[int], Scraped], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = scraped(5)
    for number in range(3):
        metrics.run(f"app-{number}", 1000.0 + number)
    metrics.tick = SCRAPE_S * 0.6
    judged: list[str] = []
    verdict = metrics.lineages.verdict

    def noted(app: str) -> Verdict:
        judged.append(app)
        return verdict(app)

    monkeypatch.setattr(metrics.lineages, "verdict", noted)
    assert [len(metrics.apps()) for _ in range(6)] == [1, 2, 3, 3, 3, 3]
    assert judged == ["app-2", "app-1", "app-0"] * 2


def test_a_store_that_does_not_answer_tells_nothing(
    scraped: Callable[[int], Scraped], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = scraped(5)
    metrics.run("whole", 1000.0)
    assert metrics.apps() == {"whole"}

    def away() -> list[str]:
        raise StoreError("away")

    monkeypatch.setattr(metrics.store, "application_ids", away)
    assert metrics.apps() == set()
    monkeypatch.undo()
    assert metrics.apps() == {"whole"}


def test_scrapes_do_not_queue(
    scraped: Callable[[int], Scraped], monkeypatch: pytest.MonkeyPatch
) -> None:
    metrics = scraped(5)
    metrics.run("whole", 1000.0)
    metrics.apps()
    asked = metrics.store.application_ids
    seen: list[set[str]] = []

    def meanwhile() -> Sequence[str]:
        # Another scrape comes while this one is at the store: it tells what is known, at once.
        seen.append(metrics.apps())
        return asked()

    monkeypatch.setattr(metrics.store, "application_ids", meanwhile)
    metrics.run("later", 2000.0)
    assert metrics.apps() == {"whole", "later"}
    assert seen == [{"whole"}]
