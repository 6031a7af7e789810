"""A lake on object storage: a server that stands in for S3, or for Google's, counts what is asked of it, is slow, refuses, and loses answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow import fs

from lineage_core.tracing.trace_result import Direction
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.store import LakeStore
from lineage_store.moving import contents_of, move_application
from lineage_store.port import GraphStore
from lineage_store.sqlite.store import SqliteStore
from tests.support.lake_writer import write_application
from tests.support.object_storage import BUCKET, Fault, ObjectStorage, object_storage
from tests.support.stored_lineage import StoredRun, store_run

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module", params=["s3", pytest.param("gs", marks=pytest.mark.long)])
def storage(request: pytest.FixtureRequest) -> Iterator[ObjectStorage]:
    with object_storage(request.param) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.settings.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture
def address(storage: ObjectStorage, tmp_path: Path) -> Iterator[LakeAddress]:
    yield LakeAddress(f"{storage.scheme}://{BUCKET}/{tmp_path.name}/lineage")
    storage.fail()
    storage.delay(0)


@pytest.fixture
def run(tmp_path: Path) -> StoredRun:
    return store_run(f"sqlite:///{tmp_path / 'lineage.db'}", tmp_path)


def back(store: GraphStore, run: StoredRun) -> object:
    query = TraceQuery(Direction.BACKWARD, (f"{run.sink}:1",), app=run.app)
    return QueryEngine(store, RowReader()).ask(query).to_json()


def test_an_archived_application_is_traced_by_few_requests(
    storage: ObjectStorage,
    address: LakeAddress,
    run: StoredRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # However slow the machine is.
    monkeypatch.setattr("lineage_store.lake.table.SAME_S", 3_600.0)
    with SqliteStore(tmp_path / "lineage.db") as source, LakeStore(address) as lake:
        storage.requests()
        moved = move_application(source, lake, run.app, deletes=False)
        assert storage.requests().total <= 30
        assert contents_of(source, run.app) == moved.contents
        expected = back(source, run)
    storage.requests()
    with LakeStore(address, create=False) as lake:
        opened = storage.requests()
        assert back(lake, run) == expected
        first = storage.requests()
        assert back(lake, run) == expected
        second = storage.requests()
    assert opened.total <= 9
    # Of its only file: that it is there, and all of it.
    assert first.counts.get("HEAD", 0) == 1
    assert first.total - first.counts.get("LIST", 0) <= 4
    assert second.counts.get("HEAD", 0) == 0


def test_files_are_read_at_the_same_time(
    storage: ObjectStorage, address: LakeAddress, tmp_path: Path
) -> None:
    parts = 12
    with LakeStore(address) as lake, SqliteStore(tmp_path / "lineage.db") as sqlite:
        for part in range(parts):
            write_application(lake, "one", part)
            write_application(sqlite, "one", part)
        for app in ("two", "three"):
            write_application(lake, app, 0)
        expected = contents_of(sqlite, "one")
    with LakeStore(address, create=False) as lake:
        storage.meet(3)
        assert contents_of(lake, "one") == expected
        whole = storage.requests()
        assert whole.counts["HEAD"] == parts
        assert whole.at_once >= 3
        # The footers of the others are read together.
        storage.meet(2)
        assert {record.app for record in lake.applications()} == {"one", "two", "three"}
        listed = storage.requests()
        assert listed.counts["HEAD"] == 2
        assert listed.at_once >= 2


def test_large_files_are_read_in_parts(
    storage: ObjectStorage, address: LakeAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_store.lake.opening.WHOLE_BYTES", 0)
    with LakeStore(address) as lake, SqliteStore(tmp_path / "lineage.db") as sqlite:
        write_application(lake, "one", 0, wide=True)
        write_application(sqlite, "one", 0, wide=True)
        storage.requests()
        assert contents_of(lake, "one") == contents_of(sqlite, "one")
        assert storage.requests().counts["GET"] > 3


def test_what_is_held_is_bounded(
    storage: ObjectStorage, address: LakeAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LakeStore(address) as lake, SqliteStore(tmp_path / "lineage.db") as sqlite:
        for part in range(3):
            write_application(lake, "one", part)
            write_application(sqlite, "one", part)
        (files,) = lake.table.snapshot(newest=True).files.values()
        monkeypatch.setattr(
            "lineage_store.lake.opening.HELD_BYTES", max(file.size for file in files)
        )
        assert contents_of(lake, "one") == contents_of(sqlite, "one")
        assert lake.reader.opener.held_bytes <= max(file.size for file in files)


@pytest.mark.parametrize(
    "fault",
    [
        Fault("PUT", "_delta_log", is_done=True),
        Fault("PUT", "_delta_log"),
        Fault("POST", ".parquet", times=2),
        Fault("GET", ".json", status="500 Internal Server Error", times=2),
    ],
    ids=["an answer that is lost", "a commit", "a file", "the log"],
)
def test_what_storage_refuses_for_a_while_is_written_once(
    storage: ObjectStorage, address: LakeAddress, tmp_path: Path, fault: Fault
) -> None:
    with LakeStore(address) as lake, SqliteStore(tmp_path / "lineage.db") as sqlite:
        write_application(lake, "one", 0)
        storage.fail(fault)
        write_application(lake, "one", 1)
        assert storage.requests().faults_left == 0
        write_application(lake, "one", 2)
        for part in range(3):
            write_application(sqlite, "one", part)
        assert contents_of(lake, "one") == contents_of(sqlite, "one")
        (files,) = lake.table.snapshot(newest=True).files.values()
        assert len(files) == 3


def test_storage_that_refuses_is_named(storage: ObjectStorage, address: LakeAddress) -> None:
    with LakeStore(address) as lake:
        write_application(lake, "one", 0)
    with LakeStore(address, create=False) as lake:
        storage.fail(Fault("GET", ".parquet", "403 Forbidden", 1_000))
        with pytest.raises(StoreUnavailableError, match="can't read"):
            contents_of(lake, "one")
        storage.fail(Fault("PUT", "_delta_log", "403 Forbidden", 1_000))
    with LakeStore(address, create=False, retry_s=0) as lake:
        with pytest.raises(StoreUnavailableError, match="can't write"):
            write_application(lake, "one", 1)
        storage.fail()
        write_application(lake, "two", 0)
        assert set(lake.application_ids()) == {"one", "two"}
    with pytest.raises(StoreError, match="there is no lake at"):
        LakeStore(LakeAddress(f"{storage.scheme}://{BUCKET}/elsewhere"), create=False)
    with pytest.raises(StoreError, match="can't open the lake"):
        LakeStore(LakeAddress(f"{storage.scheme}://no-bucket/lineage"), create=False)


@pytest.mark.parametrize("later", [0, 2, 3])
def test_an_older_copy_that_is_put_in_its_place_is_read_as_it_is(
    address: LakeAddress, monkeypatch: pytest.MonkeyPatch, later: int
) -> None:
    """Others may have written into it since, ``later`` times."""
    with LakeStore(address) as lake:
        write_application(lake, "one", 0)
        kept = {file.path for file in listed(lake)}
        for at in range(2):
            write_application(lake, f"lost-{at}", 0)
        assert lake.application_ids() == ["one", "lost-1", "lost-0"]
        for file in listed(lake):
            if file.path not in kept:
                lake.table.files.delete_file(file.path)
        with LakeStore(address, create=False) as other:
            for at in range(later):
                write_application(other, f"new-{at}", 0)
            wanted = set(other.application_ids())
        if later == 2:
            # As many versions as before: nothing seems to be new.
            monkeypatch.setattr("lineage_store.lake.table.SAME_S", 0.0)
        lake.catch_up()
        assert set(lake.application_ids()) == wanted
        write_application(lake, "two", 0)
        with LakeStore(address, create=False) as fresh:
            assert set(fresh.application_ids()) == {*wanted, "two"}


def test_an_older_copy_is_noticed_where_a_file_is_missing(
    address: LakeAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has as many versions as there were, and it was looked for another copy just before."""
    monkeypatch.setattr("lineage_store.lake.table.SAME_S", 3_600.0)
    with LakeStore(address) as writing:
        write_application(writing, "one", 0)
        kept = {file.path for file in listed(writing)}
        write_application(writing, "one", 1)
        with LakeStore(address, create=False) as lake:
            assert len(lake.table.snapshot().files) == 1
            for file in listed(writing):
                if file.path not in kept:
                    writing.table.files.delete_file(file.path)
            with LakeStore(address, create=False) as other:
                write_application(other, "another", 0)
                expected = other.messages("one")
            assert lake.messages("one") == expected
            assert lake.application_ids() == ["one", "another"]


def listed(lake: LakeStore) -> list[fs.FileInfo]:
    """All objects of a lake."""
    found = lake.table.files.get_file_info(fs.FileSelector("", recursive=True))
    return [info for info in found if info.is_file]


def test_a_folder_with_files_of_others_is_no_new_lake(
    storage: ObjectStorage, address: LakeAddress
) -> None:
    with LakeStore(address) as lake:
        write_application(lake, "one", 0)
    above = LakeAddress(address.location.rpartition("/")[0])
    with pytest.raises(StoreError, match="a folder with other files"):
        LakeStore(above)
    with LakeStore(address, create=False) as lake:
        assert lake.application_ids() == ["one"]
