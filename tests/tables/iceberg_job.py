"""Reads and writes tables of Iceberg: tests run it with lineage, in a folder of its own.

Where rows stand goes to places.json, as Iceberg itself says it: by table and snapshot, the place of each id.
"""

import json
import shutil
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
places: dict[str, dict[str, int]] = {}
db = Path("warehouse/db").absolute()


def snapshots(table: str) -> list[int]:
    metadata = spark.read.format("iceberg").load(f"local.db.{table}.snapshots")
    return [one.snapshot_id for one in metadata.orderBy("committed_at").toLocalIterator()]


def seen(name: str, table: str, key: str = "id") -> None:
    rows = spark.table(f"local.db.{table}").select("_file", "_pos", key).toLocalIterator()
    places[name] = {f"{file}#{row}": value for file, row, value in rows}


spark.sql(
    "CREATE TABLE local.db.orders (id BIGINT, city STRING) USING iceberg PARTITIONED BY (city)"
)
# No row, and no snapshot.
spark.table("local.db.orders").coalesce(1).write.parquet("nothing")
spark.sql(
    "INSERT INTO local.db.orders SELECT id, if(id % 2 = 0, 'Oslo', 'Rome') FROM range(0, 6, 1, 1)"
)
seen("orders", "orders")
orders = spark.table("local.db.orders")
late = spark.table("local.db.orders")
run = spark.table("local.db.orders")
run.collect()
totals = orders.groupBy("city").agg(F.sum("id").alias("total")).coalesce(1)
totals.writeTo("local.db.totals").using("iceberg").create()
seen("totals", "totals", "city")
# The partition's filter is Iceberg's own.
orders.where("city = 'Rome' AND id > 2").coalesce(1).write.parquet("filtered")
# The table is read and written by one write, which reads what was there before.
spark.sql("INSERT INTO local.db.orders SELECT id + 100, city FROM local.db.orders WHERE id = 1")
seen("appended", "orders")
first = snapshots("orders")[0]
# Figures that Iceberg knows without reading a row.
orders.agg(F.count("*").alias("n"), F.max("id").alias("last")).write.parquet("figures")
# A write reads the latest snapshot, a frame that has run reads its own again.
late.coalesce(1).write.parquet("late")
run.toArrow()
named = spark.sql(f"SELECT * FROM local.db.orders VERSION AS OF {first}")
both = named.alias("a").join(orders.alias("b"), F.expr("a.city = b.city AND b.id > 99"))
both.selectExpr("a.id", "b.id AS other").coalesce(1).write.parquet("both")
spark.sql(f"ALTER TABLE local.db.orders CREATE TAG old AS OF VERSION {first}")
spark.sql("ALTER TABLE local.db.orders CREATE BRANCH side")
spark.sql("INSERT INTO local.db.orders.branch_side SELECT id, 'Bern' FROM range(500, 501, 1, 1)")
refs = "SELECT * FROM local.db.orders VERSION AS OF 'old' UNION ALL SELECT * FROM local.db.orders.branch_side"
spark.sql(refs).coalesce(1).write.parquet("refs")
seen("side", "orders.branch_side")

spark.sql(
    "CREATE TABLE local.db.marked (id BIGINT, old STRING) USING iceberg "
    "TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'format-version' = 3)"
)
spark.sql("INSERT INTO local.db.marked SELECT id, concat('c', id) FROM range(0, 8, 1, 1)")
spark.sql("DELETE FROM local.db.marked WHERE id IN (0, 3)")
seen("marked", "marked")
# Columns are others before the next rows are written.
spark.sql("ALTER TABLE local.db.marked RENAME COLUMN old TO new")
spark.sql("ALTER TABLE local.db.marked ADD COLUMN more INT")
kept = spark.table("local.db.marked").where("id > 2 AND more IS NULL AND new <> 'x'")
kept.cache()
kept.coalesce(1).write.format("iceberg").save("local.db.kept")
seen("kept", "kept")
kept.unpersist()
# Files with rows that are deleted are written anew.
spark.sql("ALTER TABLE local.db.marked SET TBLPROPERTIES ('write.delete.mode' = 'copy-on-write')")
spark.sql("DELETE FROM local.db.marked WHERE id = 5")
spark.table("local.db.marked").where("id > 5").coalesce(1).write.parquet("copied")
seen("copied", "marked")

swapped = spark.range(2).selectExpr("concat('x', id) AS old", "id AS new")
spark.sql("CREATE TABLE local.db.swapped (old STRING, new STRING) USING iceberg")
swapped.selectExpr("old AS new", "string(new) AS old").write.insertInto("local.db.swapped")
seen("swapped", "swapped", "old")
best = "SELECT city, max(id) AS best FROM local.db.orders GROUP BY city"
spark.sql(best).coalesce(1).writeTo("local.db.best").createOrReplace()
spark.sql(f"CREATE OR REPLACE TABLE local.db.best USING iceberg AS {best}")
seen("replaced", "best", "city")

# Files of a snapshot that has expired are gone.
spark.sql("CREATE TABLE local.db.lost USING iceberg AS SELECT id FROM range(0, 2, 1, 1)")
spark.table("local.db.lost").coalesce(1).write.parquet("lost")
spark.sql("INSERT OVERWRITE local.db.lost SELECT id + 5 FROM range(0, 1, 1, 1)")
spark.sql("CALL local.system.expire_snapshots('db.lost', TIMESTAMP '2100-01-01', 1)")

# Others write to a table while it is read: it has a newer version of its metadata then.
spark.sql("CREATE TABLE fresh.db.busy USING iceberg AS SELECT id FROM range(0, 2, 1, 1)")
busy = spark.table("fresh.db.busy")
spark.sql("INSERT INTO fresh.db.busy SELECT id FROM range(7, 8, 1, 1)")
metadata = db / "busy" / "metadata"
newest = metadata / "v2.metadata.json"
newest.rename(metadata / "later")
(metadata / "version-hint.text").write_text("1")


@F.udf("bigint")
def others_write(one: int) -> int:
    if (metadata / "later").exists():
        shutil.copy(metadata / "later", newest)
        (metadata / "later").unlink()
        (metadata / "version-hint.text").write_text("2")
    return one


busy.coalesce(1).select(others_write("id")).write.parquet("busy")
# Read with what is no snapshot.
spark.read.option("start-snapshot-id", first).table("local.db.orders").write.parquet("increment")
(Path("places.json")).write_text(json.dumps(places))
