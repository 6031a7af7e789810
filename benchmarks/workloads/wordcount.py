"""Count words: python wordcount.py INPUT OUTPUT PARTITIONS."""

import sys
from operator import add

from pyspark import SparkContext

source, target, partitions = sys.argv[1], sys.argv[2], int(sys.argv[3])
sc = SparkContext(appName="wordcount")
lines = sc.textFile(source, partitions)
counts = lines.flatMap(lambda line: line.split(" ")).map(lambda word: (word, 1)).reduceByKey(add)
counts.saveAsTextFile(target)
sc.stop()
