"""Parts of PySpark that stand elsewhere in some of its versions, in one place.

The JVM's parts are in `dataframes.jvm`.

Raises:
    SettingsError: on import, where this PySpark is not captured (`spark_versions`).
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import pyspark

# Before PySpark's parts: it says which one a version lacks.
from lineage_emitter import spark_versions  # noqa: F401

if TYPE_CHECKING:
    from pyspark.core.rdd import Partitioner, PipelinedRDD, RDDBarrier, portable_hash
    from pyspark.serializers import Serializer
    from pyspark.util import PythonEvalType, _load_from_socket
else:
    # Since 4.0 another name for pyspark.core.rdd, which type checkers can't see.
    from pyspark.rdd import (  # noqa: TID251
        Partitioner,
        PipelinedRDD,
        PythonEvalType,
        RDDBarrier,
        _load_from_socket,
        portable_hash,
    )

__all__ = [
    "SINCE_4",
    "SINCE_4_1",
    "WITH_DELTA",
    "WITH_ICEBERG",
    "Partitioner",
    "PipelinedRDD",
    "PythonEvalType",
    "RDDBarrier",
    "frame_class",
    "is_rdd_api",
    "load_early",
    "merge_class",
    "portable_hash",
    "records_from_socket",
]

_VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
SINCE_4, SINCE_4_1 = _VERSION >= (4, 0), _VERSION >= (4, 1)
WITH_DELTA, WITH_ICEBERG = _VERSION in {(3, 5), (4, 1)}, _VERSION == (4, 1)
"""Whether tests read tables of Delta Lake and of Apache Iceberg in this version."""
_RDD_API = ("pyspark.core.", "pyspark.rdd.", "pyspark.context.", "pyspark.streaming.")


def is_rdd_api(caller: str) -> bool:
    """Whether a function of PySpark, by its module and name, is of the RDDs' own interface."""
    return caller.startswith(_RDD_API)


def load_early() -> None:
    """Load what PySpark itself loads at its first work on a DataFrame: pandas, where it is installed."""
    if SINCE_4:
        import pyspark.testing  # noqa: F401


def records_from_socket(socket: Any, serializer: Serializer) -> list[Any]:
    """The records that a socket of the JVM gives (``PythonRDD.runJob``'s)."""
    records_or_context: Any = _load_from_socket(socket, serializer)
    if isinstance(records_or_context, AbstractContextManager):
        # Since 4.2.
        with records_or_context as records:
            return list(records)
    return list(records_or_context)


def frame_class() -> Any:
    """The class of DataFrames that run in this process's Spark."""
    try:
        from pyspark.sql.classic.dataframe import DataFrame
    except ImportError:
        from pyspark.sql import DataFrame  # type: ignore[assignment]
    return DataFrame


def merge_class() -> Any:
    """The class of MERGE's writers; None where there is none."""
    try:
        from pyspark.sql.merge import MergeIntoWriter
    except ImportError:
        return None
    return MergeIntoWriter
