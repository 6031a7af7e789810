"""Ranks of a graph's nodes: python pagerank.py INPUT OUTPUT PARTITIONS ITERATIONS."""

import sys
from collections.abc import Iterator
from operator import add
from typing import Any

from pyspark import SparkContext


def shares(page: tuple[str, tuple[Any, float]]) -> Iterator[tuple[str, float]]:
    targets, rank = page[1]
    for target in targets:
        yield target, rank / len(targets)


source, target, partitions, iterations = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5])
sc = SparkContext(appName="pagerank")
edges: Any = sc.textFile(source, partitions).map(lambda line: tuple(line.split(" ")))
links = edges.groupByKey(partitions).cache()
ranks = links.mapValues(lambda _: 1.0)
for _ in range(iterations):
    given = links.join(ranks, partitions).flatMap(shares)
    ranks = given.reduceByKey(add, partitions).mapValues(lambda rank: 0.15 + 0.85 * rank)
ranks.map(lambda row: f"{row[0]} {row[1]:.6f}").saveAsTextFile(target)
sc.stop()
