"""What a lake does beyond other stores: several writers, files that are replaced, and applications that are moved into it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from lineage.main import app as program
from lineage_core.contract.block import BlockId
from lineage_core.contract.message import Begin, Commit, Heartbeat
from lineage_store.dump import dump_application
from lineage_store.errors import StoreError
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.columns import application_key
from lineage_store.lake.compacting import compact
from lineage_store.lake.files import Lookup
from lineage_store.lake.store import LakeStore
from lineage_store.lake.table import ReplacedError
from lineage_store.moving import ChangedError, contents_of, move_application
from lineage_store.sqlite.ingest import ingest
from lineage_store.sqlite.store import SqliteStore
from lineage_store.url import captured_into, open_embedded
from tests.faults.test_ingest_killed import eventful
from tests.support.lake_writer import blocks_of, write_application
from tests.support.spool_builder import APP, verdict_of
from tests.support.stored_lineage import spool_run, store_run

pytestmark = pytest.mark.integration


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(folder: Path) -> Iterator[LakeStore]:
    with LakeStore(LakeAddress(str(folder))) as opened:
        yield opened


def data_files(folder: Path) -> set[Path]:
    return set(folder.rglob("*.parquet")) - set((folder / "_delta_log").rglob("*"))


def lineage(url: str, *arguments: str) -> Any:
    return CliRunner().invoke(program, arguments, env={"LINEAGE_STORE": url})


def test_several_processes_write_at_once_and_nothing_is_lost_or_twice(
    lake: LakeStore, folder: Path, tmp_path: Path
) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.support.lake_writer", str(folder), "shared", first, "8"]
        )
        for first in ("0", "4", "8")
    ]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    # Parts 4 to 11 were written by two of them each.
    with SqliteStore(tmp_path / "lineage.db") as sqlite:
        for part in range(16):
            write_application(sqlite, "shared", part)
        assert contents_of(lake, "shared") == contents_of(sqlite, "shared")
        assert verdict_of(lake, "shared") == verdict_of(sqlite, "shared")


def test_nothing_of_a_deleted_application_is_left(lake: LakeStore, folder: Path) -> None:
    write_application(lake, "other", 0)
    before = data_files(folder)
    for part in range(3):
        write_application(lake, "one", part)
    with LakeStore(LakeAddress(str(folder))) as reader:
        graph = reader.graph("one")
        assert len(list(graph.blocks())) == 3 * len(blocks_of("one", 0))
        lake.delete("one")
        with pytest.raises(KeyError, match="no application one"):
            list(graph.blocks())
        assert reader.application_ids() == ["other"]
    assert data_files(folder) == before
    assert not (folder / f"app={application_key('one')}").exists()


def test_files_are_merged_while_others_read_and_write(lake: LakeStore, folder: Path) -> None:
    for part in range(6):
        write_application(lake, "one", part)
    write_application(lake, "one", 3)
    lake.write("one", [Heartbeat(app="one", at=float(beat), beat=beat) for beat in range(3)])
    wanted, revision = list(dump_application(lake, "one")), lake.revision("one")
    with LakeStore(LakeAddress(str(folder))) as reader:
        graph = reader.graph("one")
        refs = list(graph.blocks())
        done = compact(lake)
        assert (done.merged, done.written, done.deleted) == (8, 1, 0)
        assert list(graph.blocks()) == refs
        assert list(dump_application(reader, "one")) == wanted
        assert reader.revision("one") == revision
        # The files that were replaced are there for those who read them.
        assert len(data_files(folder)) == 9
        write_application(lake, "one", 6)
        assert len(list(graph.blocks())) == len(refs) + len(blocks_of("one", 6))
    assert compact(lake).merged == 2


def test_what_was_deleted_while_it_was_merged_stays_deleted(
    lake: LakeStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in range(2):
        write_application(lake, "one", part)
    commit = lake.table.commit

    def deleted_before(*arguments: Any) -> None:
        monkeypatch.setattr(lake.table, "commit", commit)
        with LakeStore(LakeAddress(str(folder))) as other:
            other.delete("one")
        with pytest.raises(ReplacedError):
            commit(*arguments)
        raise ReplacedError

    monkeypatch.setattr(lake.table, "commit", deleted_before)
    assert compact(lake).written == 0
    assert lake.application_ids() == []
    assert not data_files(folder)


def test_conflicts_are_found_by_the_table_itself(lake: LakeStore, folder: Path) -> None:
    """Whoever removes files of a version that is no longer the latest must look again."""
    write_application(lake, "one", 0)
    (files,) = lake.table.snapshot(newest=True).files.values()
    stale = deltalake.DeltaTable(str(folder))
    lake.delete("one")
    removed = deltalake.transaction.RemoveAction(
        files[0].path, True, 0, files[0].size, {"app": files[0].key}
    )
    with pytest.raises(deltalake.exceptions.DeltaError, match="concurrent"):
        stale.create_write_transaction([removed], "append", stale.schema(), partition_by=["app"])


def test_a_look_up_opens_the_row_groups_that_it_needs(lake: LakeStore) -> None:
    write_application(lake, "wide", 0, count=200, wide=True)
    (file,) = lake.reader.files(application_key("wide"))
    wanted = BlockId("4", 7, 7, 0)
    with LakeStore(lake.address) as fresh:
        assert list(fresh.graph("wide").load([wanted])) == [wanted]
        assert fresh.reader.counts.column_bytes < file.size / 2
    assert file.size > 2 << 20


def test_files_are_reached_by_url_as_in_a_folder(folder: Path, tmp_path: Path) -> None:
    """The way of object storage, over files: what is written, merged and deleted goes through the table format's own file system."""
    with (
        LakeStore(LakeAddress(f"file://{folder}")) as lake,
        SqliteStore(tmp_path / "a.db") as oracle,
    ):
        assert not lake.address.is_local
        for part in range(3):
            write_application(lake, "one", part)
            write_application(oracle, "one", part)
        write_application(lake, "two", 0)
        assert contents_of(lake, "one") == contents_of(oracle, "one")
        assert verdict_of(lake, "one") == verdict_of(oracle, "one")
        assert compact(lake).written == 1
        lake.delete("two")
        assert lake.application_ids() == ["one"]
        assert contents_of(lake, "one") == contents_of(oracle, "one")
        with LakeStore(LakeAddress(str(folder))) as local:
            assert list(dump_application(local, "one")) == list(dump_application(oracle, "one"))


