"""Actions: records that reach the user, a file or a DataFrame."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.driver import actions, driver_sinks, local_iterator
from lineage_emitter.driver.captured import CapturedRDD, is_stock_call, stock_call


class WithActions(CapturedRDD):
    """Actions: records that reach the user, a file or a DataFrame."""

    def collect(self) -> list[Any]:
        """Each record collected is an item of the sink."""
        if is_stock_call(self, "collect"):
            return list(stock_call(RDD.collect, self))
        with scope.operator("collect"):
            return actions.collect(self)

    def take(self, num: int) -> list[Any]:
        """The records taken are items of the sink; what was read ahead is not."""
        if is_stock_call(self, "take"):
            return list(stock_call(RDD.take, self, num))
        with scope.operator("take"):
            return actions.take(self, num)

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Any]:
        """The records given are items of the sink; what was read ahead is not."""
        if is_stock_call(self, "toLocalIterator"):
            return stock_call(RDD.toLocalIterator, self, prefetchPartitions)
        with scope.operator("toLocalIterator"):
            return local_iterator.iterate(self, prefetchPartitions)

    def collectWithJobGroup(
        self, groupId: str, description: str, interruptOnCancel: bool = False
    ) -> list[Any]:
        """As :meth:`collect`."""
        arguments = (groupId, description, interruptOnCancel)
        if is_stock_call(self, "collectWithJobGroup"):
            return list(stock_call(RDD.collectWithJobGroup, self, *arguments))
        with scope.operator("collectWithJobGroup"):
            return actions.collect_with_job_group(self, *arguments)

    def max(self, key: Callable[[Any], Any] | None = None) -> Any:
        """The record that won is the item of the sink."""
        if is_stock_call(self, "max"):
            return stock_call(RDD.max, self, key)
        with scope.operator("max"):
            return driver_sinks.extreme(self, max, key)

    def min(self, key: Callable[[Any], Any] | None = None) -> Any:
        """The record that won is the item of the sink."""
        if is_stock_call(self, "min"):
            return stock_call(RDD.min, self, key)
        with scope.operator("min"):
            return driver_sinks.extreme(self, min, key)

    def top(self, num: int, key: Callable[[Any], Any] | None = None) -> list[Any]:
        """The records given are items of the sink, in their order."""
        if is_stock_call(self, "top"):
            return list(stock_call(RDD.top, self, num, key))
        with scope.operator("top"):
            return driver_sinks.top(self, num, key)

    def takeOrdered(self, num: int, key: Callable[[Any], Any] | None = None) -> list[Any]:
        """The records given are items of the sink, in their order."""
        if is_stock_call(self, "takeOrdered"):
            return list(stock_call(RDD.takeOrdered, self, num, key))
        with scope.operator("takeOrdered"):
            return driver_sinks.take_ordered(self, num, key)

    def takeSample(self, withReplacement: bool, num: int, seed: int | None = None) -> list[Any]:
        """The records given are items of the sink, in their order."""
        if is_stock_call(self, "takeSample") or num < 0:
            return list(stock_call(RDD.takeSample, self, withReplacement, num, seed))
        with scope.operator("takeSample"):
            return driver_sinks.take_sample(self, withReplacement, num, seed)

    def lookup(self, key: Any) -> list[Any]:
        """Each value found is an item of the sink."""
        if is_stock_call(self, "lookup"):
            return list(stock_call(RDD.lookup, self, key))
        with scope.operator("lookup"):
            values: Any = self.filter(lambda key_value: key_value[0] == key).values()
            if self.partitioner is None:
                return list(values.collect())
            return actions.collect(values, [self.partitioner(key)])

    def foreach(self, f: Callable[[Any], None]) -> None:
        """Each record handed to ``f`` is an item of the sink."""
        if is_stock_call(self, "foreach"):
            stock_call(RDD.foreach, self, f)
            return
        with scope.operator("foreach"):
            actions.foreach(self, f)

    def foreachPartition(self, f: Callable[[Iterable[Any]], Any]) -> None:
        """Each record that ``f`` takes is an item of the sink."""
        if is_stock_call(self, "foreachPartition"):
            stock_call(RDD.foreachPartition, self, f)
            return
        with scope.operator("foreachPartition"):
            actions.foreach_partition(self, f)

    def saveAsTextFile(self, path: str, compressionCodecClass: str | None = None) -> None:
        """Each line written is an item of the sink."""
        if is_stock_call(self, "saveAsTextFile"):
            stock_call(RDD.saveAsTextFile, self, path, compressionCodecClass)
            return
        with scope.operator("saveAsTextFile"):
            actions.save_text(self, path, compressionCodecClass)

    def toDF(self, schema: Any = None, sampleRatio: float | None = None) -> Any:
        """PySpark's own comes to :meth:`map`, where each row handed over becomes a sink's item."""
        if is_stock_call(self, "toDF"):
            return stock_call(RDD.toDF, self, schema, sampleRatio)
        return RDD.toDF(self, schema, sampleRatio)
