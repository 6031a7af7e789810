"""Deletes rows of tables of Iceberg by their positions: tests run it in a folder of its own. What it saw goes to deletes.json."""

import json
import random
from pathlib import Path

from pyspark.sql import SparkSession

from lineage_dataframes.sources.iceberg_deletes import IcebergDeleter
from lineage_query.erasure.steps import ErasureError
from lineage_query.erasure.table_rows import TableRows

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
home = Path("warehouse/db").absolute()
deleter = IcebergDeleter(lambda: spark)
chance = random.Random(1)
seen: dict[str, object] = {}


def create(name: str, mode: str = "copy-on-write") -> None:
    spark.sql(
        f"CREATE TABLE local.db.{name} (id BIGINT, city STRING) USING iceberg PARTITIONED BY (city) "
        f"TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = '{mode}')"
    )
    # Rows that are equal in all columns are told apart by their places.
    for first in (0, 6):
        spark.sql(
            f"INSERT INTO local.db.{name} SELECT {first} + id % 4, if(id % 2 = 0, 'Oslo', 'Bø=rn') FROM range(0, 6, 1, 1)"
        )


def standing(name: str) -> dict[tuple[str, int], list[object]]:
    spark.catalog.refreshTable(f"local.db.{name}")
    rows = spark.table(f"local.db.{name}").select("_file", "_pos", "id", "city").collect()
    return {(row[0], row[1]): [row[2], row[3]] for row in rows}


def rows_at(name: str, places: list[tuple[str, int]], *names: str) -> TableRows:
    files: dict[str, list[int]] = {}
    for file, position in sorted(places):
        within = str(Path(file.removeprefix("file:")).relative_to(home / name))
        files.setdefault(within, []).append(position)
    return TableRows(str(home / name), files, names)


def snapshots(name: str) -> int:
    return spark.table(f"local.db.{name}.snapshots").count()


def refused(rows: TableRows, digest: str) -> str:
    try:
        deleter.check(rows, digest)
    except ErasureError as problem:
        return str(problem)
    return ""


deleted: dict[str, TableRows] = {}
# By its folder alone, and by its name; the places are drawn, and one file loses all rows.
for name, mode, names in (
    ("by_folder", "copy-on-write", ()),
    ("by_name", "copy-on-write", ("local.db.nothing", "elsewhere.x", "local.db.by_name")),
    ("marked", "merge-on-read", ("local.db.marked",)),
):
    create(name, mode)
    before = standing(name)
    whole = chance.choice(sorted(before))[0]
    places = [place for place in sorted(before) if place[0] == whole or chance.random() < 0.2]
    rows = deleted[name] = rows_at(name, places, *names)
    deleter.check(rows, f"sha256:{name}")
    left = deleter.delete(rows, f"sha256:{name}")
    count = snapshots(name)
    again = deleter.delete(rows, f"sha256:{name}")
    kept = [row for place, row in before.items() if place not in places]
    seen[name] = {
        "as expected": sorted(standing(name).values(), key=str) == sorted(kept, key=str),
        "deleted": len(places),
        "left": left,
        "again": list(again) == list(left) and snapshots(name) == count,
        "other": refused(rows, "sha256:other"),
    }

# What keeps the rows goes by the commands that are named.
oldest = spark.table("local.db.marked.snapshots").orderBy("committed_at").head(1)[0].snapshot_id
spark.sql(f"ALTER TABLE local.db.marked CREATE TAG old AS OF VERSION {oldest}")
seen["tagged"] = deleter.delete(deleted["marked"], "sha256:marked")
spark.sql("ALTER TABLE local.db.marked DROP TAG old")
spark.sql(
    "CALL local.system.rewrite_data_files(table => 'db.marked', options => map('delete-file-threshold', '1'))"
)
spark.sql(
    "CALL local.system.expire_snapshots(table => 'db.marked', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
)
seen["expired"] = [
    str(path) for path in (home / "marked").rglob("*.parquet")
    if any(str(path).endswith(file) for file in deleted["marked"].files)
]  # fmt: skip

# A row that another one deleted, or a file that was written anew, is not where it was.
create("moved")
before = standing("moved")
chosen = sorted(before)[:1]
spark.sql("DELETE FROM local.db.moved WHERE id < 100 AND id >= 6")
spark.sql(
    "CALL local.system.rewrite_data_files(table => 'db.moved', options => map('rewrite-all', 'true'))"
)
seen["moved"] = [
    refused(rows_at("moved", chosen, "local.db.moved"), "sha256:moved"),
    snapshots("moved"),
]

# Only a catalog knows which metadata is current.
for path in (home / "by_folder" / "metadata").glob("v*.metadata.json"):
    path.rename(path.with_name(f"0000{path.name[1:]}"))
seen["of a catalog"] = refused(rows_at("by_folder", chosen[:0]), "sha256:c")
Path("deletes.json").write_text(json.dumps(seen))
spark.stop()
