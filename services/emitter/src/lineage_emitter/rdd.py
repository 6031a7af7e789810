"""Captured RDDs: PySpark RDDs in every respect, whose operators also note lineage.

Capture sits at PySpark's primitives (pipelining of functions, the map and reduce side of a
shuffle, what the JVM does between Python workers, sinks); public operators are PySpark's own
compositions of them, recognised by name where a whole-partition function works record by record.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, TypeVar

from pyspark import RDD
from pyspark.serializers import BatchedSerializer, CPickleSerializer, NoOpSerializer

from lineage_emitter import actions, driver_sinks, iterating, joins, pairs, saving, scope, shuffles
from lineage_emitter.by_record import Filter, FlatMap, Map, MapValues
from lineage_emitter.fitness import can_run, uncaptured, where_it_can_run
from lineage_emitter.java_records import JavaRecords, end_of_lineage, is_inside
from lineage_emitter.numbering import Numbered
from lineage_emitter.operators import Chain, EndsIn, Glom, OneRecord, Opaque, Plainly, Read
from lineage_emitter.partition_rule import one_record_rule
from lineage_emitter.pyspark_parts import (
    Partitioner,
    PipelinedRDD,
    RDDBarrier,
    is_rdd_api,
    portable_hash,
)
from lineage_emitter.recipes import Call, Recipe, Source, note, noted
from lineage_emitter.recorders import PREFIX_REASON
from lineage_emitter.session import Node, Session
from lineage_emitter.spaces import EACH_RUN, Spaces
from lineage_emitter.stamps import TracedSerializer
from lineage_emitter.tracing import TracedItems, lineage_of
from lineage_emitter.waiting import LINKED_S

T = TypeVar("T")
MAKES_FRAMES = "pyspark.sql.session._create_dataframe"
"""What ``toDF`` and ``createDataFrame`` come to: it maps the RDD first of all."""


class LineageRDD(RDD[Any]):
    """An RDD whose operators note lineage. Made by sources, unions and repartitions."""

    session: Session
    node: Node
    spaces: Spaces
    _given_java: Any
    batched: int
    """Records a batch where PySpark's own RDD would move whole batches (0: unknown). A later
    repartition deals out batches, so it must find the same ones."""
    recipe: Recipe | None = None
    """How it was made; None for what PySpark and capture make for themselves."""
    twin: RDD[Any] | None = None
    """The same without capture, where executors turned out not to be able to run captured functions."""
    numbered: Numbered | None = None
    """Its records as :meth:`getLineage` numbered them."""
    batching: int | None = None
    """As :func:`lineage_emitter.batches.batching`; None: as the context's serializer."""
    checkpointed_locally = False

    @classmethod
    def wrap(
        cls,
        rdd: RDD[Any],
        session: Session,
        node: Node,
        spaces: Spaces,
        *,
        batched: int = 0,
        deserializer: Any = None,
    ) -> LineageRDD:
        """A captured RDD over the JVM side of a plain one.

        A plain RDD that PySpark would pipeline stays pipelined: its function goes on in front.
        """
        if isinstance(rdd, PipelinedRDD) and rdd._is_pipelinable() and spaces is not None:
            read = node.detail.around(Read(session.config, node.name, spaces))
            renamed = session.register("operator", "named", [node])
            piped = LineagePipelinedRDD(rdd, read, True, session, renamed)
            return piped.of_source(rdd, spaces)
        found = cls(rdd._jrdd, rdd.ctx, deserializer or rdd._jrdd_deserializer)
        found.partitioner = rdd.partitioner
        found.session, found.node, found.spaces, found.batched = session, node, spaces, batched
        return found.of_source(rdd, spaces)

    def of_source(self, plain: RDD[Any], spaces: Spaces) -> Self:
        """This RDD, known to hold the rows of a source where ``spaces`` names one."""
        if isinstance(spaces, str):
            node = spaces.removesuffix(EACH_RUN)
            self.recipe = Source(node, plain, lasting=spaces == node)
            self.session.records[node] = self.recipe
        return self

    @property
    def named_by_node(self) -> bool:
        """Whether its records are items of its own node."""
        return isinstance(self.spaces, str)

    # -- primitives ----------------------------------------------------------------------------

    @property
    def _jrdd(self) -> Any:
        """The Java RDD; what the program gets of it is :class:`JavaRecords`."""
        if scope.is_suspended() or (is_inside(1) and not self.session.unfit):
            return self._java()
        return JavaRecords(self, self._java()) if can_run(self.session) else uncaptured(self)._jrdd

    @_jrdd.setter
    def _jrdd(self, jrdd: Any) -> None:
        self._given_java = jrdd

    def _java(self) -> Any:
        return self._given_java

    def pipe_function(self, function: Any, preserves: bool, node: Node) -> LineagePipelinedRDD:
        """This RDD with one more function, which begins a segment where it is the first."""
        return LineagePipelinedRDD(self, function, preserves, self.session, node)

    def mapPartitionsWithIndex(
        self,
        f: Callable[[int, Iterable[Any]], Iterable[Any]],
        preservesPartitioning: bool = False,
    ) -> RDD[Any]:
        """Every narrow operator of PySpark ends here."""
        if scope.is_suspended():
            return super().mapPartitionsWithIndex(Plainly(f), preservesPartitioning)
        with scope.operator("mapPartitionsWithIndex"):
            if scope.works_by_record():
                node = self.session.register("operator", _innermost("map"), [self.node])
                return self.pipe_function(node.detail.behind(f), preservesPartitioning, node)
            return self._whole_partitions(f, preservesPartitioning)

    def _whole_partitions(
        self, function: Callable[[int, Iterable[Any]], Iterable[Any]], preserves: bool
    ) -> LineagePipelinedRDD:
        rule = one_record_rule(function)
        if rule.holds:
            node = self.session.register(
                "operator", "mapPartitions", [self.node], description=rule.reason
            )
            runs = OneRecord(
                function,
                is_declared=rule.is_declared,
                still_holds=lambda written: one_record_rule(written).holds,
            )
            return self.pipe_function(node.detail.behind(runs), preserves, node)
        reason = f"{PREFIX_REASON} ({rule.reason})"
        node = self.session.register(
            "operator", "mapPartitions", [self.node], exact=False, reason=reason
        )
        return self.pipe_function(node.detail.behind(Opaque(function)), preserves, node)

    def barrier(self) -> RDDBarrier[Any]:
        """PySpark's own barrier stage: its functions are over whole partitions."""
        if _plain(self, "barrier"):
            return _stock(RDD.barrier, self)
        return LineageBarrier(self)

    def pipe(
        self, command: str, env: dict[str, str] | None = None, checkCode: bool = False
    ) -> RDD[Any]:
        """A line that a program gives depends on all records that it may have read by then."""
        if _plain(self, "pipe"):
            return _stock(RDD.pipe, self, command, env, checkCode)
        with scope.operator("pipe"):
            return RDD.pipe(self, command, env, checkCode)

    def map(self, f: Callable[[Any], Any], preservesPartitioning: bool = False) -> RDD[Any]:
        """PySpark's own, with one call less a record."""
        if not scope.is_suspended() and scope.called_from_pyspark() == MAKES_FRAMES:
            from lineage_emitter import to_frame

            return to_frame.begin(self, f, preservesPartitioning)
        return self._by_record("map", Map, f, preservesPartitioning)

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
        if _plain(self, name):
            arguments = (function, preserves) if name in {"map", "flatMap"} else (function,)
            return _stock(getattr(RDD, name), self, *arguments)
        with scope.operator(name, by_record=True):
            return self.mapPartitionsWithIndex(run(function), preserves)

    def zipWithIndex(self) -> RDD[Any]:
        """PySpark's own, with its counting job kept out of the graph."""
        if _plain(self, "zipWithIndex"):
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

    def union(self, other: RDD[Any]) -> RDD[Any]:
        """PySpark's own; records name themselves where sides differ."""
        if _plain(self, "union"):
            return _stock(RDD.union, self, other)
        with scope.operator("union"):
            return shuffles.union([self, adopt(other, self.session)])

    def coalesce(self, numPartitions: int, shuffle: bool = False) -> RDD[Any]:
        """PySpark's own, with records that name themselves."""
        if _plain(self, "coalesce"):
            return _stock(RDD.coalesce, self, numPartitions, shuffle)
        if not numPartitions > 0:
            raise ValueError("Number of partitions must be positive.")
        with scope.operator("coalesce"):
            return shuffles.coalesce(self, numPartitions, shuffle)

    def partitionBy(
        self, numPartitions: int | None, partitionFunc: Callable[[Any], int] = portable_hash
    ) -> RDD[Any]:
        """PySpark's own shuffle; each record's address travels with it."""
        if _plain(self, "partitionBy"):
            return _stock(RDD.partitionBy, self, numPartitions, partitionFunc)
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
        if _plain(self, "combineByKey"):
            return _stock(RDD.combineByKey, self, *arguments)
        with scope.operator("combineByKey"):
            return shuffles.combine_by_key(self, *arguments)

    def groupByKey(
        self, numPartitions: int | None = None, partitionFunc: Callable[[Any], int] = portable_hash
    ) -> RDD[Any]:
        """PySpark's own shuffle behind a fused map side."""
        if _plain(self, "groupByKey"):
            return _stock(RDD.groupByKey, self, numPartitions, partitionFunc)
        with scope.operator("groupByKey"):
            return shuffles.group_by_key(self, numPartitions, partitionFunc)

    def sortByKey(
        self,
        ascending: bool | None = True,
        numPartitions: int | None = None,
        keyfunc: Callable[[Any], Any] = lambda x: x,
    ) -> RDD[Any]:
        """PySpark's own sort; each record's address travels with it."""
        if _plain(self, "sortByKey"):
            return _stock(RDD.sortByKey, self, ascending, numPartitions, keyfunc)
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
        if _plain(self, name):
            return _stock(RDD.repartitionAndSortWithinPartitions, self, *arguments)
        with scope.operator(name):
            return shuffles.repartition_and_sort(self, *arguments)

    def glom(self) -> RDD[Any]:
        """One record a partition, from all of its records."""
        if _plain(self, "glom"):
            return _stock(RDD.glom, self)
        with scope.operator("glom"):
            node = self.session.register("operator", "glom", [self.node])
            return self.pipe_function(node.detail.around(Glom(node.name)), False, node)

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
        if _plain(self, name):
            return _stock(getattr(RDD, name), self, other, num_partitions)
        with scope.operator(name):
            return joins.join(self, adopt(other, self.session), num_partitions, left, right)

    def cartesian(self, other: RDD[Any]) -> RDD[Any]:
        """Each pair comes from just its two records."""
        if _plain(self, "cartesian"):
            return _stock(RDD.cartesian, self, other)
        with scope.operator("cartesian"):
            return pairs.cartesian(self, adopt(other, self.session))

    def zip(self, other: RDD[Any]) -> RDD[Any]:
        """Each pair comes from just its two records."""
        if _plain(self, "zip"):
            return _stock(RDD.zip, self, other)
        with scope.operator("zip"):
            return pairs.zip_with(self, adopt(other, self.session))

    def subtractByKey(self, other: RDD[Any], numPartitions: int | None = None) -> RDD[Any]:
        """Each output row comes from the one row that it is; what is kept out leaves no lineage."""
        if _plain(self, "subtractByKey"):
            return _stock(RDD.subtractByKey, self, other, numPartitions)
        with scope.operator("subtractByKey"):
            return joins.subtract_by_key(self, adopt(other, self.session), numPartitions)

    # -- what PySpark asks of an RDD -------------------------------------------------------------

    def checkpoint(self) -> None:
        """As a cache: records keep their names."""
        self.session.pin_files(self.node)
        RDD.checkpoint(self)

    def localCheckpoint(self) -> None:
        """As a cache: records keep their names."""
        self.session.pin_files(self.node)
        self.checkpointed_locally = isinstance(self, PipelinedRDD)
        RDD.localCheckpoint(self)

    def _reserialize(self, serializer: Any = None) -> Any:
        """Plain PySpark reads streams with names through their own deserializer."""
        if not scope.is_suspended() and scope.outermost() is None:
            if not can_run(self.session):
                return uncaptured(self)._reserialize(serializer)
            end_of_lineage(self, "RDD._pickled")
        with scope.suspended():
            return RDD._reserialize(self, serializer)

    def _to_java_object_rdd(self) -> Any:
        """PySpark hands the records to a library in the JVM (MLlib)."""
        if not scope.is_suspended() and scope.outermost() is None:
            caller = scope.called_from_pyspark() or "RDD._to_java_object_rdd"
            if not can_run(self.session):
                return uncaptured(self)._to_java_object_rdd()
            end_of_lineage(self, caller)
        with scope.suspended():
            return RDD._to_java_object_rdd(self)

    # -- tracing ---------------------------------------------------------------------------------

    def getLineage(self, *, timeout_s: float = LINKED_S) -> TracedItems:
        """Where the records of this RDD came from and went to, as Titian's ``getLineage``.

        The first call runs the RDD once, to number its records, and keeps them on the disks of
        the executors; what Spark holds already (shuffles, caches) is not computed again. Of a
        source nothing is run. ``timeout_s``: how long a question waits for the store where the
        lineage goes over Kafka.

        Raises:
            TracingError: capture has ended.
            NotLinkedError: the store did not have the lineage in time.
        """
        return lineage_of(self, timeout_s)

    # -- actions ---------------------------------------------------------------------------------

    def collect(self) -> list[Any]:
        """Each record collected is an item of the sink."""
        if _plain(self, "collect"):
            return list(_stock(RDD.collect, self))
        with scope.operator("collect"):
            return actions.collect(self)

    def take(self, num: int) -> list[Any]:
        """The records taken are items of the sink; what was read ahead is not."""
        if _plain(self, "take"):
            return list(_stock(RDD.take, self, num))
        with scope.operator("take"):
            return actions.take(self, num)

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Any]:
        """The records given are items of the sink; what was read ahead is not."""
        if _plain(self, "toLocalIterator"):
            return _stock(RDD.toLocalIterator, self, prefetchPartitions)
        with scope.operator("toLocalIterator"):
            return iterating.iterate(self, prefetchPartitions)

    def collectWithJobGroup(
        self, groupId: str, description: str, interruptOnCancel: bool = False
    ) -> list[Any]:
        """As :meth:`collect`."""
        arguments = (groupId, description, interruptOnCancel)
        if _plain(self, "collectWithJobGroup"):
            return list(_stock(RDD.collectWithJobGroup, self, *arguments))
        with scope.operator("collectWithJobGroup"):
            return actions.collect_with_job_group(self, *arguments)

    def max(self, key: Callable[[Any], Any] | None = None) -> Any:
        """The record that won is the item of the sink."""
        if _plain(self, "max"):
            return _stock(RDD.max, self, key)
        with scope.operator("max"):
            return driver_sinks.extreme(self, max, key)

    def min(self, key: Callable[[Any], Any] | None = None) -> Any:
        """The record that won is the item of the sink."""
        if _plain(self, "min"):
            return _stock(RDD.min, self, key)
        with scope.operator("min"):
            return driver_sinks.extreme(self, min, key)

    def top(self, num: int, key: Callable[[Any], Any] | None = None) -> list[Any]:
        """The records given are items of the sink, in their order."""
        if _plain(self, "top"):
            return list(_stock(RDD.top, self, num, key))
        with scope.operator("top"):
            return driver_sinks.top(self, num, key)

    def takeOrdered(self, num: int, key: Callable[[Any], Any] | None = None) -> list[Any]:
        """The records given are items of the sink, in their order."""
        if _plain(self, "takeOrdered"):
            return list(_stock(RDD.takeOrdered, self, num, key))
        with scope.operator("takeOrdered"):
            return driver_sinks.take_ordered(self, num, key)

    def takeSample(self, withReplacement: bool, num: int, seed: int | None = None) -> list[Any]:
        """The records given are items of the sink, in their order."""
        if _plain(self, "takeSample") or num < 0:
            return list(_stock(RDD.takeSample, self, withReplacement, num, seed))
        with scope.operator("takeSample"):
            return driver_sinks.take_sample(self, withReplacement, num, seed)

    def lookup(self, key: Any) -> list[Any]:
        """Each value found is an item of the sink."""
        if _plain(self, "lookup"):
            return list(_stock(RDD.lookup, self, key))
        with scope.operator("lookup"):
            found: Any = self.filter(lambda key_value: key_value[0] == key).values()
            if self.partitioner is None:
                return list(found.collect())
            return actions.collect(found, [self.partitioner(key)])

    def foreach(self, f: Callable[[Any], None]) -> None:
        """Each record handed to ``f`` is an item of the sink."""
        if _plain(self, "foreach"):
            _stock(RDD.foreach, self, f)
            return
        with scope.operator("foreach"):
            actions.foreach(self, f)

    def foreachPartition(self, f: Callable[[Iterable[Any]], Any]) -> None:
        """Each record that ``f`` takes is an item of the sink."""
        if _plain(self, "foreachPartition"):
            _stock(RDD.foreachPartition, self, f)
            return
        with scope.operator("foreachPartition"):
            actions.foreach_partition(self, f)

    def saveAsTextFile(self, path: str, compressionCodecClass: str | None = None) -> None:
        """Each line written is an item of the sink."""
        if _plain(self, "saveAsTextFile"):
            _stock(RDD.saveAsTextFile, self, path, compressionCodecClass)
            return
        with scope.operator("saveAsTextFile"):
            actions.save_text(self, path, compressionCodecClass)

    def toDF(self, schema: Any = None, sampleRatio: float | None = None) -> Any:
        """PySpark's own comes to :meth:`map`, where each row handed over becomes a sink's item."""
        if _plain(self, "toDF"):
            return _stock(RDD.toDF, self, schema, sampleRatio)
        return RDD.toDF(self, schema, sampleRatio)


