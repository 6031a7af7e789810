"""Mappings of views: where a result lies in the memory of its operand says which cell each of its cells is."""

from __future__ import annotations

from typing import Any

import numpy as np

from lineage_arrays.cells import Shape
from lineage_arrays.mappings import Boxes, Span
from lineage_arrays.workflow import AnyArray


def of_view(array: AnyArray, value: Any) -> Boxes | None:
    """The mapping of a view whose axes are axes of the array, or parts of them, or repeat it.

    Args:
        array: what it is a view of.
        value: the result of a call that only moves cells.

    Returns:
        None where it is no such view: a copy, a diagonal, axes of another length.
    """
    if not isinstance(value, np.ndarray) or value.dtype != array.dtype:
        return None
    if not value.size or not array.size:
        return None
    steps = _steps(array)
    first = None if steps is None else _coordinates(array, steps, _lowest(value) - _lowest(array))
    if steps is None or first is None:
        return None
    spans: dict[int, Span] = {}
    for axis, (length, step) in enumerate(zip(value.shape, value.strides, strict=True)):
        if length == 1 or step == 0:
            continue
        at = next((at for at in steps if abs(step) % abs(array.strides[at]) == 0), None)
        if at is None or at in spans:
            return None
        scale = step // array.strides[at]
        # `first` is the cell of the lowest address: that of the last coordinate where addresses fall.
        begin = first[at] if step > 0 else first[at] - scale * (length - 1)
        if not all(0 <= end < array.shape[at] for end in (begin, begin + scale * (length - 1))):
            return None
        spans[at] = Span.point(axis, scale, begin)
    return Boxes(
        array.shape,
        value.shape,
        tuple(spans.get(at, Span(low, low)) for at, low in enumerate(first)),
    )


def of_padding(source: Shape, target: Shape, width: Any) -> Boxes | None:
    """The mapping of an array with constants around it; None: the widths are given in a way that is not known here."""
    try:
        pairs = np.broadcast_to(np.asarray(width), (len(source), 2))
    except ValueError:
        return None
    if pairs.dtype.kind not in "iu" or not source:
        return None
    if tuple((np.array(source) + pairs.sum(axis=1)).tolist()) != target:
        return None
    before = pairs[:, 0].tolist()
    return Boxes(
        source, target, tuple(Span.point(axis, 1, -low) for axis, low in enumerate(before))
    )


def is_apart(array: AnyArray) -> bool:
    """Whether each cell of an array is known to have an address of its own."""
    return not array.nbytes or _steps(array) is not None


def _lowest(array: AnyArray) -> int:
    """The lowest address of a cell."""
    falling = (
        step * (length - 1)
        for length, step in zip(array.shape, array.strides, strict=True)
        if step < 0
    )
    lowest: int = array.__array_interface__["data"][0] + sum(falling)
    return lowest


def _steps(array: AnyArray) -> list[int] | None:
    """Axes with several cells, from the widest step to the narrowest; None where two cells may have one address."""
    axes = [at for at, length in enumerate(array.shape) if length > 1]
    axes.sort(key=lambda at: -abs(array.strides[at]))
    span = array.itemsize
    for at in reversed(axes):
        if abs(array.strides[at]) < span:
            return None
        span += abs(array.strides[at]) * (array.shape[at] - 1)
    return axes if array.itemsize else None


def _coordinates(array: AnyArray, steps: list[int], distance: int) -> list[int] | None:
    """The coordinates of the cell whose address is so far behind the lowest one."""
    coordinates = [0] * array.ndim
    for at in steps:
        step, length = array.strides[at], array.shape[at]
        along, distance = divmod(distance, abs(step))
        if not 0 <= along < length:
            return None
        coordinates[at] = along if step > 0 else length - 1 - along
    return coordinates if distance == 0 else None
