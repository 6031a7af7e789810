"""A few boxes of cells that have no cell in common, by their corners: what most questions are about, and what most operators make of it.

All work on them is arithmetic on whole numbers, whatever the number of their cells: no array is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np

from lineage_core.contract.runs import sorted_unique

Box: TypeAlias = tuple[tuple[int, int], ...]
"""For each axis the first and the last coordinate. Never empty."""

FEW = 4
"""Boxes at most: each is compared with each."""


def box_at(shape: tuple[int, ...], position: int) -> Box:
    """The box of one cell of an array."""
    ends = []
    for length in reversed(shape):
        position, at = divmod(position, length)
        ends.append((at, at))
    return tuple(reversed(ends))


def run_of(
    shape: tuple[int, ...], positions: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Box | None:
    """The box of positions in order, each once, that follow each other without a gap; None: they do not, or are no box."""
    count = len(positions)
    if not count or int(positions[-1]) - int(positions[0]) + 1 != count:
        return None
    # The cells of a box between these corners all lie between them in order: as many as there are positions are these.
    corners = zip(box_at(shape, int(positions[0])), box_at(shape, int(positions[-1])), strict=True)
    box = tuple([(low, high) for (low, _), (_, high) in corners])
    return box if all(low <= high for low, high in box) and cells_in((box,)) == count else None


def cells_in(boxes: Sequence[Box]) -> int:
    """How many cells boxes have that do not meet."""
    count = 0
    for box in boxes:
        volume = 1
        for low, high in box:
            volume *= high - low + 1
        count += volume
    return count


def apart(boxes: Iterable[Box]) -> tuple[Box, ...] | None:
    """The same cells as a few boxes that do not meet; None: these would be many, or be cut from others."""
    kept: list[Box] = []
    for box in boxes:
        joined = _with(kept, box)
        if joined is None:
            return None
        kept = joined
    return tuple(kept)


def _with(kept: list[Box], box: Box) -> list[Box] | None:
    for at, other in enumerate(kept):
        both = _as_one(other, box)
        if both is other:
            return kept
        if both is not None:
            return _with(kept[:at] + kept[at + 1 :], both)
        if _meet(other, box):
            return None
    return [*kept, box] if len(kept) < FEW else None


def _meet(one: Box, other: Box) -> bool:
    for (low, high), (first, last) in zip(one, other, strict=True):
        if low > last or first > high:
            return False
    return True


def _as_one(one: Box, other: Box) -> Box | None:
    """The box that has the cells of both and no others; None: there is none."""
    differing = -1
    has_other = has_one = True
    for axis, ((low, high), (first, last)) in enumerate(zip(one, other, strict=True)):
        if low == first and high == last:
            continue
        differing = axis if differing < 0 else len(one)
        has_other = has_other and low <= first and last <= high
        has_one = has_one and first <= low and high <= last
    if has_other:
        return one
    if has_one:
        return other
    if differing < len(one):
        (low, high), (first, last) = one[differing], other[differing]
        if first <= high + 1 and low <= last + 1:
            ends = min(low, first), max(high, last)
            return (*one[:differing], ends, *one[differing + 1 :])
    return None


def positions_in(
    shape: tuple[int, ...], boxes: Sequence[Box]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The positions of the cells of boxes, in order, each once."""
    parts = [_positions(shape, box) for box in boxes]
    if len(parts) == 1:
        return parts[0]
    return sorted_unique(np.concatenate([np.empty(0, np.int64), *parts]))


def _positions(shape: tuple[int, ...], box: Box) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    first, axes, stride = 0, [], 1
    for (low, high), length in zip(reversed(box), reversed(shape), strict=True):
        first += low * stride
        if high > low:
            axes.append((high - low + 1, stride))
        stride *= length
    if not axes:
        return np.array([first], np.int64)
    count, step = axes[0]
    positions = np.arange(first, first + count * step, step, dtype=np.int64)
    for count, step in axes[1:]:
        positions = (np.arange(count, dtype=np.int64)[:, None] * step + positions).reshape(-1)
    return positions


def mask_of(
    shape: tuple[int, ...], boxes: Iterable[Box]
) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """A mask of an array that is true in boxes, which may meet."""
    mask = np.zeros(shape, np.bool_)
    for box in boxes:
        mask[tuple(slice(low, high + 1) for low, high in box)] = True
    return mask


def are_in(
    shape: tuple[int, ...],
    boxes: Sequence[Box],
    positions: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each position whether its cell lies in any of some boxes."""
    coordinates, rest = [], positions
    for length in reversed(shape[1:]):
        above = rest // length
        coordinates.append(rest - above * length)
        rest = above
    if shape:
        coordinates.append(rest)
    inside = np.zeros(len(positions), np.bool_)
    for box in boxes:
        within = np.ones(len(positions), np.bool_)
        for at, (low, high) in zip(coordinates, reversed(box), strict=True):
            within &= (at >= low) & (at <= high)
        inside |= within
    return inside


def whole_box(shape: tuple[int, ...]) -> Box:
    """The box of all cells of an array that has some."""
    return tuple([(0, length - 1) for length in shape])
