"""What all captured RDDs are: PySpark RDDs whose functions go into captured chains.

Capture sits at PySpark's primitives. Here are those that others are made of (pipelining of functions, what the JVM
is given); operators are functions of modules of their own (:mod:`lineage_emitter.driver.shuffles` and others), which need no
more than this. :mod:`lineage_emitter.driver.rdd` puts it all together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark import RDD
from pyspark.serializers import NoOpSerializer

from lineage_emitter import scope
from lineage_emitter.driver.fitness import can_run_captured, uncaptured
from lineage_emitter.driver.java_records import JavaRecords, is_own_caller, record_end_of_lineage
from lineage_emitter.driver.partition_rule import one_record_rule, still_holds, stream_operator
from lineage_emitter.program.recipes import RddRecipe, SourceRecipe
from lineage_emitter.pyspark_parts import PipelinedRDD, is_rdd_api
from lineage_emitter.worker.inband_addresses import AddressedSerializer
from lineage_emitter.worker.operators import (
    Chain,
    EndsIn,
    OneRecord,
    OpaqueFunction,
    PlainFunction,
    ReadRecords,
)
from lineage_emitter.worker.recorders import PREFIX_REASON
from lineage_emitter.worker.spaces import EACH_RUN, Spaces

if TYPE_CHECKING:
    from typing_extensions import Self

    from lineage_emitter.program.numbering import NumberedRdd
    from lineage_emitter.session.nodes import Node
    from lineage_emitter.session.session import Session

T = TypeVar("T")


class CapturedRDD(RDD[Any]):
    """An RDD whose functions go into captured chains."""

    session: Session
    node: Node
    spaces: Spaces
    _java_rdd: Any
    batched: int
    """Records a batch where PySpark's own RDD would move whole batches (0: unknown). A later
    repartition deals out batches, so it must find the same ones."""
    recipe: RddRecipe | None = None
    """How it was made; None for what PySpark and capture make for themselves."""
    uncaptured_rdd: RDD[Any] | None = None
    """The same without capture, where executors turned out not to be able to run captured functions."""
    numbered: NumberedRdd | None = None
    """Its records as :meth:`getLineage` numbered them."""
    batch_size: int | None = None
    """As :func:`lineage_emitter.worker.batches.batch_size_of`; None: as the context's serializer."""
    checkpointed_locally = False

    # -- other captured RDDs -------------------------------------------------------------------

    def piped(self, prev: RDD[Any], function: Any, preserves: bool, node: Node) -> PipedRDD:
        """A captured RDD of this one's session: ``prev``, captured or not, with one more function."""
        raise NotImplementedError

    def wrapped(
        self,
        plain: RDD[Any],
        node: Node,
        spaces: Spaces,
        *,
        batched: int = 0,
        deserializer: Any = None,
    ) -> CapturedRDD:
        """A captured RDD of this one's session over the JVM side of a plain one."""
        raise NotImplementedError

    def adopt(self, other: RDD[Any]) -> CapturedRDD:
        """A captured RDD of this one's session for any.

        Raises:
            UnsupportedOperatorError: its records have no lineage, and settings say to refuse.
        """
        if isinstance(other, CapturedRDD) and other.session is self.session:
            return other
        node = unknown_source(self.session, other)
        return self.wrapped(other, node, node.name)

    def with_source(self, plain: RDD[Any], spaces: Spaces) -> Self:
        """This RDD, known to hold the rows of a source where ``spaces`` names one."""
        if isinstance(spaces, str):
            node = spaces.removesuffix(EACH_RUN)
            self.recipe = SourceRecipe(node, plain, repeatable=spaces == node)
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
        if scope.is_suspended() or (is_own_caller(1) and not self.session.executors.unfit):
            return self._java()
        return (
            JavaRecords(self, self._java())
            if can_run_captured(self.session)
            else uncaptured(self)._jrdd
        )

    @_jrdd.setter
    def _jrdd(self, jrdd: Any) -> None:
        self._java_rdd = jrdd

    def _java(self) -> Any:
        return self._java_rdd

    def pipe_function(self, function: Any, preserves: bool, node: Node) -> PipedRDD:
        """This RDD with one more function, which begins a segment where it is the first."""
        return self.piped(self, function, preserves, node)

    def mapPartitionsWithIndex(
        self,
        f: Callable[[int, Iterable[Any]], Iterable[Any]],
        preservesPartitioning: bool = False,
    ) -> RDD[Any]:
        """Every narrow operator of PySpark ends here."""
        if scope.is_suspended():
            return super().mapPartitionsWithIndex(PlainFunction(f), preservesPartitioning)
        of_stream = stream_operator(f)
        with scope.operator(of_stream or "mapPartitionsWithIndex", bool(of_stream) or None):
            if scope.works_by_record():
                node = self.session.nodes.register("operator", _innermost("map"), [self.node])
                step = self.session.quarantine.around(f, node)
                return self.pipe_function(node.detail.wrap_step(step), preservesPartitioning, node)
            return self._map_partitions(f, preservesPartitioning)

    def _map_partitions(
        self, function: Callable[[int, Iterable[Any]], Iterable[Any]], preserves: bool
    ) -> PipedRDD:
        rule = one_record_rule(function)
        if rule.holds:
            node = self.session.nodes.register(
                "operator", "mapPartitions", [self.node], description=rule.reason
            )
            operator = OneRecord(function, is_declared=rule.is_declared)
            step = self.session.quarantine.around(operator, node, rule.not_apart)
            operator.still_holds = partial(still_holds, apart=step is not operator)
            return self.pipe_function(node.detail.wrap_step(step), preserves, node)
        reason = f"{PREFIX_REASON} ({rule.reason})"
        node = self.session.nodes.register(
            "operator", "mapPartitions", [self.node], exact=False, reason=reason
        )
        step = self.session.quarantine.around(OpaqueFunction(function), node, rule.not_apart)
        return self.pipe_function(node.detail.wrap_step(step), preserves, node)

    # -- what PySpark asks of an RDD -------------------------------------------------------------

    def checkpoint(self) -> None:
        """As a cache: records keep their names."""
        self.session.files.pin(self.node)
        RDD.checkpoint(self)

    def localCheckpoint(self) -> None:
        """As a cache: records keep their names."""
        self.session.files.pin(self.node)
        self.checkpointed_locally = isinstance(self, PipelinedRDD)
        RDD.localCheckpoint(self)

    def _reserialize(self, serializer: Any = None) -> Any:
        """Plain PySpark reads streams with names through their own deserializer."""
        if not scope.is_suspended() and scope.outermost() is None:
            if not can_run_captured(self.session):
                return uncaptured(self)._reserialize(serializer)
            record_end_of_lineage(self, "RDD._pickled")
        with scope.suspended():
            return RDD._reserialize(self, serializer)

    def _to_java_object_rdd(self) -> Any:
        """PySpark hands the records to a library in the JVM (MLlib)."""
        if not scope.is_suspended() and scope.outermost() is None:
            caller = scope.called_from_pyspark() or "RDD._to_java_object_rdd"
            if not can_run_captured(self.session):
                return uncaptured(self)._to_java_object_rdd()
            record_end_of_lineage(self, caller)
        with scope.suspended():
            return RDD._to_java_object_rdd(self)


