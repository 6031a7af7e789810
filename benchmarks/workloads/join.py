"""Orders with their customers: python join.py INPUT OUTPUT PARTITIONS."""

import sys

from pyspark import SparkContext


def by_customer(line: str) -> tuple[str, str]:
    order, customer, amount = line.split(",")
    return customer, f"{order},{amount}"


def by_id(line: str) -> tuple[str, str]:
    customer, name = line.split(",")
    return customer, name


source, target, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
sc = SparkContext(appName="join")
orders = sc.textFile(f"{source}/orders.csv", partitions).map(by_customer)
customers = sc.textFile(f"{source}/customers.csv", partitions).map(by_id)
joined = orders.join(customers, partitions)
joined.map(lambda row: f"{row[1][0]},{row[0]},{row[1][1]}").saveAsTextFile(target)
sc.stop()
