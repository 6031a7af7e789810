"""Streams that read tables of Delta Lake and Iceberg: tests run it with lineage, in a folder of its own.

The tables are compacted, and rows of them deleted, between appends, a row comes twice, and a batch runs again that its sink has.
"""

import os
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
COLUMNS = "id int, part int, at timestamp"


def append(*ids: int, files: int = 1, part: int = 0) -> None:
    """Rows to both tables."""
    rows = spark.createDataFrame([(number, part) for number in ids], "id int, part int")
    rows = rows.selectExpr("id", "part", "timestamp_seconds(part * 10) AS at")
    rows = rows.repartition(files, "id") if files > 1 else rows.coalesce(1)
    rows.write.format("delta").mode("append").save("delta")
    rows.writeTo("local.db.orders").append()


def streams(files: str = "1000", **options: str) -> dict[str, DataFrame]:
    of_delta = spark.readStream.format("delta").option("maxFilesPerTrigger", files)
    of_iceberg = spark.readStream.format("iceberg")
    of_iceberg = of_iceberg.option("streaming-max-files-per-micro-batch", files)
    return {
        "delta": of_delta.options(**options).load("delta"),
        "iceberg": of_iceberg.option("streaming-skip-delete-snapshots", True).load(
            "local.db.orders"
        ),
    }


def written(frame: DataFrame, name: str) -> None:
    writer = frame.coalesce(1).writeStream.format("json").option("path", name)
    writer = writer.option("checkpointLocation", f"checkpoints/{name}")
    writer.trigger(availableNow=True).start().awaitTermination()


def run(files: str = "1000", **options: str) -> None:
    """What is new in both tables, one file a batch or all at once."""
    for name, frame in streams(files, **options).items():
        written(frame.select("id", "part"), f"of-{name}")


def run_windows() -> None:
    for name, frame in streams().items():
        groups = frame.withWatermark("at", "0 seconds").groupBy("at")
        written(groups.agg({"id": "sum"}).withColumnRenamed("sum(id)", "ids"), f"windows-{name}")


def run_function() -> None:
    def write(frame: DataFrame, number: int) -> None:
        frame.selectExpr("id", "part").coalesce(1).write.mode("append").json("function")

    for frame in streams().values():
        writer = frame.writeStream.foreachBatch(write)
        writer = writer.option("checkpointLocation", f"checkpoints/function-{id(frame)}")
        writer.trigger(availableNow=True).start().awaitTermination()


spark.sql(
    f"CREATE TABLE delta.`{os.getcwd()}/delta` ({COLUMNS}) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
)
spark.sql(f"CREATE TABLE local.db.orders ({COLUMNS}) USING iceberg")
append(1, 2, 3, 30, 31, files=3)
append(4, 7)
run("1")
run_windows()
append(5, 7, part=1)
spark.sql(f"OPTIMIZE delta.`{os.getcwd()}/delta`")
spark.sql(
    "CALL local.system.rewrite_data_files(table => 'db.orders', options => map('rewrite-all', 'true'))"
)
append(6, part=2)
run()
run_windows()
run_function()
spark.sql(f"DELETE FROM delta.`{os.getcwd()}/delta` WHERE id = 2")
spark.sql("DELETE FROM local.db.orders WHERE id > 0")
append(8, part=3)
run(skipChangeCommits="true")
# As after a crash between the commit of the sink and that of the query.
for name in ("delta", "iceberg"):
    folder = Path(f"checkpoints/of-{name}/commits")
    last = max(int(path.name) for path in folder.glob("[0-9]*"))
    os.remove(folder / str(last))
    os.remove(folder / f".{last}.crc")
append(9, part=4)
run(skipChangeCommits="true")
written(streams(excludeRegex="nothing")["delta"].select("id"), "refused")
spark.stop()
