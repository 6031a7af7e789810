"""Mappings: which cells of an operator's input belong to which cells of its output.

Each relates one input and one output. ``backward`` gives the cells of the input that some cells of the output
were made from, ``forward`` the cells of the output that some cells of the input went into; each is the inverse
of the other. Most are a few numbers, whatever the size of the arrays.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from lineage_arrays.boxes import union_of_boxes
from lineage_arrays.cells import I64, Cells, Mask, Shape
from lineage_arrays.few_boxes import Box
from lineage_core.tracing.budget import current_budget

PART_CELLS = 1 << 18
"""Cells whose boxes are computed at once, at least: about 40 MB for two axes."""
PARTS = 8
"""Parts of a large array, at most: each costs a pass over the array."""
NOTHING = 0
"""In an index of positions plus one: the output cell was made from no cell of this input."""


class Mapping(Protocol):
    """Which cells of one input belong to which cells of the output."""

    @property
    def source(self) -> Shape:
        """Shape of the input."""

    @property
    def target(self) -> Shape:
        """Shape of the output."""

    def backward(self, cells: Cells) -> Cells:
        """Cells of the input that cells of the output were made from."""

    def forward(self, cells: Cells) -> Cells:
        """Cells of the output that cells of the input went into."""


@dataclass(frozen=True)
class AllToAll:
    """Every output cell from every input cell."""

    source: Shape
    target: Shape

    def backward(self, cells: Cells) -> Cells:
        return Cells.whole(self.source) if cells else Cells.empty(self.source)

    def forward(self, cells: Cells) -> Cells:
        return Cells.whole(self.target) if cells else Cells.empty(self.target)


@dataclass(frozen=True)
class AllFrom:
    """Every output cell from the same cells of the input."""

    source: Shape
    target: Shape
    cells: Cells

    def backward(self, cells: Cells) -> Cells:
        return self.cells if cells else Cells.empty(self.source)

    def forward(self, cells: Cells) -> Cells:
        is_some = bool(cells.has(self.cells.positions()).any())
        return Cells.whole(self.target) if is_some else Cells.empty(self.target)


@dataclass(frozen=True)
class SamePositions:
    """The n-th output cell from the n-th input cell: arrays of one size, as ``reshape`` gives them."""

    source: Shape
    target: Shape

    def backward(self, cells: Cells) -> Cells:
        return _reshaped(cells, self.source)

    def forward(self, cells: Cells) -> Cells:
        return _reshaped(cells, self.target)


def _reshaped(cells: Cells, shape: Shape) -> Cells:
    if cells.shape == shape:
        return cells
    return Cells.whole(shape) if cells.is_whole else Cells.within(shape, cells.positions())


@dataclass(frozen=True)
class Span:
    """Which coordinates of one input axis an output cell needs: ``low`` to ``high``, inclusive, cut to the axis.

    With ``axis`` both ends move with the output cell's coordinate ``o`` on that axis:
    ``low_scale * o + low`` to ``high_scale * o + high``.
    """

    low: int
    high: int
    axis: int | None = None
    low_scale: int = 0
    high_scale: int = 0

    @classmethod
    def point(cls, axis: int, scale: int = 1, offset: int = 0) -> Span:
        """The one coordinate ``scale * o + offset``."""
        return cls(offset, offset, axis, scale, scale)

    @classmethod
    def all(cls, length: int) -> Span:
        return cls(0, length - 1)

    def of(self, outputs: I64, length: int) -> tuple[I64, I64]:
        """First and last coordinate for each output coordinate, on an axis of some length."""
        low = outputs * self.low_scale + self.low
        high = outputs * self.high_scale + self.high
        return np.maximum(low, 0), np.minimum(high, length - 1)

    def covered(self, first: int, last: int, length: int) -> tuple[int, int] | None:
        """First and last coordinate that any of a range of output coordinates needs, on an axis of some length; the last before the first: none.

        None: there are gaps between them, or an output coordinate that needs none before the axis cuts it.
        """
        low, high = self.low_scale * first + self.low, self.high_scale * first + self.high
        if first == last:
            return max(low, 0), min(high, length - 1)
        # Both ends are linear: what holds at the first two and at the last two coordinates holds between.
        until_low, until_high = self.low_scale * last + self.low, self.high_scale * last + self.high
        if low > high or until_low > until_high:
            return None
        if self.low_scale > 0 and (
            low + self.low_scale > high + 1 or until_low > until_high - self.high_scale + 1
        ):
            return None
        if self.high_scale < 0 and (
            low > high + self.high_scale + 1 or until_low - self.low_scale > until_high + 1
        ):
            return None
        return max(min(low, until_low), 0), min(max(high, until_high), length - 1)

    def outputs_of(self, first: int, last: int, length: int) -> tuple[int, int] | None:
        """First and last output coordinate that needs any of a range of input coordinates, on an output axis of some length.

        None: an output coordinate may need none, before the input's axis cuts it.
        """
        ends = 0 if self.axis is None else length - 1
        if (
            self.low > self.high
            or self.low_scale * ends + self.low > self.high_scale * ends + self.high
        ):
            return None
        least, most = 0, length - 1
        # low_scale * o <= last - low, and -high_scale * o <= high - first
        for scale, room in (
            (self.low_scale, last - self.low),
            (-self.high_scale, self.high - first),
        ):
            if scale > 0:
                most = min(most, room // scale)
            elif scale < 0:
                least = max(least, -(room // -scale))
            elif room < 0:
                most = -1
        return least, most

    def outputs(self, inputs: I64, length: int) -> tuple[I64, I64]:
        """First and last output coordinate whose span holds each input coordinate, on an output axis of some length."""
        first = np.zeros(len(inputs), np.int64)
        last = np.full(len(inputs), length - 1, np.int64)
        # low_scale * o <= inputs - low, and -high_scale * o <= high - inputs
        for scale, room in (
            (self.low_scale, inputs - self.low),
            (-self.high_scale, self.high - inputs),
        ):
            if scale > 0:
                last = np.minimum(last, room // scale)
            elif scale < 0:
                first = np.maximum(first, -(room // -scale))
            else:
                last = np.where(room >= 0, last, -1)
        return first, last


@dataclass(frozen=True)
class Boxes:
    """Each output cell from a box of input cells: a span for each axis of the input.

    Spans of two axes may move with one output axis (a diagonal); an output axis that none moves with repeats.
    """

    source: Shape
    target: Shape
    spans: tuple[Span, ...]

    def backward(self, cells: Cells) -> Cells:
        by_boxes = self._by_boxes(cells, self.source, self._box_behind)
        if by_boxes is not None:
            return by_boxes
        if cells.is_whole and self._axes_apart:
            return self._of_all()
        if self._steps is not None and not (cells.is_whole or cells.is_mask):
            return self._of_steps(cells.positions(), *self._steps)
        return self._in_parts(cells, self.source, self._needed)

    @functools.cached_property
    def _steps(self) -> tuple[int, dict[int, int]] | None:
        """Where each output cell needs one cell: the position for the first, and for each axis of the output how far it is to the next; else None."""
        first, steps, stride = 0, dict[int, int](), 1
        for span, length in reversed(list(zip(self.spans, self.source, strict=True))):
            along = 1 if span.axis is None else self.target[span.axis]
            last = span.low + span.low_scale * (along - 1)
            is_point = (span.low, span.low_scale) == (span.high, span.high_scale)
            if (
                not is_point
                or not along
                or not (0 <= min(span.low, last) <= max(span.low, last) < length)
            ):
                return None
            first += span.low * stride
            if span.axis is not None:
                steps[span.axis] = steps.get(span.axis, 0) + span.low_scale * stride
            stride *= length
        return first, steps

    def _of_steps(self, positions: I64, first: int, steps: dict[int, int]) -> Cells:
        coordinates = np.unravel_index(positions, self.target) if self.target else ()
        needed = np.full(len(positions), first, np.int64)
        for axis, step in steps.items():
            needed += coordinates[axis] * step
        return Cells.within(self.source, needed)

    def forward(self, cells: Cells) -> Cells:
        by_boxes = self._by_boxes(cells, self.target, self._box_ahead)
        if by_boxes is not None:
            return by_boxes
        if cells.is_whole:
            return self._into_all()
        return self._in_parts(cells, self.target, self._made)

    def _by_boxes(
        self, cells: Cells, shape: Shape, related: Callable[[Box], Box | None]
    ) -> Cells | None:
        """What is related to some cells, corner by corner; None where the cells, or what is related to them, are no few boxes."""
        if cells.boxes is None:
            return None
        boxes = []
        for box in cells.boxes:
            other = related(box)
            if other is None:
                return None
            if all(low <= high for low, high in other):
                boxes.append(other)
        return Cells.in_boxes(shape, boxes)

    def _box_behind(self, box: Box) -> Box | None:
        """The cells of the input that a box of the output needs; one that ends before it begins: none. None: they are no box."""
        if not self._axes_apart and any(low != high for low, high in box):
            return None
        needed = []
        for span, length in zip(self.spans, self.source, strict=True):
            first, last = (0, 0) if span.axis is None else box[span.axis]
            ends = span.covered(first, last, length)
            if ends is None:
                return None
            needed.append(ends)
        return tuple(needed)

    def _box_ahead(self, box: Box) -> Box | None:
        """The cells of the output that need any cell of a box of the input, as :meth:`_box_behind`.

        An output cell needs one where it needs a coordinate of the box on each axis of the input.
        """
        made = [(0, length - 1) for length in self.target]
        for span, (first, last) in zip(self.spans, box, strict=True):
            if span.axis is None:
                if max(first, span.low) > min(last, span.high):
                    return tuple([(0, -1)] * len(made)) if made else ((0, -1),)
                continue
            ends = span.outputs_of(first, last, self.target[span.axis])
            if ends is None:
                return None
            low, high = made[span.axis]
            made[span.axis] = max(low, ends[0]), min(high, ends[1])
        return tuple(made)

    def _in_parts(self, cells: Cells, shape: Shape, related: Callable[[I64], Cells]) -> Cells:
        """The union of what is related to some cells, few at once: their ends take many times the memory of a mask."""
        count = max(math.prod(self.source), math.prod(self.target)) // PARTS
        union = Cells.empty(shape)
        for coordinates in cells.coordinates_in_parts(max(count, PART_CELLS)):
            current_budget().check()
            union = union | related(coordinates)
            if union.is_whole:
                break
        return union

    def _needed(self, coordinates: I64) -> Cells:
        """The cells of the input that output cells need."""
        ends = [
            span.of(
                np.zeros(len(coordinates), np.int64)
                if span.axis is None
                else coordinates[:, span.axis],
                length,
            )
            for span, length in zip(self.spans, self.source, strict=True)
        ]
        return _union(self.source, ends, len(coordinates))

    def _made(self, coordinates: I64) -> Cells:
        """The cells of the output that need input cells."""
        count = len(coordinates)
        ends = [
            (np.zeros(count, np.int64), np.full(count, length - 1, np.int64))
            for length in self.target
        ]
        needed: Mask = np.ones(count, np.bool_)
        for at, span in enumerate(self.spans):
            inputs = coordinates[:, at]
            if span.axis is None:
                needed &= (inputs >= span.low) & (inputs <= span.high)
                continue
            first, last = span.outputs(inputs, self.target[span.axis])
            low, high = ends[span.axis]
            ends[span.axis] = np.maximum(low, first), np.minimum(high, last)
        chosen = [(low[needed], high[needed]) for low, high in ends]
        return _union(self.target, chosen, int(needed.sum()))

    @functools.cached_property
    def _axes_apart(self) -> bool:
        """Whether no two spans move with one axis: then what all output cells need is a product over the axes."""
        moving = [span.axis for span in self.spans if span.axis is not None]
        return len(set(moving)) == len(moving)

    def _of_all(self) -> Cells:
        """What the whole output needs, axis by axis: no matter how many cells that are."""
        needed = [
            _covered(span, length, 1 if span.axis is None else self.target[span.axis])
            for span, length in zip(self.spans, self.source, strict=True)
        ]
        return product_of_axes(self.source, needed)

    def _into_all(self) -> Cells:
        """What the whole input goes into: where no span is empty, axis by axis of the output."""
        some: list[Mask] = [np.ones(length, np.bool_) for length in self.target]
        for span, length in zip(self.spans, self.source, strict=True):
            outputs = 1 if span.axis is None else self.target[span.axis]
            low, high = span.of(np.arange(outputs, dtype=np.int64), length)
            if span.axis is not None:
                some[span.axis] &= low <= high
            elif low[0] > high[0]:
                return Cells.empty(self.target)
        return product_of_axes(self.target, some)


def product_of_axes(shape: Shape, axes: Sequence[Mask]) -> Cells:
    """The cells whose coordinates are all marked, each on its axis."""
    box = tuple(map(_ends_of, axes))
    if None not in box:
        return Cells.in_boxes(shape, [cast(Box, box)])
    mask = np.ones(shape, np.bool_)
    for at, axis in enumerate(axes):
        mask &= axis.reshape((-1,) + (1,) * (len(shape) - at - 1))
    return Cells.masked(mask)


def _ends_of(marks: Mask) -> tuple[int, int] | None:
    """The first and the last mark of an axis; None: there are gaps, or no marks."""
    at = np.flatnonzero(marks)
    if not len(at) or int(at[-1]) - int(at[0]) >= len(at):
        return None
    return int(at[0]), int(at[-1])


def _covered(span: Span, length: int, outputs: int) -> Mask:
    """Which coordinates of an axis any output coordinate needs."""
    low, high = span.of(np.arange(outputs, dtype=np.int64), length)
    return union_of_boxes((length,), low[:, None], high[:, None]).mask()


def _union(shape: Shape, ends: Sequence[tuple[I64, I64]], count: int) -> Cells:
    if not shape:
        return Cells.whole(()) if count else Cells.empty(())
    return union_of_boxes(
        shape, np.stack([low for low, _ in ends], axis=1), np.stack([high for _, high in ends], 1)
    )


class Gather:
    """Each output cell from at most one input cell, as an index says.

    The index has the output's shape and holds positions of the input plus one, ``NOTHING`` for none. It is made
    when it is first requested: an operator that only moves cells is run once more over positions then.
    """

    def __init__(
        self, source: Shape, target: Shape, index: Callable[[], npt.NDArray[np.int64]]
    ) -> None:
        self.source = source
        self.target = target
        self._make = index

    def __reduce__(self) -> Any:
        """Its index goes along: what makes it may be nothing that another process has."""
        narrow = np.min_scalar_type(math.prod(self.source))
        return _indexed, (self.source, self.target, self.index.astype(narrow).reshape(self.target))

    @functools.cached_property
    def index(self) -> I64:
        """Positions plus one, flat, in the output's order."""
        index = np.asarray(self._make(), np.int64)
        if index.shape != self.target:
            raise AssertionError(f"index of shape {index.shape}, output of {self.target}")
        return index.reshape(-1)

    def backward(self, cells: Cells) -> Cells:
        if not cells:
            return Cells.empty(self.source)
        positions = self.index if cells.is_whole else self.index[cells.positions()]
        return Cells.within(self.source, positions[positions != NOTHING] - 1)

    def forward(self, cells: Cells) -> Cells:
        if not cells:
            return Cells.empty(self.target)
        if cells.count == 1:
            return Cells.within(self.target, np.flatnonzero(self.index == cells.positions()[0] + 1))
        is_traced = np.zeros(cells.size + 1, np.bool_)
        is_traced[1:] = cells.mask().reshape(-1)
        return Cells.masked(is_traced[self.index].reshape(self.target))


