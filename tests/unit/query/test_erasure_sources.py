"""Sources that are no plain folder of this machine: tables by name, tables of Iceberg, and object storage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_core.contract.message import Begin, Recipe
from lineage_core.recipe.document import ERASED, Output, Source
from lineage_core.recipe.document import Recipe as Document
from lineage_core.recipe.plan import Attribute, Literal, Values
from lineage_query.erasure.finding import SubjectError, SubjectQuery, matching_rows
from lineage_query.erasure.named_sources import with_folder
from lineage_query.rows.reader import RowReader
from lineage_store.paths import RowsError
from lineage_store.sqlite.store import SqliteStore

pytestmark = pytest.mark.unit
COLUMN = Attribute(1, "v", "string")
PLAN = (Values((COLUMN,), ((Literal("x", "string"),),)),)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(tmp_path / "lineage.db") as opened:
        yield opened


def record(store: SqliteStore, app: str, recipe: str) -> None:
    store.write(
        app, [Begin(app=app, name=app, started_at=1.0), Recipe(app=app, node="f1", recipe=recipe)]
    )


def read_of(table: str, *paths: str) -> str:
    source = Source("parquet", paths, '{"type":"struct","fields":[]}', table=table)
    return Document("3.5", {}, (source,), PLAN).to_json()


def named(store: SqliteStore, name: str) -> str:
    return with_folder(SubjectQuery(name, where="id = 1"), store, RowReader()).source


def test_a_table_is_found_by_the_name_that_programs_gave_it(
    store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = str(tmp_path / "warehouse" / "customers")
    record(store, "a", read_of("spark_catalog.sales.Customers", folder))
    record(store, "b", read_of("`spark_catalog`.`sales`.`customers`", f"file:{folder}"))
    record(store, "c", ERASED)
    written = Output(kind="table", table="spark_catalog.sales.orders", path=folder + "2")
    record(store, "d", Document("3.5", {}, (), PLAN, written).to_json())
    for name in ("customers", "sales.customers", "SPARK_CATALOG.sales.customers"):
        assert named(store, name) == folder
    assert named(store, "orders") == f"{folder}2"
    # What is no name of a table stays: it is a path.
    for path in ("s.customers", "ustomers", "./customers", "/x/customers", "s3://x/customers"):
        assert named(store, path) == path
    (tmp_path / "customers").mkdir()
    assert named(store, "customers") == "customers"
    with pytest.raises(RowsError, match="no such file or folder"):
        matching_rows(SubjectQuery("nothing", where="id = 1"), RowReader())


def test_a_name_of_several_tables_is_refused(store: SqliteStore) -> None:
    record(store, "a", read_of("c.one.customers", "/w/one"))
    record(store, "b", read_of("c.two.customers", "/w/two"))
    record(store, "c", read_of("c.two.customers", "/w/before"))
    assert named(store, "one.customers") == "/w/one"
    for name in ("customers", "two.customers"):
        with pytest.raises(SubjectError, match="several tables") as refused:
            named(store, name)
        assert "/w/two" in str(refused.value)
    record(store, "d", '{"version": 99, "one.customers": 1}')
    with pytest.raises(SubjectError, match="name the folder"):
        named(store, "one.customers")


def iceberg(root: Path, **metadata: object) -> None:
    """A table of two data files, one of which an older snapshot alone has, and files of deleted rows."""
    (root / "metadata").mkdir(parents=True)
    (root / "data").mkdir()
    table = {"location": str(root), "snapshots": [], "properties": {}} | metadata
    (root / "metadata" / "v1.metadata.json").write_text(json.dumps(table))
    (root / "metadata" / "snap-1.avro").write_bytes(b"Obj\x01id=1")
    for name in ("0.parquet", "1.parquet"):
        pq.write_table(pa.table({"id": [1, 2]}), root / "data" / name)
    places = pa.table({"file_path": ["x"], "pos": [1]})
    pq.write_table(places, root / "data" / "2-deletes.parquet")
    (root / "data" / "3.puffin").write_bytes(b"PFA1")


def test_rows_of_a_table_of_iceberg_are_found_in_all_its_data_files(tmp_path: Path) -> None:
    root = tmp_path / "table"
    iceberg(root)
    rows = matching_rows(SubjectQuery(str(root), where="id = 2"), RowReader())
    assert [row.place for row in rows.rows] == [f"{root}/data/{at}.parquet#1" for at in (0, 1)]
    assert rows.searched == 4


@pytest.mark.parametrize(
    "metadata",
    [
        {"location": "/elsewhere"},
        {"properties": {"write.data.path": "/elsewhere"}},
        {"properties": {"write.object-storage.enabled": "true"}},
        {"location": None},
    ],
)
def test_a_table_of_iceberg_whose_files_may_lie_elsewhere_is_refused(
    tmp_path: Path, metadata: dict[str, object]
) -> None:
    root = tmp_path / "table"
    iceberg(root, **metadata)
    with pytest.raises(RowsError, match=f"{root} is a table of Iceberg, and its"):
        matching_rows(SubjectQuery(str(root), where="id = 2"), RowReader())


def test_rows_are_found_on_object_storage(tmp_path: Path) -> None:
    bucket = f"memory://erasure-{os.getpid()}"
    for name in ("customers/part-0.csv", "customers/part-1.csv", "customers/_SUCCESS"):
        with fsspec.open(f"{bucket}/{name}", "wb") as file:
            file.write(b"id,name\n1,ann\n2,bob\n")
    rows = matching_rows(SubjectQuery(f"{bucket}/customers", where="name = 'bob'"), RowReader())
    assert [row.place.rpartition("/")[2] for row in rows.rows] == ["part-0.csv:3", "part-1.csv:3"]
    one = SubjectQuery(f"{bucket}/customers/part-1.csv", rows=(3,))
    assert [row.text for row in matching_rows(one, RowReader()).rows] == ["2,bob"]
    with pytest.raises(SubjectError, match="one file"):
        matching_rows(SubjectQuery(f"{bucket}/customers", rows=(3,)), RowReader())
