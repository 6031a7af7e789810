"""Rows whose values stand out from those of the others, as a first guess at which of them is wrong."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def standing_out(columns: Sequence[F64], count: int) -> F64:
    """How far each row stands out: the greatest distance of one of its values from the median of the column.

    It is counted in the median distance of the column's values, in the mean one where more than half of them are equal. Values that are missing stand out as
    far as there are few of them.

    Args:
        columns: of values, float64, one for each row; NaN or an infinity where there is none.
        count: of rows.

    Returns:
        float64 of ``count`` numbers, finite, 0 or more.
    """
    distances = np.zeros(count)
    for column in columns if count else ():
        distances = np.maximum(distances, _distances(column))
    return distances


def _distances(column: F64) -> F64:
    is_number = np.isfinite(column)
    numbers = column[is_number]
    # One of n values that alone is missing stands out as a number does that lies n times as far away as others.
    distances = np.full(len(column), len(numbers) / max(len(column) - len(numbers), 1))
    distances[is_number] = 0
    if len(numbers):
        # Halves: a difference of numbers may be greater than any number.
        away = np.abs(numbers / 2 - np.median(numbers / 2))
        unit = np.median(away) or away.mean()
        if unit:
            with np.errstate(over="ignore"):
                distances[is_number] = np.minimum(away / unit, np.finfo(np.float64).max)
    return distances
