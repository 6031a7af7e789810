"""Records of a running job that are watched through a server: what is sent, how much, and what is left behind."""

from __future__ import annotations

import gc
import json
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from lineage_core.errors import LineageError
from lineage_emitter.worker.watch_hits import Hits
from lineage_query.rows.reader import RowReader
from lineage_query_api import record_watching
from lineage_query_api.errors import ProblemError
from lineage_query_api.lineages import Lineages
from lineage_query_api.record_watching import TIME_UP, WATCHES_MAX, RecordsWatched
from lineage_query_api.settings import read_settings
from lineage_store.port import GraphStore
from lineage_store.watch_folder import (
    CONDITIONS,
    HITS,
    WatchableNode,
    WatchedJob,
    WatchRequest,
    held_conditions,
    read_request,
)
from tests.support.api_server import serving
from tests.support.stored_lineage import store_run

APP = "app-1"
WATCH = f"/v1/applications/{APP}/watch"
NODE = WatchableNode("4", "map", "map", "job.py:3")
ASKED = {"node": "4", "condition": "record > 1"}


@contextmanager
def running_job(folder: Path, refusal: str = "") -> Iterator[WatchedJob]:
    job = WatchedJob(folder / "spool" / APP, APP, refusal)
    job.add(NODE)
    try:
        yield job
    finally:
        job.close()


@contextmanager
def watched(folder: Path, **given: object) -> Iterator[tuple[httpx.Client, WatchedJob]]:
    """A client of a server, and a job that runs beside it, of which all is linked."""
    url = f"sqlite:///{folder}/lineage.db"
    store_run(url, folder)
    with (
        running_job(folder) as job,
        serving(url, api_roots=str(folder), **given) as address,
        httpx.Client(base_url=address, timeout=60) as client,
    ):
        yield client, job


def of_task(folder: Path, name: str, *records: tuple[str, int], tested: int = 0) -> None:
    """What a task reports: texts of records, and the row of the source that each was made from."""
    facts = {"node": NODE.node, "label": NODE.label, "partition": 0}
    path = folder / HITS / name / f"{uuid.uuid4().hex}.jsonl"
    hits = Hits(str(path), facts, 100, counts_tests=tested > 0, tested=tested)
    for text, row in records:
        hits.write({"text": text, "made_from": [["0#0", row, row]], "superset": False})
    hits.close()


def events_of(lines: Iterator[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def condition(job: WatchedJob) -> Path:
    (path,) = held_conditions(job.folder)
    return path


def test_records_are_sent_while_the_job_runs_with_their_sources(tmp_path: Path) -> None:
    with watched(tmp_path) as (client, job):
        assert client.get(WATCH).json() == {
            "app": APP,
            "refusal": None,
            "operators": [{"node": "4", "name": "map", "op": "map", "call_site": "job.py:3"}],
        }
        asked = {"node": "4", "must": "record > 1", "limit": 7}
        with client.stream("POST", WATCH, json=asked) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            events = events_of(answer.iter_lines())
            path = condition(job)
            assert read_request(path) == WatchRequest("4", "record > 1", 7, must=True)
            of_task(job.folder, path.stem, ("1", 0), tested=3)
            first = next(events)
            of_task(job.folder, path.stem, ("0", 1), tested=2)
            job.close()
            others = list(events)
        assert client.get(WATCH).json()["refusal"] == record_watching.NOT_RUNNING
    assert (first["event"], first["record"], first["text"]) == ("record", 1, "1")
    assert [event["text"] for event in others if event["event"] == "record"] == ["0"]
    texts = {
        event["record"]: [item["text"] for group in event["sources"] for item in group["items"]]
        for event in others
        if event["event"] == "sources"
    }
    assert texts == {1: ["a b"], 2: ["b"]}
    assert others[-1] == {
        "event": "end",
        "time_up": False,
        "tasks": [],
        "violations": 2,
        "tested": 5,
        "sees_all": True,
    }
    assert not job.folder.exists()


def test_a_watch_that_is_dropped_costs_the_job_nothing_any_more(tmp_path: Path) -> None:
    with watched(tmp_path) as (client, job):
        with client.stream("POST", WATCH, json=ASKED) as answer:
            lines = answer.iter_lines()  # dropped with its last reference, and the stream with it
            next(lines)
            assert held_conditions(job.folder)
        until = time.monotonic() + 30
        while list((job.folder / HITS).iterdir()):
            assert time.monotonic() < until
            time.sleep(0.01)
        assert not list((job.folder / CONDITIONS).iterdir())


def test_the_time_of_a_stream_ends_it_and_what_is_not_known_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        record_watching._Tracer, "opened", lambda *_: (_ for _ in ()).throw(KeyError)
    )
    with (
        watched(tmp_path, api_stream_s=6) as (client, job),
        client.stream("POST", WATCH, json=ASKED) as answer,
    ):
        of_task(job.folder, condition(job).stem, ("2", 0))
        record, sources, end = events_of(answer.iter_lines())
    assert (record["text"], sources["exact"], sources["reasons"]) == ("2", False, [TIME_UP])
    assert end["time_up"]


def test_no_more_bytes_are_sent_than_a_watch_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_watching, "SENT_BYTES_MAX", 1_000)
    with (
        watched(tmp_path) as (client, job),
        client.stream("POST", WATCH, json=ASKED) as answer,
    ):
        of_task(job.folder, condition(job).stem, *[(f"{n}{'x' * 300}", 0) for n in range(50)])
        events = list(events_of(answer.iter_lines()))
        assert not held_conditions(job.folder)
    assert sum(event["event"] == "record" for event in events) < 5
    assert events[-2] == {"event": "note", "note": record_watching.ALL_SENT}
    assert not events[-1]["time_up"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"node": "4", "condition": "__import__('os').system('touch x')"}, "is no condition"),
        ({"node": "4", "condition": "1 == 1"}, "does not look at the record"),
        ({"node": "4", "condition": "record > 1", "must": "record > 1"}, "give one of"),
        ({"node": "4"}, "give one of"),
        ({"node": "4", "slower_than": "1 week"}, "is no duration"),
        ({"node": "4", "condition": "record > 1", "limit": 1_001}, "limit"),
        ({"node": "4", "condition": "record > 1", "code": "x"}, "code"),
        ({"node": "4", "condition": f"record > {'(' * 2_000}"}, "is no condition"),
    ],
)
def test_what_is_no_condition_never_reaches_the_job(
    asked: dict[str, Any], said: str, tmp_path: Path, quiet: tuple[httpx.Client, WatchedJob]
) -> None:
    client, job = quiet
    answer = client.post(WATCH, json=asked)
    assert answer.status_code == 422
    assert said in answer.text
    assert not list((job.folder / CONDITIONS).iterdir())


