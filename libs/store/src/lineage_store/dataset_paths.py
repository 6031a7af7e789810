"""Paths that stand for datasets without files in messages about files: tables of databases, topics, and rows that actions gave.

``dataset:/ADDRESS/PART/PART``, with each part percent-encoded: ``dataset:/jdbc:postgresql:%2F%2Fdb%2Fshop/public/orders``. The last part
is the name by which stores find a path, so one look-up finds a table under each name that programs have for it.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from lineage_core.recipe.names import DELTA_LOG, TABLE_NAME

_PREFIX = "dataset:/"
_KEPT = ":,"
"""Signs that are not encoded, beside letters, digits and those of names."""
_PARTS = re.compile(r'"([^"]+)"|`([^`]+)`|\[([^]]+)\]|(\w+)')


ANY_TOPIC = "*"
"""The name of the topics of a write whose rows themselves say to which topics they go."""
_ROWS = "rows"
"""The address of rows that actions gave their programs."""


class UnfiledDataset(NamedTuple):
    """A dataset without files. ``address``: of the database or the brokers. ``parts``: of its name, the last one its own."""

    address: str
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        """What stands for it in messages about files."""
        return _PREFIX + "/".join(_encoded(part) for part in (self.address, *self.parts))

    def may_be(self, other: UnfiledDataset) -> bool:
        """Whether both may be the same: one name may leave out what the other begins with, such as a schema."""
        length = min(len(self.parts), len(other.parts))
        return self.address == other.address and self.parts[-length:] == other.parts[-length:]


def _encoded(part: str) -> str:
    return quote(part, safe=_KEPT, errors="replace")


def table_of_database(address: str, table: str) -> UnfiledDataset | None:
    """A table of a database, without quotes and capitals; None: the text is no name but a query, say."""
    if TABLE_NAME.fullmatch(table) is None:
        return None
    parts = tuple("".join(found).lower() for found in _PARTS.findall(table))
    return UnfiledDataset(address, parts) if parts else None


def unfiled_dataset(path: str) -> UnfiledDataset | None:
    """The dataset that a path stands for; None: it is the path of a file."""
    if not path.startswith(_PREFIX):
        return None
    address, *parts = map(unquote, path.removeprefix(_PREFIX).split("/"))
    return UnfiledDataset(address, tuple(parts)) if address and parts and all(parts) else None


def rows_of_action(app: str, node: str) -> UnfiledDataset:
    """The rows that an action gave its program: ``node`` is its sink."""
    return UnfiledDataset(_ROWS, (app, f"{app}:{node}"))


def action_of_rows(path: str) -> tuple[str, str] | None:
    """The application and the sink of the action whose rows a path stands for; None: it stands for something else."""
    dataset = unfiled_dataset(path)
    if dataset is None or dataset.address != _ROWS or len(dataset.parts) != 2:
        return None
    app, named = dataset.parts
    node = named.removeprefix(f"{app}:")
    return (app, node) if node and node != named else None


def is_table_log(path: str) -> bool:
    """Whether a path is that of the log of a table, which stands for a write of which no files were recorded."""
    return path.endswith(f"/{DELTA_LOG}")


def is_no_file(path: str) -> bool:
    """Whether a path in messages about files stands for something else."""
    return path.startswith(_PREFIX) or is_table_log(path)
