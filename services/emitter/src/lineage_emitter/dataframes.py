"""DataFrame work and streams are noticed and named in the verdict; they are not captured yet.

Captured are the ways between RDDs and DataFrames: ``toDF`` and ``createDataFrame`` (see
:mod:`lineage_emitter.to_frame`), and ``DataFrame.rdd``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lineage_emitter import scope

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lineage_emitter.session import Node, Session

REASON = "DataFrame and SQL work has no record-level lineage in this version"
FRAME_ACTIONS = ("collect", "count", "show", "toPandas", "toArrow", "take", "first", "head", "tail",
                 "foreach", "foreachPartition", "toLocalIterator", "isEmpty", "toJSON",
                 "checkpoint", "localCheckpoint", "approxQuantile", "corr", "cov", "crosstab",
                 "freqItems", "describe", "summary")  # fmt: skip
WRITER_ACTIONS = ("save", "saveAsTable", "insertInto", "json", "parquet", "csv", "orc", "text",
                  "jdbc")  # fmt: skip
WRITER_V2_ACTIONS = ("create", "replace", "createOrReplace", "append", "overwrite",
                     "overwritePartitions")  # fmt: skip
_KEPT = "_lineage_rdd"
READER_SOURCES = ("load", "csv", "json", "parquet", "orc", "text", "jdbc", "table", "xml")


def notice_dataframes(active_session: Callable[[], Session | None]) -> None:
    """Note every DataFrame source and action, and RDDs that become DataFrames, as unknown."""
    from pyspark.sql import SparkSession
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    for owner, label, names in (
        (DataFrame, "DataFrame", FRAME_ACTIONS),
        (DataFrameReader, "DataFrameReader", READER_SOURCES),
        (DataFrameWriter, "DataFrameWriter", WRITER_ACTIONS),
        (DataFrameWriterV2, "DataFrameWriterV2", WRITER_V2_ACTIONS),
        (DataStreamWriter, "DataStreamWriter", ("start", "toTable")),
        (SparkSession, "SparkSession", ("createDataFrame", "sql", "table")),
    ):
        for name in names:
            stock = owner.__dict__.get(name)
            if stock is not None:
                setattr(owner, name, _noticing(stock, f"{label}.{name}", active_session))
    DataFrame.rdd = _rdd(DataFrame.__dict__["rdd"], active_session)  # type: ignore[assignment]


def notice_streams(session_of: Callable[[SparkContext], Session | None]) -> None:
    """Note every stream of RDDs as unknown."""
    from pyspark.streaming import StreamingContext

    stock = StreamingContext.start

    @functools.wraps(stock)
    def start(self: StreamingContext) -> None:
        session = session_of(self.sparkContext)
        if session is not None:
            session.unknown("StreamingContext.start", "this version does not capture streams", ())
        stock(self)

    StreamingContext.start = start  # type: ignore[method-assign]


def _noticing(stock: Any, what: str, active_session: Callable[[], Session | None]) -> Any:
    function: Any = stock.func if isinstance(stock, functools.cached_property) else stock
    if isinstance(function, property):
        function = function.fget

    @functools.wraps(function)
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        # Whatever such a method calls in turn is suspended, so this is the outermost one: the
        # user's, or of a part of PySpark that works on DataFrames (pandas on Spark).
        session = None if scope.is_suspended() else active_session()
        if session is None:
            with scope.suspended():
                return function(self, *arguments, **named)
        given = (*arguments, *named.values())
        if what.endswith("createDataFrame") and _nodes(session, given):
            return function(self, *arguments, **named)
        if not _is_local_data(what, given):
            session.unknown(what, REASON, _nodes(session, given))
        try:
            with scope.suspended():
                return function(self, *arguments, **named)
        finally:
            session.note_lazy()

    if isinstance(stock, (property, functools.cached_property)):
        return property(method)
    return method


def _nodes(session: Session, given: tuple[Any, ...]) -> list[Node]:
    from lineage_emitter.rdd import nodes_of

    return nodes_of(session, given)


def _is_local_data(what: str, given: tuple[Any, ...]) -> bool:
    """``createDataFrame`` of a list reads no RDD; the actions on the frame are noted."""
    from pyspark import RDD

    return what.endswith("createDataFrame") and not any(isinstance(one, RDD) for one in given)


def _rdd(stock: Any, active_session: Callable[[], Session | None]) -> property:
    """``DataFrame.rdd``: one captured RDD over PySpark's own, which it keeps, too."""

    @functools.wraps(stock.func)
    def rdd(self: Any) -> Any:
        session = None if scope.is_suspended() else active_session()
        caller = scope.called_from_pyspark()
        with scope.suspended():
            plain = stock.__get__(self)
        if session is None:
            return plain
        session.note_lazy()
        if caller:
            session.unknown("DataFrame.rdd", REASON, ())
            return plain
        kept = self.__dict__.get(_KEPT)
        if kept is None or kept.session is not session:
            from lineage_emitter.sources import frame_rows

            kept = self.__dict__[_KEPT] = frame_rows(session, plain)
        return kept

    return property(rdd)