@pytest.mark.parametrize("damage", ["table", "version", "files"])
def test_what_is_no_lake_is_refused(folder: Path, damage: str) -> None:
    if damage == "files":
        folder.mkdir()
        (folder / "notes.txt").write_text("mine")
    else:
        described = {"table": "sales", "version": "lineage store, version 99"}[damage]
        schema = pa.schema([("x", pa.int64())])
        deltalake.DeltaTable.create(str(folder), schema=schema, description=described)
    reason = {"table": "not a lineage store", "version": "version 99", "files": "other files"}
    with pytest.raises(StoreError, match=reason[damage]):
        LakeStore(LakeAddress(str(folder)))
    if damage == "files":
        assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    with pytest.raises(StoreError, match="there is no lake"):
        LakeStore(LakeAddress(f"{folder}-2"), create=False)


def test_a_damaged_file_is_named_and_answers_nothing(lake: LakeStore, folder: Path) -> None:
    write_application(lake, "one", 0)
    (path,) = data_files(folder)
    path.write_bytes(path.read_bytes()[:-8] + b"\0" * 8)
    with LakeStore(lake.address) as reader, pytest.raises(StoreError, match="damaged"):
        list(reader.graph("one").blocks())
    path.unlink()
    with LakeStore(lake.address) as reader, pytest.raises(StoreError, match="missing"):
        list(reader.graph("one").blocks())


