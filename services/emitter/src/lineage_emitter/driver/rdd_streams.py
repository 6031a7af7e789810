"""Streams of RDDs (``pyspark.streaming``): the RDDs of each batch are captured as those of any program.

The JVM calls PySpark's functions of a stream with the RDDs of a batch, and takes the RDD that they return. Here what comes is known again by
the id that it has in the JVM: it is what a function returned before, the lines of files that ``textFileStream`` found, an RDD of
``queueStream``, or a union of these, as windows and unions of streams are. All else has no lineage, and the verdict names it.

What Spark writes into a checkpoint of a stream's records is read again by programs without capture, too. So records that go there are plain: what
keeps a state (``updateStateByKey``, windows that are computed from the window before) is computed as without capture, and lineage ends there.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from pyspark import RDD, SparkContext
from pyspark.serializers import UTF8Deserializer
from pyspark.streaming import StreamingContext
from pyspark.streaming.dstream import DStream, TransformedDStream
from pyspark.streaming.util import TransformFunction

from lineage_emitter import scope
from lineage_emitter.driver import shuffles
from lineage_emitter.driver.fitness import can_run_captured
from lineage_emitter.driver.java_records import is_own_caller, without_addresses_java
from lineage_emitter.driver.rdd import LineageRDD, adopt
from lineage_emitter.driver.sources import text_file_stream
from lineage_emitter.session import hadoop
from lineage_emitter.worker.inband_addresses import AddressedSerializer
from lineage_emitter.worker.lines import LineDeserializer

if TYPE_CHECKING:
    from lineage_emitter.session.nodes import Node
    from lineage_emitter.session.session import Session
    from lineage_emitter.worker.spaces import Spaces

_ATTRIBUTE = "_lineage_rdd_streams"
"""Of a SparkContext: what captures its streams."""
_KEEPING_STATE = {
    "DStream.updateStateByKey.<locals>.reduceFunc": "DStream.updateStateByKey",
    "DStream.reduceByKeyAndWindow.<locals>.reduceFunc": "DStream.reduceByKeyAndWindow",
    "DStream.reduceByKeyAndWindow.<locals>.invReduceFunc": "DStream.reduceByKeyAndWindow",
}
"""PySpark's functions whose results Spark writes into checkpoints, and whose they are."""
STATE = "it goes on from what it gave before, which checkpoints keep as plain records"
CHECKPOINTED = "a checkpoint keeps records of the stream (DStream.checkpoint), which are plain ones"
JAVA_READS = "the JVM reads records of a stream by itself (DStream._jdstream), which are plain ones"
NOT_LOOKED_AT = "whether a checkpoint keeps records of the streams is not known"
NO_PLACES = "its records come from no file, and have no places"
_UNIONS = ("UnionRDD", "PartitionerAwareUnionRDD")
_SWEPT_FIRST = 256
"""RDDs that are known when it is first looked which of them Spark still has."""
_SWEEP_S = 60
"""After what time it is looked again."""


def hook_rdd_streams(session_of: Callable[[SparkContext], Session | None]) -> None:
    """Capture the batches of the streams of RDDs that are begun from now on.

    ``session_of``: gives the session of a context that is captured as a whole.
    """
    context: Any = StreamingContext
    context.start = _start(context.start, session_of)
    context.stop = _stop(context.stop)
    context.queueStream = _queue_stream(context.queueStream, session_of)
    stream: Any = DStream
    stream.slice = _slice(stream.slice)
    stream._jdstream = _java_stream(None, session_of)
    transformed: Any = TransformedDStream
    transformed._jdstream = _java_stream(transformed._jdstream.fget, session_of)
    function: Any = TransformFunction
    function.call = _call(function.call)


def streams_of(session: Session) -> RddStreams:
    """What captures the streams of RDDs of an application."""
    streams: RddStreams | None = getattr(session.sc, _ATTRIBUTE, None)
    if streams is None or streams.session is not session:
        streams = RddStreams(session)
        setattr(session.sc, _ATTRIBUTE, streams)
    return streams


