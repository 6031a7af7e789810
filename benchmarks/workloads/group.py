"""How many, how much in all and at most, by key: python group.py INPUT OUTPUT PARTITIONS."""

import sys
from typing import Any

from pyspark import SparkContext


def by_key(line: str) -> tuple[str, int]:
    _, key, number, _ = line.split(",")
    return key, int(number)


source, target, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
sc = SparkContext(appName="group")
groups: Any = sc.textFile(source, partitions).map(by_key).groupByKey(partitions)
totals = groups.mapValues(lambda numbers: (len(numbers), sum(numbers), max(numbers)))
totals.map(lambda row: f"{row[0]},{row[1][0]},{row[1][1]},{row[1][2]}").saveAsTextFile(target)
sc.stop()
