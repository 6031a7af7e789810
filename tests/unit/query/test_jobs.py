"""Jobs, runs and datasets over built stores."""

from __future__ import annotations

import itertools
import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lineage.job_tables import amount_text
from lineage.main import app
from lineage_core.contract.message import (
    Begin,
    Commit,
    End,
    Message,
    Read,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    Register,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
)
from lineage_core.tracing.budget import Budget, MessageRoom, use_budget
from lineage_openlineage.facts import facts_of
from lineage_query.finding import NotFoundError
from lineage_query.jobs import (
    TABLE_VERSIONS_MAX,
    DatasetUse,
    StoredRuns,
    find_dataset_runs,
    find_datasets,
    list_jobs,
    list_runs,
)
from lineage_query.run_amounts import Amount
from lineage_store.sqlite.store import SqliteStore
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.unit


def run(
    app_id: str,
    name: str,
    at: float,
    reads: dict[str, list[str]] | None = None,
    writes: dict[str, list[str]] | None = None,
    mtime: float = 1.0,
) -> list[Message]:
    """Messages of an application that read and wrote files: by what the program named."""
    messages: list[Message] = [Begin(app=app_id, name=name, started_at=at, cwd="/srv")]
    for kind, named in (("source", reads or {}), ("sink", writes or {})):
        for number, (path, files) in enumerate(named.items()):
            node = f"{kind}{number}"
            messages.append(Register(app=app_id, node=node, kind=kind, op=kind, path=path))
            if kind == "source":
                splits = tuple(
                    Split(partition=at, path=file, start=0, length=1, file_size=1, mtime=mtime)
                    for at, file in enumerate(files)
                )
                messages += [Splits(app=app_id, node=node, splits=splits)] if files else []
            else:
                written = tuple(
                    SinkFile(partition=at, path=file, size=1, mtime=mtime)
                    for at, file in enumerate(files)
                )
                messages.append(SinkFiles(app=app_id, node=node, path=path, files=written))
    return [*messages, End(app=app_id, ended_at=at + 5.0, status="ok")]


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """A job that ran twice and writes `out`, and one that reads parts of it."""
    store = SqliteStore(tmp_path / "lineage.db")
    parts = ["file:/srv/out/part-0", "file:/srv/out/part-1"]
    for app_id, at in (("app-1", 10.0), ("app-3", 30.0)):
        store.write(
            app_id, run(app_id, "clean", at, {"in.txt": ["file:/srv/in.txt"]}, {"out": parts})
        )
    store.write(
        "app-2",
        run(
            "app-2",
            "report",
            20.0,
            {"out/part-*": parts, "shop.customers": []},
            {"s3a://lake/report": ["s3a://lake/report/part-0"]},
        ),
    )
    return store


def test_jobs_are_the_runs_of_one_name_the_latest_first(store: SqliteStore) -> None:
    clean, report = list_jobs(StoredRuns(store))
    assert (clean.name, clean.runs, clean.last_run.app) == ("clean", 2, "app-3")
    assert (report.name, report.runs, report.last_run.app) == ("report", 1, "app-2")
    assert [job.name for job in list_jobs(StoredRuns(store), 1)] == ["clean"]
    assert clean.last_run.duration_s == 5.0
    assert clean.last_run.status == "ok"
    assert [one.app for one in list_runs(StoredRuns(store), "clean")] == ["app-3", "app-1"]
    with pytest.raises(NotFoundError):
        list_runs(StoredRuns(store), "cle")


def test_runs_name_datasets_as_their_events_do(store: SqliteStore) -> None:
    for app_id in ("app-1", "app-2"):
        facts = facts_of(store, app_id)
        [found] = [one for one in list_runs(StoredRuns(store), facts.name) if one.app == app_id]
        assert found.content is not None
        assert [(use.namespace, use.name, use.files) for use in found.content.reads] == [
            (dataset.namespace, dataset.name, dataset.files) for dataset in facts.inputs
        ]
        assert [(use.namespace, use.name, use.files) for use in found.content.writes] == [
            (dataset.namespace, dataset.name, dataset.files) for dataset in facts.outputs
        ]


def test_what_names_no_file_is_listed_beside_datasets(store: SqliteStore) -> None:
    content = list_jobs(StoredRuns(store))[1].last_run.content
    assert content is not None
    assert content.reads_without_files == ("shop.customers",)
    assert content.writes_without_files == ()


