"""No question costs more than it may, in time, blocks, text or turns, and none is worked on when nobody waits for it."""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.contract.block import U64
from lineage_core.contract.message import (
    Message,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
)
from lineage_core.tracing.budget import (
    Budget,
    BudgetError,
    ClientGoneError,
    TimeUpError,
    TooMuchError,
    current_budget,
    use_budget,
)
from lineage_dataframes.spark import connected
from lineage_query.rows import parquet_rows
from lineage_query.rows.reader import RootedReader
from lineage_query_api.app import create_app
from lineage_query_api.lineages import WAITING_MAX
from lineage_query_api.settings import read_settings
from lineage_query_api.spark_session_holder import SparkSessionHolder
from lineage_query_api.visibility import Visibility, build_visible_application
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import open_store
from tests.support.api_server import running, word_count_served
from tests.support.drawn import drawn
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
APPLICATION = "/v1/applications/app-1"
TRACE = {"direction": "backward", "start": {"places": ["write#0#0"]}}
WAIT_S = 30
PARALLEL = 2


class Held(RootedReader):
    """Reads texts of rows once it may."""

    def __init__(self, root: Path, hold: Callable[[], object]) -> None:
        super().__init__([str(root)])
        self._hold = hold
        self.begun = threading.Semaphore(0)
        self.ended = threading.Event()
        self.problem: BudgetError | None = None

    def rows(self, path: str, rows: U64) -> list[str | None]:
        self.begun.release()
        try:
            self._hold()
            return super().rows(path, rows)
        except BudgetError as error:
            self.problem = error
            raise
        finally:
            self.ended.set()


@contextmanager
def served(folder: Path, hold: Callable[[], object], **given: object) -> Iterator[tuple[str, Held]]:
    url = f"sqlite:///{folder}/lineage.db"
    store_run(url, folder)
    reader = Held(folder, hold)
    settings = read_settings(store=url, api_open=True, **given)
    with open_store(url) as store, running(create_app(store, settings, reader)) as address:
        yield address, reader


def until_it_leaves() -> None:
    current_budget().gone.result(timeout=WAIT_S)


def ask(address: str, method: str, path: str, body: object = None) -> socket.socket:
    """A client that has asked, and did not read anything yet."""
    at = urlsplit(address)
    assert at.hostname is not None
    sent = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: {at.netloc}\r\nContent-Length: {len(sent)}\r\n"
    client = socket.create_connection((at.hostname, at.port or 80))
    client.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + sent)
    return client


ASKED: dict[str, tuple[str, str, object]] = {
    "search": ("GET", f"{APPLICATION}/nodes/read/items?search=a", None),
    "items": ("GET", f"{APPLICATION}/nodes/read/items", None),
    "rows": ("GET", f"{APPLICATION}/rows?address=read%230%230", None),
    "trace": ("POST", f"{APPLICATION}/traces", TRACE),
    "searched": (
        "POST",
        f"{APPLICATION}/traces",
        {"direction": "forward", "start": {"node": "read", "contains": "a"}},
    ),
    "answer": ("POST", "/v1/answers", {"direction": "backward", "places": ["write#0#0"]}),
    "file": (
        "POST",
        "/v1/answers/file",
        {"direction": "backward", "places": ["write#0#0"], "format": "csv"},
    ),
    "diff": (
        "POST",
        f"{APPLICATION}/diff",
        {"left": TRACE, "right": TRACE | {"start": {"places": ["write#0#1"]}}},
    ),
    "suspects": ("POST", f"{APPLICATION}/suspects", {"places": ["write#0#0", "write#0#1"]}),
}
OF_TRACE = ("", "/nodes/read/items", "/items.ndjson", "/export?format=csv", "/export?format=prov")


@pytest.mark.parametrize("name", drawn(ASKED, 3))
def test_work_stops_when_the_client_leaves(name: str, tmp_path: Path) -> None:
    with served(tmp_path, until_it_leaves) as (address, reader):
        with ask(address, *ASKED[name]):
            assert reader.begun.acquire(timeout=WAIT_S)
        assert reader.ended.wait(WAIT_S)
    assert isinstance(reader.problem, ClientGoneError)


