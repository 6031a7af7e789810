"""The keys that there are: python distinct.py INPUT OUTPUT PARTITIONS."""

import sys

from pyspark import SparkContext

source, target, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
sc = SparkContext(appName="distinct")
records = sc.textFile(source, partitions)
records.map(lambda line: line.split(",")[1]).distinct(partitions).saveAsTextFile(target)
sc.stop()
