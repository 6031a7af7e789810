"""Keep the lines that hold a word: python grep.py INPUT OUTPUT PARTITIONS WORD."""

import sys

from pyspark import SparkContext

source, target, partitions, word = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
sc = SparkContext(appName="grep")
lines = sc.textFile(source, partitions)
lines.filter(lambda line: word in line).saveAsTextFile(target)
sc.stop()