def _indexed(source: Shape, target: Shape, index: npt.NDArray[np.integer]) -> Gather:
    return Gather(source, target, lambda: index.astype(np.int64))


@dataclass(frozen=True)
class Inverse:
    """A mapping with its ends exchanged: for operators that say where each input cell goes."""

    of: Mapping

    @property
    def source(self) -> Shape:
        return self.of.target

    @property
    def target(self) -> Shape:
        return self.of.source

    def backward(self, cells: Cells) -> Cells:
        return self.of.forward(cells)

    def forward(self, cells: Cells) -> Cells:
        return self.of.backward(cells)


@dataclass(frozen=True)
class Chain:
    """One mapping after another: ``first`` leads to what ``second`` begins with."""

    first: Mapping
    second: Mapping

    @property
    def source(self) -> Shape:
        return self.first.source

    @property
    def target(self) -> Shape:
        return self.second.target

    def backward(self, cells: Cells) -> Cells:
        return self.first.backward(self.second.backward(cells))

    def forward(self, cells: Cells) -> Cells:
        return self.second.forward(self.first.forward(cells))


@dataclass(frozen=True)
class Choice:
    """An operator whose values choose the cells: a sort, a mask, the place of a maximum.

    ``witness``: the cells that were chosen. ``influence``: all cells that took part in the choice.
    """

    witness: Mapping
    influence: Mapping

    @property
    def source(self) -> Shape:
        return self.witness.source

    @property
    def target(self) -> Shape:
        return self.witness.target

    def backward(self, cells: Cells) -> Cells:
        return self.witness.backward(cells)

    def forward(self, cells: Cells) -> Cells:
        return self.witness.forward(cells)


