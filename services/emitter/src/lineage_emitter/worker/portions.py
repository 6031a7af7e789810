"""Records in portions of about the same time, between which something may be looked after."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Any

POLL_S = 0.2
PORTION_MAX = 4_096
"""Of so many quick records what is done for each portion costs next to nothing."""
SLICE_MAX = 256
"""As many may pass before something is looked after where records become slow all at once."""


def portions(records: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """The records in portions, each of about `POLL_S`, and of one record at least. A portion is to be taken before the next one."""
    records = iter(records)
    size, taken, began = 1, 0, time.monotonic()

    def slices(first: Any) -> Iterator[Iterable[Any]]:
        nonlocal taken
        yield (first,)
        taken = 1
        while taken < size:
            count = min(size - taken, SLICE_MAX)
            yield islice(records, count)
            taken += count
            if time.monotonic() - began > POLL_S:
                return

    for first in records:
        yield chain.from_iterable(slices(first))
        now = time.monotonic()
        size = next_portion(taken, now - began, PORTION_MAX)
        began = now


def next_portion(size: int, seconds: float, size_max: int = SLICE_MAX) -> int:
    """How many records are the next portion, where as many as ``size`` took so long."""
    if seconds < POLL_S / 2:
        return min(2 * size, size_max)
    return max(1, size // 2) if seconds > POLL_S else size