@pytest.mark.parametrize("path", drawn(OF_TRACE, 2))
def test_a_trace_is_not_written_for_who_has_left(path: str, tmp_path: Path) -> None:
    with word_count_served(tmp_path) as client:
        trace = client.post(f"{APPLICATION}/traces", json=TRACE).json()["trace"]
    with served(tmp_path, until_it_leaves) as (address, reader):
        with ask(address, "GET", f"/v1/traces/{trace}{path}"):
            assert reader.begun.acquire(timeout=WAIT_S)
        assert reader.ended.wait(WAIT_S)
    assert isinstance(reader.problem, ClientGoneError)


def test_probes_and_short_answers_come_while_searches_hang(tmp_path: Path) -> None:
    released = threading.Event()
    path = f"{APPLICATION}/nodes/read/items?search=a"
    with (
        served(tmp_path, lambda: released.wait(WAIT_S), api_parallel=PARALLEL) as (address, reader),
        ThreadPoolExecutor(64) as threads,
        httpx.Client(base_url=address, timeout=WAIT_S, limits=httpx.Limits()) as client,
    ):
        searches = [threads.submit(client.get, path) for _ in range(PARALLEL + 2 * WAITING_MAX)]
        try:
            for _ in range(PARALLEL):
                assert reader.begun.acquire(timeout=WAIT_S)
            begun = time.monotonic()
            for short in ("/healthz", "/readyz", "/metrics", "/v1/me", "/v1/applications"):
                assert client.get(short).status_code == 200
            assert time.monotonic() - begun < 5
            # No more than may be read at once, however many ask.
            assert not reader.begun.acquire(blocking=False)
            # All others have come by then: those that wait, and those that are refused.
            first = islice(as_completed(searches, timeout=WAIT_S), WAITING_MAX)
            others = [one.result() for one in first if one.result().status_code != 429]
            assert not others, [one.text for one in others]
        finally:
            released.set()
        statuses = [one.result(WAIT_S).status_code for one in searches]
    assert set(statuses) <= {200, 429}
    assert statuses.count(200) == PARALLEL + WAITING_MAX


class Hanging:
    """A store that does not answer any more."""

    def __init__(self, released: threading.Event) -> None:
        self._released = released

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def hang(*_: object) -> None:
            self._released.wait(WAIT_S)
            raise KeyError(name)

        return hang


NO_STORE = {
    ("GET", "/v1/me"),
    ("GET", "/v1/sign-in"),
    ("GET", "/v1/dead-letters"),
    ("GET", "/v1/spark"),
    ("GET", "/v1/triples"),
    ("GET", "/v1/triples/trace"),
    ("GET", "/v1/triples/export"),
    ("GET", "/v1/follow"),
    ("GET", "/v1/applications/{app}/watch"),
    ("POST", "/v1/applications/{app}/watch"),
}
"""Routes that ask none, or not here."""


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_what_callers_see_of_an_application_is_looked_for_within_the_time(kind: str) -> None:
    everything = frozenset("*")
    sight = Visibility((everything,), (everything,), frozenset(["/hidden/*"]), ())
    node = Register(app="app-1", node="0", kind=kind, op="any", path="/d")
    # A directory each: links are followed for each.
    paths = [f"/d/{number}/file" for number in range(1_000)]
    told: list[Message] = [node]
    for path in paths:
        read = Split(partition=0, path=path, start=0, length=1, file_size=1, mtime=1.0)
        wrote = SinkFile(partition=0, path=path, size=1, mtime=1.0)
        told.append(
            Splits(app="app-1", node="0", splits=(read,))
            if kind == "source"
            else SinkFiles(app="app-1", node="0", path="/d", files=(wrote,))
        )
    assert build_visible_application(told, sight, final=True).is_fully_visible
    ticks = itertools.count()
    budget = Budget(seconds=100, clock=lambda: float(next(ticks)))
    with use_budget(budget), pytest.raises(TimeUpError):
        build_visible_application(told, sight, final=True)
    assert next(ticks) < 200


