"""Orders of each day and city, as anybody would write it: python cities.py INPUT OUTPUT."""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def orders_by_city(spark: SparkSession, source: str) -> DataFrame:
    """How many orders of more than 1 each city has a day, and what they add up to."""
    columns = "number bigint, customer bigint, day date, amount double, note string"
    orders = spark.read.csv(f"{source}/orders.csv", header=True, schema=columns)
    customers = spark.read.parquet(f"{source}/customers.parquet")
    joined = orders.where("amount > 1").join(customers, orders["customer"] == customers["id"])
    return joined.groupBy("city", "day").agg(
        F.count("*").alias("orders"), F.sum("amount").alias("total")
    )


if __name__ == "__main__":
    session = SparkSession.builder.appName("cities").getOrCreate()
    orders_by_city(session, sys.argv[1]).write.parquet(sys.argv[2])
    session.stop()
