"""Which attempts at a task's outputs a reader has read.

A task may be run again: its host was lost, or a cache. Rows that an attempt numbers have the attempt in their
space or position. Keys do not: outputs of all attempts meet there, and a reader has read those of one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from lineage_core.contract.region import Region

AttemptsRead = Region | None
"""Numbers of attempts; None: it is not known, and may be any."""
READ_DIFFERENTLY = "was read differently by attempts at one task"
READ_UNKNOWN = "several attempts at one task put out keys, and it is not known which were read"


def was_read(attempts: AttemptsRead, attempt: int) -> bool:
    """Whether outputs of an attempt may have been read."""
    return attempts is None or bool(attempts.contains(np.array([attempt], np.uint64))[0])


def were_read(attempts: AttemptsRead, candidates: Iterable[int]) -> list[bool]:
    """The same of several attempts, in their order."""
    numbers = np.fromiter(candidates, np.uint64)
    if attempts is None:
        return [True] * len(numbers)
    is_read: list[bool] = attempts.contains(numbers).tolist()
    return is_read