def test_every_route_ends_with_its_time(tmp_path: Path) -> None:
    with word_count_served(tmp_path) as client:
        trace = client.post(f"{APPLICATION}/traces", json=TRACE).json()["trace"]
        routes = client.get("/openapi.json").json()["paths"]
    bodies = {path.partition("?")[0]: body for method, path, body in ASKED.values() if body}
    bodies[f"{APPLICATION}/record-view"] = {"places": ["write#0#0"]}
    bodies["/v1/answers/diff"] = {"left": ["write#0#0"], "right": ["write#0#1"]}
    bodies["/v1/answers/runs-diff"] = {
        side: {"app": app, "places": ["write#0#0"]}
        for side, app in (("left", "app-1"), ("right", "app-2"))
    }
    bodies["/v1/answers/suspects"] = {"places": ["write#0#0", "write#0#1"]}
    bodies["/v1/answers/influence"] = {"place": "write#0#0"}
    for path in ("/v1/arrays/trace", f"{APPLICATION}/arrays/trace"):
        bodies[path] = {"direction": "backward", "cells": "x[0]"}
    for path in ("/v1/erasure-plans", "/v1/access-reports"):
        bodies[path] = {"source": str(tmp_path / "in.txt"), "rows": [1]}
    values = {"{app}": "app-1", "{node}": "read", "{trace}": trace, "{array}": "source-0"}
    parameters = {
        "/v1/runs": {"job": "job"},
        "/v1/jobs/graph": {"job": "job"},
        "/v1/datasets/runs": {"namespace": "file", "name": "/"},
        f"{APPLICATION}/arrays/source-0/values": {"ranges": "0"},
    }
    released = threading.Event()
    store: GraphStore = Hanging(released)
    settings = read_settings(
        store="sqlite:///x",
        api_open=True,
        api_roots=str(tmp_path),
        api_query_s=0.3,
        api_stream_s=0.3,
        api_parallel=32,
    )
    asked = [
        (method.upper(), path)
        for path, methods in routes.items()
        for method in methods
        if (method.upper(), path) not in NO_STORE
    ]
    assert len(asked) > 20
    with running(create_app(store, settings)) as address, ThreadPoolExecutor(64) as threads:

        def answer(method: str, path: str) -> httpx.Response:
            for name, value in values.items():
                path = path.replace(name, value)
            params = parameters.get(path, {"address": "read#0#0"} if path.endswith("/rows") else {})
            url = address + path
            body = bodies.get(path)
            return httpx.request(method, url, json=body, params=params, timeout=WAIT_S)

        try:
            begun = time.monotonic()
            answers = list(threads.map(lambda one: answer(*one), asked))
            assert time.monotonic() - begun < 15
        finally:
            released.set()
    for route, given in zip(asked, answers, strict=True):
        assert given.status_code == 504, (route, given.text)
        assert given.json()["error"] == "TimeUpError"
        assert given.json()["hint"]


@pytest.mark.long
def test_a_stream_that_takes_too_long_does_not_end_as_if_it_were_whole(tmp_path: Path) -> None:
    with word_count_served(tmp_path) as client:
        trace = client.post(f"{APPLICATION}/traces", json=TRACE).json()["trace"]
    released = threading.Event()
    given = {"api_query_s": 5, "api_stream_s": 0.2}
    with served(tmp_path, lambda: released.wait(WAIT_S), **given) as (address, _):
        try:
            with pytest.raises(httpx.RemoteProtocolError):
                httpx.get(f"{address}/v1/traces/{trace}/items.ndjson", timeout=WAIT_S)
        finally:
            released.set()


@pytest.mark.parametrize(
    ("space", "ranges"),
    [
        ("read#0", "0-18446744073709551614"),
        ("read#0", "1 7"),
        ("read#9", "0"),
        ("write#0", "0-4"),
        ("2@0", "0-18446744073709551614"),
        ("2@0", "5"),
    ],
)
@pytest.mark.parametrize("direction", drawn(["backward", "forward"], 2))
def test_items_that_a_node_does_not_have_are_refused(
    space: str, ranges: str, direction: str, tmp_path: Path
) -> None:
    start = {"regions": [{"space": space, "ranges": ranges}]}
    with word_count_served(tmp_path) as client:
        for more in ({}, {"steps": 1}, {"until": "read"}, {"until": "write"}):
            answer = client.post(
                f"{APPLICATION}/traces", json={"direction": direction, "start": start, **more}
            )
            assert answer.status_code == 422, answer.text