def amounts(store: SqliteStore) -> tuple[Amount, Amount]:
    (found,) = list_runs(StoredRuns(store), "job")
    assert found.content is not None
    return found.content.read, found.content.written


def test_runs_say_how_much_they_read_and_wrote_as_far_as_that_is_known(tmp_path: Path) -> None:
    files = [f"file:/srv/in/{n}" for n in range(2)]
    splits = tuple(
        Split(
            partition=2 * n + half, path=file, start=50 * half, length=50, file_size=100, mtime=9.0
        )
        for n, file in enumerate(files)
        for half in range(2)
    )
    sink = [
        SinkFile(partition=n, path=f"file:/srv/out/{n}", size=30, mtime=9.5, rows=n + 1)
        for n in range(2)
    ]

    def commit(attempt: int, *reads: Read) -> Commit:
        return Commit(app="app-1", node="sink", partition=0, attempt=attempt, reads=reads)

    def read(node: str, partition: int, *, exhausted: bool = True) -> Read:
        return Read(space=f"{node}#{partition}", rows=10 + partition, exhausted=exhausted)

    with SqliteStore(tmp_path / "lineage.db") as store:
        begun = run("app-1", "job", 1.0, {}, {})[:-1]
        # Two nodes read the same files; a part counts once.
        begun += [
            Register(app="app-1", node=node, kind="source", op="textFile", path="/srv/in")
            for node in ("a", "b")
        ]
        begun += [Splits(app="app-1", node=node, splits=splits) for node in ("a", "b")]
        begun.append(Register(app="app-1", node="sink", kind="sink", op="save", path="/srv/out"))
        store.write("app-1", begun)
        assert amounts(store) == (Amount(200), Amount())
        store.write("app-1", [commit(0, read("a", 0), read("a", 1), read("b", 2))])
        store.write(
            "app-1", [SinkFiles(app="app-1", node="sink", path="/srv/out", files=(sink[0],))]
        )
        assert amounts(store) == (Amount(200), Amount(30, 1))
        unsized = sink[1].model_copy(update={"rows": None})
        store.write("app-1", [commit(1, read("b", 3, exhausted=False))])
        store.write(
            "app-1", [SinkFiles(app="app-1", node="sink", path="/srv/out", files=(unsized,))]
        )
        assert amounts(store) == (Amount(200), Amount(60))
        store.write("app-1", [commit(2, read("b", 3))])
        store.write(
            "app-1", [SinkFiles(app="app-1", node="sink", path="/srv/out", files=(sink[1],))]
        )
        assert amounts(store) == (Amount(200, 10 + 11 + 12 + 13), Amount(60, 3))
        # A table of a database has no size.
        table = Register(app="app-1", node="c", kind="source", op="jdbc", path="shop.customers")
        store.write("app-1", [table])
        assert amounts(store) == (Amount(), Amount(60, 3))
    assert amount_text(Amount(60, 3), is_none=False) == "3 rows, 60 bytes"
    assert amount_text(Amount(), is_none=False) == "not known"
    assert amount_text(Amount(), is_none=True) == ""


