"""What stands for SparkContext and RDD in a job: each record travels with its hash.

At stage level the capture points are read, shuffle write, shuffle read and write; in between a record
keeps the hash of the one it was made from. In detail every operator is a capture point, and events
hold what its records look like. (What was read is in its file: no event holds a line.) It knows the
operators of the published jobs, and gives the same output as PySpark's own, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import count
from typing import Any, TypeAlias

from pyspark import RDD, SparkContext
from pyspark.core.rdd import portable_hash

from benchmarks.baselines.record_level.combining import Combining
from benchmarks.baselines.record_level.point import Point, Trace
from benchmarks.baselines.record_level.sender import Target

Step: TypeAlias = Callable[[Iterable[Trace]], Iterator[Trace]]


class RecordContext:
    """Stands for SparkContext."""

    def __init__(self, target: Target, sc: SparkContext) -> None:
        self._sc = sc
        self._target = target
        self._nodes = count(1)

    def textFile(self, path: str, partitions: int) -> RecordRDD:
        """Its lines; ``read#PARTITION#ROW`` names one."""
        target = self._target

        def read(partition: int, lines: Iterable[str]) -> Iterator[Trace]:
            point = Point(target, "read")
            for row, line in enumerate(lines):
                out = point.fresh()
                point.tell(f"read#{partition}#{row}", out)
                yield out, line
            point.flush()

        return RecordRDD(self, self._sc.textFile(path, partitions).mapPartitionsWithIndex(read))

    def stop(self) -> None:
        """End Spark."""
        self._sc.stop()

    @property
    def target(self) -> Target:
        return self._target

    def new_node(self, operator: str) -> str:
        """A name for an operator's node."""
        return f"{operator}{next(self._nodes)}"


class RecordRDD:
    """Stands for RDD; inside are pairs of hash and record."""

    def __init__(self, context: RecordContext, rdd: RDD[Any]) -> None:
        self._context = context
        self._rdd = rdd

    def map(self, function: Callable[[Any], Any]) -> RecordRDD:
        def step(records: Iterable[Trace]) -> Iterator[Trace]:
            return ((at, function(record)) for at, record in records)

        return self._stepped("map", step)

    def mapValues(self, function: Callable[[Any], Any]) -> RecordRDD:
        def step(records: Iterable[Trace]) -> Iterator[Trace]:
            return ((at, (key, function(value))) for at, (key, value) in records)

        return self._stepped("mapValues", step, keeps_keys=True)

    def filter(self, function: Callable[[Any], Any]) -> RecordRDD:
        def step(records: Iterable[Trace]) -> Iterator[Trace]:
            return ((at, record) for at, record in records if function(record))

        return self._stepped("filter", step, keeps_keys=True)

    def flatMap(self, function: Callable[[Any], Any]) -> RecordRDD:
        def step(records: Iterable[Trace]) -> Iterator[Trace]:
            return ((at, output) for at, record in records for output in function(record))

        return self._stepped("flatMap", step)

    def reduceByKey(self, function: Callable[[Any, Any], Any]) -> RecordRDD:
        """Combined before the shuffle and after it, as PySpark does: both are capture points."""
        memory, serializer = self._rdd._memory_limit(), self._rdd.ctx.serializer
        combining = Combining(self._context.target, function, memory, serializer)
        partitions = self._rdd._defaultReducePartitions()
        written = self._rdd.mapPartitions(combining.write, preservesPartitioning=True)
        shuffled = written.partitionBy(partitions, portable_hash)
        reduced = shuffled.mapPartitions(combining.read, preservesPartitioning=True)
        return RecordRDD(self._context, reduced)

    def saveAsTextFile(self, path: str) -> None:
        """``write#PARTITION#ROW`` names a record of the output."""
        target = self._context.target

        def write(partition: int, records: Iterable[Trace]) -> Iterator[Any]:
            point = Point(target, "write")
            for row, (at, record) in enumerate(records):
                val = repr(record) if target.detailed else ""
                point.tell(at, f"write#{partition}#{row}", val)
                yield record
            point.flush()

        self._rdd.mapPartitionsWithIndex(write).saveAsTextFile(path)

    def _stepped(self, operator: str, step: Step, *, keeps_keys: bool = False) -> RecordRDD:
        target = self._context.target
        if not target.detailed:
            return RecordRDD(self._context, self._rdd.mapPartitions(step, keeps_keys))
        node = self._context.new_node(operator)

        def record_steps(records: Iterable[Trace]) -> Iterator[Trace]:
            point = Point(target, node)
            for at, record in step(records):
                out = point.fresh()
                point.tell(at, out, repr(record))
                yield out, record

        return RecordRDD(self._context, self._rdd.mapPartitions(record_steps, keeps_keys))
