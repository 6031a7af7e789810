"""Batches that functions of a DataFrame get as arrays of Arrow (`guarded_batches`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


class ArrowBatches:
    """Arrays, which no function changes."""

    def copied(self, columns: Sequence[Any]) -> Sequence[Any]:
        """The columns themselves."""
        return columns

    def taken(self, columns: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
        """Some rows."""
        rows = pa.array(places, pa.int64())
        return [column.take(rows) for column in columns]

    def is_of(self, values: Any, rows: int) -> bool:
        """Whether it is an array of so many values."""
        return isinstance(values, pa.Array) and len(values) == rows

    def spread(self, values: Any, places: Sequence[int]) -> Any:
        """The values at places of others."""
        return values.take(pa.array(places, pa.int64()))

    def empty(self, rows: int) -> Any:
        """So many values that are NULL."""
        return pa.nulls(rows)

    def texts(self, column: Any) -> Sequence[str | None]:
        """A column of texts."""
        texts: list[str | None] = column.to_pylist()
        return texts

    def flags(self, kept: list[bool]) -> Any:
        """A column of truth values."""
        return pa.array(kept, pa.bool_())
