"""What functions of a DataFrame get that take many rows at once, whatever holds them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class NotSetAsideError(Exception):
    """Rows that a function failed on can't be told from the others; its text says why."""


class Batches(Protocol):
    """Batches of one kind: columns of equal length."""

    def copied(self, columns: Sequence[Any]) -> Sequence[Any]:
        """Columns that the function may change."""

    def taken(self, columns: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
        """Some rows, as Spark hands a batch of these alone.

        Raises:
            NotSetAsideError: that can't be told from these columns.
        """

    def is_of(self, values: Any, rows: int) -> bool:
        """Whether they are what a function of so many rows gives."""

    def spread(self, values: Any, places: Sequence[int]) -> Any:
        """The values at places of others."""

    def empty(self, rows: int) -> Any:
        """So many values of any type that are NULL."""

    def texts(self, column: Any) -> Sequence[str | None]:
        """A column of texts."""

    def flags(self, kept: list[bool]) -> Any:
        """A column of truth values."""
