"""Sources: the methods of SparkContext that make RDDs, with lineage.

Each takes PySpark's own arguments after the session, and makes PySpark's own RDD. What is not PySpark's
is positional only: a program may name any argument of PySpark's.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.serializers import BatchedSerializer

from lineage_core.contract.graph import Unit
from lineage_emitter import scope
from lineage_emitter.driver.rdd import LineageRDD
from lineage_emitter.session import hadoop
from lineage_emitter.session.hadoop import FileSource
from lineage_emitter.session.session import Session
from lineage_emitter.worker.batches import repartition_serializer
from lineage_emitter.worker.lines import LineDeserializer
from lineage_emitter.worker.spaces import EACH_RUN


def stock(name: str) -> Callable[..., Any]:
    """The SparkContext's own method, also where ``lineage run`` has wrapped it."""
    method = getattr(SparkContext, name)
    own: Callable[..., Any] = getattr(method, "lineage_stock", method)
    return own


# -- files -----------------------------------------------------------------------------------------


def text_file(
    session: Session, /, name: str, minPartitions: int | None = None, use_unicode: bool = True
) -> RDD[Any]:
    """``textFile``: an item is a line."""
    with scope.operator("textFile"):
        plain = stock("textFile")(session.sc, name, minPartitions, use_unicode)
        return _lines(session, "textFile", plain, name, use_unicode)


def text_file_stream(session: Session, plain: RDD[Any], folder: str) -> LineageRDD:
    """A batch of ``textFileStream``: an item is a line. ``plain``: PySpark's RDD of it."""
    with scope.operator("textFileStream"):
        return _lines(session, "textFileStream", plain, folder, use_unicode=True)


def _lines(
    session: Session, name: str, plain: RDD[Any], path: str, use_unicode: bool
) -> LineageRDD:
    node = session.nodes.register("source", name, path=path, alias="read")
    node.files = FileSource(plain._jrdd)
    lines = LineDeserializer(use_unicode)
    return LineageRDD.wrap(plain, session, node, node.name, deserializer=lines)


FILE_SOURCES: dict[str, Unit] = {
    "wholeTextFiles": "file",
    "binaryFiles": "file",
    "binaryRecords": "record",
    "sequenceFile": "record",
    "pickleFile": "record",
    "newAPIHadoopFile": "record",
    "newAPIHadoopRDD": "record",
    "hadoopFile": "record",
    "hadoopRDD": "record",
}
"""What an item of each is of its file."""


def _from_files(source: str, session: Session, /, *arguments: Any, **keywords: Any) -> RDD[Any]:
    """One of ``FILE_SOURCES``."""
    with scope.operator(source):
        plain = stock(source)(session.sc, *arguments, **keywords)
        bound_arguments = (
            inspect.signature(stock(source)).bind(session.sc, *arguments, **keywords).arguments
        )
        path = (
            bound_arguments.get("path")
            or bound_arguments.get("name")
            or hadoop.folder_in(bound_arguments.get("conf"))
        )
        node = session.nodes.register("source", source, path=path, alias="read")
        node.files = FileSource(
            plain._jrdd, FILE_SOURCES[source], bound_arguments.get("recordLength", 0)
        )
        repeatable = _is_repeatable(session, bound_arguments.get("inputFormatClass"))
        return LineageRDD.wrap(plain, session, node, node.name + ("" if repeatable else EACH_RUN))


def _is_repeatable(session: Session, input_format: str | None) -> bool:
    """Whether a split gives the same records in the same order whenever it is read."""
    if input_format is None:
        return True
    try:
        return hadoop.reads_files(session.sc, input_format)
    except Exception:
        # Where that is not known, each run's records are named apart: never two rows by one name.
        return False


# -- what the program makes ------------------------------------------------------------------------


def parallelize(session: Session, /, c: Iterable[Any], numSlices: int | None = None) -> RDD[Any]:
    """``parallelize``: an item is an element."""
    with scope.operator("parallelize"):
        return _parallelized(session, "parallelize", c, numSlices)


def _range(
    session: Session,
    /,
    start: int,
    end: int | None = None,
    step: int = 1,
    numSlices: int | None = None,
) -> RDD[Any]:
    """``range``: an item is a number."""
    first, stop = (0, start) if end is None else (start, end)
    with scope.operator("range"):
        return _parallelized(session, "range", range(first, stop, step), numSlices)


def _parallelized(
    session: Session, name: str, elements: Iterable[Any], slices: int | None
) -> RDD[Any]:
    with scope.suspended():
        plain = stock("parallelize")(session.sc, elements, slices)
    node = session.nodes.register("source", name, alias=name)
    batch = repartition_serializer(session.sc)
    deserializer = plain._jrdd_deserializer
    is_batched = isinstance(deserializer, BatchedSerializer) and deserializer == batch
    batched = batch.batchSize if is_batched else 0
    return LineageRDD.wrap(plain, session, node, node.name, batched=batched)


def _empty(session: Session, /) -> RDD[Any]:
    """``emptyRDD``: no item, and no partition."""
    with scope.operator("emptyRDD"):
        plain = stock("emptyRDD")(session.sc)
        node = session.nodes.register("source", "emptyRDD", alias="emptyRDD")
        return LineageRDD.wrap(plain, session, node, node.name)


SOURCES: dict[str, Callable[..., RDD[Any]]] = {
    "textFile": text_file,
    "parallelize": parallelize,
    "range": _range,
    "emptyRDD": _empty,
    **{name: functools.partial(_from_files, name) for name in FILE_SOURCES},
}
"""Methods of SparkContext that make an RDD of no other."""
