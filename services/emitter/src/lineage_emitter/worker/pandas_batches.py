"""Batches that functions of a DataFrame get as Series of pandas (`guarded_batches`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from lineage_emitter.worker.row_batches import NotSetAsideError

INTEGERS = {"tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64"}
"""Spark's types of whole numbers: those that pandas has where none of a batch is NULL; else it has doubles."""

EXACT_MAX = 2**53
"""From there on, a double may stand for several whole numbers."""


class PandasBatches:
    """Series, of columns of these types of Spark."""

    def __init__(self, types: list[str]) -> None:
        self._types = types

    def copied(self, columns: Sequence[Any]) -> Sequence[Any]:
        """Series that the function may change."""
        return [column.copy() for column in columns]

    def taken(self, columns: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
        """Some rows, as Spark hands a batch of these alone."""
        rows = list(places)
        return [
            _as_handed(column.iloc[rows].reset_index(drop=True), kind)
            for column, kind in zip(columns, self._types, strict=True)
        ]

    def is_of(self, values: Any, rows: int) -> bool:
        """Whether it is a Series of so many values."""
        return isinstance(values, pd.Series) and len(values) == rows

    def spread(self, values: Any, places: Sequence[int]) -> Any:
        """The values at places of others."""
        return values.iloc[list(places)].reset_index(drop=True)

    def empty(self, rows: int) -> Any:
        """So many values that are NULL."""
        return pd.Series([None] * rows, dtype=object)

    def texts(self, column: Any) -> Sequence[str | None]:
        """A column of texts."""
        return [value if isinstance(value, str) else None for value in column.tolist()]

    def flags(self, kept: list[bool]) -> Any:
        """A column of truth values."""
        return pd.Series(kept, dtype=bool)


def _as_handed(series: Any, kind: str) -> Any:
    """A part of a column, as Spark hands it where the rest is not there: of another type where all that is NULL was in the rest."""
    if kind in INTEGERS and series.dtype.kind == "f" and not series.isna().any():
        if (series.abs() >= EXACT_MAX).any():
            raise NotSetAsideError("pandas rounds whole numbers beside one that is NULL")
        return series.astype(INTEGERS[kind])
    if kind == "boolean" and series.dtype == object and not series.isna().any():
        return series.astype(bool)
    return series
