"""Arrays in files of Parquet: one row of the file for each along the first axis, whose values are its columns."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import IO, Any

import numpy as np

from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.workflow import AnyArray

COLUMNS_MAX = 10_000
KINDS = "biufUM"
"""Of types whose values Parquet and NumPy both have."""


def read_rows(file: IO[bytes]) -> AnyArray:
    """The array of a file of rows: with a column of the file for each place along the second axis; of one column it has one axis.

    Raises:
        UntracedError: a column has NULL or values that NumPy has no type for, or columns have several types.
        OSError, ValueError: it is no such file.
    """
    # It takes a tenth of a second, and most programs of arrays have no such files.
    parquet = import_module("pyarrow.parquet")
    table = parquet.ParquetFile(file, pre_buffer=False).read(use_threads=False)
    columns = [_values(name, table.column(at)) for at, name in enumerate(table.column_names)]
    if not columns:
        raise ArrayLineageError("it has no columns")
    if len({_kind(values) for values in columns}) > 1:
        types = ", ".join(dict.fromkeys(str(values.dtype) for values in columns))
        raise UntracedError(
            f"its columns have several types ({types})",
            "write those of one type to a file of their own",
        )
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _kind(values: AnyArray) -> str:
    return "U" if values.dtype.kind == "U" else values.dtype.str


def _values(name: str, column: Any) -> AnyArray:
    if column.null_count:
        raise UntracedError(f"its column {name!r} has NULL", "fill it in before it is written")
    texts = str(column.type) in {"string", "large_string"}
    values = column.to_numpy()
    values = np.array(values.tolist(), np.str_) if texts else values
    if values.dtype.kind not in KINDS:
        raise UntracedError(
            f"its column {name!r} is of the type {column.type}",
            "write numbers, truth values, times or texts",
        )
    return values


def _is_written(dtype: np.dtype[Any]) -> bool:
    """Whether Spark reads values of a type from Parquet."""
    if dtype.kind == "f":
        return dtype.itemsize in {4, 8}
    if dtype.kind == "M":
        return np.datetime_data(dtype)[0] in {"D", "s", "ms", "us"}
    return dtype.kind in KINDS


def write_rows(path: str, values: AnyArray, columns: Sequence[str] | None) -> None:
    """Write an array as a new file of rows.

    Args:
        path: of the file.
        values: with one axis or two.
        columns: names of the columns; None: ``_1``, ``_2`` and so on, as Spark names them.

    Raises:
        UntracedError: it has more axes, or values that Parquet has no type for.
        ArrayLineageError: names and columns are not as many, or a name is there twice.
        OSError: the file is there, or can't be written.
    """
    if values.ndim not in (1, 2) or values.shape[1:] == (1,) or not _is_written(values.dtype):
        raise UntracedError(
            f"an array of the shape {values.shape} and the type {values.dtype} makes no rows",
            "give one with one axis, or with two and several columns, of numbers, truth values, times or texts",
        )
    table = values[:, None] if values.ndim == 1 else values
    names = list(columns) if columns is not None else [f"_{at + 1}" for at in range(table.shape[1])]
    if len(names) != table.shape[1] or len(set(names)) != len(names) or not names:
        raise ArrayLineageError(
            f"{len(set(names))} different names for {table.shape[1]} columns: give one for each"
        )
    if len(names) > COLUMNS_MAX:
        raise ArrayLineageError(f"{len(names):,} columns; at most {COLUMNS_MAX:,} are written")
    arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
    native = table.dtype.newbyteorder("=")
    arrays = [arrow.array(table[:, at].astype(native)) for at in range(len(names))]
    with open(path, "xb") as file:
        parquet.write_table(arrow.table(arrays, names=names), file)
