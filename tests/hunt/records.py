"""Records that carry the ids of the source rows that they are made of.

A record is a `Carried`, or a pair whose second element is one where the value is a pair: keys are plain values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.hunt.claims import marked
from tests.oracle import functions

Ids = frozenset[str]
Value = Any


class Carried:
    """A value and the ids of the source rows that it is made of."""

    __slots__ = ("ids", "value")

    def __init__(self, value: Value, ids: Ids) -> None:
        self.value, self.ids = value, ids

    def __reduce__(self) -> Any:
        return Carried, (self.value, self.ids)

    def __repr__(self) -> str:
        return f"Carried({self.value!r}, {sorted(self.ids)})"


def pack(value: Value, ids: Ids) -> Any:
    """A record."""
    if isinstance(value, tuple) and len(value) == 2:
        return value[0], Carried(value[1], ids)
    return Carried(value, ids)


def value_of(record: Any) -> Value:
    """The value of a record."""
    return record.value if isinstance(record, Carried) else (record[0], record[1].value)


def ids_of(record: Any) -> Ids:
    """The ids that a record carries."""
    carried: Carried = record if isinstance(record, Carried) else record[1]
    return carried.ids


def joined(records: Iterable[Any]) -> Ids:
    """The ids of all of some records."""
    return frozenset().union(*(ids_of(record) for record in records))


def text_of(record: Any) -> str:
    """The text of a record, with its ids."""
    return marked(functions.render(value_of(record)), ids_of(record))
