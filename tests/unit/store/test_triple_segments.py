"""Indexes of triples in segments: what is added, what stays, and what killed imports leave."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.lake.table import LateError
from lineage_store.triples.columns import OF_ALL_SEGMENTS, WAITING, Part
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.files import PartWriter
from lineage_store.triples.tracing import Method, trace
from lineage_store.triples.updating import update_index
from tests.support.triple_files import chain, written

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """No power fails here, and to wait for the disk takes most of the time."""
    monkeypatch.setattr("lineage_store.lake.file_writing.sync_files", lambda *_: None)


@pytest.fixture
def store(tmp_path: Path) -> TripleStore:
    return TripleStore(f"lake:{tmp_path}/lake", create=True)


def _chained(path: Path, first: int, last: int) -> Path:
    items = list(range(first, last))
    return written(path, src=items, dst=[item + 1 for item in items], op=["a"] * len(items))


def test_what_is_added_leaves_the_files_of_the_index(store: TripleStore, tmp_path: Path) -> None:
    store.add("set", [_chained(tmp_path / "whole.parquet", 0, 2_000)])
    store.index("set")
    whole = {file.file for file in store.files("set") if file.part not in OF_ALL_SEGMENTS}
    added = 5
    for at in range(added):
        first = 2_000 + 3 * at
        store.add("set", [_chained(tmp_path / f"{at}.parquet", first, first + 3)])
        store.index("set")
        files = store.files("set")
        assert whole <= {file.file for file in files}
        # Small segments are taken in by those that follow: there are few at any time.
        assert len({file.segment for file in files if file.part is Part.BACK}) <= 3
    for method in Method:
        found = trace(store, "set", "2015", is_back=True, method=method)
        assert found.items == list(range(2_015))
        assert found.component_triples == 2_015
    store.add("set", [_chained(tmp_path / "as much.parquet", 5_000, 7_000)])
    counts = store.index("set")
    assert counts is not None
    assert (counts.triples, counts.components, counts.items) == (4_015, 2, 4_017)
    assert {file.segment for file in store.files("set") if file.part is Part.BACK} == {0}


def test_a_segment_is_not_added_to_an_index_that_was_made_again_meanwhile(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("set", [_chained(tmp_path / "whole.parquet", 0, 100)])
    store.index("set")
    first = store.files("set")
    store.add("set", [written(tmp_path / "a.parquet", src=[-5], dst=[0], op=["z"])])
    waiting = store.files("set")
    # Another has read the files before those that wait were there, and numbers all again.
    other = TripleStore(str(store.table.address).removesuffix(".triples"))
    monkeypatch.setattr(other, "_existing", lambda _: first)

    def update(*arguments: Any, **options: Any) -> Any:
        updated = update_index(*arguments, **options)
        with monkeypatch.context() as patch:
            patch.setattr("lineage_store.triples.data_sets.update_index", update_index)
            other.index("set", is_whole=True)
        return updated

    monkeypatch.setattr("lineage_store.triples.data_sets.update_index", update)
    with pytest.raises(StoreError, match="somebody else changed"):
        store.index("set")
    monkeypatch.undo()
    assert {file.file for file in waiting if file.part in WAITING} <= {
        file.file for file in store.files("set")
    }
    store.index("set")
    assert trace(store, "set", "3", is_back=True).items == [-5, 0, 1, 2]


def test_an_index_that_fails_changes_nothing(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.add("set", [_chained(tmp_path / "whole.parquet", 0, 100)])
    store.index("set")
    store.add("set", [written(tmp_path / "a.parquet", src=[-5], dst=[0], op=["z"])])
    before = store.files("set")
    write = PartWriter.write

    def fail(writer: PartWriter, part: Part, *arguments: Any) -> None:
        if part is Part.ROOTS:
            raise StoreUnavailableError("full")
        write(writer, part, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(PartWriter, "write", fail)
        with pytest.raises(StoreUnavailableError):
            store.index("set")
    assert store.files("set") == before
    assert len(list(Path(store.table.address.location).rglob("*.parquet"))) == len(before)
    store.index("set")
    assert trace(store, "set", "2", is_back=True).items == [-5, 0, 1]


def test_an_index_of_an_earlier_version_is_read_and_made_again(
    store: TripleStore, tmp_path: Path
) -> None:
    store.add("set", [_chained(tmp_path / "whole.parquet", 0, 100)])
    store.index("set")
    counts = [file.file for file in store.files("set") if file.part is Part.COUNTS]
    store.table.commit((), counts)
    assert trace(store, "set", "3", is_back=True).items == [0, 1, 2]
    store.add("set", [written(tmp_path / "a.parquet", src=[-5], dst=[0], op=["z"])])
    store.index("set")
    assert trace(store, "set", "3", is_back=True).items == [-5, 0, 1, 2]
    assert any(file.part is Part.COUNTS for file in store.files("set"))


def test_files_that_a_killed_import_left_are_deleted_once_no_commit_can_have_them(
    store: TripleStore, tmp_path: Path
) -> None:
    store.add("set", [chain(tmp_path / "chain.parquet")])
    kept = {file.file.path for file in store.files("set")}
    folder = Path(store.table.address.location)
    # One of data sets that never came to be, which is old, and one that is not.
    old, young = (folder / _left_by_a_killed_import(store, key) for key in ("old", "young"))
    os.utime(old, (0, 0))
    for name in kept:
        os.utime(folder / name, (0, 0))
    store.add("set", [written(tmp_path / "a.parquet", src=[-5], dst=[0], op=["z"])])
    held = {folder / file.file.path for file in store.files("set")}
    # What is young may belong to an import that is under way.
    assert set(folder.rglob("*.parquet")) == held | {young}
    os.utime(young, (0, 0))
    store.remove("set")
    assert not list(folder.rglob("*.parquet"))


def _left_by_a_killed_import(store: TripleStore, key: str) -> str:
    left = PartWriter(store.table, key)
    left.write(Part.ROOTS, {"component": np.array([1]), "root": np.array([1])})
    return left.files[0].path


def test_a_commit_of_files_that_may_be_deleted_is_refused(
    store: TripleStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lineage_store.lake.table.COMMIT_H", -1)
    with pytest.raises(LateError, match="hours before its commit"):
        store.add("set", [chain(tmp_path / "chain.parquet")])
    assert store.data_sets() == []
