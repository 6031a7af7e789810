"""Sorting of tables of numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lineage_arrays.cells import I64

_KEY_MAX = 1 << 62


def packed_keys(columns: Sequence[I64], count: int) -> list[I64]:
    """Columns of one length in as few as hold them: rows are in the same order, and equal where they were, and fewer columns are sorted sooner.

    Args:
        columns: the least important one first, as ``np.lexsort`` has them.
        count: their length.

    Returns:
        At least one column, the least important one first.
    """
    keys: list[I64] = []
    key, span = np.zeros(count, np.int64), 1
    for column in columns if count else []:
        low = int(column.min())
        width = int(column.max()) - low + 1
        if width == 1:
            continue
        if span * width > _KEY_MAX:
            keys.append(key)
            key, span = column - low, width
            continue
        key = (column - low) * span + key if span > 1 else column - low
        span *= width
    return [*keys, key]
