"""DataFrame work is noticed and named in the verdict; its lineage is not captured yet."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lineage_emitter import scope
from lineage_emitter.session import Session

REASON = "DataFrame and SQL work has no record-level lineage in this version"
FRAME_ACTIONS = ("collect", "count", "show", "toPandas", "toArrow", "take", "first", "head", "tail",
                 "foreach", "foreachPartition", "toLocalIterator", "isEmpty", "rdd",
                 "checkpoint", "localCheckpoint")  # fmt: skip
WRITER_ACTIONS = ("save", "saveAsTable", "insertInto", "json", "parquet", "csv", "orc", "text",
                  "jdbc")  # fmt: skip
WRITER_V2_ACTIONS = ("create", "replace", "createOrReplace", "append", "overwrite",
                     "overwritePartitions")  # fmt: skip


def notice_dataframes(active_session: Callable[[], Session | None]) -> None:
    """Note every DataFrame action, and every RDD that becomes a DataFrame, as unknown."""
    from pyspark.sql import SparkSession
    from pyspark.sql.classic.dataframe import DataFrame
    from pyspark.sql.readwriter import DataFrameWriter, DataFrameWriterV2

    for owner, label, names in (
        (DataFrame, "DataFrame", FRAME_ACTIONS),
        (DataFrameWriter, "DataFrameWriter", WRITER_ACTIONS),
        (DataFrameWriterV2, "DataFrameWriterV2", WRITER_V2_ACTIONS),
        (SparkSession, "SparkSession", ("createDataFrame",)),
    ):
        for name in names:
            stock = owner.__dict__.get(name)
            if stock is not None:
                setattr(owner, name, _noticing(stock, f"{label}.{name}", active_session))


def _noticing(stock: Any, what: str, active_session: Callable[[], Session | None]) -> Any:
    function: Any = stock.func if isinstance(stock, functools.cached_property) else stock
    if isinstance(function, property):
        function = function.fget

    @functools.wraps(function)
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        if not scope.is_suspended() and not scope.called_from_pyspark():
            session = active_session()
            if session is not None and not _is_local_data(what, arguments):
                session.unknown(what, REASON)
        with scope.suspended():
            return function(self, *arguments, **named)

    if isinstance(stock, (property, functools.cached_property)):
        return property(method)
    return method


def _is_local_data(what: str, arguments: tuple[Any, ...]) -> bool:
    """``createDataFrame`` of a list reads no RDD; the actions on the frame are noted."""
    from pyspark import RDD

    return what.endswith("createDataFrame") and not any(isinstance(a, RDD) for a in arguments)