def state_operator(function: object) -> str:
    """Of which operator a stream's function is whose results go into checkpoints; empty: of none."""
    if getattr(function, "__module__", "") != DStream.__module__:
        return ""
    return _KEEPING_STATE.get(getattr(function, "__qualname__", ""), "")


@dataclass(frozen=True, slots=True)
class _Known:
    """An RDD that the JVM may give again. ``java``: a weak reference to it there.

    ``unknown``: the node that says why its records have no lineage. ``instead``: another Java RDD that is read in its place.
    ``is_plain``: its own records are plain ones. ``persisted``: the Java RDD that capture keeps as long as Spark keeps this one.
    """

    java: Any
    node: Node | None = None
    spaces: Spaces = None
    batched: int = 0
    batch_size: int | None = None
    deserializer: Any = None
    unknown: Node | None = None
    instead: Any = None
    is_plain: bool = False
    persisted: Any = None

    def release(self) -> _Known:
        """Let go of what capture keeps, where Spark keeps this one no more."""
        if self.persisted is None:
            return self
        rdd = self.java.get()
        level = None if rdd is None else rdd.getStorageLevel()
        if level is not None and (level.useMemory() or level.useDisk()):
            return self
        self.persisted.unpersist(False)
        return replace(self, persisted=None)


class RddStreams:
    """Captures the streams of RDDs of an application. Thread-safe: batches may run side by side."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.refusal = ""
        """Why no records of these streams have lineage; empty: those that are captured have."""
        self._refused_by = ""
        self._lock = threading.Lock()
        self._known: dict[int, _Known] = {}
        self._sweep_at = _SWEPT_FIRST
        self._swept = time.monotonic()
        self._empty: LineageRDD | None = None

    def begin(self, context: StreamingContext) -> None:
        """A context of streams is about to start."""
        before = self.refusal
        # Should the look fail, no names of records get into a checkpoint.
        self.refusal = before or NOT_LOOKED_AT
        kept = next((stream for stream in _streams_in(context) if _is_checkpointed(stream)), None)
        self.refusal = before
        if kept is not None:
            self.refuse(CHECKPOINTED, "DStream.checkpoint", at="StreamingContext.start")

    def refuse(self, reason: str, operator: str, *, at: str = "") -> None:
        """From now on no records of these streams have lineage: they are plain ones.

        Args:
            reason: why.
            operator: what the verdict names.
            at: what it names of the refusal itself; empty: the same.
        """
        if not self.refusal:
            self.refusal, self._refused_by = reason, operator
            if not self.session.closed:
                self.session.nodes.unknown(at or operator, reason, ())

    # -- from the JVM ------------------------------------------------------------------------

    def given(self, java: Any, sc: SparkContext, deserializer: Any) -> RDD[Any]:
        """The RDD that the JVM gives to a function of a stream (PySpark's ``rdd_wrap_func``)."""
        known = self._known.get(java.id())
        is_left = known is not None and known.is_plain and bool(self.refusal)
        if known is not None and known.node is not None and not is_left:
            return self._again(known, java, sc)
        plain: RDD[Any] = RDD(java, sc, deserializer)
        if self.session.closed or not can_run_captured(self.session):
            return plain
        if known is None and java.getNumPartitions():
            # Some of its records may have names, which plain RDDs don't read: an error here is the job's.
            united = self._union(java, sc, deserializer)
            if united is not None:
                return united
        captured: list[RDD[Any]] = []
        self.session.problems.guard(
            "capture a batch of a stream of RDDs",
            lambda: captured.append(self._captured(known, java, sc, plain)),
        )
        return captured[0] if captured else plain

    def _captured(self, known: _Known | None, java: Any, sc: SparkContext, plain: RDD[Any]) -> RDD[Any]:  # fmt: skip
        if known is None:
            return self._unseen(java, sc, plain)
        plain.lineage_unknown = known.unknown  # type: ignore[attr-defined]
        return adopt(plain, self.session)

    def _again(self, known: _Known, java: Any, sc: SparkContext) -> LineageRDD:
        assert known.node is not None
        java_rdd = java if known.instead is None else known.instead
        plain: RDD[Any] = RDD(java_rdd, sc, known.deserializer)
        rdd = LineageRDD.wrap(plain, self.session, known.node, known.spaces, batched=known.batched)
        rdd.batch_size = known.batch_size
        return rdd

    def _unseen(self, java: Any, sc: SparkContext, plain: RDD[Any]) -> LineageRDD:
        if not java.getNumPartitions():
            return self._without_records(plain)
        folder = _folder_of(sc, java, plain._jrdd_deserializer)
        if folder is None:
            name = _stream_name(java)
            plain.lineage_unknown = self.session.nodes.unknown(name, NO_PLACES, ())  # type: ignore[attr-defined]
            return self.remember(adopt(plain, self.session))
        return self.remember(text_file_stream(self.session, plain, folder))

    def _without_records(self, plain: RDD[Any]) -> LineageRDD:
        """An RDD without partitions: a batch in which nothing came. They have one node."""
        with self._lock:
            if self._empty is None:
                with scope.operator("emptyRDD"):
                    node = self.session.nodes.register("source", "emptyRDD", alias="emptyRDD")
                    self._empty = LineageRDD.wrap(plain, self.session, node, node.name)
            node = self._empty.node
        return LineageRDD.wrap(plain, self.session, node, node.name)

    def _union(self, java: Any, sc: SparkContext, deserializer: Any) -> LineageRDD | None:
        """A union of RDDs, as the JVM makes them of batches of a window, and of streams; None: it is none of captured ones."""
        rdd = java.rdd()
        if str(rdd.getClass().getSimpleName()) not in _UNIONS:
            return None
        all_java = (part.toJavaRDD() for part in hadoop.parts_of(rdd))
        parts = [part for part in all_java if part.getNumPartitions()]
        if not any(
            part.id() in self._known or _folder_of(sc, part, deserializer) for part in parts
        ):
            return None
        captured = [adopt(self.given(part, sc, deserializer), self.session) for part in parts]
        with scope.operator("union"):
            # Where others are read in place of parts, the union of these is none of those.
            pairs = zip(captured, parts, strict=True)
            has_own = all(rdd._jrdd.id() == part.id() for rdd, part in pairs)
            united = shuffles.union(captured, java if has_own else None)
        assert isinstance(united, LineageRDD)
        if united._jrdd.id() == java.id():
            return self.remember(united)
        level = java.getStorageLevel()
        if level.useMemory() or level.useDisk():
            united._jrdd.persist(level)
            return self.remember(united, java, is_persisted=True)
        return self.remember(united, java)

    # -- to the JVM --------------------------------------------------------------------------

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of a stream: what it returns is known when the JVM gives it again."""
        operator = state_operator(function)
        reason = STATE if operator else self.refusal

        def call(at: Any, *rdds: Any) -> Any:
            if not reason:
                return self._returned(function(at, *rdds))
            unknown = None
            if not self.session.closed:
                above = [rdd.node for rdd in rdds if isinstance(rdd, LineageRDD)]
                unknown = self.session.nodes.unknown(
                    operator or self._refused_by or "StreamingContext.start", reason, above
                )
            return self._returned(function(at, *map(_plain, rdds)), unknown)

        return call

    def _returned(self, result: Any, unknown: Node | None = None) -> Any:
        if not isinstance(result, RDD):
            return result
        if not isinstance(result, LineageRDD):
            known = unknown or getattr(result, "lineage_unknown", None)
            self.session.problems.guard(
                "know a batch of a stream of RDDs again",
                lambda: self._add(
                    result._jrdd, _Known(_weak(result.ctx, result._jrdd), unknown=known)
                ),
            )
            return result
        kind = "org.apache.spark.api.java.JavaRDD"
        if not is_instance_of(result.ctx._gateway, result._jrdd, kind):
            # As PySpark does: a zip is an RDD of pairs in the JVM.
            result = result.map(_same)
        remembered: list[LineageRDD] = []
        self.session.problems.guard(
            "know a batch of a stream of RDDs again",
            lambda: remembered.append(self.remember(result)),
        )
        # What is not known again is read as plain records.
        return remembered[0] if remembered else _plain(result)

    def queued(self, rdd: RDD[Any]) -> Any:
        """The Java RDD of plain records that a queue has of one of the program's, which is read in its place."""
        captured = adopt(rdd, self.session)
        java = captured._jrdd
        plain = without_addresses_java(captured, java)
        self.remember(captured, None if plain is java else plain, is_plain=True)
        return plain

    def remember(
        self,
        rdd: LineageRDD,
        java: Any | None = None,
        *,
        is_plain: bool = False,
        is_persisted: bool = False,
    ) -> LineageRDD:
        """Know an RDD when the JVM gives it.

        Args:
            rdd: the RDD.
            java: the Java RDD in whose place it is read, where it is of another.
            is_plain: the records of the one that the JVM gives are plain ones.
            is_persisted: capture keeps it as long as Spark keeps the other.
        """
        own = rdd._jrdd
        known = _Known(
            _weak(rdd.ctx, own if java is None else java),
            node=rdd.node,
            spaces=rdd.spaces,
            batched=rdd.batched,
            batch_size=rdd.batch_size,
            deserializer=rdd._jrdd_deserializer,
            instead=None if java is None else own,
            is_plain=is_plain,
            persisted=own if is_persisted else None,
        )
        self._add(own if java is None else java, known)
        return rdd

    def _add(self, java: Any, known: _Known) -> None:
        with self._lock:
            self._known[java.id()] = known
            now = time.monotonic()
            if len(self._known) < self._sweep_at and now - self._swept < _SWEEP_S:
                return
            self._swept = now
            for number, other in list(self._known.items()):
                self._known[number] = other.release()
                if other.java.get() is None:
                    del self._known[number]
            self._sweep_at = max(_SWEPT_FIRST, 2 * len(self._known))


def _plain(rdd: Any) -> Any:
    """An RDD of plain records, which PySpark computes on without capture; what is none is left as it is."""
    if not isinstance(rdd, LineageRDD):
        return rdd
    java = rdd._jrdd
    if not isinstance(rdd._jrdd_deserializer, AddressedSerializer):
        return RDD(java, rdd.ctx, rdd._jrdd_deserializer)
    return RDD(without_addresses_java(rdd, java), rdd.ctx, rdd.ctx.serializer)


def _folder_of(sc: SparkContext, java: Any, deserializer: Any) -> str | None:
    """The folder of ``textFileStream`` whose files an RDD has read; None: it is of something else."""
    if deserializer != UTF8Deserializer():
        return None
    return hadoop.text_stream_folder(sc, java.rdd())


def _same(record: Any) -> Any:
    return record


def _weak(sc: SparkContext, java: Any) -> Any:
    jvm: Any = sc._jvm
    return jvm.java.lang.ref.WeakReference(java.rdd())


def _stream_name(java: Any) -> str:
    """What Spark calls the stream that an RDD is of, without its time."""
    named = java.rdd().scope()
    text = str(named.get().name()) if named.isDefined() else "a stream of RDDs"
    return " ".join(text.partition("@")[0].split())


def _streams_in(context: StreamingContext) -> Iterable[Any]:
    """All streams that a context computes (Spark's objects)."""
    java: Any = context._jssc
    todo = list(java.ssc().graph().getOutputStreams())
    seen: set[int] = set()
    while todo:
        stream = todo.pop()
        number = stream.hashCode()
        if number in seen:
            continue
        seen.add(number)
        yield stream
        above = stream.dependencies()
        todo.extend(above.apply(place) for place in range(above.size()))


def _is_checkpointed(stream: Any) -> bool:
    """Whether a program has a stream's records kept. What keeps a state has its own kept, and is treated by itself."""
    return stream.checkpointDuration() is not None and not stream.mustCheckpoint()


# -- PySpark's methods -----------------------------------------------------------------------


def _start(stock: Any, session_of: Callable[[SparkContext], Session | None]) -> Any:
    @functools.wraps(stock)
    def start(self: StreamingContext) -> None:
        session = session_of(self.sparkContext)
        if session is not None:
            streams = streams_of(session)
            session.problems.guard("look at streams of RDDs", lambda: streams.begin(self))
        stock(self)

    return start


def _stop(stock: Any) -> Any:
    @functools.wraps(stock)
    def stop(self: StreamingContext, stopSparkContext: bool = True, stopGraceFully: bool = False) -> None:  # fmt: skip
        if getattr(self.sparkContext, _ATTRIBUTE, None) is None:
            stock(self, stopSparkContext, stopGraceFully)
            return
        # Capture ends between the two.
        stock(self, False, stopGraceFully)
        if stopSparkContext:
            self.sparkContext.stop()

    return stop


def _queue_stream(stock: Any, session_of: Callable[[SparkContext], Session | None]) -> Any:
    @functools.wraps(stock)
    def queue_stream(
        self: StreamingContext,
        rdds: list[Any],
        oneAtATime: bool = True,
        default: Any | None = None,
    ) -> Any:
        sc = self.sparkContext
        session = None if scope.is_suspended() else session_of(sc)
        if session is None or not can_run_captured(session) or not (rdds or default):
            return stock(self, rdds, oneAtATime, default)
        # As PySpark does, of captured RDDs.
        if default and not isinstance(default, RDD):
            default = sc.parallelize(default)
        queued: Sequence[Any] = rdds or [rdds]
        if not isinstance(queued[0], RDD):
            queued = [sc.parallelize(records) for records in queued]
        streams = streams_of(session)
        all_java = [streams.queued(rdd) for rdd in queued]
        jvm, java = sc._jvm, self._jssc
        assert jvm is not None
        assert java is not None
        queue = jvm.PythonDStream.toRDDQueue(all_java)
        # PySpark takes an empty default for none.
        if not default:
            stream = java.queueStream(queue, oneAtATime)
        else:
            stream = java.queueStream(queue, oneAtATime, streams.queued(default))
        return DStream(stream, self, deserializer_of(queued, sc.serializer))

    return queue_stream


def deserializer_of(rdds: Sequence[RDD[Any]], default: Any) -> Any:
    """By what PySpark would read a queue of RDDs without capture, which it compares with that of other streams.

    Args:
        rdds: of the queue.
        default: the context's serializer, by which functions write, and RDDs that differ are written anew.
    """
    own = {_own_deserializer(rdd, default) for rdd in rdds}
    return own.pop() if len(own) == 1 else default


def _own_deserializer(rdd: RDD[Any], default: Any) -> Any:
    deserializer = rdd._jrdd_deserializer
    if isinstance(deserializer, LineDeserializer):
        return UTF8Deserializer(deserializer.use_unicode)
    return default if isinstance(deserializer, AddressedSerializer) else deserializer


def _java_stream(
    stock: Callable[[Any], Any] | None, session_of: Callable[[SparkContext], Session | None]
) -> property:
    """``DStream._jdstream``: when the program reads it, the JVM may go on with the records by itself.

    ``stock``: PySpark's own; None: an attribute.
    """

    def get(self: Any) -> Any:
        if not is_own_caller(1) and not scope.is_suspended():
            session = session_of(self._sc)
            if session is not None:
                streams_of(session).refuse(JAVA_READS, "DStream._jdstream")
        return vars(self)["_jdstream"] if stock is None else stock(self)

    def put(self: Any, java: Any) -> None:
        vars(self)["_jdstream"] = java

    return property(get, put)


def _slice(stock: Any) -> Any:
    @functools.wraps(stock)
    def slice_of(self: Any, begin: Any, end: Any) -> list[RDD[Any]]:
        rdds: list[RDD[Any]] = stock(self, begin, end)
        streams: RddStreams | None = getattr(self._sc, _ATTRIBUTE, None)
        if streams is None:
            return rdds
        return [streams.given(rdd._jrdd, rdd.ctx, rdd._jrdd_deserializer) for rdd in rdds]

    return slice_of


def _call(stock: Any) -> Any:
    @functools.wraps(stock)
    def call(self: Any, milliseconds: int, jrdds: Any) -> Any:
        sc = self.ctx or SparkContext._active_spark_context
        streams: RddStreams | None = getattr(sc, _ATTRIBUTE, None)
        if streams is None:
            return stock(self, milliseconds, jrdds)
        function = TransformFunction(sc, streams.around(self.func), *self.deserializers)
        try:
            return stock(function.rdd_wrapper(streams.given), milliseconds, jrdds)
        finally:
            self.ctx, self.failure = sc, function.failure

    return call
