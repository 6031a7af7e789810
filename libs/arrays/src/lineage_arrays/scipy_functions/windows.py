"""Windows over an array that SciPy continues beyond its border."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.axis_mappings import AlongAxis, Ranges, union_of
from lineage_arrays.cells import I64, Shape
from lineage_arrays.mappings import Boxes, Chain, Mapping, SamePositions, Span

Offsets: TypeAlias = tuple[tuple[int, int], ...]
"""Of a box of cells, for each axis how far from the output cell it begins and ends, inclusive."""

CONSTANT = "constant"
_NAMES = {
    "grid-constant": CONSTANT, "grid-mirror": "reflect", "grid-wrap": "wrap", "symm": "reflect", "symmetric": "reflect", "fill": CONSTANT,
}  # fmt: skip
"""Other names of modes, of ``ndimage`` and of ``signal``."""

BOXES_MAX = 512
"""Boxes that a footprint is cut into, at most."""
RAGGED = "the footprint is counted as its bounding box, as it falls into too many pieces"


def continued(at: I64, length: int, mode: str) -> I64:
    """Which cell of an axis stands at a coordinate beyond its ends, too; -1 for none.

    Raises:
        KeyError: the mode is not known.
    """
    match _NAMES.get(mode, mode):
        case "reflect":
            at = at % (2 * length)
            return np.minimum(at, 2 * length - 1 - at)
        case "mirror":
            period = max(2 * length - 2, 1)
            at = at % period
            return np.minimum(at, period - at) if length > 1 else np.zeros_like(at)
        case "wrap":
            return at % length
        case "nearest":
            return np.clip(at, 0, length - 1)
        case "constant":
            return np.where((at < 0) | (at >= length), -1, at)
    raise KeyError(mode)


def extended(shape: Shape, axis: int, before: int, after: int, mode: str) -> Mapping:
    """An array with so many cells more on either side of an axis, as a mode continues it."""
    length = shape[axis]
    target = (*shape[:axis], before + length + after, *shape[axis + 1 :])

    def ranges() -> Ranges:
        at = continued(np.arange(-before, length + after), length, mode)
        return Ranges.of(np.arange(len(at)), np.where(at < 0, 1, at), np.where(at < 0, 0, at))

    return AlongAxis(shape, target, axis, ranges)


def boxes(
    shape: Shape, offsets: Sequence[Offsets], modes: Sequence[str], target: Shape | None = None
) -> Mapping:
    """Each output cell from boxes of cells around it.

    Args:
        shape: of the array.
        offsets: of each box, at least one.
        modes: for each axis, how the array is continued.
        target: the shape of the result, by default that of the array.
    """
    target = shape if target is None else target
    extension: Mapping | None = None
    before = [0] * len(shape)
    inner = shape
    for axis, mode in enumerate(modes):
        low = max(-min(box[axis][0] for box in offsets), 0)
        high = max(max(box[axis][1] for box in offsets) + target[axis] - shape[axis], 0)
        if _NAMES.get(mode, mode) != CONSTANT and (low or high):
            step = extended(inner, axis, low, high, mode)
            extension = step if extension is None else Chain(extension, step)
            inner, before[axis] = step.target, low
    windows = union_of(
        [
            Boxes(
                inner,
                target,
                tuple(
                    Span(low + before[axis], high + before[axis], axis, 1, 1)
                    for axis, (low, high) in enumerate(box)
                ),
            )
            for box in offsets
        ]
    )
    return windows if extension is None else Chain(extension, windows)


def box_around(size: int, origin: int) -> tuple[int, int]:
    """The offsets of a window of ``ndimage``: its middle, or the cell behind it, moved by the origin."""
    before = size // 2 + origin
    return -before, size - 1 - before


def windows(shape: Shape, sizes: Iterable[tuple[int, int, int, str]]) -> Mapping:
    """Windows along some axes, each given as axis, size, origin and mode."""
    offsets, modes = [(0, 0)] * len(shape), [CONSTANT] * len(shape)
    for axis, size, origin, mode in sizes:
        offsets[axis], modes[axis] = box_around(size, origin), mode
    if not any(map(any, offsets)):
        return SamePositions(shape, shape)
    return boxes(shape, [tuple(offsets)], modes)


def around(
    footprint: np.ndarray[Any, np.dtype[np.bool_]], origins: Sequence[int]
) -> tuple[list[Offsets], str]:
    """The boxes of a footprint, and why they may have more than it."""
    pieces = _pieces(footprint)
    superset = ""
    if len(pieces) > BOXES_MAX:
        superset = RAGGED
        pieces = [tuple((int(at.min()), int(at.max())) for at in np.nonzero(footprint))]
    begins = [
        box_around(size, origin)[0] for size, origin in zip(footprint.shape, origins, strict=True)
    ]
    return [
        tuple((low + begin, high + begin) for (low, high), begin in zip(piece, begins, strict=True))
        for piece in pieces
    ], superset


def _pieces(footprint: np.ndarray[Any, np.dtype[np.bool_]]) -> list[Offsets]:
    """Boxes that together are a footprint: runs on the last axis, joined where the rows before have the same."""
    if footprint.ndim == 0:
        return [()] if footprint else []
    parts = [_pieces(part) for part in footprint]
    pieces: list[Offsets] = []
    begin = 0
    for at in range(1, len(parts) + 1):
        if at == len(parts) or parts[at] != parts[begin]:
            pieces += [((begin, at - 1), *rest) for rest in parts[begin]]
            begin = at
    return pieces
