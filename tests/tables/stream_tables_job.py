"""Streams that write to tables of Delta Lake and Iceberg: tests run it with lineage, in a folder of its own.

Others write to the tables between batches, the source gets a column, and batches run again that the tables have already.
"""

import json
import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
NAMES = ("delta", "iceberg")


def arrive(number: int, *rows: dict[str, object]) -> None:
    """A file of orders."""
    Path(f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(f"{number}.json", (1_700_000_000 + number,) * 2)
    os.rename(f"{number}.json", f"in/{number}.json")


def run(schema: str, *columns: str) -> None:
    """Write what is new to both tables."""
    orders = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json("in")
    rows = orders.where("id > 0").selectExpr("id", "upper(city) AS city", *columns).coalesce(1)
    for name in NAMES:
        writer = rows.writeStream.option("checkpointLocation", f"checkpoints/{name}")
        writer = writer.trigger(availableNow=True).format(name)
        if name == "delta":
            query = writer.option("mergeSchema", True).start("delta")
        else:
            query = writer.toTable("local.db.orders")
        query.awaitTermination()


def append(rows: DataFrame) -> None:
    """Somebody else's write, in the same program."""
    rows.coalesce(1).write.format("delta").mode("append").save("delta")
    rows.coalesce(1).writeTo("local.db.orders").append()


Path("in").mkdir()
spark.sql("CREATE TABLE local.db.orders (id INT, city STRING) USING iceberg")
arrive(0, {"id": 1, "city": "Oslo"}, {"id": 0, "city": "none"}, {"id": 2, "city": "Rome"})
# A batch of no rows.
arrive(1, {"id": 0, "city": "none"})
run("id int, city string")
append(spark.createDataFrame([(100, "OSLO")], "id int, city string"))
arrive(2, {"id": 0, "city": "none"}, {"id": 3, "city": "Lima", "country": "PE"})
spark.sql("ALTER TABLE local.db.orders ADD COLUMN country STRING")
run("id int, city string, country string", "country")
append(spark.createDataFrame([(101, "ROME", "IT")], "id int, city string, country string"))
# As after a crash between the commit of the table and that of the query.
for name in NAMES:
    os.remove(f"checkpoints/{name}/commits/2")
    os.remove(f"checkpoints/{name}/commits/.2.crc")
arrive(3, {"id": 4, "city": "Rome", "country": "IT"})
run("id int, city string, country string", "country")
for name, table in zip(NAMES, ("delta", "local.db.orders"), strict=True):
    written = spark.read.format(name).load(table)
    written.where("id IN (1, 4)").coalesce(1).write.json(f"of-{name}")
rows = spark.table("local.db.orders").select("_file", "_pos", "id").toLocalIterator()
places = {row["id"]: f"{row['_file']}#{row['_pos']}" for row in rows}
Path("places.json").write_text(json.dumps(places))
spark.stop()
