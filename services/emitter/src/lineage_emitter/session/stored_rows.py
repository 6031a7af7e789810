"""The rows that a session stores for DataFrames: each as :class:`lineage_emitter.dataframes.rdd_rows.StoredRows`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lineage_core.recipe.document import Source
    from lineage_emitter.dataframes.rdd_rows import Fact, StoredRows


class StoredRowsByName:
    """Stored rows that DataFrames are made of, by name; those of a sink by its own."""

    def __init__(self) -> None:
        self._by_name: dict[str, StoredRows] = {}

    def add(self, rows: StoredRows) -> None:
        """Add rows, which tasks write from now on."""
        self._by_name[rows.name] = rows

    def of(self, source: Source) -> StoredRows | None:
        """The stored rows that a recipe's source is; None: it is another source."""
        return next((rows for rows in self._by_name.values() if rows.path == source.name), None)

    def record_run(self, name: str, partition: int, fact: Fact) -> None:
        """A task has read a partition; ``fact``: what its end marker says of the rows."""
        self._by_name[name].record_run(partition, fact)

    def close(self) -> None:
        """Remove what no recipe names."""
        for rows in self._by_name.values():
            rows.close()
