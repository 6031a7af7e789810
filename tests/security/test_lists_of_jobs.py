"""Lists of jobs and datasets cost no more than they may, whatever applications send, and are there beside any application."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from lineage_core.contract.message import Begin, Message, Register, Split, Splits
from lineage_core.contract.verdict import Verdict
from lineage_core.tracing.budget import (
    MIB,
    Budget,
    MessageRoom,
    TimeUpError,
    current_budget,
    use_budget,
)
from lineage_openlineage.datasets import paths_by_dataset
from lineage_openlineage.settings import OpenLineageSettings
from lineage_query.jobs import (
    JOB_NAME_MAX,
    StoredRuns,
    find_datasets,
    list_jobs,
)
from lineage_query_api.auth import new_token
from lineage_store.recipes import BEGIN_CHARS
from lineage_store.sqlite.store import SqliteStore
from lineage_writer import publishing
from lineage_writer.metrics import Metrics
from lineage_writer.publishing import Publisher
from tests.support.api_server import serving
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
TALKATIVE, HONEST = "talkative", "honest"
TICKS = 50


def _run(app: str, name: str, *nodes: tuple[str | None, Iterable[str]]) -> list[Message]:
    messages: list[Message] = [Begin(app=app, name=name, started_at=1.0)]
    for number, (path, files) in enumerate(nodes):
        splits = tuple(
            Split(partition=0, path=file, start=0, length=0, file_size=0, mtime=0.0)
            for file in files
        )
        node = Register(app=app, node=f"{number}", kind="source", op="textFile", path=path)
        messages += [node, Splits(app=app, node=f"{number}", splits=splits)] if splits else [node]
    return messages


def test_files_of_a_node_of_very_many_paths_are_looked_for_within_the_time() -> None:
    ticks = itertools.count()
    node = ",".join(f"/b/{number}" for number in range(300))
    budget = Budget(seconds=TICKS, clock=lambda: float(next(ticks)))
    with use_budget(budget), pytest.raises(TimeUpError):
        paths_by_dataset(node, [f"/x/{number}" for number in range(300)])
    assert next(ticks) < 2 * TICKS


def test_parts_of_deep_files_are_looked_at_once_however_many_names_may_begin_within_them() -> None:
    """Not for each of them: relative names of each length, and a file of four thousand folders."""
    names = ",".join("/".join(["b"] * parts) for parts in range(1, 254))
    deep = "/".join(["a"] * 4_000)
    began = time.process_time()
    found = paths_by_dataset(names, [f"file:/{deep}/{at}" for at in range(3)])
    assert time.process_time() - began < 1
    assert found.keys() == {("file", f"/{deep}/{at}") for at in range(3)}


def test_files_in_very_many_datasets_take_no_memory_for_each_pair(tmp_path: Path) -> None:
    deep = "/a" * 400
    with SqliteStore(tmp_path / "store.db") as store:
        files = [f"{deep}/{number}" for number in range(400)]
        above = [(None, [deep[: 2 * number]]) for number in range(1, 401)]
        store.write("deep", _run("deep", "job", ("/a", files), *above))
        runs = StoredRuns(store)
        find_datasets(runs)
        tracemalloc.start()
        datasets = find_datasets(runs)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20 * MIB
    by_name = {dataset.name: dataset for dataset in datasets.items}
    assert len(by_name) == 400
    assert all(dataset.readers == ("job",) for dataset in by_name.values())
    assert by_name["/a"].runs == 400


def test_what_runs_of_a_list_read_is_counted_until_it_is_sent(tmp_path: Path) -> None:
    room = MessageRoom(MIB)
    with SqliteStore(tmp_path / "store.db") as store:
        for number in range(5):
            paths = [(f"{at}{'y' * 60_000}", ()) for at in range(60)]
            store.write(f"e{number}", _run(f"e{number}", f"e{number}", *paths))
        store.write(HONEST, _run(HONEST, HONEST, ("/in", ["/in"])))

        class Read(StoredRuns):
            def messages(self, app: str, *more: str) -> Sequence[Message]:
                with use_budget(Budget()):
                    return super().messages(app, *more)

            def verdict(self, app: str) -> Verdict:
                with use_budget(Budget()):
                    return super().verdict(app)

        with use_budget(Budget(messages=room)):
            told = {job.name: job.last_run.content for job in list_jobs(Read(store))}
        assert 0 < room.held <= MIB
        assert told[HONEST] is not None
        assert 0 < sum(content is None for content in told.values()) < 5
        del told
    assert room.held == 0


def test_a_very_long_name_of_a_job_is_repeated_for_no_dataset(tmp_path: Path) -> None:
    long = "z" * 60_000
    with SqliteStore(tmp_path / "store.db") as store:
        store.write("e1", _run("e1", f"{long}1", ("/in", ["/in"])))
        store.write("e2", _run("e2", f"{long}2", ("/in", ["/in"])))
        (dataset,) = find_datasets(StoredRuns(store)).items
    assert len(set(dataset.readers)) == 2
    assert all(len(name) < JOB_NAME_MAX + 30 for name in dataset.readers)


def test_the_beginning_of_an_application_is_read_as_far_as_its_name(tmp_path: Path) -> None:
    escaped = "\0" * 65_536
    with SqliteStore(tmp_path / "store.db") as store:
        store.write(TALKATIVE, [Begin(app=TALKATIVE, name=escaped, started_at=1.0)])
        store.write(HONEST, [Begin(app=HONEST, name=HONEST, started_at=1.0)])
        for number in range(3):
            arguments = (str(number),) + ("",) * BEGIN_CHARS
            store.write("e", [Begin(app="e", name="e", started_at=1.0, argv=arguments)])
        tracemalloc.start()
        names = store.names()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        ticks = itertools.count()
        budget = Budget(seconds=2, clock=lambda: float(next(ticks)))
        with use_budget(budget), pytest.raises(TimeUpError):
            store.names()
    assert names == {TALKATIVE: {escaped}, HONEST: {HONEST}, "e": {"e"}}
    assert peak < 10 * BEGIN_CHARS * 3


def test_an_application_with_more_than_fit_ends_no_query_where_something_is_hidden(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    run = store_run(url, tmp_path, HONEST, name="shop sales")
    with SqliteStore(tmp_path / "store.db") as store:
        files = [f"/x/{'y' * 1_000}{number}" for number in range(1_500)]
        store.write(TALKATIVE, _run(TALKATIVE, "shop e", ("/x", files)))
    token, line = new_token("ann", "reader", rows=True)
    (tmp_path / "tokens.toml").write_text(line)
    (tmp_path / "tokens.toml").chmod(0o600)
    grants = '[[grant]]\ncallers=["token:ann"]\napplications=["shop *"]\nrows=true\n'
    hide = '[[hide]]\ncallers=["token:ann"]\ndatasets=["/nowhere/*"]\n'
    (tmp_path / "grants.toml").write_text(grants + hide)
    settings: dict[str, Any] = {
        "api_open": False,
        "api_tokens": str(tmp_path / "tokens.toml"),
        "api_grants": str(tmp_path / "grants.toml"),
        "api_roots": str(tmp_path),
        "api_message_mb": 1,
    }
    with (
        serving(url, **settings) as address,
        httpx.Client(
            base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60
        ) as client,
    ):
        asked = {"direction": "backward", "places": [f"{run.sink}:1"]}
        answer = client.post("/v1/answers", json=asked)
        assert answer.status_code == 200, answer.text
        for path in ("jobs", "datasets", "applications", f"applications/{HONEST}"):
            found = client.get(f"/v1/{path}")
            assert found.status_code == 200, found.text
        jobs = {job["name"]: job["last_run"] for job in client.get("/v1/jobs").json()["items"]}
        alone = client.get(f"/v1/applications/{TALKATIVE}/graph")
    # What it used is not known: it is neither shown nor told.
    assert jobs["shop e"]["content"] is None
    assert jobs["shop sales"]["content"] is not None
    assert alone.status_code == 422


class _Runs:
    """Two applications that are to be published."""

    def __init__(self) -> None:
        self.waiting = [TALKATIVE, HONEST]
        self.released: list[str] = []

    def unpublished(self) -> list[str]:
        return list(self.waiting)

    def claim(self, app: str, now: float) -> bool:
        return True

    def release(self, app: str) -> None:
        self.released.append(app)

    def record_published(self, app: str, status: str) -> None:
        self.waiting.remove(app)


def test_an_application_whose_events_take_too_long_keeps_no_other_from_being_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = _Runs()

    class Store:
        def published_runs(self) -> _Runs:
            return runs

    def events(_: object, app: str, __: object) -> str:
        budget = current_budget()
        assert budget.messages is not None
        while app == TALKATIVE and budget.left_s < float("inf"):
            budget.check()
        return "ok"

    monkeypatch.setattr(publishing, "publish_events", events)
    monkeypatch.setattr(publishing, "FACTS_S", 0.05)
    store: Any = Store()
    Publisher(OpenLineageSettings(), lambda: store, Metrics()).publish_ended()
    assert (runs.waiting, runs.released) == ([TALKATIVE], [TALKATIVE])
