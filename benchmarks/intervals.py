"""Medians with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RESAMPLES = 10_000
CONFIDENCE = 0.95
SEED = 7


def median_interval(values: Sequence[float]) -> dict[str, float]:
    """Median and its 95 % percentile bootstrap interval.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    observed = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(SEED).integers(0, len(observed), (RESAMPLES, len(observed)))
    medians = np.median(observed[drawn], axis=1)
    tail = (1 - CONFIDENCE) / 2 * 100
    low, high = np.percentile(medians, [tail, 100 - tail])
    return {
        "median": round(float(np.median(observed)), 4),
        "low": round(float(low), 4),
        "high": round(float(high), 4),
    }
