"""Operators that bring together records of several partitions, or of several RDDs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.driver import joins, pairs, shuffles
from lineage_emitter.driver.captured import CapturedRDD, is_stock_call, stock_call
from lineage_emitter.pyspark_parts import Partitioner, portable_hash


class BetweenPartitions(CapturedRDD):
    """Operators that bring together records of several partitions, or of several RDDs."""

    def union(self, other: RDD[Any]) -> RDD[Any]:
        """PySpark's own; records name themselves where sides differ."""
        if is_stock_call(self, "union"):
            return stock_call(RDD.union, self, other)
        with scope.operator("union"):
            return shuffles.union([self, self.adopt(other)])

    def coalesce(self, numPartitions: int, shuffle: bool = False) -> RDD[Any]:
        """PySpark's own, with records that name themselves."""
        if is_stock_call(self, "coalesce"):
            return stock_call(RDD.coalesce, self, numPartitions, shuffle)
        if not numPartitions > 0:
            raise ValueError("Number of partitions must be positive.")
        with scope.operator("coalesce"):
            return shuffles.coalesce(self, numPartitions, shuffle)

    def partitionBy(
        self, numPartitions: int | None, partitionFunc: Callable[[Any], int] = portable_hash
    ) -> RDD[Any]:
        """PySpark's own shuffle; each record's address travels with it."""
        if is_stock_call(self, "partitionBy"):
            return stock_call(RDD.partitionBy, self, numPartitions, partitionFunc)
        if numPartitions is None:
            numPartitions = self._defaultReducePartitions()
        if self.partitioner == Partitioner(numPartitions, partitionFunc):
            return self
        with scope.operator("partitionBy"):
            return shuffles.partition_by(self, numPartitions, partitionFunc)

    def combineByKey(
        self,
        createCombiner: Callable[[Any], Any],
        mergeValue: Callable[[Any, Any], Any],
        mergeCombiners: Callable[[Any, Any], Any],
        numPartitions: int | None = None,
        partitionFunc: Callable[[Any], int] = portable_hash,
    ) -> RDD[Any]:
        """PySpark's own shuffle behind a fused map side."""
        arguments = (createCombiner, mergeValue, mergeCombiners, numPartitions, partitionFunc)
        if is_stock_call(self, "combineByKey"):
            return stock_call(RDD.combineByKey, self, *arguments)
        with scope.operator("combineByKey"):
            return shuffles.combine_by_key(self, *arguments)

    def groupByKey(
        self, numPartitions: int | None = None, partitionFunc: Callable[[Any], int] = portable_hash
    ) -> RDD[Any]:
        """PySpark's own shuffle behind a fused map side."""
        if is_stock_call(self, "groupByKey"):
            return stock_call(RDD.groupByKey, self, numPartitions, partitionFunc)
        with scope.operator("groupByKey"):
            return shuffles.group_by_key(self, numPartitions, partitionFunc)

    def sortByKey(
        self,
        ascending: bool | None = True,
        numPartitions: int | None = None,
        keyfunc: Callable[[Any], Any] = lambda x: x,
    ) -> RDD[Any]:
        """PySpark's own sort; each record's address travels with it."""
        if is_stock_call(self, "sortByKey"):
            return stock_call(RDD.sortByKey, self, ascending, numPartitions, keyfunc)
        with scope.operator("sortByKey"):
            return shuffles.sort_by_key(self, bool(ascending), numPartitions, keyfunc)

    def repartitionAndSortWithinPartitions(
        self,
        numPartitions: int | None = None,
        partitionFunc: Callable[[Any], int] = portable_hash,
        ascending: bool = True,
        keyfunc: Callable[[Any], Any] = lambda x: x,
    ) -> RDD[Any]:
        """PySpark's own shuffle and sort; each record's address travels with it."""
        name = "repartitionAndSortWithinPartitions"
        arguments = (numPartitions, partitionFunc, ascending, keyfunc)
        if is_stock_call(self, name):
            return stock_call(RDD.repartitionAndSortWithinPartitions, self, *arguments)
        with scope.operator(name):
            return shuffles.repartition_and_sort(self, *arguments)

    def join(self, other: RDD[Any], numPartitions: int | None = None) -> RDD[Any]:
        """Each output row comes from just the two rows that made it."""
        return self._join("join", other, numPartitions, False, False)

    def leftOuterJoin(self, other: RDD[Any], numPartitions: int | None = None) -> RDD[Any]:
        """As :meth:`join`; a left row without a partner comes from itself."""
        return self._join("leftOuterJoin", other, numPartitions, True, False)

    def rightOuterJoin(self, other: RDD[Any], numPartitions: int | None = None) -> RDD[Any]:
        """As :meth:`join`; a right row without a partner comes from itself."""
        return self._join("rightOuterJoin", other, numPartitions, False, True)

    def fullOuterJoin(self, other: RDD[Any], numPartitions: int | None = None) -> RDD[Any]:
        """As :meth:`join`; a row without a partner comes from itself."""
        return self._join("fullOuterJoin", other, numPartitions, True, True)

    def _join(
        self, name: str, other: RDD[Any], num_partitions: int | None, left: bool, right: bool
    ) -> RDD[Any]:
        if is_stock_call(self, name):
            return stock_call(getattr(RDD, name), self, other, num_partitions)
        with scope.operator(name):
            return joins.join(self, self.adopt(other), num_partitions, left, right)

    def cartesian(self, other: RDD[Any]) -> RDD[Any]:
        """Each pair comes from just its two records."""
        if is_stock_call(self, "cartesian"):
            return stock_call(RDD.cartesian, self, other)
        with scope.operator("cartesian"):
            return pairs.cartesian(self, self.adopt(other))

    def zip(self, other: RDD[Any]) -> RDD[Any]:
        """Each pair comes from just its two records."""
        if is_stock_call(self, "zip"):
            return stock_call(RDD.zip, self, other)
        with scope.operator("zip"):
            return pairs.zip_with(self, self.adopt(other))

    def subtractByKey(self, other: RDD[Any], numPartitions: int | None = None) -> RDD[Any]:
        """Each output row comes from the one row that it is; what is kept out leaves no lineage."""
        if is_stock_call(self, "subtractByKey"):
            return stock_call(RDD.subtractByKey, self, other, numPartitions)
        with scope.operator("subtractByKey"):
            return joins.subtract_by_key(self, self.adopt(other), numPartitions)