@functools.lru_cache(maxsize=4096)
def cell_by_cell(source: Shape, target: Shape) -> Mapping:
    """Each output cell from the one input cell that broadcasting lays there."""
    if source == target:
        return SamePositions(source, target)
    before = len(target) - len(source)
    return Boxes(
        source,
        target,
        tuple(
            Span(0, 0) if length == 1 else Span.point(before + at)
            for at, length in enumerate(source)
        ),
    )


def leading_axes(source: Shape, target: Shape) -> Mapping:
    """Each output cell from the one input cell that its first coordinates name: axes were added behind those of the input."""
    if source == target:
        return SamePositions(source, target)
    return Boxes(source, target, tuple(Span.point(axis) for axis in range(len(source))))


def axes_behind(mapping: Mapping, axes: frozenset[int]) -> frozenset[int]:
    """The axes of the output whose lengths may follow from those of some axes of the input; all, where the mapping does not say."""
    if isinstance(mapping, Choice):
        mapping = mapping.influence
    target = mapping.target
    if isinstance(mapping, SamePositions) and mapping.source == target:
        return axes
    if not isinstance(mapping, Boxes):
        return frozenset(range(len(target)))
    behind = {mapping.spans[at].axis for at in axes}
    if None in behind:
        if any(mapping.spans[at].axis is None and mapping.source[at] == 1 for at in axes):
            # One that is squeezed away: how many axes are left follows from it, too.
            return frozenset(range(len(target)))
        # An axis that no span moves with, such as one that is kept with one cell.
        behind |= set(range(len(target))) - {span.axis for span in mapping.spans}
    return frozenset(axis for axis in behind if axis is not None)


def over_axes(source: Shape, axes: Sequence[int], target: Shape, keepdims: bool) -> Boxes:
    """Each output cell from all cells along some axes (0 and up) of the input."""
    spans, output = [], 0
    for at, length in enumerate(source):
        if at in axes:
            spans.append(Span.all(length))
            output += keepdims
        else:
            spans.append(Span.point(output))
            output += 1
    return Boxes(source, target, tuple(spans))


def along_axis(source: Shape, target: Shape, span: dict[int, Span]) -> Boxes:
    """Cell by cell, but with a span of its own on some axes."""
    return Boxes(source, target, tuple(span.get(at, Span.point(at)) for at in range(len(source))))
