"""Rows are deleted from tables by position, or nothing is."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_query.erasure import delta_tables
from lineage_query.erasure.delta_tables import DeltaDeleter
from lineage_query.erasure.journal import Journal
from lineage_query.erasure.keeping import StorePlace
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.table_rows import TableRows
from lineage_query.erasure.tables import (
    PART,
    DeletedRows,
    begin_deletion,
    delete_from_tables,
    on_other_storage,
)

pytestmark = pytest.mark.unit


DELETERS = {DELTA: DeltaDeleter}


def place_below(folder: Path) -> StorePlace:
    return StorePlace("x", folder / "rows", folder / "spool", folder / "index", False, False)


def row(path: Path, number: int, **changed: Any) -> dict[str, Any]:
    return {
        "app": "a", "label": "9", "place": f"{path}#{number}", "path": str(path.parent), "kept": False,
        "kind": "carries", "exact": True, "there": True,
    } | changed  # fmt: skip


def plan(*rows: dict[str, Any], digest: str = "sha256:1") -> dict[str, Any]:
    return {"digest": digest, "rows": list(rows)}


def deleted_from(
    wanted: dict[str, Any], folder: Path, deleters: dict[str, Any] | None = None
) -> list[DeletedRows]:
    place = place_below(folder)
    begin_deletion(wanted, place, lambda _: ())
    return delete_from_tables(wanted, place, DELETERS if deleters is None else deleters)


def contents(root: Path) -> list[dict[str, Any]]:
    rows = DeltaTable(root).to_pyarrow_table().to_pylist()
    return sorted(rows, key=str)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table of three files; two rows are equal in all columns."""
    root = tmp_path / "table"
    for first in (0, 4, 8):
        ids = [0, 0, *range(first + 2, first + 4)]
        times = [
            datetime.datetime(2026, 1, 2, 3, 4, 5, number, datetime.timezone.utc) for number in ids
        ]
        columns = {"id": ids, "name": [f"n'{number}" for number in ids], "at": times}
        part = pa.table(columns).append_column("tags", pa.array([["a", None], [], None, ["b"]]))
        write_deltalake(root, part, mode="append")
    return root


def files(root: Path) -> list[Path]:
    return sorted(Path(root, path) for path in DeltaTable(root).file_uris())


def test_just_the_rows_go_and_a_second_run_does_nothing(root: Path, tmp_path: Path) -> None:
    before = contents(root)
    chosen = files(root)
    expected = list(before)
    rows = []
    chance = random.Random(1)
    for path in chosen[:2]:
        at = chance.randrange(4)
        rows.append(row(path, at))
        expected.remove(pa.parquet.read_table(path).to_pylist()[at])
    # One file loses all of its rows.
    rows += [row(chosen[2], at) for at in range(4)]
    for gone in pa.parquet.read_table(chosen[2]).to_pylist():
        expected.remove(gone)
    schema = DeltaTable(root).schema()
    (done,) = deleted_from(plan(*rows), tmp_path)
    assert (done.table, done.rows, done.already) == (str(root), 6, False)
    assert contents(root) == sorted(expected, key=str)
    assert DeltaTable(root).schema() == schema
    version = DeltaTable(root).version()
    (again,) = deleted_from(plan(*rows), tmp_path)
    assert (again.rows, again.already, DeltaTable(root).version()) == (6, True, version)
    write_deltalake(root, pa.parquet.read_table(chosen[0]), mode="append")
    assert len(contents(root)) == len(expected) + 4


def test_a_kill_between_the_commit_and_the_journal_deletes_once(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise InterruptedError

    wanted = plan(row(files(root)[0], 0))
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "done", killed)
        with pytest.raises(InterruptedError):
            deleted_from(wanted, tmp_path)
    after = contents(root)
    assert len(after) == 11
    for _ in range(2):
        deleted_from(wanted, tmp_path)
        assert contents(root) == after
        with Journal(place_below(tmp_path).journals, "sha256:1", PART) as journal:
            assert (journal.is_ended, len(journal.restarted)) == (True, 1)


def test_what_was_not_frozen_is_not_deleted(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ErasureError, match="not frozen"):
        delete_from_tables(plan(row(files(root)[0], 0)), place_below(tmp_path), DELETERS)
    assert len(contents(root)) == 12


def test_partitions_stay(tmp_path: Path) -> None:
    root = tmp_path / "table"
    part = pa.table({"id": [1, 2, 3, 4], "day": ["x", "x", None, None], "number": [1, 1, 2, 2]})
    write_deltalake(root, part, partition_by=["day", "number"])
    chosen = files(root)
    gone = [pa.parquet.ParquetFile(path).read().to_pylist()[0]["id"] for path in chosen]
    deleted_from(plan(*(row(path, 0) for path in chosen)), tmp_path)
    expected = [entry for entry in part.to_pylist() if entry["id"] not in gone]
    assert contents(root) == sorted(expected, key=str)


