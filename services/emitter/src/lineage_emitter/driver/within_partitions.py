"""Operators that run functions within a partition."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark import RDD

from lineage_emitter import scope
from lineage_emitter.driver.captured import CapturedRDD, is_stock_call, stock_call
from lineage_emitter.program.recipes import CallRecipe, record_call
from lineage_emitter.pyspark_parts import RDDBarrier
from lineage_emitter.worker.by_record import Filter, FlatMap, MapValues
from lineage_emitter.worker.operators import Glom


class WithinPartitions(CapturedRDD):
    """Operators that run functions within a partition."""

    def barrier(self) -> RDDBarrier[Any]:
        """PySpark's own barrier stage: its functions are over whole partitions."""
        if is_stock_call(self, "barrier"):
            return stock_call(RDD.barrier, self)
        return LineageBarrier(self)

    def pipe(
        self, command: str, env: dict[str, str] | None = None, checkCode: bool = False
    ) -> RDD[Any]:
        """A line that a program gives depends on all records that it may have read by then."""
        if is_stock_call(self, "pipe"):
            return stock_call(RDD.pipe, self, command, env, checkCode)
        with scope.operator("pipe"):
            return RDD.pipe(self, command, env, checkCode)

    def flatMap(
        self, f: Callable[[Any], Iterable[Any]], preservesPartitioning: bool = False
    ) -> RDD[Any]:
        """PySpark's own, with one call less a record."""
        return self._by_record("flatMap", FlatMap, f, preservesPartitioning)

    def filter(self, f: Callable[[Any], bool]) -> RDD[Any]:
        """PySpark's own, with one call less a record."""
        return self._by_record("filter", Filter, f, True)

    def mapValues(self, f: Callable[[Any], Any]) -> RDD[Any]:
        """PySpark's own, with two calls less a record."""
        return self._by_record("mapValues", MapValues, f, True)

    def _by_record(
        self, name: str, run: Callable[[Any], Any], function: Callable[..., Any], preserves: bool
    ) -> RDD[Any]:
        if is_stock_call(self, name):
            arguments = (function, preserves) if name in {"map", "flatMap"} else (function,)
            return stock_call(getattr(RDD, name), self, *arguments)
        with scope.operator(name, by_record=True):
            return self.mapPartitionsWithIndex(run(function), preserves)

    def zipWithIndex(self) -> RDD[Any]:
        """PySpark's own, with its counting job kept out of the graph."""
        if is_stock_call(self, "zipWithIndex"):
            with scope.suspended():
                return RDD.zipWithIndex(self)
        with scope.operator("zipWithIndex", by_record=True):
            starts = [0]
            if self.getNumPartitions() > 1:
                with scope.suspended():
                    counts = self.mapPartitions(lambda it: [sum(1 for _ in it)]).collect()
                for count in counts[:-1]:
                    starts.append(starts[-1] + count)

            def with_index(split: int, records: Iterable[Any]) -> Iterator[Any]:
                for index, record in enumerate(records, starts[split]):
                    yield (record, index)

            return self.mapPartitionsWithIndex(with_index)

    def glom(self) -> RDD[Any]:
        """One record a partition, from all of its records."""
        if is_stock_call(self, "glom"):
            return stock_call(RDD.glom, self)
        with scope.operator("glom"):
            node = self.session.nodes.register("operator", "glom", [self.node])
            return self.pipe_function(node.detail.observe(Glom(node.name)), False, node)


class LineageBarrier(RDDBarrier[Any]):
    """A captured RDD whose next function runs in a barrier stage."""

    rdd: WithinPartitions

    def mapPartitions(
        self, f: Callable[[Iterable[Any]], Iterable[Any]], preservesPartitioning: bool = False
    ) -> RDD[Any]:
        """As :meth:`RDD.mapPartitions`, all tasks together."""

        def function(_: int, records: Iterable[Any]) -> Iterable[Any]:
            return f(records)

        return self.mapPartitionsWithIndex(function, preservesPartitioning)

    def mapPartitionsWithIndex(
        self,
        f: Callable[[int, Iterable[Any]], Iterable[Any]],
        preservesPartitioning: bool = False,
    ) -> RDD[Any]:
        """As :meth:`RDD.mapPartitionsWithIndex`, all tasks together."""
        with scope.operator("barrier"):
            result = self.rdd._map_partitions(f, preservesPartitioning)
        result.is_barrier = True
        record_call(
            result, CallRecipe("barrier", _barrier_again, (self.rdd, f, preservesPartitioning))
        )
        return result


def _barrier_again(rdd: RDD[Any], *arguments: Any) -> RDD[Any]:
    return rdd.barrier().mapPartitionsWithIndex(*arguments)
