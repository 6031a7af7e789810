"""Readers of files with packed rows (Parquet, ORC), in this process or in a separate one.

Such a file declares the size of its parts, and a few bytes of it may decode to gigabytes: a server reads it by
:class:`lineage_query.rows.confined.ConfinedFormats`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import IO, Any, Protocol

PARQUET_SUFFIX = ".parquet"
OPERATIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "parquet texts": ("lineage_query.rows.parquet_rows", "texts_of"),
        "parquet values": ("lineage_query.rows.parquet_rows", "values_from"),
        "parquet rows": ("lineage_query.rows.parquet_rows", "rows_with"),
        "parquet row ids": ("lineage_query.rows.parquet_row_ids", "row_ids_at"),
        "parquet rows with ids": ("lineage_query.rows.parquet_row_ids", "rows_with_ids"),
        "parquet ids held": ("lineage_query.rows.parquet_row_ids", "ids_held"),
        "parquet where": ("lineage_query.erasure.source_rows", "parquet_rows_where"),
        "orc rows": ("lineage_query.rows.orc_rows", "rows_with"),
    }
)
"""Readers by name: the module, which most queries do not need, and its function of the file and of arguments."""


def is_parquet(path: str) -> bool:
    """Whether a file is a Parquet file, by its name."""
    return path.endswith(PARQUET_SUFFIX)


def function_of(operation: str) -> Callable[..., Any]:
    """The function of one of :data:`OPERATIONS`."""
    module, name = OPERATIONS[operation]
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


class Formats(Protocol):
    """Reads files of packed rows."""

    def read(self, operation: str, file: IO[bytes], *arguments: Any) -> Any:
        """What one of :data:`OPERATIONS` finds in a file.

        Raises:
            UnsureError: Spark may read the file otherwise.
            OSError, pa.ArrowException, ValueError: the file can't be read.
            BudgetError: reading exceeds the query's budget.
        """

    def close(self) -> None:
        """Release resources; it may be used again."""


class FormatsHere:
    """Reads them in this process."""

    def read(self, operation: str, file: IO[bytes], *arguments: Any) -> Any:
        """As :meth:`Formats.read`."""
        return function_of(operation)(file, *arguments)

    def close(self) -> None:
        """Has no resources."""