def test_an_export_counts_all_that_it_lists(tmp_path: Path) -> None:
    start = {"regions": [{"space": "read#1", "ranges": "0-3"}]}
    request = {"direction": "forward", "start": start, "until": "2"}
    with word_count_served(tmp_path, api_export_items=5) as client:
        trace = client.post(f"{APPLICATION}/traces", json=request).json()["trace"]
        found = client.get(f"/v1/traces/{trace}/export")
        way = client.get(f"/v1/traces/{trace}/export?way=true")
    assert (found.status_code, way.status_code) == (200, 422)


def test_an_answer_holds_bounded_text(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("".join(f"{row} {'x' * 500_000}\n" for row in range(6)))
    path = f"{APPLICATION}/nodes/read/items"
    with word_count_served(tmp_path, api_query_mb=1) as client:
        page = client.get(path, params={"limit": 2}).json()
        assert all(one["text"].endswith(" of 500,002 bytes]") for one in page["items"])
        assert {len(one["text"]) for one in page["items"]} == {
            65_536 + len(" [cut: 65,536 of 500,002 bytes]")
        }
        found = client.get(path, params={"search": "nowhere"}).json()
        assert (found["items"], found["cut"]) == ([], 6)
        contains = {"direction": "forward", "start": {"node": "read", "contains": "nowhere"}}
        refused = client.post(f"{APPLICATION}/traces", json=contains)
        assert refused.status_code == 422
        assert "too long to be searched" in refused.json()["detail"]
    reader = RootedReader([str(tmp_path)])
    with use_budget(Budget(text_bytes=5 * 66_000)), pytest.raises(TooMuchError):
        reader.rows(str(tmp_path / "in.txt"), np.arange(6, dtype=np.uint64))


LONG_LINE = """
import sys, time
from pathlib import Path
import numpy as np
from lineage_query.rows.reader import RowReader
begun = time.process_time()
reader = RowReader()
(text,) = reader.rows(sys.argv[1], np.array([0], np.uint64))
(line,) = reader.lines(sys.argv[1], np.array([1], np.uint64), np.array([1], np.uint64))
reader.lines_of_rows(sys.argv[1], np.array([0], np.uint64))
print(len(text), text[-40:], text == line)
print(time.process_time() - begun)
print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])
"""


def test_a_line_of_300_mb_costs_no_more_than_what_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "long.txt.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(300):
            file.write(b"x" * 1_000_000)
    told = subprocess.run(
        [sys.executable, "-c", LONG_LINE, str(path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert told[0].endswith(" [cut: 65,536 of about 299,991,040 bytes] True")
    assert float(told[1]) < 5
    assert int(told[2]) < 256 << 10


ROW_GROUP = """
import sys
from pathlib import Path
import numpy as np
from lineage_query.rows.parquet_rows import texts_of

def memory(name):
    return int(Path('/proc/self/status').read_text().partition(name)[2].split()[0])

before = memory('VmRSS:')
with open(sys.argv[1], 'rb') as file:
    texts = texts_of(file, np.array([3, 49_999, 99_999, 100_000], np.uint64))
print([None if text is None else len(text) for text in texts])
print(memory('VmHWM:') - before)
"""


def test_a_row_group_of_a_gigabyte_costs_no_more_than_a_piece_of_it(tmp_path: Path) -> None:
    path, rows = tmp_path / "large.parquet", 100_000
    # A value that stands once in the file: a megabyte there, a gigabyte as rows.
    values = pa.array([f"{row}{'x' * 10_000}" for row in range(5)])
    large = pa.DictionaryArray.from_arrays(np.arange(rows, dtype=np.int32) % 5, values)
    table = pa.table({"row": pa.array(range(rows)), "large": large})
    pq.write_table(table, path, row_group_size=rows, store_schema=False)
    assert pq.ParquetFile(path).num_row_groups == 1
    told = subprocess.run(
        [sys.executable, "-c", ROW_GROUP, str(path)], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert told[0] == "[10021, 10025, 10025, None]"
    assert int(told[1]) < 256 << 10


@pytest.mark.parametrize(
    "wanted", [[0], [9], [10], [0, 9, 10, 29, 35], [30, 31, 34, 69], list(range(70))]
)
def test_rows_of_batches_are_those_that_were_asked_for(
    wanted: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_rows, "BATCH_ROWS_MAX", 10)
    values = [
        {"row": row, "text": None if row % 3 else f"t{row}", "nested": [str(row)]}
        for row in range(70)
    ]
    pq.write_table(pa.Table.from_pylist(values), tmp_path / "a.parquet", row_group_size=35)
    with (tmp_path / "a.parquet").open("rb") as file:
        found = parquet_rows.texts_of(file, np.array([*wanted, 70], np.uint64))
    *texts, missing = found
    assert missing is None
    assert [json.loads(text or "") for text in texts] == [
        {name: value for name, value in values[row].items() if value is not None} for row in wanted
    ]


def test_reading_a_row_group_ends_with_its_budget(tmp_path: Path) -> None:
    pq.write_table(pa.table({"row": list(range(70))}), tmp_path / "a.parquet")
    gone = Budget()
    gone.abandon()
    with (
        (tmp_path / "a.parquet").open("rb") as file,
        use_budget(gone),
        pytest.raises(ClientGoneError),
    ):
        parquet_rows.texts_of(file, np.array([69], np.uint64))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_budget_ends_with_its_time_and_may_be_made_longer() -> None:
    clock = Clock()
    budget = Budget(seconds=10, clock=clock)
    clock.now = 10
    budget.check()
    clock.now = 10.5
    with pytest.raises(TimeUpError, match="more than 10 s"):
        budget.check()
    budget.extend(5)
    clock.now = 15
    budget.check()
    assert (budget.left_s, budget.is_over) == (0.5, False)


def test_a_budget_counts_blocks_and_text() -> None:
    budget = Budget(seconds=10, blocks=3, text_bytes=1 << 20)
    budget.count_blocks(3)
    budget.count_text(1 << 20)
    with pytest.raises(TooMuchError, match="more than 3 blocks"):
        budget.count_blocks(1)
    with pytest.raises(TooMuchError, match="more than 1 MiB of text"):
        budget.count_text(1)
    budget.abandon()
    budget.abandon()
    for spend in (budget.check, lambda: budget.count_blocks(0), lambda: budget.count_text(0)):
        with pytest.raises(ClientGoneError):
            spend()


def test_without_a_budget_nothing_is_bounded_for_others() -> None:
    current_budget().extend(0.0)
    current_budget().check()
    assert current_budget().left_s == float("inf")


def test_a_statement_of_a_store_is_given_up(tmp_path: Path) -> None:
    endless = (
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n"
    )
    with SqliteStore(tmp_path / "lineage.db") as store:
        with use_budget(Budget(seconds=0.05)), pytest.raises(TimeUpError):
            store._query(endless)
        budget = Budget()
        leaving = threading.Timer(0.05, budget.abandon)
        leaving.start()
        with use_budget(budget), pytest.raises(ClientGoneError):
            store._query(endless)
        assert store.application_ids() == []


def test_queries_of_spark_are_cancelled_when_the_client_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled = threading.Event()
    monkeypatch.setattr(connected, "cancellable_session", lambda session, _: nullcontext(session))
    monkeypatch.setattr(connected, "cancel_queries", lambda *_: cancelled.set())
    monkeypatch.setattr(SparkSessionHolder, "_start", object)
    spark = SparkSessionHolder(read_settings(spark_master="local[1]", api_query_s=WAIT_S))
    budget = Budget(seconds=WAIT_S)

    def leaves(_: object) -> bool:
        # The thread of the queries has the budget of who asked.
        current_budget().abandon()
        return cancelled.wait(WAIT_S)

    with use_budget(budget), pytest.raises(ClientGoneError):
        spark.run(leaves)
    spark.close()
    assert cancelled.is_set()
