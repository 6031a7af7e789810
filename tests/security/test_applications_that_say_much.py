"""An application may say any number of things: who lists others does not wait until all of it is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from lineage_core.contract.message import (
    Begin,
    End,
    Message,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
    Unknown,
)
from lineage_core.tracing.budget import (
    Budget,
    TimeUpError,
    TooMuchError,
    current_budget,
    use_budget,
)
from lineage_core.tracing.trace_result import Direction
from lineage_query import all_jobs
from lineage_query.engine import NoLimits, QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query_api import judging
from lineage_query_api.app import create_app
from lineage_query_api.completeness import Completeness
from lineage_query_api.lineages import Lineages
from lineage_query_api.serializers import NOT_JUDGED
from lineage_query_api.settings import read_settings
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import running
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
TALKATIVE, HONEST = "talkative", "honest"
LAST_MOMENT = 253_402_214_400.0
TICKS = 50


class Talkative(SqliteStore):
    """Holds one application whose messages nobody reads to their end, which begins after all others."""

    asked = 0

    def messages(self, app: str, *kinds: str) -> Sequence[Message]:
        if app != TALKATIVE or "unknown" not in kinds:
            return super().messages(app, *kinds)
        self.asked += 1
        while True:
            current_budget().check()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Talkative]:
    """The store with that application, and one of somebody else."""
    with Talkative(tmp_path / "store.db") as store:
        store.write(TALKATIVE, [Begin(app=TALKATIVE, name="job", started_at=LAST_MOMENT)])
        ended = End(app=HONEST, ended_at=2.0, status="ok")
        store.write(HONEST, [Begin(app=HONEST, name="job", started_at=1.0), ended])
        yield store


def test_messages_are_read_within_the_time_of_a_question(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "store.db") as store:
        store.write(TALKATIVE, [Unknown(app=TALKATIVE, what=str(at)) for at in range(10 * TICKS)])
        ticks = itertools.count()
        budget = Budget(seconds=TICKS, clock=lambda: float(next(ticks)))
        with use_budget(budget), pytest.raises(TimeUpError):
            store.messages(TALKATIVE)
        assert next(ticks) < 2 * TICKS


def test_an_application_that_says_very_much_keeps_no_other_from_a_list(
    store: Talkative, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "JUDGED_EACH_S", 0.2)
    settings = read_settings(store="sqlite:///x", api_open=True, api_query_s=5)
    with running(create_app(store, settings)) as address:
        for complete in (None, None, False):
            params = {} if complete is None else {"complete": complete}
            listed = httpx.get(f"{address}/v1/applications", params=params, timeout=30)
            assert listed.status_code == 200, listed.text
            first, second = listed.json()["items"]
            assert (first["app"], second["app"]) == (TALKATIVE, HONEST)
            # Of what was not looked at nothing good is said.
            assert first["reasons"] == [NOT_JUDGED]
            assert (first["complete"], first["final"], first["exact"]) == (False, False, False)
            assert second["reasons"]
            assert NOT_JUDGED not in second["reasons"]
        alone = httpx.get(f"{address}/v1/applications/{TALKATIVE}/completeness", timeout=30)
    assert alone.status_code == 504
    # Once by the lists, however many there were, and once by who asked for it alone.
    assert store.asked == 2


def test_an_application_that_says_very_much_ends_no_scrape(
    store: Talkative, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_query_api.completeness.SCRAPE_S", 0.2)
    settings = read_settings(store="sqlite:///x", api_open=True)
    lineages = Lineages(store, RowReader(), settings)
    registry = CollectorRegistry()
    registry.register(Completeness(lineages, 10))
    list(registry.collect())
    list(registry.collect())
    complete = "lineage_api_application_complete"
    assert registry.get_sample_value(complete, {"app": HONEST, "name": "job"}) == 0
    assert registry.get_sample_value(complete, {"app": TALKATIVE, "name": "job"}) is None


def test_a_file_that_very_many_nodes_read_is_given_up_before_its_rows_are_handed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row goes on at each node: both together are what it takes."""
    nodes = 30
    run = store_run(f"sqlite:///{tmp_path}/store.db", tmp_path)
    written = run.sink.stat()
    whole = Split(
        partition=0,
        path=f"file:{run.sink}",
        start=0,
        length=written.st_size,
        file_size=written.st_size,
        mtime=written.st_mtime,
    )
    messages: list[Message] = [Begin(app=TALKATIVE, name="job", started_at=1.0)]
    for at in range(nodes):
        node = Register(app=TALKATIVE, node=f"{at}", kind="source", op="textFile")
        messages += [node, Splits(app=TALKATIVE, node=f"{at}", splits=(whole,))]
    query = TraceQuery(Direction.FORWARD, (f"{run.source}:1",), app=run.app, all_jobs=True)
    with SqliteStore(tmp_path / "store.db") as store:
        store.write(TALKATIVE, messages)
        engine = QueryEngine(store, RowReader())
        assert engine.ask(query).apps == (run.app, TALKATIVE)
        alone = engine.ask(replace(query, all_jobs=False))
        (group,) = alone.groups
        several = replace(alone, groups=(group,) * 3)
        monkeypatch.setattr(all_jobs, "QUEUED_MAX", 2 * group.count * nodes)
        with pytest.raises(TooMuchError, match="rows lie on the way"):
            all_jobs.follow_across_applications(several, store, RowReader(), lambda *_: iter(()))


class _Watched(SqliteStore):
    """Notes what is read of it while nobody holds a turn."""

    def __init__(self, path: Path, limits: _CountedTurns) -> None:
        super().__init__(path)
        self._limits = limits
        self.read_outside: list[str] = []

    def _query(self, query: str, *values: str | float) -> list[Any]:
        if not self._limits.turns:
            self.read_outside.append(query)
        return super()._query(query, *values)


class _CountedTurns(NoLimits):
    turns = 0

    @contextmanager
    def working(self) -> Iterator[None]:
        self.turns += 1
        try:
            yield
        finally:
            self.turns -= 1


@pytest.mark.parametrize("direction", list(Direction))
def test_a_trace_through_all_jobs_reads_the_store_in_its_turn_alone(
    tmp_path: Path, direction: Direction
) -> None:
    """Else any number of such queries work at once, in all threads that there are."""
    run = store_run(f"sqlite:///{tmp_path}/store.db", tmp_path)
    before = run.source.stat()
    made = SinkFile(
        partition=0, path=f"file:{run.source}", size=before.st_size, mtime=before.st_mtime, rows=5
    )
    limits = _CountedTurns()
    with _Watched(tmp_path / "store.db", limits) as store:
        begin = Begin(app="maker", name="job", started_at=1.0)
        node = Register(app="maker", node="0", kind="sink", op="saveAsTextFile")
        files = SinkFiles(app="maker", node="0", path=str(tmp_path), files=(made,))
        store.write("maker", [begin, node, files])
        store.read_outside.clear()
        place = f"{run.source if direction is Direction.FORWARD else run.sink}:1"
        query = TraceQuery(direction, (place,), app=run.app, all_jobs=True)
        answer = QueryEngine(store, RowReader(), limits=limits).ask(query)
        assert ("maker" in answer.apps) == (direction is Direction.BACKWARD)
        assert store.read_outside == []
