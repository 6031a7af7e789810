"""How a quantity grows: the exponent of a power law, by least squares of the logarithms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

T_QUANTILES = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
"""Of Student's t distribution at 97.5 %, for 1 to 10 degrees of freedom."""
POINTS_MIN = 3
"""With two points there is a line through both, and no interval."""


@dataclass(frozen=True)
class Growth:
    """``quantity ~ size ** exponent``; the interval holds it with 95 % confidence."""

    exponent: float
    low: float
    high: float
    points: int


def growth(sizes: Sequence[float], quantities: Sequence[float]) -> Growth | None:
    """Fit a power law to points above zero; None: fewer than ``POINTS_MIN`` of them, or one size only."""
    points = [(x, y) for x, y in zip(sizes, quantities, strict=True) if x > 0 and y > 0]
    if len(points) < POINTS_MIN or len({x for x, _ in points}) == 1:
        return None
    x, y = np.log(np.asarray(points, dtype=np.float64)).T
    from_mean = x - x.mean()
    spread = float((from_mean**2).sum())
    slope = float((from_mean * y).sum()) / spread
    residuals = y - y.mean() - slope * from_mean
    freedom = len(points) - 2
    error = float(np.sqrt((residuals**2).sum() / freedom / spread))
    margin = T_QUANTILES[min(freedom, len(T_QUANTILES)) - 1] * error
    return Growth(slope, slope - margin, slope + margin, len(points))
