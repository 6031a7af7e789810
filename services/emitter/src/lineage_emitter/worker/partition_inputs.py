"""What a function over a whole partition is handed: what PySpark would hand it.

PySpark chains functions as they are. The first gets the very ``range`` of a ``parallelize(range(9))``,
the next one whatever the one before returned: a list, an array, a ``map`` object. Capture numbers
records while they are iterated over, so its own functions pass on iterators. Beside them travels what
PySpark has in their place: a collection goes to the user's function as it is, and all of its records
count as read, because such a function may look at any of them, in any order, as often as it likes.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import itemgetter
from types import GeneratorType
from typing import Any

import numpy as np

Records = Iterable[Any]

_COUNTABLE: frozenset[type] = frozenset(
    (range, list, tuple, str, bytes, bytearray, dict, set, frozenset, deque, array, np.ndarray,
     type({}.keys()), type({}.values()), type({}.items()))
)  # fmt: skip
"""Collections that can be counted and read once more without running code of the user."""


class NumberedRecords:
    """Records that are numbered while they are iterated over.

    ``kind``: the type of iterator that PySpark has here.
    """

    __slots__ = ("kind", "records")

    def __init__(self, records: Records, kind: type) -> None:
        self.records = records
        self.kind = kind

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)


class NumberedCollection(NumberedRecords):
    """A ``collection`` of records, and an iterator of it that numbers them.

    ``mark_all_read`` says that all of them are read; by default it reads them all.
    """

    __slots__ = ("_mark_all_read", "collection")

    def __init__(
        self, collection: Any, records: Records, mark_all_read: Callable[[], None] | None = None
    ) -> None:
        super().__init__(records, type(collection))
        self.collection = collection
        self._mark_all_read = mark_all_read

    @property
    def is_countable(self) -> bool:
        """Whether its records can be numbered without running code of the user."""
        return self.kind in _COUNTABLE

    def mark_all_read(self) -> None:
        """All records are read from now on, if they can be numbered."""
        if self._mark_all_read is not None:
            self._mark_all_read()
        elif self.is_countable:
            deque(self.records, maxlen=0)


class _Reiterable:
    """Iterates over what a user's function returned only when iterated."""

    def __init__(self, collection: Any) -> None:
        self.collection = collection

    def __iter__(self) -> Iterator[Any]:
        return iter(self.collection)


def is_collection(records: Any) -> bool:
    """Whether records are held, rather than an iterator that gives each once."""
    return type(records) in _COUNTABLE


def wrap_result(result: Any) -> NumberedRecords:
    """What a user's function over a partition returned, as it goes on."""
    if isinstance(result, Iterator):
        return NumberedRecords(result, type(result))
    return NumberedCollection(result, _Reiterable(result), lambda: None)


def wrap_like(before: Records, records: Records) -> NumberedRecords:
    """The same ``records`` as ``before``, with something done to each as it is read."""
    if isinstance(before, NumberedCollection):
        return NumberedCollection(before.collection, records)
    return NumberedRecords(
        records, before.kind if isinstance(before, NumberedRecords) else type(before)
    )


def is_uncountable(records: Records) -> bool:
    """Whether they are a collection of a type of the user's: what is in it can't be known before it is read."""
    return isinstance(records, NumberedCollection) and not records.is_countable


def has_length(records: Records) -> bool:
    """Whether what PySpark would hand on knows how long it is."""
    return hasattr(
        records.collection if isinstance(records, NumberedCollection) else records, "__len__"
    )


def as_pyspark(records: Records) -> Any:
    """What PySpark would hand on. All records of a collection count as read."""
    if isinstance(records, NumberedCollection):
        records.mark_all_read()
        return records.collection
    return (
        with_iterator_type(iter(records), records.kind)
        if isinstance(records, NumberedRecords)
        else records
    )


def with_iterator_type(records: Iterator[Any], kind: type) -> Iterator[Any]:
    """An iterator of a type, where there is a way to make one over records that are numbered as they come."""
    constructor = _CONSTRUCTORS.get(kind)
    return records if constructor is None else constructor(records)


def _mapped(records: Iterator[Any]) -> Iterator[Any]:
    return map(itemgetter(0), zip(records, strict=False))


def _filtered(records: Iterator[Any]) -> Iterator[Any]:
    return filter(id, records)  # no object has the identity 0


_CONSTRUCTORS: dict[type, Callable[[Iterator[Any]], Iterator[Any]]] = {
    chain: chain,
    map: _mapped,
    filter: _filtered,
}


def has_iterator_type(kind: type) -> bool:
    """Whether :func:`with_iterator_type` makes such iterators (a generator is one already)."""
    return kind in _CONSTRUCTORS or kind is GeneratorType
