"""Captured RDDs: PySpark RDDs in every respect, whose operators also record lineage.

Public operators are PySpark's own compositions of the primitives that are captured (:mod:`lineage_emitter.driver.captured`),
recognised by name where a whole-partition function works record by record. What a method does for itself stands in
one of the classes that :class:`LineageRDD` is put together from; the rest is in the tables below.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from pyspark import RDD

from lineage_core.answers import ANSWERS
from lineage_core.contract.collected import CollectedRows
from lineage_emitter import scope
from lineage_emitter.driver import actions, saving
from lineage_emitter.driver.between_partitions import BetweenPartitions
from lineage_emitter.driver.captured import (
    PipedRDD,
    is_stock_call,
    nodes_of,
    stock_call,
    unknown_source,
)
from lineage_emitter.driver.fitness import can_run_captured, unless_unfit
from lineage_emitter.driver.to_dataframe import RowSteps
from lineage_emitter.driver.with_actions import WithActions
from lineage_emitter.driver.within_partitions import WithinPartitions
from lineage_emitter.errors import TracingError
from lineage_emitter.program.recipes import recording_call
from lineage_emitter.program.tracing import TracedItems, lineage_of
from lineage_emitter.program.waiting import LINKED_S
from lineage_emitter.pyspark_parts import PipelinedRDD
from lineage_emitter.session.nodes import Node
from lineage_emitter.session.session import Session
from lineage_emitter.worker.by_record import Map
from lineage_emitter.worker.operators import ReadRecords
from lineage_emitter.worker.spaces import Spaces

CREATE_DATAFRAME = "pyspark.sql.session._create_dataframe"
"""What ``toDF`` and ``createDataFrame`` come to: it maps the RDD first of all."""


class LineageRDD(WithinPartitions, BetweenPartitions, WithActions):
    """An RDD whose operators record lineage. Made by sources, unions and repartitions."""

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
            read = node.detail.observe(ReadRecords(session.config, node.name, spaces))
            renamed = session.nodes.register("operator", "named", [node])
            piped = LineagePipelinedRDD(rdd, read, True, session, renamed)
            return piped.with_source(rdd, spaces)
        wrapper = cls(rdd._jrdd, rdd.ctx, deserializer or rdd._jrdd_deserializer)
        wrapper.partitioner = rdd.partitioner
        wrapper.session, wrapper.node, wrapper.spaces, wrapper.batched = (
            session,
            node,
            spaces,
            batched,
        )
        return wrapper.with_source(rdd, spaces)

    def piped(
        self, prev: RDD[Any], function: Any, preserves: bool, node: Node
    ) -> LineagePipelinedRDD:
        """See :meth:`CapturedRDD.piped`."""
        return LineagePipelinedRDD(prev, function, preserves, self.session, node)

    def wrapped(
        self,
        plain: RDD[Any],
        node: Node,
        spaces: Spaces,
        *,
        batched: int = 0,
        deserializer: Any = None,
    ) -> LineageRDD:
        """See :meth:`CapturedRDD.wrapped`."""
        return LineageRDD.wrap(
            plain, self.session, node, spaces, batched=batched, deserializer=deserializer
        )

    def map(self, f: Callable[[Any], Any], preservesPartitioning: bool = False) -> RDD[Any]:
        """PySpark's own, with one call less a record; a first step where it makes a DataFrame."""
        if not scope.is_suspended() and scope.called_from_pyspark() == CREATE_DATAFRAME:
            return DataFrameInput(self, Map(f), preservesPartitioning, self.session, self.node)
        return self._by_record("map", Map, f, preservesPartitioning)

    def getLineage(self, *, timeout_s: float = LINKED_S) -> TracedItems:
        """Where the records of this RDD came from and went to, as Titian's ``getLineage``.

        The first call runs the RDD once, to number its records, and stores them on the disks of
        the executors; what Spark holds already (shuffles, caches) is not computed again. Of a
        source nothing is run. ``timeout_s``: how long a question waits for the store where the
        lineage goes over Kafka.

        Raises:
            TracingError: capture has ended.
            NotLinkedError: the store did not have the lineage in time.
        """
        return lineage_of(self, timeout_s)

    def collectRows(self) -> tuple[CollectedRows, list[Any]]:
        """The records, as ``collect`` gives them, and where each of them was.

        Returns:
            The rows by their places, for whoever goes on with them outside of Spark (``Recording.rows_of`` of arrays), and the records.

        Raises:
            TracingError: capture has ended, or the executors can't run captured functions.
        """
        if self.session.closed or not can_run_captured(self.session, "collect"):
            raise TracingError(
                f"{self.session.app} does not capture any more: rows are collected with lineage before capture ends"
            )
        with scope.operator("collect"), ANSWERS.linking():
            return actions.collect_rows(self)


class LineagePipelinedRDD(LineageRDD, PipedRDD):
    """A captured RDD that PySpark pipelines."""


class DataFrameInput(RowSteps, LineagePipelinedRDD):
    """Rows on their way into a DataFrame."""


