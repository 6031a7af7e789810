"""Mappings along one axis whose ranges are a table, and unions of mappings: borders, windows, resampling."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lineage_arrays.cells import I64, Cells, Mask, Shape
from lineage_arrays.mappings import Mapping, product_of_axes
from lineage_core.tracing.budget import current_budget

BLOCK_CELLS = 1 << 21
"""Cells of the lines, and ranges, that are looked at once: some 40 MB."""


@dataclass(frozen=True)
class Union:
    """Each output cell from what any of some mappings of one input and one output say."""

    parts: tuple[Mapping, ...]

    @property
    def source(self) -> Shape:
        return self.parts[0].source

    @property
    def target(self) -> Shape:
        return self.parts[0].target

    def backward(self, cells: Cells) -> Cells:
        return Cells.union(self.source, (part.backward(cells) for part in self.parts))

    def forward(self, cells: Cells) -> Cells:
        return Cells.union(self.target, (part.forward(cells) for part in self.parts))


def union_of(parts: Sequence[Mapping]) -> Mapping:
    """The union of at least one mapping."""
    distinct = tuple(dict.fromkeys(parts))
    return distinct[0] if len(distinct) == 1 else Union(distinct)


@dataclass(frozen=True)
class Ranges:
    """Which coordinates of an input axis each coordinate of an output axis needs: a row for each range.

    ``outputs``: the output coordinate, in order; ``first`` and ``last``: the range, inclusive and not empty. All int64 of shape (rows,).
    """

    outputs: I64
    first: I64
    last: I64

    @classmethod
    def of(cls, outputs: I64, first: I64, last: I64) -> Ranges:
        """Ranges in any order, empty ones among them."""
        order = np.flatnonzero(first <= last)
        order = order[np.argsort(outputs[order], kind="stable")]
        return cls(outputs[order], first[order], last[order])

    def __len__(self) -> int:
        return len(self.outputs)


class AlongAxis:
    """Each output cell from ranges of cells on its line along one axis; on the other axes it stays where it is.

    The ranges are made when they are first requested.
    """

    def __init__(
        self, source: Shape, target: Shape, axis: int, ranges: Callable[[], Ranges]
    ) -> None:
        self.source = source
        self.target = target
        self.axis = axis
        self._make = ranges

    def __reduce__(self) -> Any:
        """Its ranges go along: what makes them may be nothing that another process has."""
        return _along, (self.source, self.target, self.axis, self.ranges)

    @functools.cached_property
    def ranges(self) -> Ranges:
        """The ranges of the axis."""
        return self._make()

    def backward(self, cells: Cells) -> Cells:
        if cells.is_whole:
            needed = self._needed(np.ones((1, self.target[self.axis]), np.bool_))[0]
            return self._whole_but(self.source, needed)
        return self._by_lines(cells, self.target, self.source, self._needed)

    def forward(self, cells: Cells) -> Cells:
        if cells.is_whole:
            made = self._made(np.ones((1, self.source[self.axis]), np.bool_))[0]
            return self._whole_but(self.target, made)
        return self._by_lines(cells, self.source, self.target, self._made)

    def _whole_but(self, shape: Shape, marked: Mask) -> Cells:
        axes = [np.ones(length, np.bool_) for length in shape]
        axes[self.axis] = marked
        return product_of_axes(shape, axes)

    def _by_lines(
        self, cells: Cells, at: Shape, to: Shape, related: Callable[[Mask], Mask]
    ) -> Cells:
        """What is related to some cells, line by line."""
        if not cells:
            return Cells.empty(to)
        inner = math.prod(at[self.axis + 1 :])
        outer, rest = np.divmod(cells.positions(), at[self.axis] * inner)
        coordinates, within = np.divmod(rest, inner)
        lines, of_cell = np.unique(outer * inner + within, return_inverse=True)

        def parts() -> Iterator[Cells]:
            for marks, some in self._blocks(lines, of_cell, coordinates, at[self.axis]):
                current_budget().check()
                line, coordinate = np.nonzero(related(marks))
                before, behind = np.divmod(some[line], inner)
                yield Cells.at(to, (before * to[self.axis] + coordinate) * inner + behind)

        return Cells.union(to, parts())

    def _blocks(
        self, lines: I64, of_cell: I64, coordinates: I64, length: int
    ) -> Iterator[tuple[Mask, I64]]:
        """Marks on some lines at once, and which lines these are."""
        size = self.source[self.axis] + self.target[self.axis] + len(self.ranges)
        count = max(BLOCK_CELLS // max(size, 1), 1)
        order = np.argsort(of_cell, kind="stable")
        ends = np.searchsorted(of_cell[order], np.arange(0, len(lines) + count, count))
        for number, (begin, end) in enumerate(itertools.pairwise(ends.tolist())):
            some = lines[number * count : (number + 1) * count]
            marks = np.zeros((len(some), length), np.bool_)
            chosen = order[begin:end]
            marks[of_cell[chosen] - number * count, coordinates[chosen]] = True
            yield marks, some

    def _needed(self, marks: Mask) -> Mask:
        """On lines of the input what marked cells on those of the output need."""
        ranges, length = self.ranges, self.source[self.axis]
        line, row = np.nonzero(marks[:, ranges.outputs])
        shape = len(marks), length + 1
        steps = np.bincount(line * shape[1] + ranges.first[row], minlength=math.prod(shape))
        steps -= np.bincount(line * shape[1] + ranges.last[row] + 1, minlength=math.prod(shape))
        needed: Mask = np.cumsum(steps.reshape(shape), axis=1)[:, :-1] > 0
        return needed

    def _made(self, marks: Mask) -> Mask:
        """On lines of the output what marked cells on those of the input go into."""
        ranges = self.ranges
        counts = np.zeros((len(marks), marks.shape[1] + 1), np.int64)
        np.cumsum(marks, axis=1, out=counts[:, 1:])
        line, row = np.nonzero(counts[:, ranges.last + 1] > counts[:, ranges.first])
        made = np.zeros((len(marks), self.target[self.axis]), np.bool_)
        made[line, ranges.outputs[row]] = True
        return made


def _along(source: Shape, target: Shape, axis: int, ranges: Ranges) -> AlongAxis:
    return AlongAxis(source, target, axis, lambda: ranges)
