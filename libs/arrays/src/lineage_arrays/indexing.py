"""Which cells an index of NumPy reads, and which it writes."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, TypeAlias, cast

import numpy as np

from lineage_arrays.calls import frozen, operands, plain
from lineage_arrays.cells import Shape
from lineage_arrays.errors import UntracedError
from lineage_arrays.mappings import AllToAll, Boxes, Choice, Gather, Mapping, Span, leading_axes
from lineage_arrays.workflow import AnyArray, Input, Operand

Part: TypeAlias = Any


def read(array: Operand, index: Any, value: AnyArray) -> list[Input]:
    """What ``array[index]`` was made from.

    Raises:
        UntracedError: traced arrays stand in the index in a way that is not followed.
    """
    source, target = array.current.shape, value.shape
    if _names_fields(index):
        # Cells of a field may be arrays themselves.
        return [Input(array, leading_axes(source, target))]
    parts = list(index) if isinstance(index, tuple) else [index]
    if all(map(_is_basic, parts)):
        return [Input(array, _slices(source, target, parts))]
    chosen = frozen(plain(index))
    size = array.current.size
    inputs = [
        Input(
            array,
            Gather(source, target, lambda: np.arange(1, size + 1).reshape(source)[chosen]),
        )
    ]
    for part_index, part in enumerate(parts):
        if isinstance(part, Operand):
            inputs.append(Input(part, _of_index(array, parts, part_index, target)))
        elif any(True for _ in operands(part)):
            raise UntracedError("a list of traced numbers as an index", "np.stack it first")
    return inputs


def _names_fields(index: Any) -> bool:
    return isinstance(index, str) or (
        isinstance(index, list) and bool(index) and isinstance(index[0], str)
    )


def _is_basic(part: Part) -> bool:
    if isinstance(part, bool | np.bool_):
        return False
    return part is None or isinstance(part, slice | EllipsisType | int | np.integer)


def _slices(source: Shape, target: Shape, parts: Sequence[Part]) -> Boxes:
    """An index of numbers and slices: a step along each axis."""
    indexed_axes = sum(part is not None and part is not Ellipsis for part in parts)
    full: list[Part] = []
    if not any(part is Ellipsis for part in parts):
        parts = [*parts, Ellipsis]
    for part in parts:
        full += [slice(None)] * (len(source) - indexed_axes) if part is Ellipsis else [part]
    spans: list[Span] = []
    output = 0
    for part in full:
        if part is None:
            output += 1
            continue
        length = source[len(spans)]
        if isinstance(part, slice):
            start, _, step = part.indices(length)
            spans.append(Span.point(output, step, start))
            output += 1
        else:
            at = int(part) % length
            spans.append(Span(at, at))
    return Boxes(source, target, tuple(spans))


def _of_index(array: Operand, parts: Sequence[Part], part_index: int, target: Shape) -> Mapping:
    """How a traced array in the index belongs to what was read."""
    chooser = cast(Operand, parts[part_index])
    values = chooser.current
    if values.dtype == np.bool_:
        if len(parts) > 1:
            raise UntracedError(
                "a traced mask beside other indices", "index by np.nonzero(mask), or mask first"
            )
        count, rest = int(np.count_nonzero(values)), target[1:]

        def chosen() -> AnyArray:
            positions = np.flatnonzero(values) + 1
            return np.broadcast_to(positions.reshape((count,) + (1,) * len(rest)), target)

        return Choice(Gather(values.shape, target, chosen), AllToAll(values.shape, target))
    plains = [frozen(plain(part)) for part in parts]
    if any(np.asarray(part).dtype == np.bool_ for part in plains if not _is_basic(part)):
        raise UntracedError(
            "a mask beside a traced index", "index by np.nonzero(mask) in the mask's place"
        )
    shape = array.current.shape
    return Gather(values.shape, target, lambda: _positions_in_index(shape, plains, part_index))


def _positions_in_index(source: Shape, parts: Sequence[Part], part_index: int) -> AnyArray:
    """For each cell that was read, the position plus one in the index array at ``place``.

    The same index is applied to an array in which the first axis that index arrays pick from counts through their
    common shape.
    """
    arrays = {
        at: np.asarray(part)
        for at, part in enumerate(parts)
        if not (part is None or isinstance(part, slice | EllipsisType))
    }
    common = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    count = int(np.prod(common))
    indexed_axes = sum(part is not None and part is not Ellipsis for part in parts)
    full, axis, shape = list(parts), 0, list(source)
    counted = -1
    for at, part in enumerate(parts):
        if part is Ellipsis:
            axis += len(source) - indexed_axes
        elif part is not None:
            if at in arrays:
                first = counted < 0
                counted = axis if first else counted
                shape[axis] = count if first else 1
                picks = np.arange(count) if first else np.zeros(count, np.int64)
                full[at] = picks.reshape(common)
            axis += 1
    counting = np.arange(count).reshape((-1,) + (1,) * (len(source) - counted - 1))
    picked = np.broadcast_to(counting, shape)[tuple(full)]
    own = arrays[part_index]
    positions = np.broadcast_to(np.arange(1, own.size + 1).reshape(own.shape), common).reshape(-1)
    return np.asarray(positions[picked])


PLACES = "all indices of a write: each may say which cell is written"


def written(old: Operand, index: Any, new: Any) -> list[Input]:
    """What an array is made from after ``array[index] = new``: cells of before, of what was written, and of traced indices.

    Raises:
        UntracedError: fields are written, or a list of traced numbers.
    """
    shape, size = old.current.shape, old.current.size
    masked = isinstance(index, Operand) and index.current.dtype == np.bool_
    if _names_fields(index):
        raise UntracedError("a write to fields", "np.where over the fields, or a new array")
    chosen = frozen(plain(index))

    def kept() -> AnyArray:
        positions = np.arange(1, size + 1).reshape(shape)
        positions[chosen] = 0
        return positions

    inputs = [Input(old, Gather(shape, shape, kept))]
    if isinstance(new, Operand):
        source, count = new.current.shape, new.current.size

        def put() -> AnyArray:
            positions = np.zeros(shape, np.int64)
            positions[chosen] = np.arange(1, count + 1).reshape(source)
            return positions

        inputs.append(Input(new, Gather(source, shape, put)))
    elif any(True for _ in operands(new)):
        raise UntracedError("a list of traced numbers is written", "np.stack it first")
    if masked:
        mask: Operand = index
        by_cell = leading_axes(mask.current.shape, shape)
        single = np.size(plain(new)) == 1
        inputs.append(
            Input(
                mask,
                by_cell if single else Choice(by_cell, AllToAll(mask.current.shape, shape)),
            )
        )
    else:
        inputs += [
            Input(one, AllToAll(one.current.shape, shape), PLACES) for one in operands(index)
        ]
    return inputs
