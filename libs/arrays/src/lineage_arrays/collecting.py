"""Rows that Spark gave, as values of an array: row by row as they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineage_arrays.errors import ArrayLineageError, UntracedError
from lineage_arrays.workflow import AnyArray
from lineage_core.answers import ANSWERS, Found, is_fixed
from lineage_core.contract.collected import CollectedRows

WAY_OUT = "select columns of one kind, cast them, and fill in NULLs before"

ANSWERED = "make the Recording before the action, give what the action gave as it is, a list of some of its rows, or the DataFrame or RDD itself"


@dataclass(frozen=True)
class Collected:
    """Rows as an array's values.

    ``taken``: where the array that is wanted has its rows among them, in its order; None: it has all, in theirs.
    """

    rows: CollectedRows
    values: AnyArray
    taken: list[int] | None = None


def collected_values(name: str, collection: Any, columns: Sequence[str] | None) -> Collected:
    """The rows of a captured collection, or of an action's answer, by their places and by their values.

    Args:
        name: of the array.
        collection: a DataFrame or an RDD; or what an action gave.
        columns: of a DataFrame, or of rows of one, those of the array; None: all.

    Raises:
        ArrayLineageError: nothing captures it, it is nothing that an action gave, or it has no such columns.
        UntracedError: its rows make no array.
        LineageError: its rows can't be traced.
    """
    if isinstance(collection, list | np.ndarray) or _is_table(collection):
        return answered_values(name, collection, columns, _found(name, collection))
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
    return Collected(rows, _values_of(name, records, at, rows.total))


def _is_table(collection: Any) -> bool:
    """Whether it is a DataFrame of pandas or a table of Arrow."""
    # A DataFrame of Spark has its columns as attributes.
    kind = type(collection)
    return hasattr(kind, "iloc") or hasattr(kind, "to_pylist")


def answer_of(array: AnyArray) -> Found | None:
    """The answer whose memory an array has; None: it has none's."""
    found = ANSWERS.find(array)
    return None if isinstance(found, str) else found


def _found(name: str, given: Any) -> Found:
    found = ANSWERS.find(given)
    if isinstance(found, str):
        raise ArrayLineageError(f"{name!r} has no lineage: {found}; {ANSWERED}")
    return found


def answered_values(
    name: str, given: Any, columns: Sequence[str] | None, found: Found
) -> Collected:
    """What :func:`collected_values` gives of an answer that was found."""
    answer = found.answer
    if found.columns is not None:
        if columns is not None:
            raise ArrayLineageError("columns are those of a table: of an array of one name none")
        return Collected(answer.link(found.positions).rows, np.array(given))
    at = None
    if answer.columns is not None:
        at = _places_of(answer.columns, columns)
    elif columns is not None:
        at = _places_of(_fields_of(given, columns), columns)
    if found.records is None:
        return Collected(answer.link(found.positions).rows, _table_values(name, given, at or []))
    if not all(map(is_fixed, given)):
        raise UntracedError(
            f"the rows of {name!r} have lists or other values that the program may have written to",
            "give the RDD or the DataFrame itself, or rows of numbers, truth values or texts",
        )
    linked = answer.link(found.positions)
    values = _values_of(
        name, [found.records[place] for place in linked.among], at, linked.rows.total
    )
    if list(linked.among) == list(found.positions):
        return Collected(linked.rows, values)
    row_of = {place: row for row, place in enumerate(linked.among)}
    return Collected(linked.rows, values, [row_of[place] for place in found.positions])


def _values_of(name: str, records: Sequence[Any], at: Sequence[int] | None, total: int) -> AnyArray:
    """The array of records, or of some of their columns.

    Raises:
        UntracedError, ArrayLineageError: they make none.
    """
    if at is not None:
        records = [[record[place] for place in at] for record in records]
    values = _array_of(name, list(records), () if at is None else (len(at),))
    if len(values) != total:
        raise ArrayLineageError(f"{total:,} rows make no array of {len(values):,}")
    return values


def _table_values(name: str, table: Any, at: Sequence[int]) -> AnyArray:
    """The array of some columns of a DataFrame of pandas, or of a table of Arrow."""
    if hasattr(table, "iloc"):
        columns = [table.iloc[:, place].to_numpy() for place in at]
    else:
        columns = [table.column(place) for place in at]
        if any(column.null_count for column in columns):
            raise UntracedError(f"the rows of {name!r} have NULL", WAY_OUT)
        columns = [column.to_numpy() for column in columns]
    for column in columns:
        # As lists they would be whole numbers.
        if column.dtype.kind in "mM":
            raise UntracedError(f"the rows of {name!r} are values of {column.dtype}", WAY_OUT)
    if all(column.dtype.kind in "biuf" for column in columns):
        values = np.stack(columns, axis=1)
        if _may_be_rounded(values) and any(
            column.dtype.kind in "iu" and _may_be_rounded(column.astype(float))
            for column in columns
        ):
            raise UntracedError(_rounded(name), WAY_OUT)
        return values
    rows = [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)]
    return _array_of(name, rows, (len(at),))


_EXACT_MAX = 2**53
"""Whole numbers from here on are rounded beside floating-point numbers."""


def _may_be_rounded(values: AnyArray) -> bool:
    """Whether some values are floating-point numbers so large that they may have been other whole numbers."""
    return values.dtype.kind in "fc" and bool((np.abs(values) >= _EXACT_MAX).any())


def _rounded(name: str) -> str:
    return f"the rows of {name!r} have whole numbers of 2**53 and more beside floating-point numbers, which would be rounded"


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
    if _may_be_rounded(values) and any(
        isinstance(value, int | np.integer) and abs(int(value)) >= _EXACT_MAX
        for value in _inner(records)
    ):
        raise UntracedError(_rounded(name), WAY_OUT)
    return values


def _inner(records: Sequence[Any]) -> Iterator[Any]:
    """The values in the records, or in lists that these are."""
    for record in records:
        if isinstance(record, list | tuple):
            yield from _inner(record)
        else:
            yield record


def _types(records: Sequence[Any]) -> Sequence[str]:
    """Names of the types of values."""
    return list(dict.fromkeys(type(value).__name__ for value in _inner(records)))


def _types_of(records: Sequence[Any]) -> str:
    return "values of " + ", ".join(_types(records)[:5])