class LineagePipelinedRDD(LineageRDD, PipelinedRDD[Any, Any]):
    """A captured RDD that PySpark pipelines."""

    def __init__(
        self, prev: RDD[Any], func: Any, preserves: bool, session: Session, node: Node
    ) -> None:
        self.session, self.node, self.spaces, self.batched = session, node, None, 0
        pipelined = isinstance(prev, PipelinedRDD) and prev._is_pipelinable()
        if isinstance(prev, LineageRDD) and not pipelined:
            read: Any = Read(session.config, node.name, prev.spaces)
            func = Chain(prev.node.detail.around(read) if prev.named_by_node else read, func)
        PipelinedRDD.__init__(self, prev, func, preserves)
        if isinstance(prev, PipelinedRDD) and pipelined:
            self.func = Chain(prev.func, func)
        self._jrdd_deserializer = TracedSerializer(self.ctx._unbatched_serializer)

    def _java(self) -> Any:
        if self._jrdd_val is not None or not isinstance(self._jrdd_deserializer, TracedSerializer):
            return PipelinedRDD._jrdd.fget(self)  # type: ignore[attr-defined]
        function = self.func
        self.func = EndsIn(self.node.name, function)
        try:
            return PipelinedRDD._jrdd.fget(self)  # type: ignore[attr-defined]
        finally:
            self.func = function

    def ending(self, serializer: Any) -> LineagePipelinedRDD:
        """This RDD, whose function ends the segment itself, written by ``serializer``."""
        self.end_segment()
        if isinstance(serializer, NoOpSerializer):
            self._bypass_serializer = True
        self._jrdd_deserializer = serializer
        return self

    def end_segment(self) -> None:
        """The segment ends with this RDD's function: its node names the task."""
        self.func = EndsIn(self.node.name, self.func)


