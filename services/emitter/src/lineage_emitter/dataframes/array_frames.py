"""DataFrames of traced arrays: ``spark.createDataFrame(array)`` keeps the lineage of the array's cells.

The array writes itself to a file, which Spark reads and which both lineages name. What a traced array is, it says itself: by a
method (`lineage_rows`), so that capture needs no library of arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import uuid4

from lineage_core.environment.private_files import ensure_private_folder
from lineage_emitter.dataframes.rdd_rows import row_folder_of
from lineage_emitter.errors import RowsNotStoredError, UnsupportedOperatorError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lineage_emitter.session.session import Session

_WRITE = "lineage_rows"
_OTHERWISE = "write it by Recording.frame"


def is_array_of_rows(data: Any) -> bool:
    """Whether what a DataFrame is to be made of is a traced array."""
    return hasattr(type(data), _WRITE)


def frame_of_array(session: Session, spark: SparkSession, data: Any, schema: Any) -> DataFrame:
    """A DataFrame of a traced array: one row for each along its first axis, in a file of Parquet beside the store. Types are those of the array.

    Args:
        session: captures what is done with it.
        spark: reads the file.
        data: the array.
        schema: names of its columns; None: those that Spark gives to an array's.

    Raises:
        UnsupportedOperatorError: the schema has more than names, or no rows are kept.
        OSError: the file can't be written.
        LineageError: the array can't be rows.
    """
    if schema is not None and not (
        isinstance(schema, list | tuple) and all(isinstance(name, str) for name in schema)
    ):
        raise UnsupportedOperatorError(
            "createDataFrame of a traced array with types", "give names of columns, and cast them"
        )
    try:
        folder = ensure_private_folder(row_folder_of(session))
    except RowsNotStoredError as problem:
        raise UnsupportedOperatorError(
            "createDataFrame of a traced array", f"its rows are not kept ({problem}): {_OTHERWISE}"
        ) from problem
    path = folder / f"array-{uuid4().hex}.parquet"
    getattr(data, _WRITE)(str(path), schema, session.settings.rows_mb << 20)
    return spark.read.parquet(path.as_uri())