class PipedRDD(CapturedRDD, PipelinedRDD[Any, Any]):
    """A captured RDD that PySpark pipelines."""

    def __init__(
        self, prev: RDD[Any], func: Any, preserves: bool, session: Session, node: Node
    ) -> None:
        self.session, self.node, self.spaces, self.batched = session, node, None, 0
        pipelined = isinstance(prev, PipelinedRDD) and prev._is_pipelinable()
        if isinstance(prev, CapturedRDD) and not pipelined:
            read: Any = ReadRecords(session.config, node.name, prev.spaces)
            func = Chain(prev.node.detail.observe(read) if prev.named_by_node else read, func)
        PipelinedRDD.__init__(self, prev, func, preserves)
        if isinstance(prev, PipelinedRDD) and pipelined:
            self.func = Chain(prev.func, func)
        self._jrdd_deserializer = AddressedSerializer(self.ctx._unbatched_serializer)

    def _java(self) -> Any:
        if self._jrdd_val is not None or not isinstance(
            self._jrdd_deserializer, AddressedSerializer
        ):
            return PipelinedRDD._jrdd.fget(self)  # type: ignore[attr-defined]
        function = self.func
        self.func = EndsIn(self.node.name, function)
        try:
            return PipelinedRDD._jrdd.fget(self)  # type: ignore[attr-defined]
        finally:
            self.func = function

    def ending(self, serializer: Any) -> Self:
        """This RDD, whose function ends the segment itself, written by ``serializer``."""
        self.end_segment()
        if isinstance(serializer, NoOpSerializer):
            self._bypass_serializer = True
        self._jrdd_deserializer = serializer
        return self

    def end_segment(self) -> None:
        """The segment ends with this RDD's function: its node names the task."""
        self.func = EndsIn(self.node.name, self.func)


def nodes_of(session: Session, rdds: Iterable[Any]) -> list[Node]:
    """The nodes of those that are captured RDDs."""
    return [rdd.node for rdd in rdds if isinstance(rdd, CapturedRDD) and rdd.session is session]


def unknown_source(session: Session, rdd: RDD[Any]) -> Node:
    """The node of an RDD that is not captured: its records are an unknown source.

    Raises:
        UnsupportedOperatorError: settings say to refuse.
    """
    session.nodes.refuse(
        "an RDD without lineage as input",
        "its records have no lineage",
        "make it from a captured source (textFile, parallelize)",
    )
    node = session.nodes.register(
        "unknown", "unknown", exact=False, reason="its records have no lineage"
    )
    above = _unknown_above(rdd)
    if above is not None:
        session.nodes.link(above, node)
    return node


def _unknown_above(rdd: RDD[Any]) -> Node | None:
    """The node of the refused operator that a plain RDD was made by, if it still shows."""
    current: Any = rdd
    while current is not None:
        node: Node | None = getattr(current, "lineage_unknown", None)
        if node is not None:
            return node
        current = getattr(current, "prev", None)
    return None


def _innermost(default: str) -> str:
    """The record-by-record operator that PySpark makes of a whole-partition function now."""
    running = scope.by_record_operator()
    return running.name if running is not None else default


def is_stock_call(rdd: CapturedRDD, name: str) -> bool:
    """Whether the call is not the user's on a captured RDD: PySpark's own, or suspended."""
    if scope.is_suspended():
        return True
    if scope.outermost() is None:
        caller = scope.called_from_pyspark(3)
        if caller and not is_rdd_api(caller):
            caller_and_name = f"{caller} ({name})"
            rdd.session.nodes.unknown(
                caller_and_name, "PySpark reads the RDD by itself", [rdd.node]
            )
            return True
    return False


def stock_call(
    method: Callable[..., T], rdd: CapturedRDD, /, *arguments: Any, **keywords: Any
) -> T:
    """PySpark's own operator, without lineage from here on."""
    with scope.suspended():
        return method(rdd, *arguments, **keywords)