class LineageBarrier(RDDBarrier[Any]):
    """A captured RDD whose next function runs in a barrier stage."""

    rdd: LineageRDD

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
            found = self.rdd._whole_partitions(f, preservesPartitioning)
        found.is_barrier = True
        note(found, Call("barrier", _in_barrier, (self.rdd, f, preservesPartitioning)))
        return found


def _in_barrier(rdd: RDD[Any], *arguments: Any) -> RDD[Any]:
    return rdd.barrier().mapPartitionsWithIndex(*arguments)


def adopt(rdd: RDD[Any], session: Session) -> LineageRDD:
    """A captured RDD for one that is not: its records are an unknown source.

    Raises:
        UnsupportedOperatorError: settings say to refuse.
    """
    if isinstance(rdd, LineageRDD) and rdd.session is session:
        return rdd
    session.refuse(
        "an RDD without lineage as input",
        "its records have no lineage",
        "make it from a captured source (textFile, parallelize)",
    )
    node = session.register("unknown", "unknown", exact=False, reason="its records have no lineage")
    above = _unknown_above(rdd)
    if above is not None:
        session.link(above, node)
    return LineageRDD.wrap(rdd, session, node, node.name)


def nodes_of(session: Session, rdds: Iterable[Any]) -> list[Node]:
    """The nodes of those that are captured RDDs."""
    return [rdd.node for rdd in rdds if isinstance(rdd, LineageRDD) and rdd.session is session]