def test_a_moved_application_is_what_it_was(lake: LakeStore, tmp_path: Path) -> None:
    """Torn files, claims, attempts that differ: the verdict names what was wrong after the move, too."""
    spool = eventful(tmp_path)
    with SqliteStore(tmp_path / "lineage.db") as sqlite:
        ingest(sqlite, spool.folder)
        wanted, verdict = list(dump_application(sqlite, APP)), verdict_of(sqlite)
        assert verdict.reasons
        with pytest.raises(ZeroDivisionError):
            move_application(sqlite, lake, APP, copied=interrupt)
        assert sqlite.application_ids() == [APP]
        commits = lake.table.commits
        moved = move_application(sqlite, lake, APP)
        assert (moved.copied, lake.table.commits) == (False, commits)
        assert sqlite.application_ids() == []
    assert list(dump_application(lake, APP)) == wanted
    assert verdict_of(lake).reasons == verdict.reasons


def test_what_was_mended_since_is_moved(lake: LakeStore, tmp_path: Path) -> None:
    spool = eventful(tmp_path)
    with SqliteStore(tmp_path / "lineage.db") as sqlite:
        ingest(sqlite, spool.folder)
        move_application(sqlite, lake, APP, deletes=False)
        assert lake.counts(APP).problems == sqlite.counts(APP).problems != {}
        with sqlite.transaction() as connection:
            connection.execute("DELETE FROM problem")
        sqlite.write(APP, [Commit(app=APP, node="1", partition=99, attempt=0, blocks=0)])
        wanted = contents_of(sqlite, APP)
        assert move_application(sqlite, lake, APP).copied
    assert lake.counts(APP).problems == {}
    assert contents_of(lake, APP) == wanted


def interrupt() -> None:
    """End here."""
    raise ZeroDivisionError


