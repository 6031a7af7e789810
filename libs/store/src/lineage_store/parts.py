"""Long work in parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def in_parts(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """The items in lists of ``most``, the last one of what is left; none of no items."""
    items = iter(items)
    while part := list(islice(items, most)):
        yield part
