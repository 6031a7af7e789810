"""Files that no reader reads, in and beside a source and outputs, hold a person's rows, too: a plan names them, and nothing is clean while they are there."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lineage_query.erasure.source_files import PassedOver, files_of_no_version, passed_over_in
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_store.paths import RowsError, canonical
from lineage_store.sqlite.store import SqliteStore
from tests.oracle.erasure_chains import world_of_four_rows
from tests.unit.query.test_erasure_verifying import Erasure

pytestmark = pytest.mark.unit


@pytest.fixture
def erasure(tmp_path: Path) -> Iterator[Erasure]:
    with SqliteStore(tmp_path / "lineage.db") as store:
        yield Erasure(world_of_four_rows(tmp_path, store, "copy", "count"))


def put(path: Path, text: str = "c;r3x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def in_plan(erasure: Erasure, name: str) -> bool:
    return any(name in line for line in erasure.make().not_removed)


@pytest.mark.parametrize("name", ["_temporary/0/part-0", ".spark-staging-1/part-0"])
def test_files_that_were_not_committed_beside_a_source_are_named(
    erasure: Erasure, name: str
) -> None:
    file = put(erasure.source.parent / name)
    folder = str(file).removesuffix(name) + name.partition("/")[0]
    assert in_plan(erasure, folder)
    erasure.erase()
    assert any(reason.startswith(folder) for reason in erasure.verify().unseen)
    file.unlink()
    for path in (file.parent, file.parent.parent):
        if path != erasure.source.parent:
            path.rmdir()
    assert erasure.verify().clean


def test_what_an_editor_left_beside_a_source_is_named_and_read(erasure: Erasure) -> None:
    file = put(erasure.source.parent / f".{erasure.source.name}.swp")
    put(erasure.source.parent / ".other.swp")
    assert in_plan(erasure, str(file))
    assert not in_plan(erasure, ".other.swp")
    erasure.erase()
    assert [left.where for left in erasure.verify().left] == [f"{file}, row 1"]
    file.unlink()
    assert erasure.verify().clean


def test_files_that_were_not_committed_in_an_output_are_named(erasure: Erasure) -> None:
    out = erasure.world.folder / "out2"
    put(out / "x=1" / "_temporary" / "0" / "part-0")
    put(out / "_change_data" / "cdc-0")
    put(out / "_SUCCESS")
    assert in_plan(erasure, f"{out}/x=1/_temporary")
    assert in_plan(erasure, f"{out}/_change_data/cdc-0")
    assert not in_plan(erasure, "_SUCCESS")


def test_a_source_that_may_not_be_read_is_not_looked_beside(tmp_path: Path) -> None:
    put(tmp_path / "a" / "_temporary" / "part-0")
    with pytest.raises(RowsError):
        passed_over_in(RootedReader([str(tmp_path / "b")]), canonical(str(tmp_path / "a")))


def test_a_folder_that_can_not_be_listed_is_not_taken_for_an_empty_one(
    erasure: Erasure, monkeypatch: pytest.MonkeyPatch
) -> None:
    erasure.erase()
    assert erasure.verify().clean
    for name in ("spool/of-other", "rows/of-other"):
        put(erasure.world.folder / name / "part-0")
        listed = str(erasure.world.folder / name.partition("/")[0])

        def refusing(stock: Any, path: Any = ".", listed: str = listed) -> Any:
            if str(path).startswith(listed):
                raise PermissionError(errno.EACCES, "refused", str(path))
            return stock(path)

        with monkeypatch.context() as patch:
            for call in ("scandir", "listdir"):
                patch.setattr(os, call, partial(refusing, getattr(os, call)))
            with pytest.raises(PermissionError):
                erasure.verify()


def test_files_that_no_version_of_a_table_has_are_named(erasure: Erasure) -> None:
    out = erasure.world.folder / "out2"
    for path in out.iterdir():
        path.unlink()
    for at in range(2):
        write_deltalake(out, pa.table({"token": ["r1x", f"r{at}x"]}), mode="overwrite")
    (live,) = DeltaTable(out).file_uris()
    orphan = out / "part-lost.parquet"
    orphan.write_bytes(Path(live).read_bytes())
    assert files_of_no_version(RowReader(), canonical(str(out))) == [str(orphan)]
    assert in_plan(erasure, str(orphan))
    first = out / "_delta_log" / f"{0:020}.json"
    first.unlink()
    assert in_plan(erasure, "does not reach back to its first version")


def test_files_on_object_storage_that_no_reader_reads_are_found() -> None:
    bucket = f"memory://unread-{os.getpid()}"
    names = "part-0", "_temporary/0/part-0", "_SUCCESS", "_change_data/cdc-0", "x=1/.part-0.swp"
    for name in names:
        with fsspec.open(f"{bucket}/out/{name}", "wt") as file:
            file.write("c;r3x\n")
    hidden = [f"{bucket}/out/_change_data/cdc-0", f"{bucket}/out/x=1/.part-0.swp"]
    found = passed_over_in(RowReader(), f"{bucket}/out")
    assert found == PassedOver(hidden, [f"{bucket}/out/_temporary"], [])
