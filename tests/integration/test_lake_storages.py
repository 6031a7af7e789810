"""A lake on each storage that it may be on: writers at once, writers and storages that are killed, and the commands.

HDFS is Hadoop's own, Azure's is Azurite; a server of ours stands in for S3 and Google's. `test_stores.py` holds a lake on each of
them to what every store does.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyarrow import fs
from typer.testing import CliRunner

from lineage.main import app as program
from lineage_core.contract.message import Begin
from lineage_store.errors import DamagedError, OffsetMovedError, StoreError
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.columns import application_key
from lineage_store.lake.compacting import compact
from lineage_store.lake.store import LakeStore
from lineage_store.lake.transaction import LakeTransaction
from lineage_store.moving import contents_of
from lineage_store.sqlite.store import SqliteStore
from tests.support.lake_writer import write_application
from tests.support.storages import Hdfs
from tests.support.stored_lineage import store_run

pytestmark = [pytest.mark.integration, pytest.mark.long]

PARTS = 10_000


@pytest.fixture(params=["s3", "gs", "az", "hdfs"])
def address(request: pytest.FixtureRequest, lake_on: Callable[[str], LakeAddress]) -> LakeAddress:
    return lake_on(request.param)


def writer(address: LakeAddress, app: str, first: int, count: int) -> subprocess.Popen[str]:
    words = [address.location, app, str(first), str(count)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.lake_writer", *words],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_several_processes_write_at_once_and_nothing_is_lost_or_twice(
    address: LakeAddress, tmp_path: Path
) -> None:
    with LakeStore(address) as lake, SqliteStore(tmp_path / "lineage.db") as sqlite:
        version = lake.table.newest_version()
        writers = [writer(address, "shared", first, 4) for first in (0, 2)]
        merged = 0
        while any(one.poll() is None for one in writers):
            merged += compact(lake, kept_h=1).written
        assert [one.wait() for one in writers] == [0, 0]
        for one in writers:
            one.communicate()
        # Each commit made a version of its own: none took the place of another.
        assert lake.table.newest_version() == version + 2 * 4 + merged
        for part in range(6):
            write_application(sqlite, "shared", part)
        assert contents_of(lake, "shared") == contents_of(sqlite, "shared")
        compact(lake, kept_h=0)
        (files,) = lake.table.snapshot(newest=True).files.values()
        assert len(files) == 1
        assert contents_of(lake, "shared") == contents_of(sqlite, "shared")
        # What was replaced is deleted.
        assert stored_files(lake) == {files[0].path}


def stored_files(lake: LakeStore) -> set[str]:
    """Files that the storage holds beside the log, in the table or not."""
    infos = lake.table.files.get_file_info(fs.FileSelector("", recursive=True))
    return {
        info.path
        for info in infos
        if info.type is fs.FileType.File and "_delta_log" not in info.path
    }


def test_each_offset_is_moved_by_one_of_several_writers(address: LakeAddress) -> None:
    moved: list[int] = []
    ready = threading.Barrier(3)
    failed: list[BaseException] = []

    def write(number: int) -> None:
        try:
            with LakeStore(address) as lake:
                ready.wait(60)
                for first in range(8):
                    move(lake, first, number)
        except BaseException as error:
            failed.append(error)

    def move(lake: LakeStore, first: int, number: int) -> None:
        def work(loading: LakeTransaction) -> bool:
            done = loading.offsets("race", "edge", 0, first, first + 1, new=True)
            if done:
                loading.message(Begin(app=f"{first}-{number}", name="job", started_at=1.0))
            return done

        try:
            if lake.in_transaction(work):
                moved.append(first)
        except OffsetMovedError:
            pass

    LakeStore(address).close()
    threads = [threading.Thread(target=write, args=[number]) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert sorted(moved) == list(range(8))
    with LakeStore(address, create=False) as lake:
        assert len(lake.applications()) == 8
        assert lake.offset("race", "edge", 0) == 8


def test_killed_writers_leave_whole_applications(
    address: LakeAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(1)
    durable: set[int] = set()
    kills = 4
    for round_number in range(kills):
        process = writer(address, "*", round_number * PARTS, PARTS)
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(1 + draw.randrange(1, 4))]
        time.sleep(draw.random() * 0.3)
        process.kill()
        said += process.communicate()[0].splitlines()
        durable |= {int(line) for line in said[1:]}
    with LakeStore(address) as lake, SqliteStore(tmp_path / "lineage.db") as oracle:
        stored = {int(app) for app in lake.application_ids()}
        assert durable <= stored
        # At most one a writer was written, and not said any more.
        assert len(stored - durable) <= kills
        for part in stored:
            write_application(oracle, str(part), part)
            assert contents_of(lake, str(part)) == contents_of(oracle, str(part))
        live = {file.path for files in lake.table.snapshot().files.values() for file in files}
        assert live <= stored_files(lake)
        # As if they had waited for a week.
        monkeypatch.setattr("lineage_store.lake.table.UNFINISHED_H", 0)
        compact(lake, kept_h=0)
        assert stored_files(lake) == live
        assert {int(app) for app in lake.application_ids()} == stored


def test_a_storage_that_is_killed_loses_nothing(
    storage_hdfs: Hdfs, lake_on: Callable[[str], LakeAddress], tmp_path: Path
) -> None:
    """Azurite forgets the writes of its last seconds when it is killed."""
    storage, address = storage_hdfs, lake_on("hdfs")
    with LakeStore(address, retry_s=1) as lake, SqliteStore(tmp_path / "lineage.db") as sqlite:
        for part in range(3):
            write_application(lake, "one", part)
            write_application(sqlite, "one", part)
        storage.kill()
        try:
            with pytest.raises(StoreError, match="can't"):
                write_application(lake, "one", 3)
            with pytest.raises(StoreError, match="can't open the lake") as refused:
                LakeStore(address, create=False)
            # Colours and lines are for terminals.
            assert "\x1b" not in str(refused.value)
            assert "\n" not in str(refused.value)
        finally:
            storage.start()
        assert contents_of(lake, "one") == contents_of(sqlite, "one")
        write_application(lake, "one", 4)
        write_application(sqlite, "one", 4)
        assert contents_of(lake, "one") == contents_of(sqlite, "one")


def test_a_file_that_is_lost_harms_its_application_alone(address: LakeAddress) -> None:
    with LakeStore(address) as lake:
        for app in ("one", "two"):
            write_application(lake, app, 0)
        wanted = contents_of(lake, "two")
        (file,) = lake.table.snapshot(newest=True).files[application_key("one")]
        lake.table.files.delete_file(file.path)
    with LakeStore(address, create=False) as lake:
        states = {record.app: record.status for record in lake.applications()}
        assert (states["one"], states["two"]) == ("damaged", "running")
        with pytest.raises(DamagedError, match="missing"):
            contents_of(lake, "one")
        assert contents_of(lake, "two") == wanted
        lake.delete("one")
        assert lake.application_ids() == ["two"]


def test_a_folder_with_files_of_others_is_no_new_lake(address: LakeAddress) -> None:
    with LakeStore(address) as lake:
        write_application(lake, "one", 0)
    above = LakeAddress(address.location.rpartition("/")[0])
    with pytest.raises(StoreError, match="a folder with other files"):
        LakeStore(above)


def test_the_commands(
    address: LakeAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source, lake = f"sqlite:///{tmp_path}/lineage.db", str(address)

    def lineage(store: str, *words: str, code: int = 0) -> str:
        done = CliRunner().invoke(program, words, env={"LINEAGE_STORE": store})
        assert done.exit_code == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    store_run(source, tmp_path)
    store_run(source, tmp_path, "app-2", started_at=2000.0)
    asked = ("back", "out/part-00000:2", "--app", "app-1", "--json")
    answer, dumped = lineage(source, *asked), lineage(source, "dump", "app-1")
    assert "there is no lake" in lineage(lake, "apps", code=2)
    assert "are in lake:" in lineage(source, "archive", "app-1", "--to", lake)
    assert lineage(lake, *asked) == answer
    assert lineage(lake, "dump", "app-1") == dumped
    assert lineage(f"{source},{lake}", *asked) == answer
    assert json.loads(lineage(lake, "verify", "app-1", "--json"))["complete"]
    lineage(source, "archive", "app-2", "--to", lake)
    assert json.loads(lineage(lake, "compact", "--json"))["merged"] == 0
    lineage(lake, "rm", "app-2")
    assert lineage(lake, "dump", "app-1") == dumped
    lineage(lake, "expire", "--older-than", "1d")
    assert json.loads(lineage(lake, "apps", "--json")) == []
    with LakeStore(address, create=False) as opened:
        assert stored_files(opened) == set()


def test_a_login_that_is_wrong_is_said(
    lake_on: Callable[[str], LakeAddress], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = lake_on("az")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "bm90IHRoaXM=")
    with pytest.raises(StoreError, match="can't open the lake az://"):
        LakeStore(address)