def test_files_that_two_nodes_read_and_their_versions_are_counted_once(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        file = "file:/srv/in.txt"
        store.write("app-1", run("app-1", "job", 1.0, {"in.txt": [file], "/srv/in.txt": [file]}))
        again = Split(partition=1, path=file, start=0, length=1, file_size=1, mtime=90.0)
        store.write("app-1", [Splits(app="app-1", node="source0", splits=(again,))])
        content = list_jobs(StoredRuns(store))[0].last_run.content
    assert content is not None
    assert content.reads == (DatasetUse("file", "/srv/in.txt", 1, 2),)


def test_datasets_have_the_jobs_whose_files_lie_in_them(store: SqliteStore) -> None:
    found = find_datasets(StoredRuns(store))
    assert (found.runs, found.runs_total, found.runs_withheld) == (3, 3, 0)
    by_name = {dataset.full_name: dataset for dataset in found.items}
    assert list(by_name) == [
        "file:/srv/in.txt",
        "file:/srv/out",
        "file:/srv/out/part-0",
        "file:/srv/out/part-1",
        "s3://lake/report",
    ]
    out = by_name["file:/srv/out"]
    assert (out.writers, out.readers) == (("clean",), ("report",))
    assert out.last_write is not None
    assert out.last_write.app == "app-3"
    part = by_name["file:/srv/out/part-1"]
    assert (part.writers, part.readers) == (("clean",), ("report",))
    assert by_name["s3://lake/report"].readers == ()
    assert [one.name for one in find_datasets(StoredRuns(store), "lake").items] == ["report"]


def test_runs_of_a_dataset_are_listed_with_what_they_named(store: SqliteStore) -> None:
    runs = find_dataset_runs(StoredRuns(store), "file", "/srv/out").items
    assert [(one.app, one.wrote, one.use.name) for one in runs] == [
        ("app-3", True, "/srv/out"),
        ("app-2", False, "/srv/out/part-0"),
        ("app-2", False, "/srv/out/part-1"),
        ("app-1", True, "/srv/out"),
    ]
    part = find_dataset_runs(StoredRuns(store), "file", "/srv/out/part-0").items
    assert [one.use.name for one in part] == ["/srv/out", "/srv/out/part-0", "/srv/out"]
    with pytest.raises(NotFoundError):
        find_dataset_runs(StoredRuns(store), "file", "/srv")


def test_a_folder_of_a_like_name_is_another_dataset(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        store.write("app-1", run("app-1", "a", 1.0, writes={"/d/out": ["/d/out/part-0"]}))
        store.write("app-2", run("app-2", "b", 2.0, reads={"/d/out2": ["/d/out2/part-0"]}))
        assert [one.readers for one in find_datasets(StoredRuns(store)).items] == [(), ("b",)]


def test_a_bucket_has_all_that_lies_in_it(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "lineage.db") as store:
        file = "s3a://lake/a/part-0"
        store.write("app-1", run("app-1", "a", 1.0, writes={"s3a://lake/a": [file]}))
        store.write("app-2", run("app-2", "b", 2.0, reads={"s3a://lake/": [file]}))
        bucket, folder = find_datasets(StoredRuns(store)).items
    assert (bucket.full_name, bucket.writers, bucket.readers) == ("s3://lake/", ("a",), ("b",))
    assert (folder.full_name, folder.writers, folder.readers) == ("s3://lake/a", ("a",), ("b",))


def test_only_the_latest_runs_are_looked_at_where_so_many_are_asked_for(store: SqliteStore) -> None:
    found = find_datasets(StoredRuns(store), runs=1)
    assert (found.runs, found.runs_total) == (1, 3)
    assert "s3://lake/report" not in {dataset.full_name for dataset in found.items}
    runs_of_one = find_dataset_runs(StoredRuns(store), "file", "/srv/out", runs=1)
    assert [run.app for run in runs_of_one.items] == ["app-3"]
    assert (runs_of_one.runs, runs_of_one.runs_total) == (1, 3)


def test_what_was_materialised_is_no_run(store: SqliteStore) -> None:
    store.write("app-3.rows", run("app-3.rows", "clean", 40.0))
    assert [one.app for one in list_runs(StoredRuns(store), "clean")] == ["app-3", "app-1"]


def test_an_incomplete_run_is_not_called_exact(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/lineage.db"
    for app_id, committed in (("app-1", True), ("app-2", False)):
        (tmp_path / app_id).mkdir()
        store_run(url, tmp_path / app_id, app_id, committed=committed)
    with SqliteStore(tmp_path / "lineage.db") as store:
        runs = {one.app: one for one in list_runs(StoredRuns(store), "job")}
    assert (runs["app-1"].complete, runs["app-1"].exact) == (True, True)
    assert (runs["app-2"].complete, runs["app-2"].exact) == (False, None)


def told(store: SqliteStore, *arguments: str) -> Any:
    result = CliRunner().invoke(
        app, [*arguments, "--json", "--store", f"sqlite:///{store.path}"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_commands_list_jobs_runs_and_datasets(store: SqliteStore) -> None:
    assert [job["name"] for job in told(store, "jobs")] == ["clean", "report"]
    assert [one["duration_s"] for one in told(store, "jobs", "report")] == [5.0]
    assert len(told(store, "datasets")["items"]) == 5
    assert len(told(store, "datasets", "part-")["items"]) == 2
    for named in ("file:/srv/out", "/srv/out"):
        dataset = told(store, "datasets", named)
        assert (dataset["namespace"], dataset["name"]) == ("file", "/srv/out")
        assert len(dataset["items"]) == 4
        assert (dataset["runs"], dataset["runs_total"]) == (3, 3)
    text = CliRunner().invoke(app, ["jobs", "--store", f"sqlite:///{store.path}"]).output
    assert "file:/srv/out/part-0, file:/srv/out/part-1, shop.customers" in text
    unknown = CliRunner().invoke(app, ["jobs", "other", "--store", f"sqlite:///{store.path}"])
    assert unknown.exit_code == 2


def test_a_path_of_very_many_folders_costs_no_more_than_its_length(tmp_path: Path) -> None:
    deep = "/data" + "/a" * 30_000
    with SqliteStore(tmp_path / "store.db") as store:
        store.write("deep", run("deep", "job", 1.0, writes={"/data": [deep]}))
        store.write("all", run("all", "other", 2.0, reads={"/data/a/a": [f"/data/a/a{'/b' * 9}"]}))
        tracemalloc.start()
        datasets = find_datasets(StoredRuns(store))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 30 << 20
    by_name = {dataset.name: dataset for dataset in datasets.items}
    assert by_name["/data"].readers == ("other",)
    assert by_name["/data/a/a"].writers == ("job",)


def test_runs_whose_files_fit_in_no_memory_are_counted_as_not_told(tmp_path: Path) -> None:
    files = [f"/data/{'x' * 400}{number}" for number in range(3_000)]
    with SqliteStore(tmp_path / "store.db") as store:
        store.write("wide", run("wide", "wide", 9.0, writes={"/data": files}))
        store.write("small", run("small", "small", 1.0, writes={"/other": ["/other/1"]}))
        room = MessageRoom(50_000)
        stored = StoredRuns(store)
        with use_budget(Budget()):
            messages = {app: stored.messages(app) for app in ("wide", "small")}

        class Read(StoredRuns):
            def messages(self, app: str, *more: str) -> Sequence[Message]:
                return messages[app]

        with use_budget(Budget(messages=room)):
            datasets = find_datasets(Read(store))
    assert [dataset.name for dataset in datasets.items] == ["/other"]
    assert (datasets.runs, datasets.runs_total, datasets.runs_withheld) == (2, 2, 1)


def test_half_of_the_time_is_kept_for_the_list_itself(tmp_path: Path) -> None:
    ticks = itertools.count()
    with SqliteStore(tmp_path / "store.db") as store:
        for number in range(50):
            app_id = f"app-{number}"
            store.write(app_id, run(app_id, "job", float(number), writes={"/out": ["/out/1"]}))
        budget = Budget(seconds=400, clock=lambda: float(next(ticks)))
        with use_budget(budget):
            datasets = find_datasets(StoredRuns(store))
    assert 0 < datasets.runs < datasets.runs_total == 50
    assert [dataset.name for dataset in datasets.items] == ["/out"]


def test_datasets_say_versions_of_tables_and_are_found_by_them(store: SqliteStore) -> None:
    path = "file:/srv/orders"
    file = SinkFile(partition=0, path=f"{path}/a.parquet", size=1, mtime=1.0)
    split = RecordSplit(partition=0, path=file.path, start=0, length=1, file_size=1, mtime=1.0)
    of_reader: dict[str, Any] = {"app": "app-r", "node": "0", "whole": False, "splits": (split,)}
    versions = range(TABLE_VERSIONS_MAX + 3)
    written: list[Message] = [
        Begin(app="app-w", name="writer", started_at=8.0),
        Register(app="app-w", node="0", kind="frame", op="write", path=path),
        RecordFiles(app="app-w", node="0", path=path, files=(file,), version="3"),
    ]
    read: list[Message] = [
        Begin(app="app-r", name="reader", started_at=9.0),
        Register(app="app-r", node="0", kind="frame-source", op="delta", path=path),
        *(RecordSplits(version=str(version), **of_reader) for version in versions),
        # Of files without versions nothing is said.
        RecordSplits(**of_reader),
    ]
    store.write("app-w", written)
    store.write("app-r", read)
    source = StoredRuns(store)
    runs = find_dataset_runs(source, "file", "/srv/orders").items
    latest = tuple(map(str, versions))[-TABLE_VERSIONS_MAX:]
    assert [run.use.table_versions for run in runs] == [latest, ("3",)]
    for version in ("3", latest[-1]):
        (found,) = find_datasets(source, f"/srv/orders@{version}").items
        assert (found.name, found.writers, found.readers) == (
            "/srv/orders",
            ("writer",),
            ("reader",),
        )
    assert find_datasets(source, "/srv/orders@99").items == ()
    shown = CliRunner().invoke(
        app,
        ["datasets", "/srv/orders", "--store", f"sqlite:///{store.path}"],
        env={"COLUMNS": "200"},
    )
    assert "table version" in shown.stdout
    assert f"{latest[-1]}, {latest[-2]}, {latest[-3]} and 17 more" in shown.stdout
