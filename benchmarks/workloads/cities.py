"""Orders of each day and city, as anybody would write it: python cities.py INPUT OUTPUT."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("cities").getOrCreate()
columns = "number bigint, customer bigint, day date, amount double, note string"
orders = spark.read.csv(f"{source}/orders.csv", header=True, schema=columns)
customers = spark.read.parquet(f"{source}/customers.parquet")
joined = orders.where("amount > 1").join(customers, orders["customer"] == customers["id"])
totals = joined.groupBy("city", "day").agg(
    F.count("*").alias("orders"), F.sum("amount").alias("total")
)
totals.write.parquet(target)
spark.stop()