def adopt(rdd: RDD[Any], session: Session) -> LineageRDD:
    """A captured RDD for one that is not: its records are an unknown source.

    Raises:
        UnsupportedOperatorError: settings say to refuse.
    """
    if isinstance(rdd, LineageRDD) and rdd.session is session:
        return rdd
    node = unknown_source(session, rdd)
    return LineageRDD.wrap(rdd, session, node, node.name)


BY_RECORD = ("flatMapValues", "keyBy", "keys", "values", "sample", "sampleByKey", "randomSplit",
             "zipWithUniqueId")  # fmt: skip
COMPOSED = ("reduceByKey", "foldByKey", "aggregateByKey", "groupBy", "distinct", "sortBy",
            "repartition", "mapPartitions", "mapPartitionsWithSplit", "first", "isEmpty",
            "collectAsMap", "countByKey", "mean", "variance", "stdev", "sampleVariance",
            "sampleStdev", "__add__")  # fmt: skip
WITH_OTHER_RDDS = ("cogroup", "groupWith", "intersection", "subtract")
"""Composed, of this RDD and others."""
REDUCING = ("count", "reduce", "fold", "aggregate", "treeReduce", "treeAggregate", "sum", "stats",
             "histogram", "countByValue", "countApprox", "sumApprox", "meanApprox",
             "countApproxDistinct", "reduceByKeyLocally")  # fmt: skip
"""Actions with one result, which depends on every record."""
WITHOUT_RECORDS = frozenset(
    ("id", "context", "name", "setName", "getNumPartitions", "getStorageLevel", "toDebugString",
     "isCheckpointed", "isLocallyCheckpointed", "getCheckpointFile", "cache", "persist",
     "unpersist", "checkpoint", "localCheckpoint", "getResourceProfile", "cleanShuffleDependencies", "withResources")
)  # fmt: skip


def _method(name: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """PySpark's own method, or ``run(rdd, method, ...)`` where the user calls it on a captured RDD."""

    @functools.wraps(getattr(RDD, name))
    def method(self: LineageRDD, /, *arguments: Any, **keywords: Any) -> Any:
        # looked up now: a SparkSession gives RDD.toDF its body when it is made
        stock = getattr(RDD, name)
        if is_stock_call(self, name):
            return stock_call(stock, self, *arguments, **keywords)
        return run(self, stock, *arguments, **keywords)

    return method


def _named_operator(name: str, by_record: bool | None) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        with scope.operator(name, by_record):
            return stock(rdd, *arguments, **keywords)

    return _method(name, run)


def _with_other_rdds(name: str) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        def captured(argument: Any) -> Any:
            return adopt(argument, rdd.session) if isinstance(argument, RDD) else argument

        with scope.operator(name):
            others = {key: captured(argument) for key, argument in keywords.items()}
            return stock(rdd, *map(captured, arguments), **others)

    return _method(name, run)


def _reducing(name: str) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        with scope.operator(name):
            return actions.reduce_to_item(rdd, name, stock, *arguments, **keywords)

    return _method(name, run)


def _saving(name: str) -> Callable[..., Any]:
    def run(
        rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **keywords: Any
    ) -> None:
        with scope.operator(name):
            saving.save(rdd, name, stock, *arguments, **keywords)

    return _method(name, run)


def _refused(name: str) -> Callable[..., Any]:
    def run(rdd: LineageRDD, stock: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any:
        node = rdd.session.nodes.refuse(
            f"RDD.{name}",
            "this version does not capture it",
            "compose it of captured operators, or set "
            "spark.lineage.unsupported=continue to go on without lineage from here",
            nodes_of(rdd.session, (rdd, *arguments, *keywords.values())),
        )
        result = stock_call(stock, rdd, *arguments, **keywords)
        if node is not None and isinstance(result, RDD):
            result.lineage_unknown = node  # type: ignore[attr-defined]
        return result

    method = _method(name, run)
    method.refused = True  # type: ignore[attr-defined]
    return method


def _own(name: str) -> Any:
    """What captured RDDs have of their own by a name; None: what all RDDs have."""
    attribute = inspect.getattr_static(LineageRDD, name, None)
    return None if attribute is inspect.getattr_static(RDD, name, None) else attribute


def _install() -> None:
    for name in BY_RECORD:
        setattr(LineageRDD, name, _named_operator(name, True))
    for name in COMPOSED:
        setattr(LineageRDD, name, _named_operator(name, None))
    for name in WITH_OTHER_RDDS:
        setattr(LineageRDD, name, _with_other_rdds(name))
    for name in REDUCING:
        setattr(LineageRDD, name, _reducing(name))
    for name in saving.SAVES:
        setattr(LineageRDD, name, _saving(name))
    public = [name for name in dir(RDD) if not name.startswith("_")]
    for name in public:
        if _own(name) is None and name not in WITHOUT_RECORDS and callable(getattr(RDD, name)):
            setattr(LineageRDD, name, _refused(name))
    for name in (*public, "__add__"):
        method = _own(name)
        if inspect.isfunction(method):
            setattr(LineageRDD, name, unless_unfit(name, recording_call(name, method)))


_install()