@pytest.fixture(scope="module")
def quiet(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[httpx.Client, WatchedJob]]:
    """A job that nobody gets to watch."""
    with watched(tmp_path_factory.mktemp("quiet")) as found:
        yield found


def lineages(url: str) -> Lineages:
    settings = read_settings(store=url, api_open=True)
    return Lineages(cast("GraphStore", None), RowReader(), settings)


def test_so_many_are_watched_at_once_and_one_that_is_left_makes_room(tmp_path: Path) -> None:
    of_store, watches = lineages(f"sqlite:///{tmp_path}/lineage.db"), RecordsWatched()
    request = WatchRequest("4", "record > 1")
    with running_job(tmp_path) as job:
        streams = [watches.watch(of_store, APP, request, "id") for _ in range(WATCHES_MAX)]
        with pytest.raises(ProblemError) as refused:
            watches.watch(of_store, APP, request, "id")
        assert refused.value.status == 429
        # It was never begun: the client had left before.
        streams.pop()
        gc.collect()
        assert len(held_conditions(job.folder)) == WATCHES_MAX - 1
        streams.append(watches.watch(of_store, APP, request, "id"))
        assert len(held_conditions(job.folder)) == WATCHES_MAX


@pytest.mark.parametrize(
    ("url", "refusal", "said"),
    [
        ("neo4j://127.0.0.1:7687", "", "has no spool"),
        ("sqlite:///{}/lineage.db", "its executors are elsewhere", "its executors are elsewhere"),
    ],
)
def test_where_a_job_can_not_be_watched_that_is_said(
    url: str, refusal: str, said: str, tmp_path: Path
) -> None:
    request = WatchRequest("4", "record > 1")
    with running_job(tmp_path, refusal), pytest.raises(LineageError, match=said):
        RecordsWatched().watch(lineages(url.format(tmp_path)), APP, request, "id")


def test_operators_that_are_listed_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_watching, "OPERATOR_CHARACTERS_MAX", 10_000)
    with running_job(tmp_path) as job:
        for number in range(5, 9):
            job.add(WatchableNode(str(number), "x" * 4_000, "map", ""))
        of_store = lineages(f"sqlite:///{tmp_path}/lineage.db")
        app, refusal, operators = RecordsWatched().watchable(of_store, "app")
    assert (app, refusal, [facts.node for facts in operators]) == (APP, "", ["4", "5", "6"])