def test_what_is_not_known_exactly_is_refused_by_name(root: Path, tmp_path: Path) -> None:
    first = files(root)[0]
    before, version = contents(root), DeltaTable(root).version()
    refusals: tuple[tuple[dict[str, Any], str], ...] = (
        ({"kind": "unknown"}, "is not known"),
        ({"exact": False}, "is not known"),
        ({"place": f"{first}#99"}, "has no row 99"),
        ({"place": f"{root}/part-9.parquet#0"}, "not in its current version"),
    )
    for number, (changed, reason) in enumerate(refusals):
        wanted = plan(row(first, 0, **changed), digest=f"sha256:{number + 2}")
        with pytest.raises(ErasureError, match=reason) as refused:
            deleted_from(wanted, tmp_path)
        assert str(root) in str(refused.value)
    DeltaTable(root).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(ErasureError, match="only be added"):
        deleted_from(plan(row(first, 0)), tmp_path)
    assert (contents(root), DeltaTable(root).version()) == (before, version + 1)


def test_features_that_are_not_written_are_refused(root: Path, tmp_path: Path) -> None:
    DeltaTable(root).alter.add_constraint({"positive": "id >= 0"})
    with pytest.raises(ErasureError, match="features of Delta Lake"):
        deleted_from(plan(row(files(root)[0], 0)), tmp_path)


def test_values_of_several_and_rows_elsewhere_are_left(root: Path, tmp_path: Path) -> None:
    rows = [row(files(root)[0], 0, kind="mixed"), row(tmp_path / "part-0.parquet", 0)]
    assert deleted_from(plan(*rows), tmp_path) == []
    assert len(contents(root)) == 12


def test_a_commit_of_somebody_else_ends_it(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = delta_tables._Table._without

    def meanwhile(table: Any, path: str, rows: list[int]) -> Any:
        DeltaTable(root).delete("id = 2")
        return without(table, path, rows)

    monkeypatch.setattr(delta_tables._Table, "_without", meanwhile)
    listed = set(root.iterdir())
    with pytest.raises(ErasureError, match="nothing was deleted"):
        deleted_from(plan(row(files(root)[1], 0)), tmp_path)
    assert len(contents(root)) == 11
    assert len(set(root.iterdir()) - listed) <= 1


class Deleted:
    """Stands for Iceberg's: keeps what it is to delete."""

    def __init__(self) -> None:
        self.checked: list[TableRows] = []
        self.deleted: list[TableRows] = []

    def check(self, rows: TableRows, digest: str) -> None:
        self.checked.append(rows)

    def delete(self, rows: TableRows, digest: str) -> list[str]:
        assert self.checked
        self.deleted.append(rows)
        return [f"snapshots of {rows.table}"]


def test_rows_of_tables_of_each_format_go_where_they_belong(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    (other / "metadata").mkdir(parents=True)
    (other / "metadata" / "v1.metadata.json").write_text("{}")
    first = other / "data" / "0.parquet"
    rows = [row(first, 1), row(first, 0), row(first, 2, kind="mixed"), row(first, 3, there=False)]
    rows += [row(files(root)[0], 0), row(tmp_path / "part-0.parquet", 0)]
    begin_deletion(
        plan(*rows), place_below(tmp_path), lambda folder: ["c.db.other"] * (folder == str(other))
    )
    iceberg = Deleted()
    deleters = DELETERS | {ICEBERG: lambda: iceberg}
    done = deleted_from(plan(*rows), tmp_path, deleters)
    assert iceberg.deleted == [TableRows(str(other), {"data/0.parquet": [0, 1]}, ["c.db.other"])]
    assert [(table.table, table.rows) for table in done] == [(str(other), 2), (str(root), 1)]
    assert done[0].left == (f"snapshots of {other}",)
    assert "VACUUM" in done[1].left[0]
    assert len(contents(root)) == 11
    again = deleted_from(plan(*rows), tmp_path, {})
    assert [(table.already, table.left) for table in again] == [
        (True, table.left) for table in done
    ]


def test_rows_on_other_storage_are_named(tmp_path: Path) -> None:
    first = "s3://bucket/orders/part-0.parquet"
    rows = [row(tmp_path / "x", 0), row(tmp_path / "x", 0, kind="mixed")]
    rows = [one | {"place": f"{first}#{at}", "path": first} for at, one in enumerate(rows)]
    assert on_other_storage(plan(*rows)) == {"s3://bucket/orders": 1}
    assert deleted_from(plan(*rows), tmp_path, {}) == []
