"""Commits to a lake whose answers are lost, files that are deleted with what they are of, and lakes that an older copy is put in place of."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lineage_core.contract.message import Begin, Heartbeat
from lineage_store.errors import DeletedError, StoreUnavailableError
from lineage_store.lake.address import LakeAddress
from lineage_store.lake.compacting import compact
from lineage_store.lake.graph import LakeGraph
from lineage_store.lake.store import LakeStore
from lineage_store.lake.table import ReplacedError
from lineage_store.lake.transaction import LakeTransaction
from tests.support.lake_writer import write_application

pytestmark = pytest.mark.unit


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def lake(folder: Path) -> Iterator[LakeStore]:
    with LakeStore(LakeAddress(str(folder)), retry_s=5) as opened:
        yield opened


def opened(folder: Path) -> LakeStore:
    return LakeStore(LakeAddress(str(folder)), create=False)


def write(lake: LakeStore, app: str, name: str = "job") -> None:
    lake.write(app, [Begin(app=app, name=name, started_at=1.0)])


def move(lake: LakeStore, first: int, *apps: str) -> None:
    """Store a beginning of each application, and move an offset by as many."""

    def work(loading: LakeTransaction) -> None:
        assert loading.offsets("writers", "edge", 0, first, first + len(apps), new=not first)
        for app in apps:
            loading.message(Begin(app=app, name="job", started_at=1.0))

    lake.in_transaction(work)


def offset(lake: LakeStore) -> int | None:
    return lake.offset("writers", "edge", 0)


def lose_an_answer(
    lake: LakeStore, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]
) -> None:
    """The next commit gets into the log and seems to fail; others do something before it is tried again."""
    commit = lake.table._try_commit

    def failing(*arguments: object) -> None:
        monkeypatch.undo()
        commit(*arguments)  # type: ignore[arg-type]
        meanwhile()
        raise OSError("connection reset")

    monkeypatch.setattr(lake.table, "_try_commit", failing)


@pytest.mark.parametrize("is_given_up", [False, True])
def test_files_of_a_commit_are_kept_though_its_answer_is_lost_and_some_are_merged_at_once(
    lake: LakeStore, folder: Path, monkeypatch: pytest.MonkeyPatch, is_given_up: bool
) -> None:
    write(lake, "one", "before")
    lose_an_answer(lake, monkeypatch, lambda: compact(opened(folder)))
    if is_given_up:
        lake.table._retry_s = -1.0
        with pytest.raises(StoreUnavailableError):
            move(lake, 0, "one", "two")
    else:
        move(lake, 0, "one", "two")
    with opened(folder) as fresh:
        assert sorted(record.status for record in fresh.applications()) == ["running", "running"]
        assert [len(fresh.messages(app)) for app in ("one", "two")] == [2, 1]
        assert offset(fresh) == 2


def test_a_rewrite_whose_answer_is_lost_is_not_taken_for_one_of_others(
    lake: LakeStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        write(lake, "one", name)
    first, second, third = lake.reader.files(lake.reader.key_of("one"))
    added = lake.writer("one").finish() + lake.writer("one").finish()

    def merged_in_part() -> None:
        with opened(folder) as other:
            other.table.commit(other.writer("one").finish(), added[:1])

    lose_an_answer(lake, monkeypatch, merged_in_part)
    lake.table.commit(added, [first, second])
    held = lake.reader.files(lake.reader.key_of("one"))
    assert added[1] in held
    assert third in held
    assert not {first, second, added[0]} & set(held)
    with pytest.raises(ReplacedError):
        lake.table.commit(lake.writer("one").finish(), [first])


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_deletion_leaves_no_file_of_the_week_before(
    lake: LakeStore, folder: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    for name in ("a", "b", "c"):
        write(lake, "one", name)
    write(lake, "two")
    assert compact(lake).merged == 3
    if is_lost:
        lose_an_answer(lake, monkeypatch, lambda: None)
    lake.delete("one")
    assert len(list(folder.glob("app=*/*"))) == 1
    assert lake.application_ids() == ["two"]


@pytest.mark.parametrize("later", [0, 3, 5])
def test_an_older_copy_that_is_put_into_the_folder_is_read_as_it_is(
    lake: LakeStore, folder: Path, tmp_path: Path, later: int
) -> None:
    """File by file, as by rsync: the folder stays what it was. Others may have written into it since, ``later`` times."""
    move(lake, 0, "one")
    move(lake, 1, "two")
    shutil.copytree(folder, tmp_path / "copy")
    for at in range(2, 5):
        move(lake, at, f"lost-{at}")
    assert (len(lake.application_ids()), offset(lake)) == (5, 5)
    kept = {path.relative_to(tmp_path / "copy") for path in (tmp_path / "copy").rglob("*")}
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder) not in kept:
            path.unlink()
    with opened(folder) as other:
        for at in range(later):
            write(other, f"new-{at}")
        wanted = set(other.application_ids())
    assert wanted == {"one", "two", *(f"new-{at}" for at in range(later))}
    assert set(lake.application_ids()) == wanted
    assert offset(lake) == 2
    move(lake, 2, "three")
    with opened(folder) as fresh:
        assert set(fresh.application_ids()) == {*wanted, "three"} == set(lake.application_ids())
        assert offset(fresh) == 3


def put_back(copy: Path, folder: Path) -> None:
    """A copy takes the place of a folder."""
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)


def test_another_copy_is_read_anew_where_the_first_reading_of_it_failed(
    lake: LakeStore, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has as many versions as there were: nothing else tells that the files are others."""
    write(lake, "one")
    shutil.copytree(folder, tmp_path / "copy")
    write(lake, "lost")
    with LakeStore(LakeAddress(str(tmp_path / "copy"))) as other:
        write(other, "new")
    assert lake.application_ids() == ["one", "lost"]
    put_back(tmp_path / "copy", folder)

    def failing(_: object) -> None:
        monkeypatch.undo()
        raise FileNotFoundError("a checkpoint")

    monkeypatch.setattr("lineage_store.lake.table.live_files", failing)
    with pytest.raises(StoreUnavailableError, match="can't read the lake"):
        lake.application_ids()
    assert lake.application_ids() == ["one", "new"]


