"""Rows that Spark gave, as values of an array: row by row as they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.workflow import AnyArray
from lineage_core.contract.collected import CollectedRows

WAY_OUT = "select columns of one kind, cast them, and fill in NULLs before"


def collected_values(
    name: str, collection: Any, columns: Sequence[str] | None
) -> tuple[CollectedRows, AnyArray]:
    """The rows of a captured collection, by their places and by their values.

    Args:
        name: of the array.
        collection: a DataFrame or an RDD.
        columns: of a DataFrame, or of rows of one, those of the array; None: all.

    Raises:
        ArrayLineageError: nothing captures it, or it has no such columns.
        UntracedError: its rows make no array.
    """
    is_frame = hasattr(type(collection), "rdd")
    # All columns of a DataFrame: they tell its rows apart.
    rdd = collection.rdd if is_frame else collection
    collect = getattr(rdd, "collectRows", None)
    if collect is None:
        raise ArrayLineageError(
            f"{name!r} has no lineage, as nothing captures this {type(collection).__name__}: run the program by `lineage run`, "
            "or give an RDD of a LineageContext (`lc.rdd(frame)`); of a DataFrame whose rows can't be told apart `lineage verify` says why"
        )
    at = _places_of(collection.columns, columns) if is_frame else None
    rows, records = collect()
    if not is_frame and columns is not None:
        at = _places_of(_fields_of(records, columns), columns)
    if at is not None:
        records = [[record[place] for place in at] for record in records]
    values = _array_of(name, records, () if at is None else (len(at),))
    if len(values) != rows.total:
        raise ArrayLineageError(f"{rows.total:,} rows make no array of {len(values):,}")
    return rows, values


def _fields_of(records: list[Any], columns: Sequence[str]) -> Sequence[str]:
    """Names of the columns of an RDD's records, which are rows of a DataFrame."""
    if not records:
        return columns
    fields: Sequence[str] | None = getattr(records[0], "__fields__", None)
    if fields is None:
        raise ArrayLineageError(
            "columns are those of rows of a DataFrame: map the records of another RDD"
        )
    return fields


def _places_of(names: Sequence[str], columns: Sequence[str] | None) -> list[int]:
    """Where the columns of an array are among those of a DataFrame."""
    wanted = list(names if columns is None else columns)
    unknown = [column for column in wanted if list(names).count(column) != 1]
    if unknown or not wanted:
        raise ArrayLineageError(
            f"the DataFrame has not exactly one column {unknown[0]!r}: {', '.join(names)}"
            if unknown
            else "an array of rows has a column"
        )
    return [list(names).index(column) for column in wanted]


def _array_of(name: str, records: list[Any], shape: tuple[int, ...]) -> AnyArray:
    """The array whose first axis is that of the records.

    Raises:
        UntracedError: there is none.
    """
    if not records:
        return np.zeros((0, *shape))
    try:
        values = np.asarray(records)
    except (ValueError, TypeError, OverflowError) as error:
        raise UntracedError(f"the rows of {name!r} make no array: {error}", WAY_OUT) from error
    if values.dtype.kind not in "biufcSU":
        raise UntracedError(f"the rows of {name!r} are {_types_of(records)}", WAY_OUT)
    # NumPy makes texts of numbers that are beside texts.
    if values.dtype.kind in "SU" and len(set(_types(records))) > 1:
        raise UntracedError(f"the rows of {name!r} are {_types_of(records)}", WAY_OUT)
    return values


def _types(records: Sequence[Any]) -> Sequence[str]:
    """Names of the types of values, in the records or in lists that these are."""
    inner = [
        value
        for record in records
        for value in (record if isinstance(record, list | tuple) else (record,))
    ]
    return list(dict.fromkeys(type(value).__name__ for value in inner))


def _types_of(records: Sequence[Any]) -> str:
    return "values of " + ", ".join(_types(records)[:5])
