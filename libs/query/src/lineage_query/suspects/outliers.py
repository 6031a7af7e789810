"""Values that stand out among others, by three published tests.

- Grubbs, repeated: the value farthest from the mean, again and again among the rest (F. E. Grubbs, Technometrics 11:1, 1969). Two outliers may hide
  each other from it.
- Generalised extreme studentised deviates: up to half of the values may be outliers (B. Rosner, Technometrics 25:2, 1983). Where one is allowed,
  this is Grubbs's test.
- Median deviations: the modified z of B. Iglewicz and D. Hoaglin (How to Detect and Handle Outliers, ASQC, 1993). Half of the values may be
  outliers, and it needs no tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

F64: TypeAlias = npt.NDArray[np.float64]

SIGNIFICANCE = 0.05
"""Of Grubbs and of generalised ESD."""
MODIFIED_Z_MAX = 3.5
"""Iglewicz and Hoaglin's bound."""
MAD_OF_NORMAL, MEAN_DEVIATION_OF_NORMAL = 0.6745, 1.253314
"""Median deviation of a normal distribution, in standard deviations; standard deviations in a mean deviation of it."""
DEVIATION_MIN = 0.01
"""Of the median: a standard deviation that is less is taken for this."""
VALUES_MIN = 3
"""Fewer values have no outlier."""
OUTLIERS_MAX = 100
"""Values that are tested one after the other."""


@dataclass(frozen=True, slots=True)
class Outliers:
    """Which of some values stand out.

    ``median``: of all values. ``modified_z``: by value, what the test of median deviations compares. ``distances``: by value, how far it lies from
    the median, in robust standard deviations of at least `DEVIATION_MIN` of the median: where most values are equal, modified z would not tell near ones
    from far ones. ``grubbs``, ``esd``: the indexes of outliers, the strongest first.
    """

    median: float
    modified_z: F64
    distances: F64
    grubbs: tuple[int, ...]
    esd: tuple[int, ...]

    def tests(self, index: int) -> tuple[str, ...]:
        """The tests by which a value is an outlier."""
        found = (
            ("median deviations", bool(self.modified_z[index] > MODIFIED_Z_MAX)),
            ("generalised ESD", index in self.esd),
            ("Grubbs", index in self.grubbs),
        )
        return tuple(name for name, is_outlier in found if is_outlier)


def find_outliers(values: Sequence[float] | F64) -> Outliers:
    """Test some finite values."""
    array = np.asarray(values, np.float64)
    grubbs: tuple[int, ...] = ()
    esd: tuple[int, ...] = ()
    if len(array) >= VALUES_MIN and np.ptp(array) > 0:
        grubbs, esd = _grubbs_and_esd(array)
    median = float(np.median(array)) if len(array) else 0.0
    return Outliers(median, modified_z(array), _distances(array, median), grubbs, esd)


def _distances(values: F64, median: float) -> F64:
    differences = np.abs(values - median)
    if not differences.any():
        return differences
    scale = max(float(np.median(differences)) / MAD_OF_NORMAL, DEVIATION_MIN * abs(median))
    distances: F64 = differences / scale if scale > 0 else modified_z(values)
    return distances


def modified_z(values: F64) -> F64:
    """The distance of each value from the median, in robust standard deviations; 0 where all are equal.

    Where half of the values equal the median, the mean deviation stands for the median one, as Iglewicz and Hoaglin have it.
    """
    if not len(values):
        return values
    distances = np.abs(values - np.median(values))
    scale = float(np.median(distances)) / MAD_OF_NORMAL
    if scale == 0:
        scale = float(distances.mean()) * MEAN_DEVIATION_OF_NORMAL
    return distances / scale if scale > 0 else np.zeros(len(values))


def _grubbs_and_esd(values: F64) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Outliers by both tests: they remove the same values in the same order, and stop at different ones."""
    left = np.arange(len(values))
    removed: list[int] = []
    grubbs = esd = 0
    may_go_on = True
    for size in range(len(values), max(len(values) - OUTLIERS_MAX, len(values) // 2, 2), -1):
        rest = values[left]
        deviation = float(rest.std(ddof=1))
        if deviation == 0:
            break
        distances = np.abs(rest - rest.mean())
        at = int(distances.argmax())
        removed.append(int(left[at]))
        left = np.delete(left, at)
        if distances[at] / deviation > critical_value(size):
            esd = len(removed)
            grubbs += may_go_on
        else:
            may_go_on = False
    return tuple(removed[:grubbs]), tuple(removed[:esd])


def critical_value(size: int, significance: float = SIGNIFICANCE) -> float:
    """What the largest distance from the mean of ``size`` values, in standard deviations, exceeds by chance as rarely as ``significance``.

    Grubbs's critical value, two-sided; Rosner's lambda for the values that are left (equation 2.5).
    """
    quantile = student_quantile(1 - significance / (2 * size), size - 2)
    return (size - 1) * quantile / math.sqrt((size - 2 + quantile**2) * size)


def student_quantile(probability: float, freedom: int) -> float:
    """The quantile of Student's t, for a probability of 0.5 or more, by bisection."""
    low, high = 0.0, 1.0
    while student_below(high, freedom) < probability and high < 1e12:
        low, high = high, high * 2
    for _ in range(80):
        middle = (low + high) / 2
        if student_below(middle, freedom) < probability:
            low = middle
        else:
            high = middle
    return high


def student_below(t: float, freedom: int) -> float:
    """The probability that Student's t is at most ``t`` (0 or more): Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    angle = math.atan(t / math.sqrt(freedom))
    cosine = math.cos(angle) ** 2
    odd = freedom % 2
    term = math.cos(angle) if odd else 1.0
    total = term if freedom > 1 else 0.0
    for n in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine * (n - 1) / n
        total += term
    inside = (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total
    return (1 + inside) / 2
