"""Runs may name any number of datasets by names of any length: the graph of jobs and lists of datasets stay what others need."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest

from lineage_core.tracing.budget import (
    Budget,
    TimeUpError,
    TooMuchError,
    current_budget,
    use_budget,
)
from lineage_openlineage.datasets import paths_by_dataset
from lineage_query.dataset_index import NAME_MAX, DatasetIndex
from lineage_query.dataset_uses import MOVED_MAX, READ, WROTE, DatasetUses, RunUses
from lineage_query.job_neighbours import GraphName, find_neighbours
from lineage_query.jobs import (
    DatasetName,
    DatasetRun,
    DatasetUse,
    StoredRuns,
    dataset_runs,
    find_datasets,
    list_jobs,
)
from lineage_store.sqlite.store import SqliteStore
from tests.support.api_server import serving
from tests.unit.query.test_jobs import run

pytestmark = pytest.mark.security
LAST_MOMENT = 253_402_214_400.0
SNAKE = "\U0001f40d"


def test_the_graph_repeats_no_name_of_any_length(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        long = {f"/x{at}/{SNAKE * 60_000}": [f"/x{at}/{SNAKE * 60_000}/1"] for at in range(5)}
        store.write("forged", run("forged", "forged", 2.0, long | {"/in": ["/in/1"]}))
        store.write("honest", run("honest", "honest", 1.0, {"/in": ["/in/1"]}))
        index = DatasetIndex(store)
        index.update(60.0)
        ids = store.application_ids()
        found = find_neighbours(index, GraphName("file", "/in"), ids)
        assert {node.name for node in found.nodes} == {"/in", "honest"}
        # It is said that a run is not among them.
        assert (found.runs, found.runs_withheld) == (2, 1)
        assert index.uses.memory < 1 << 20
    url = f"sqlite:///{tmp_path}/lineage.db"
    with serving(url) as address:
        params = {"namespace": "file", "name": "/in"}
        shown = httpx.get(f"{address}/v1/jobs/graph", params=params, timeout=120)
        assert shown.status_code == 200, shown.text
        assert len(shown.content) < 10 * NAME_MAX


def test_an_index_counts_the_memory_of_names_and_not_their_characters(tmp_path: Path) -> None:
    def own_memory(letter: str) -> int:
        paths = {f"/{letter * 3_000}/{at}": [f"/{letter * 3_000}/{at}/1"] for at in range(10)}
        with SqliteStore(tmp_path / f"{ord(letter)}.db") as store:
            store.write("a", run("a", "a", 1.0, paths))
            (record,) = store.applications()
            return RunUses.of(dataset_runs(record, store.messages("a"))).own_memory

    assert own_memory(SNAKE) > 3.5 * own_memory("a")


def test_what_a_dataset_adds_to_other_runs_is_looked_for_within_the_time_and_bounded(
    tmp_path: Path,
) -> None:
    uses = DatasetUses()
    with SqliteStore(tmp_path / "lineage.db") as store:
        for at in range(300):
            app = f"a{at}"
            store.write(app, run(app, app, 1.0, {f"/d/{at}": [f"/d/{at}/1"]}))
        store.write("forged", run("forged", "forged", 2.0, {"/d": ["/d/1"]}))
        forged = RunUses.of([]), list[tuple[int, list[DatasetName]]]()
        for record in store.applications():
            used = dataset_runs(record, store.messages(record.app))
            files = [(WROTE if of.wrote else READ, names) for of, names in used]
            if record.app == "forged":
                forged = RunUses.of(used), files
            else:
                uses.add(record.app, uses.prepare(RunUses.of(used), files))
    before = uses.memory
    ticks = itertools.count()
    with (
        use_budget(Budget(seconds=50, clock=lambda: float(next(ticks)))),
        pytest.raises(TimeUpError),
    ):
        uses.prepare(*forged)
    with pytest.raises(TooMuchError, match="more than an index holds"):
        uses.prepare(*forged, memory_max=20_000)
    assert (uses.memory, ("file", "/d") in uses.by_dataset) == (before, False)
    uses.add("forged", uses.prepare(*forged))
    assert len(uses.by_dataset["file", "/d"]) == 301


def test_folders_of_many_runs_are_removed_together() -> None:
    """Not with a look at all other folders for each run: readers wait meanwhile."""
    looks = 0

    class Counting(dict[DatasetName, dict[str, int]]):
        def __contains__(self, folder: object) -> bool:
            nonlocal looks
            looks += 1
            return super().__contains__(folder)

    uses, remaining = DatasetUses(), DatasetUses()
    for at in range(40):
        files = [("file", f"/{at}/{number}/f") for number in range(2 * MOVED_MAX)]
        use = DatasetRun(f"a{at}", "job", 1.0, "ok", True, DatasetUse("file", f"/{at}", 1, 1))
        for into in (uses, remaining) if at == 7 else (uses,):
            run = RunUses.of([(use, files)])
            into.add(f"a{at}", into.prepare(run, [(WROTE, files)]))
    uses._runs_in = Counting(uses._runs_in)
    uses.remove(f"a{at}" for at in range(40) if at != 7)
    assert looks <= 2 * 40 * 2 * MOVED_MAX
    assert uses._folders == remaining._folders
    assert (uses._runs_in, uses.by_run.keys()) == (remaining._runs_in, remaining.by_run.keys())
    assert (uses.memory, uses.by_dataset) == (remaining.memory, remaining.by_dataset)


def test_readers_of_the_index_do_not_wait_until_what_a_run_adds_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, released = threading.Event(), threading.Event()
    prepare = DatasetUses.prepare

    def slow(uses: DatasetUses, *given: object) -> object:
        begun.set()
        assert released.wait(30)
        return prepare(uses, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(DatasetUses, "prepare", slow)
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write("a", run("a", "a", 1.0, {"/in": ["/in/1"]}))
        index = DatasetIndex(store)
        updating = threading.Thread(target=index.update, args=(60.0,))
        updating.start()
        try:
            assert begun.wait(30)
            reading = threading.Thread(target=_read, args=(index,))
            reading.start()
            reading.join(10)
            assert not reading.is_alive()
        finally:
            released.set()
            updating.join(30)
    assert index.uses.by_run.keys() == {"a"}


def _read(index: DatasetIndex) -> None:
    with index.reading():
        pass


def test_runs_of_the_future_push_no_others_out(tmp_path: Path) -> None:
    now = time.time()
    with SqliteStore(tmp_path / "lineage.db") as store:
        for at in range(6):
            store.write(
                f"f{at}",
                run(f"f{at}", f"forged {at}", LAST_MOMENT - at, {f"/f{at}": [f"/f{at}/1"]}),
            )
            store.write(f"h{at}", run(f"h{at}", "honest", now - at, {f"/h{at}": [f"/h{at}/1"]}))
        alone = DatasetIndex(store)
        alone.update(60.0)
        index = DatasetIndex(store, bytes_max=alone.uses.memory // 2)
        index.update(60.0)
        assert index.uses.by_run.keys() == {f"h{at}" for at in range(6)}
        listed = find_datasets(StoredRuns(store), runs=6)
        assert {dataset.name for dataset in listed.items} == {f"/h{at}" for at in range(6)}
        assert listed.runs_total == 12
        jobs = [job.name for job in list_jobs(StoredRuns(store))]
    assert jobs == ["honest", *(f"forged {at}" for at in range(6))]


def test_a_page_of_datasets_with_very_many_jobs_each_is_refused_and_a_smaller_one_is_not(
    tmp_path: Path,
) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        for at in range(60):
            paths = {f"/d{number}": [f"/d{number}/1"] for number in range(100)}
            store.write(f"a{at}", run(f"a{at}", f"{at} {'j' * 400}", 1.0, paths))
    url = f"sqlite:///{tmp_path}/lineage.db"
    with serving(url, api_query_mb=1) as address:
        page = {
            limit: httpx.get(f"{address}/v1/datasets?limit={limit}", timeout=120)
            for limit in (10, 100)
        }
    assert page[10].status_code == 200, page[10].text
    assert page[10].json()["total"] == 100
    assert page[100].status_code == 422
    assert "limit" in page[100].json()["hint"]


def test_a_run_whose_paths_take_long_to_name_keeps_no_list_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name_slowly(
        node_path: str, paths: Iterable[str], cwd: str
    ) -> dict[tuple[str, str], list[str]]:
        while node_path == "/slow":
            current_budget().check()
        return paths_by_dataset(node_path, paths, cwd)

    monkeypatch.setattr("lineage_query.jobs.paths_by_dataset", name_slowly)
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write("forged", run("forged", "forged", 9.0, {"/slow": ["/slow/1"]}))
        store.write("honest", run("honest", "honest", 1.0, {"/in": ["/in/1"]}))
    with serving(f"sqlite:///{tmp_path}/lineage.db", api_query_s=20) as address:
        jobs, runs, datasets, users = (
            httpx.get(f"{address}/v1/{path}", timeout=120)
            for path in (
                "jobs",
                "runs?job=forged",
                "datasets",
                "datasets/runs?namespace=file&name=/in",
            )
        )
    for listed in (jobs, runs, datasets, users):
        assert listed.status_code == 200, listed.text
    content = {job["name"]: job["last_run"]["content"] for job in jobs.json()["items"]}
    assert content["forged"] is None
    assert [read["name"] for read in content["honest"]["reads"]] == ["/in"]
    assert runs.json()["items"][0]["content"] is None
    assert [dataset["name"] for dataset in datasets.json()["items"]] == ["/in"]
    # It is said that one of them is not among these.
    assert (datasets.json()["runs"], datasets.json()["runs_withheld"]) == (2, 1)
    assert [user["job"] for user in users.json()["items"]] == ["honest"]
