"""Rows of a plan that are to be deleted from tables, and what deletes them from tables of a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

MARK = "lineage.erasure"
"""The key in a commit's metadata whose value is the digest of the plan."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """Rows of one table. ``table``: its folder; ``files``: positions of rows by the file's path within the folder, in order.

    ``names``: how programs named the table.
    """

    table: str
    files: Mapping[str, Sequence[int]]
    names: Sequence[str] = ()

    @property
    def count(self) -> int:
        """How many rows these are."""
        return sum(map(len, self.files.values()))


class TableDeleter(Protocol):
    """Deletes rows from tables of one format, in one commit a table that bears the plan's digest (`MARK`), or not at all."""

    def check(self, rows: TableRows, digest: str) -> None:
        """See that the rows can be deleted, or were by an earlier try.

        Raises:
            ErasureError: they can't; the table is in the message.
        """

    def delete(self, rows: TableRows, digest: str) -> Sequence[str]:
        """Delete the rows, once: what an earlier try committed is not done twice.

        Returns:
            What keeps them still, and how it is removed.

        Raises:
            ErasureError: they can't be deleted; nothing was.
        """