def test_what_changes_while_it_is_moved_is_not_deleted(
    lake: LakeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteStore(tmp_path / "lineage.db") as sqlite:
        write_application(sqlite, "one", 0)
        commit = lake.table.commit

        def changed(*arguments: Any) -> None:
            commit(*arguments)
            write_application(sqlite, "one", 1)

        monkeypatch.setattr(lake.table, "commit", changed)
        with pytest.raises(ChangedError):
            move_application(sqlite, lake, "one")
        monkeypatch.setattr(lake.table, "commit", commit)
        wanted = contents_of(sqlite, "one")
        assert move_application(sqlite, lake, "one").copied
        assert contents_of(lake, "one") == wanted
        assert sqlite.application_ids() == []
        # An id that is used again, for a run that says other things, is not mixed up silently.
        sqlite.write("one", [Begin(app="one", name="another", started_at=9.0)])
        with pytest.raises(ChangedError, match="other lineage"):
            move_application(sqlite, lake, "one")
        assert sqlite.application_ids() == ["one"]
        assert contents_of(lake, "one") == wanted
        # One that was written to since it was copied is copied again.
        write_application(sqlite, "two", 0)
        move_application(sqlite, lake, "two", deletes=False)
        write_application(sqlite, "two", 1)
        wanted = contents_of(sqlite, "two")
        assert move_application(sqlite, lake, "two").copied
        assert contents_of(lake, "two") == wanted


def test_one_that_can_not_be_moved_keeps_no_other_waiting(lake: LakeStore, folder: Path) -> None:
    url = f"lake:{folder}"
    with open_embedded(captured_into(url), create=True) as staged:
        write_application(staged, "a", 0)
        write_application(staged, "b", 0)
        # Another run of this id.
        write_application(lake, "a", 1)
        linked = lineage(url, "link")
        assert linked.exit_code == 2
        assert "a has other lineage in" in linked.stderr
        assert staged.application_ids() == ["a"]
    assert sorted(lake.application_ids()) == ["a", "b"]


@pytest.mark.long
def test_the_spool_is_linked_beside_the_lake_and_moved_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"lake:{tmp_path}/lake"
    run = spool_run(tmp_path / "lake.staging" / "spool", tmp_path)
    linked = lineage(url, "link")
    assert (linked.exit_code, linked.stderr) == (0, "")
    assert not any((tmp_path / "lake.staging" / "spool").iterdir())
    with SqliteStore(tmp_path / "lake.staging" / "lineage.db") as staged:
        assert staged.application_ids() == []
    store_run(f"sqlite:///{tmp_path}/lineage.db", tmp_path)
    for command in (("apps",), ("back", "out/part-00000:2"), ("verify",), ("graph",), ("jobs",)):
        wanted = lineage(f"sqlite:///{tmp_path}/lineage.db", *command, "--json")
        found = lineage(url, *command, "--json")
        assert (found.exit_code, found.stdout) == (0, wanted.stdout), command
    assert lineage(url, "rm", run.app).exit_code == 0
    assert json.loads(lineage(url, "apps", "--json").stdout) == []


def test_who_has_not_ended_waits_beside_the_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    url = f"lake:{tmp_path}/lake"
    spool_run(tmp_path / "lake.staging" / "spool", tmp_path)
    driver = tmp_path / "lake.staging" / "spool" / "app-1" / "driver.jsonl"
    *lines, end = driver.read_text().splitlines(keepends=True)
    driver.write_text("".join(lines))
    waiting = lineage(url, "link")
    assert "app-1 waits in" in waiting.stderr
    assert lineage(f"sqlite:///{tmp_path}/lake.staging/lineage.db", "apps").stdout.count("app-1")
    with driver.open("a") as stream:
        stream.write(end)
    assert lineage(url, "link").stderr == ""
    assert lineage(url, "verify").exit_code == 0


def test_old_applications_are_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source, lake = f"sqlite:///{tmp_path}/lineage.db", f"lake:{tmp_path}/lake"
    store_run(source, tmp_path)
    store_run(source, tmp_path, "app-2", started_at=2000.0)
    wanted = {app: lineage(source, "dump", app).stdout for app in ("app-1", "app-2")}
    answer = lineage(source, "back", "out/part-00000:2", "--app", "app-1", "--json").stdout
    for words, reason in (
        (("--older-than", "a while"), "is no age"),
        ((), "give either"),
        (("app-1", "--older-than", "1d"), "give either"),
    ):
        refused = lineage(source, "archive", *words, "--to", lake)
        assert (refused.exit_code, reason in refused.stderr) == (2, True), refused.stderr
    assert "is no lake" in lineage(source, "archive", "app-1", "--to", source).stderr
    assert "app-1" in lineage(source, "archive", "app-1", "--to", lake).stdout
    assert lineage(lake, "dump", "app-1").stdout == wanted["app-1"]
    assert lineage(lake, "back", "out/part-00000:2", "--json").stdout == answer
    archived = json.loads(
        lineage(source, "archive", "--older-than", "30d", "--to", lake, "--json").stdout
    )
    assert [(one["app"], one["copied"]) for one in archived] == [("app-2", True)]
    assert lineage(lake, "dump", "app-2").stdout == wanted["app-2"]
    assert json.loads(lineage(source, "apps", "--json").stdout) == []
    assert (
        "no application is that old"
        in lineage(source, "archive", "--older-than", "30d", "--to", lake).stdout
    )
    done = json.loads(lineage(lake, "compact", "--json").stdout)
    assert (done["merged"], done["deleted"]) == (0, 0)
    assert "is no lake" in lineage(source, "compact").stderr


def test_columns_are_read_as_they_are_compared() -> None:
    """A look-up by texts and numbers gives no row that has another text."""
    lookup = Lookup.of_ranges("node", "partition", "partition", {"a": [(1, 1)], "b": [(5, 5)]})
    rows = pa.table({"node": ["a", "a", "b", "c", None], "partition": [1, 9, 5, 1, 1]})
    assert rows.filter(lookup.mask(rows)).to_pydict() == {"node": ["a", "b"], "partition": [1, 5]}
