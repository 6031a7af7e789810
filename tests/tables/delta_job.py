"""Reads and writes Delta tables: tests run it with lineage, in a folder of its own."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def written(path: str, rows: str, files: int = 1, mode: str = "error") -> None:
    """Write ``id, city`` of a range in SQL."""
    made = spark.range(10).where(rows).selectExpr("id", "if(id % 2 = 0, 'Oslo', 'Rome') AS city")
    made.coalesce(1).repartition(files, "city").write.format("delta").mode(mode).save(path)


written("orders", "id < 6", files=2)
orders = spark.read.format("delta").load("orders")
totals = orders.groupBy("city").agg(F.sum("id").alias("total")).coalesce(1)
totals.write.format("delta").save("totals")
# The table is read and written by one write, which reads what was there before.
one = orders.where("id = 1").selectExpr("id + 100 AS id", "city")
one.write.format("delta").mode("append").save("orders")
# Which version does a frame read that was made before another write?
orders.coalesce(1).write.parquet("late")
named = spark.read.format("delta").option("versionAsOf", 0).load("orders")
named.coalesce(1).write.parquet("named")
latest = spark.read.format("delta").load("orders")
latest.agg(F.count("*").alias("n"), F.max("id")).collect()
written("orders", "id = 9", mode="overwrite")

spark.sql(
    "CREATE TABLE marked (id BIGINT, city STRING) USING delta "
    "TBLPROPERTIES ('delta.enableDeletionVectors' = true)"
)
spark.sql("INSERT INTO marked SELECT id, concat('c', id) FROM range(0, 8, 1, 1)")
spark.sql("DELETE FROM marked WHERE id IN (0, 3)")
kept = spark.table("marked")
if not spark.version.startswith("3."):
    # Spark 3.5 does not keep what a cached frame was made from.
    kept.cache()
kept.where("id > 2").coalesce(1).write.saveAsTable("kept", format="delta")
spark.sql("DELETE FROM marked WHERE id = 5")

written("anew", "id < 2")
spark.read.format("delta").load("anew").coalesce(1).write.parquet("old")
written("vacuumed", "id < 2")
spark.read.format("delta").load("vacuumed").coalesce(1).write.parquet("lost")
written("vacuumed", "id = 5", mode="overwrite")
spark.sql(f"VACUUM delta.`{Path.cwd()}/vacuumed` RETAIN 0 HOURS")

# Rows are moved to another file, and those that they were written to are gone.
for mode, ids in (("error", "id < 2"), ("append", "id IN (2, 3)")):
    made = named.where(ids).coalesce(1)
    made.write.format("delta").mode(mode).save("packed")
spark.sql(f"OPTIMIZE delta.`{Path.cwd()}/packed`")
spark.sql(f"VACUUM delta.`{Path.cwd()}/packed` RETAIN 0 HOURS")

# Their logs are forged later.
for name in ("classes", "defaults"):
    written(name, "id < 2")
    spark.read.format("delta").load(name).coalesce(1).write.parquet(f"of_{name}")
