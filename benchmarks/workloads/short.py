"""Start a context, run so many small jobs, and stop: python short.py JOBS."""

import sys

from pyspark import SparkContext

sc = SparkContext(appName="short")
for _ in range(int(sys.argv[1])):
    sc.parallelize(range(8), 2).map(lambda number: number + 1).collect()
sc.stop()