def _unknown_above(rdd: RDD[Any]) -> Node | None:
    """The node of the refused operator that a plain RDD was made by, if it still shows."""
    at: Any = rdd
    while at is not None:
        node: Node | None = getattr(at, "lineage_unknown", None)
        if node is not None:
            return node
        at = getattr(at, "prev", None)
    return None


def batch_of_ten(sc: Any) -> BatchedSerializer:
    """The serializer of PySpark's own repartition."""
    return BatchedSerializer(CPickleSerializer(), min(10, sc._batchSize or 1024))


def _innermost(default: str) -> str:
    """The record-by-record operator that PySpark makes of a whole-partition function now."""
    running = scope.by_record_operator()
    return running.name if running is not None else default


def _plain(rdd: LineageRDD, name: str) -> bool:
    """Whether the call is not the user's on a captured RDD: PySpark's own, or suspended."""
    if scope.is_suspended():
        return True
    if scope.outermost() is None:
        caller = scope.called_from_pyspark(3)
        if caller and not is_rdd_api(caller):
            what = f"{caller} ({name})"
            rdd.session.unknown(what, "PySpark reads the RDD by itself", [rdd.node])
            return True
    return False


def _stock(method: Callable[..., T], rdd: LineageRDD, /, *arguments: Any, **named: Any) -> T:
    """PySpark's own operator, without lineage from here on."""
    with scope.suspended():
        return method(rdd, *arguments, **named)


