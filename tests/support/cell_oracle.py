"""What cells of an array a function's result depends on, by trying: each cell is changed, and what changes is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Sequence[npt.NDArray[Any]]


def drawn(array: npt.NDArray[Any], random: np.random.Generator) -> list[Any]:
    """Other values for a cell of an array."""
    kind = array.dtype.kind
    if kind == "b":
        return [False, True]
    if kind in "iu":
        low, high = int(array.min(initial=0)), int(array.max(initial=3)) + 1
        return [int(one) for one in random.integers(low, high, 4)]
    if kind in "US":
        return [
            array.dtype.type(text) if kind == "U" else text.encode()
            for text in ("", "b", "Z.", "a b", "7")
        ]
    draws: list[Any] = [float(one) for one in random.normal(0, 3, 4)]
    return [*draws, float("nan")]


def dependences(
    function: Callable[..., Any], arrays: Arrays, seed: int = 7
) -> list[npt.NDArray[np.bool_]]:
    """For each array, which of its cells (rows) change which cells of the result (columns)."""
    random = np.random.default_rng(seed)
    before = np.asarray(function(*(one.copy() for one in arrays)))
    found = []
    for at, array in enumerate(arrays):
        changes = np.zeros((array.size, before.size), np.bool_)
        for cell in range(array.size):
            for value in drawn(array, random):
                tried = [one.copy() for one in arrays]
                tried[at].reshape(-1)[cell] = value
                try:
                    after = np.asarray(function(*tried))
                except (IndexError, TypeError, ValueError, np.linalg.LinAlgError):
                    continue
                if after.shape != before.shape:
                    changes[cell] = True
                    continue
                changes[cell] |= ~same(before, after).reshape(-1)
        found.append(changes)
    return found


def same(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where two arrays have the same values, NaN being one."""
    equal = np.asarray(left == right)
    if left.dtype.kind in "fc":
        equal |= np.isnan(left) & np.isnan(right)
    return equal
