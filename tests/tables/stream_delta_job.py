"""Streams that read a Delta table beside them, which changes between batches: tests run it with lineage, in a folder of its own."""

import json
import os
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def arrive(number: int, *cities: str) -> None:
    """A file of orders."""
    text = "".join(json.dumps({"id": number, "city": city}) + "\n" for city in cities)
    Path(f"{number}.json").write_text(text)
    os.utime(f"{number}.json", (1_700_000_000 + number,) * 2)
    os.rename(f"{number}.json", f"in/{number}.json")


def told(mark: str) -> None:
    """Write another version of the table."""
    rows = spark.createDataFrame(
        [("Oslo", f"NO{mark}"), ("Rome", f"IT{mark}")], "city string, country string"
    )
    rows.coalesce(1).write.format("delta").mode("overwrite").save("places")


def run(frame: DataFrame, name: str) -> None:
    writer = frame.coalesce(1).writeStream.format("json").option("path", name)
    writer = writer.option("checkpointLocation", f"checkpoints/{name}")
    writer.trigger(availableNow=True).start().awaitTermination()


Path("in").mkdir()
orders = spark.readStream.schema("id int, city string").option("maxFilesPerTrigger", 1).json("in")
told("0")
places = spark.read.format("delta").load("places")
joined = orders.join(places, "city").select("id", "country")
distinct = orders.dropDuplicates(["city"]).join(places, "city").select("id", "country")
arrive(0, "Oslo", "Rome")
run(joined, "joined")
run(distinct, "distinct")
told("1")
# Read as it is now, by a frame that was made when it was another.
arrive(1, "Rome", "Lima")
run(joined, "joined")
run(distinct, "distinct")
# A frame that is kept in memory has the version that it was kept of, whatever others write to the table.
kept = spark.read.format("delta").load("places").persist()
kept.count()
cached = orders.join(kept, "city").select("id", "country")
run(cached, "cached")
rows = pa.table({"city": ["Oslo", "Rome"], "country": ["NO2", "IT2"]})
write_deltalake("places", rows, mode="overwrite")
arrive(2, "Oslo", "Rome")
run(cached, "cached")
spark.stop()
