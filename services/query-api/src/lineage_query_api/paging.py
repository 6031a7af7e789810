"""Pages of lists that are short enough to be made whole for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lineage_query.listing import CursorError

T = TypeVar("T")


def page_of(
    items: Sequence[T], key: Callable[[T], str], limit: int, cursor: str | None, described_as: str
) -> tuple[Sequence[T], str | None]:
    """The items behind the one that a cursor names, and the cursor of the page after them.

    By key, not by place: new items come in front while somebody pages.

    Raises:
        CursorError: the cursor is the key of no item. ``described_as``: how it calls all items.
    """
    first = 0
    if cursor is not None:
        keys = [key(item) for item in items]
        if cursor not in keys:
            raise CursorError(f"cursor {cursor!r:.40} was not given by a page of {described_as}")
        first = keys.index(cursor) + 1
    page = items[first : first + limit]
    more = first + limit < len(items)
    return page, key(page[-1]) if more and page else None