READINGS: dict[str, Callable[[LakeGraph], object]] = {
    "nodes": lambda graph: graph.nodes(),
    "messages": lambda graph: graph.messages(),
    "blocks": lambda graph: list(graph.blocks()),
    "into": lambda graph: graph.blocks_into("4@0", 0, 9),
    "load": lambda graph: graph.load([ref.block_id for ref in graph.blocks()]),
    "counts": lambda graph: graph.counts(),
}


@pytest.mark.parametrize("reading", READINGS)
def test_what_was_deleted_and_stored_again_is_not_read_with_what_was_there(
    lake: LakeStore, folder: Path, reading: str
) -> None:
    write_application(lake, "one", 0)
    graph, read = lake.graph("one"), READINGS[reading]
    revision = lake.revision("one")
    # It grows, is merged and has texts erased: that is the same application.
    write_application(lake, "one", 1)
    assert read(graph)
    with opened(folder) as other:
        assert compact(other).merged == 2
        other.erase("one", lambda _: None, [Heartbeat(app="one", beat=1, at=1.0)])
    assert read(graph)
    with opened(folder) as other:
        other.delete("one")
        with pytest.raises(DeletedError):
            read(graph)
        write_application(other, "one", 0)
    with pytest.raises(StoreUnavailableError, match="stored again while it was read"):
        read(graph)
    assert read(lake.graph("one"))
    assert lake.revision("one") != revision


@pytest.mark.parametrize("reading", READINGS)
def test_what_is_in_an_older_copy_is_not_read_with_what_was_there(
    lake: LakeStore, folder: Path, tmp_path: Path, reading: str
) -> None:
    """The copy has a part of the application, which began there as it did."""
    write_application(lake, "one", 0)
    shutil.copytree(folder, tmp_path / "copy")
    write_application(lake, "one", 1)
    graph, read, revision = lake.graph("one"), READINGS[reading], lake.revision("one")
    assert read(graph)
    put_back(tmp_path / "copy", folder)
    with pytest.raises(StoreUnavailableError, match="another copy"):
        read(graph)
    assert read(lake.graph("one"))
    assert lake.revision("one") != revision