BY_RECORD = ("flatMapValues", "keyBy", "keys", "values", "sample", "sampleByKey", "randomSplit",
             "zipWithUniqueId")  # fmt: skip
COMPOSED = ("reduceByKey", "foldByKey", "aggregateByKey", "groupBy", "distinct", "sortBy",
            "repartition", "mapPartitions", "mapPartitionsWithSplit", "first", "isEmpty",
            "collectAsMap", "countByKey", "mean", "variance", "stdev", "sampleVariance",
            "sampleStdev", "__add__")  # fmt: skip
OF_TWO = ("cogroup", "groupWith", "intersection", "subtract")
"""Composed, of this RDD and others."""
ABSORBING = ("count", "reduce", "fold", "aggregate", "treeReduce", "treeAggregate", "sum", "stats",
             "histogram", "countByValue", "countApprox", "sumApprox", "meanApprox",
             "countApproxDistinct", "reduceByKeyLocally")  # fmt: skip
"""Actions with one result, which depends on every record."""
UNTOUCHED = frozenset(
    ("id", "context", "name", "setName", "getNumPartitions", "getStorageLevel", "toDebugString",
     "isCheckpointed", "isLocallyCheckpointed", "getCheckpointFile", "cache", "persist",
     "unpersist", "checkpoint", "localCheckpoint", "getResourceProfile", "cleanShuffleDependencies", "withResources")
)  # fmt: skip


