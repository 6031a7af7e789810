"""Between RDDs and DataFrames.

``toDF`` and ``createDataFrame`` are in :mod:`lineage_emitter.driver.to_dataframe`, what ``DataFrame.rdd`` gives in
:mod:`lineage_emitter.driver.dataframe_records`.
What DataFrames do by themselves is recorded by recipes: see :mod:`lineage_emitter.dataframes`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark import RDD

from lineage_core.recipe.names import TO_RDD
from lineage_emitter import scope
from lineage_emitter.dataframes.rdd_rows import ROWS_NOT_STORED
from lineage_emitter.dataframes.traced_frames import is_traced_frame
from lineage_emitter.driver import frame_actions
from lineage_emitter.driver.captured import nodes_of
from lineage_emitter.pyspark_parts import frame_class

if TYPE_CHECKING:
    from lineage_emitter.session.session import Session

_CAPTURED_RDD = "_lineage_rdd"
READER_SOURCES = ("load", "csv", "json", "parquet", "orc", "text", "jdbc", "table", "xml")


def hook_dataframes(active_session: Callable[[], Session | None]) -> None:
    """Hook DataFrame work; RDDs that become DataFrames by other ways than `toDF` are recorded as unknown."""
    from pyspark.sql import SparkSession
    from pyspark.sql.readwriter import DataFrameReader

    frame_actions.install(active_session)
    for owner, label, names in (
        (DataFrameReader, "DataFrameReader", READER_SOURCES),
        (SparkSession, "SparkSession", ("createDataFrame", "table")),
    ):
        for name in names:
            stock = owner.__dict__.get(name)
            if stock is not None:
                setattr(owner, name, _hooked(stock, f"{label}.{name}", active_session))
    frame = frame_class()
    frame.rdd = _rdd(frame.__dict__["rdd"], active_session)


def _hooked(stock: Any, method_name: str, active_session: Callable[[], Session | None]) -> Any:
    @functools.wraps(stock)
    def method(self: Any, *arguments: Any, **keywords: Any) -> Any:
        # Whatever such a method calls in turn is suspended, so this is the outermost one: the
        # user's, or of a part of PySpark that works on DataFrames (pandas on Spark).
        session = None if scope.is_suspended() else active_session()
        if session is None:
            with scope.suspended():
                return stock(self, *arguments, **keywords)
        all_arguments = (*arguments, *keywords.values())
        if method_name.endswith("createDataFrame") and nodes_of(session, all_arguments):
            return stock(self, *arguments, **keywords)
        if any(isinstance(argument, RDD) for argument in all_arguments):
            session.nodes.unknown(method_name, ROWS_NOT_STORED, nodes_of(session, all_arguments))
        try:
            with scope.suspended():
                return stock(self, *arguments, **keywords)
        finally:
            session.jobs.record_lazy_jobs()

    return method


def _rdd(stock: Any, active_session: Callable[[], Session | None]) -> property:
    """``DataFrame.rdd``: one captured RDD over PySpark's own, which caches it."""

    # A cached property since 4.0.
    @functools.wraps(getattr(stock, "func", None) or stock.fget)
    def rdd(self: Any) -> Any:
        plainly = scope.is_suspended() or is_traced_frame(self)
        session = None if plainly else active_session()
        caller = scope.called_from_pyspark()
        if session is None or caller:
            with scope.suspended():
                plain = stock.__get__(self)
            if session is not None:
                session.jobs.record_lazy_jobs()
                session.nodes.unknown(TO_RDD, "PySpark reads the rows by itself", ())
            return plain
        captured = self.__dict__.get(_CAPTURED_RDD)
        if captured is None or captured.session is not session:
            # What RDDs need is loaded by programs that use them.
            from lineage_emitter.driver.dataframe_records import dataframe_records

            captured = self.__dict__[_CAPTURED_RDD] = dataframe_records(
                session, self, stock.__get__
            )
        session.jobs.record_lazy_jobs()
        return captured

    return property(rdd)
