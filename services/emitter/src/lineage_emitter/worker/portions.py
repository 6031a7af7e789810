"""Records in portions of about the same time, between which something may be looked after."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

POLL_S = 0.2
PORTION_MAX = 256
"""As many may pass before something is looked after where records become slow all at once."""


def portions(records: Iterable[Any]) -> Iterator[tuple[Any, Iterator[Any]]]:
    """The records in portions, each of about `POLL_S`: its first record, and the others."""
    size, began = 1, time.monotonic()
    records = iter(records)
    for first in records:
        yield first, islice(records, size - 1)
        now = time.monotonic()
        size = next_portion(size, now - began)
        began = now


def next_portion(size: int, seconds: float) -> int:
    """How many records are the next portion, where as many as ``size`` took so long."""
    if seconds < POLL_S / 2:
        return min(2 * size, PORTION_MAX)
    return max(1, size // 2) if seconds > POLL_S else size