def _method(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """PySpark's own method, or ``run(rdd, method, ...)`` where the user calls it on a captured RDD."""

    @functools.wraps(getattr(RDD, name))
    def method(self: LineageRDD, /, *arguments: Any, **named: Any) -> Any:
        # looked up now: a SparkSession gives RDD.toDF its body when it is made
        stock = getattr(RDD, name)
        if _plain(self, name):
            return _stock(stock, self, *arguments, **named)
        return run(self, stock, *arguments, **named)

    return method


def _recognised(name: str, by_record: bool | None) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        with scope.operator(name, by_record):
            return stock(rdd, *arguments, **named)

    return _method(name, run)


def _of_two(name: str) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        def captured(argument: Any) -> Any:
            return adopt(argument, rdd.session) if isinstance(argument, RDD) else argument

        with scope.operator(name):
            others = {key: captured(argument) for key, argument in named.items()}
            return stock(rdd, *map(captured, arguments), **others)

    return _method(name, run)


def _absorbing(name: str) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        with scope.operator(name):
            return actions.absorb(rdd, name, stock, *arguments, **named)

    return _method(name, run)


def _saving(name: str) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **named: Any) -> None:
        with scope.operator(name):
            saving.save(rdd, name, stock, *arguments, **named)

    return _method(name, run)


