"""The report of ``job.py`` by DataFrames: which airline loses most time when New York's weather is rough?

It knows nothing of lineage, either.

    python examples/flights/dataframe_job.py DATA_DIR OUTPUT_DIR
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROUGH = "wind_speed >= 24 or precip >= 0.1 or visib <= 1"
"""Miles an hour, inches, miles."""


def table(spark: SparkSession, folder: str, name: str) -> DataFrame:
    """One of the tables of ``prepare.py``."""
    reader = spark.read.option("header", True).option("inferSchema", True).option("nullValue", "NA")
    return reader.csv(f"{folder}/{name}.csv")


def run(spark: SparkSession, folder: str, output: str) -> None:
    """Write the report, the latest arrivals first."""
    flights = table(spark, folder, "flights").where("arr_delay is not null")
    rough_hours = table(spark, folder, "weather").where(ROUGH).select("origin", "time_hour")
    airlines = table(spark, folder, "airlines").withColumnRenamed("name", "airline")
    airports = table(spark, folder, "airports").selectExpr("faa as dest", "name as airport")
    report = (
        flights.join(rough_hours, ["origin", "time_hour"])
        .join(airlines, "carrier")
        .join(airports, "dest")
        .groupBy("airline", "airport")
        .agg(
            F.avg("arr_delay").alias("delay"),
            F.count("*").alias("flights"),
            F.max("arr_delay").alias("worst"),
        )
    )
    report.orderBy(F.desc("delay"), "airline", "airport").coalesce(1).write.parquet(output)


def main(arguments: list[str]) -> int:
    """Command line entry."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    spark = SparkSession.builder.getOrCreate()
    try:
        run(spark, arguments[0], arguments[1])
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
