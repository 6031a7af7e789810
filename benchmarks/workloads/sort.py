"""Records by their number: python sort.py INPUT OUTPUT PARTITIONS."""

import sys
from typing import Any

from pyspark import SparkContext


def number_of(line: str) -> Any:
    return int(line.split(",")[2])


source, target, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
sc = SparkContext(appName="sort")
records = sc.textFile(source, partitions)
records.sortBy(number_of, numPartitions=partitions).saveAsTextFile(target)
sc.stop()
