"""How often each word of a text occurs: an ordinary PySpark job, which knows nothing of lineage.

python wordcount.py INPUT OUTPUT
"""

from __future__ import annotations

import sys
from operator import add

from pyspark import SparkContext

PARTITIONS = 4


def main(source: str, target: str) -> None:
    """Count the words of a file, or of all files of a folder."""
    sc = SparkContext(appName="wordcount")
    counts = (
        sc.textFile(source, PARTITIONS)
        .flatMap(str.split)
        .map(lambda word: (word, 1))
        .reduceByKey(add)
    )
    counts.map(lambda counted: f"{counted[0]}\t{counted[1]}").saveAsTextFile(target)
    sc.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
