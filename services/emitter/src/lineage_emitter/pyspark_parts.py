"""Parts of PySpark that stand elsewhere in some of its versions, in one place.

Tested with 3.5.9 and 4.1.4. The JVM's parts are in `frames.jvm`.

Raises:
    SettingsError: on import, where this PySpark is of another version: capture leans on internals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark

from lineage_emitter.errors import SettingsError

if TYPE_CHECKING:
    from pyspark.core.rdd import Partitioner, PipelinedRDD, RDDBarrier, portable_hash
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
    "Partitioner",
    "PipelinedRDD",
    "PythonEvalType",
    "RDDBarrier",
    "_load_from_socket",
    "check_version",
    "frame_class",
    "is_rdd_api",
    "load_early",
    "merge_class",
    "portable_hash",
]

SUPPORTED = ("3.5", "4.1")
SINCE_4 = not pyspark.__version__.startswith("3.")
_RDD_API = ("pyspark.core.", "pyspark.rdd.", "pyspark.context.")


def check_version(version: str) -> None:
    """See that capture was tested with such a PySpark.

    Raises:
        SettingsError: it was not.
    """
    if ".".join(version.split(".")[:2]) not in SUPPORTED:
        raise SettingsError(
            f"PySpark {version} is not supported: lineage is captured in {' and '.join(SUPPORTED)}"
        )


check_version(pyspark.__version__)


def is_rdd_api(caller: str) -> bool:
    """Whether a function of PySpark, by its module and name, is of the RDDs' own interface."""
    return caller.startswith(_RDD_API)


def load_early() -> None:
    """Load what PySpark itself loads at its first work on a DataFrame: pandas, where it is installed."""
    if SINCE_4:
        import pyspark.testing  # noqa: F401


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