def _refused(name: str) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        node = rdd.session.refuse(
            f"RDD.{name}",
            "this version does not capture it",
            "compose it of captured operators, or set "
            "spark.lineage.unsupported=continue to go on without lineage from here",
            nodes_of(rdd.session, (rdd, *arguments, *named.values())),
        )
        result = _stock(stock, rdd, *arguments, **named)
        if node is not None and isinstance(result, RDD):
            result.lineage_unknown = node  # type: ignore[attr-defined]
        return result

    method = _method(name, run)
    method.refused = True  # type: ignore[attr-defined]
    return method


def _install() -> None:
    for name in BY_RECORD:
        setattr(LineageRDD, name, _recognised(name, True))
    for name in COMPOSED:
        setattr(LineageRDD, name, _recognised(name, None))
    for name in OF_TWO:
        setattr(LineageRDD, name, _of_two(name))
    for name in ABSORBING:
        setattr(LineageRDD, name, _absorbing(name))
    for name in saving.SAVES:
        setattr(LineageRDD, name, _saving(name))
    for name in dir(RDD):
        own = name in LineageRDD.__dict__ or name in UNTOUCHED
        if not own and not name.startswith("_") and callable(getattr(RDD, name)):
            setattr(LineageRDD, name, _refused(name))
    for name in (*(one for one in dir(RDD) if not one.startswith("_")), "__add__"):
        method = LineageRDD.__dict__.get(name)
        if inspect.isfunction(method):
            setattr(LineageRDD, name, where_it_can_run(name, noted(name, method)))


_install()
