"""Sets of cells of one array.

A cell is named by its position: its row-major index. Few boxes are kept by their corners, few cells
as their positions, many as a mask, all of them as a flag; which one it is does not show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_arrays.errors import CellError
from lineage_arrays.few_boxes import (
    Box,
    apart,
    are_in,
    box_at,
    cells_in,
    mask_of,
    positions_in,
    run_of,
    whole_box,
)
from lineage_core.contract.region import Region
from lineage_core.contract.runs import sorted_unique

if not hasattr(np, "permute_dims"):
    raise ImportError(f"lineage_arrays needs NumPy 2.0 or newer; this is {np.__version__}")

Shape: TypeAlias = tuple[int, ...]
I64: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

DENSE = 32
"""From one cell in so many on, a mask takes less memory than positions and is quicker to combine."""

COMPARED_BOXES = 8
"""Boxes that are compared with each other whether they are a few, at most."""

BOXES_AT_ONCE = 256
"""Boxes that are filled in at once."""

JOINED_AT_ONCE = 1 << 16
"""Positions of parts that are kept before they are joined, at least: to join each part by itself is quadratic."""


class Cells:
    """A set of cells of an array of some shape. Immutable."""

    __slots__ = ("_boxes", "_count", "_mask", "_positions", "is_whole", "shape", "size")

    def __init__(
        self,
        shape: Shape,
        *,
        positions: I64 | None = None,
        mask: Mask | None = None,
        boxes: tuple[Box, ...] | None = None,
    ) -> None:
        """Take sorted distinct positions, or a mask of the shape, or a few boxes without a cell in common, or (none of these) all cells."""
        self.shape = shape
        self.size = math.prod(shape)
        self._positions = positions
        self._mask = mask
        self._boxes = boxes
        self.is_whole = False
        """Whether all cells are there; an array without cells has no whole set."""
        if positions is not None:
            self._count = len(positions)
        elif mask is not None:
            self._count = -1
        elif boxes is not None:
            self._count = cells_in(boxes)
            self.is_whole = 0 < self._count == self.size
        else:
            self._count, self.is_whole = self.size, True

    @classmethod
    def empty(cls, shape: Shape) -> Cells:
        return cls(shape, boxes=())

    @classmethod
    def whole(cls, shape: Shape) -> Cells:
        return cls(shape) if math.prod(shape) else cls.empty(shape)

    @classmethod
    def at(cls, shape: Shape, positions: Iterable[int] | npt.NDArray[np.integer]) -> Cells:
        """The cells at some positions, in any order, repeated or not.

        Raises:
            CellError: the array has no such cell.
        """
        requested = np.asarray(
            positions if isinstance(positions, np.ndarray) else list(positions), np.int64
        ).ravel()
        size = math.prod(shape)
        if len(requested) and (int(requested.min()) < 0 or int(requested.max()) >= size):
            raise CellError(f"positions are 0 to {size - 1} in an array of shape {shape}")
        return cls.within(shape, requested)

    @classmethod
    def within(cls, shape: Shape, positions: I64) -> Cells:
        """As `at`, of positions that are known to be of the array, and that nobody writes to."""
        if len(positions) == 1:
            return cls(shape, boxes=(box_at(shape, int(positions[0])),))
        if len(positions) * DENSE >= (size := math.prod(shape)):
            flat = np.zeros(size, np.bool_)
            flat[positions] = True
            return cls.masked(flat.reshape(shape))
        if len(positions) > 1 and not bool((positions[1:] > positions[:-1]).all()):
            positions = sorted_unique(positions)
        run = run_of(shape, positions)
        return cls(shape, positions=positions) if run is None else cls(shape, boxes=(run,))

    @classmethod
    def in_boxes(cls, shape: Shape, boxes: Sequence[Box]) -> Cells:
        """The cells that lie in any of some boxes of the array, none of them empty."""
        few = apart(boxes) if len(boxes) <= COMPARED_BOXES else None
        if few is not None:
            return cls(shape, boxes=few)
        if cells_in(boxes) * DENSE >= math.prod(shape):
            return cls.masked(mask_of(shape, boxes))
        return cls.within(shape, positions_in(shape, boxes))

    @classmethod
    def masked(cls, mask: Mask) -> Cells:
        """The cells where a mask is true."""
        count = int(np.count_nonzero(mask))
        if count == mask.size:
            return cls.whole(mask.shape)
        if count * DENSE < mask.size:
            return cls.within(mask.shape, np.flatnonzero(mask))
        cells = cls(mask.shape, mask=mask)
        cells._count = count
        return cells

    @classmethod
    def of_region(cls, shape: Shape, region: Region) -> Cells:
        """The cells at the positions of a region.

        Raises:
            CellError: the array has no such cell.
        """
        if region.runs and int(region.last[-1]) >= math.prod(shape):
            raise CellError(f"an array of shape {shape} has no position {int(region.last[-1])}")
        return cls.at(shape, region.positions().astype(np.int64))

    @classmethod
    def of(cls, shape: Shape, where: Any) -> Cells:
        """The cells that ``where`` names: cells, a region, a mask, or any index of NumPy (``np.s_[3, 1:5]``).

        Raises:
            CellError: the array has no such cells.
        """
        if isinstance(where, Cells):
            if where.shape != shape:
                raise CellError(f"cells of shape {where.shape}, the array has {shape}")
            return where
        if isinstance(where, Region):
            return cls.of_region(shape, where)
        if where is ...:
            return cls.whole(shape)
        box = _box_of(shape, where)
        if box is not None:
            return cls(shape, boxes=(box,))
        positions = _of_axes(shape, where)
        if positions is not None:
            return cls.within(shape, positions)
        mask = np.zeros(shape, np.bool_)
        try:
            mask[where] = True
        except IndexError as error:
            raise CellError(str(error)) from error
        return cls.masked(mask)

    @classmethod
    def of_any(cls, shape: Shape, indices: Iterable[Any]) -> Cells:
        """The cells that any of some indices names, each as for :meth:`of`. Indices after the array is whole are not requested.

        Raises:
            CellError: the array has no such cells.
        """

        def parts() -> Iterator[Cells]:
            boxes, listed, count = dict[Box, None](), list[I64](), 0
            for where in indices:
                box = _box_of(shape, where)
                if box is not None and box != everything:
                    boxes[box] = None
                elif type(where) is tuple and len(where) == len(shape) and _are_coordinates(where):
                    # Positions of its own: the arrays may be filled anew for the next index.
                    listed.append(_of_coordinates(shape, where))
                    count += len(listed[-1])
                else:
                    yield cls.of(shape, where)
                if len(boxes) >= BOXES_AT_ONCE:
                    yield cls.in_boxes(shape, list(boxes))
                    boxes = {}
                if count >= JOINED_AT_ONCE:
                    yield cls.within(shape, np.concatenate(listed))
                    listed, count = [], 0
            if boxes:
                yield cls.in_boxes(shape, list(boxes))
            if listed:
                yield cls.within(shape, np.concatenate(listed))

        everything = whole_box(shape)
        return cls.union(shape, parts())

    @classmethod
    def union(cls, shape: Shape, parts: Iterable[Cells]) -> Cells:
        """The cells of all parts. Parts after the array is whole are not requested."""
        union, pending, count = cls.empty(shape), list[I64](), 0
        for part in parts:
            if part.is_whole:
                return part
            if part.boxes is not None and union.boxes is not None and not pending:
                union = union | part
                if union.is_whole:
                    return union
                continue
            pending.append(part.positions())
            count += len(pending[-1])
            if count >= max(union.size, JOINED_AT_ONCE):
                union = union | cls.within(shape, np.concatenate(pending))
                if union.is_whole:
                    return union
                pending, count = [], 0
        return union | cls.within(shape, np.concatenate(pending)) if pending else union

    @property
    def is_mask(self) -> bool:
        """Whether they are so many, and not all, that a mask takes less memory than positions."""
        if self._boxes is None:
            return self._mask is not None
        return not self.is_whole and self._count * DENSE >= self.size > 0

    @property
    def boxes(self) -> tuple[Box, ...] | None:
        """The same cells as a few boxes that do not meet; None: it is not known that they are."""
        if self._boxes is None:
            if self.is_whole:
                self._boxes = (whole_box(self.shape),)
            elif self._positions is not None and self._count == 1:
                self._boxes = (box_at(self.shape, int(self._positions[0])),)
        return self._boxes

    @property
    def count(self) -> int:
        if self._count < 0 and self._mask is not None:
            self._count = int(np.count_nonzero(self._mask))
        return self._count

    def positions(self) -> I64:
        """The positions in order."""
        if self._positions is not None:
            return self._positions
        if self.is_whole:
            return np.arange(self.size)
        if self._mask is not None:
            return np.flatnonzero(self._mask)
        positions = positions_in(self.shape, self._boxes or ())
        if not self.is_mask:
            self._positions = positions
        return positions

    def coordinates(self) -> npt.NDArray[np.int64]:
        """The coordinates in order of positions: int64 of shape (count, axes)."""
        return _coordinates(self.shape, self.positions())

    def coordinates_in_parts(self, count: int) -> Iterator[I64]:
        """The coordinates of so many cells at once, at most."""
        positions = self.positions()
        for at in range(0, len(positions), count):
            yield _coordinates(self.shape, positions[at : at + count])

    def mask(self) -> Mask:
        """A mask of the array's shape."""
        if self._mask is not None:
            return self._mask
        if self._boxes is not None:
            mask = mask_of(self.shape, self._boxes)
            if self.is_mask:
                self._mask = mask
            return mask
        mask = np.full(self.shape, self.is_whole)
        if self._positions is not None:
            mask.reshape(-1)[self._positions] = True
        return mask

    def region(self) -> Region:
        """The positions as a region of the contract."""
        if self.is_whole:
            return Region(np.zeros(1, np.uint64), np.array([self.size - 1], np.uint64))
        if self.is_mask:
            return _region_of(self.mask().reshape(-1))
        return Region.from_positions(self.positions())

    def __or__(self, other: Cells) -> Cells:
        if self.is_whole or not other or self is other:
            return self
        if other.is_whole or not self:
            return other
        boxes, others = self.boxes, other.boxes
        if boxes is not None and others is not None:
            few = apart((*boxes, *others))
            if few is not None:
                return self if few == boxes else Cells(self.shape, boxes=few)
        if self.is_mask or other.is_mask:
            return Cells.masked(self.mask() | other.mask())
        mine, theirs = self.positions(), other.positions()
        if mine is theirs:
            return self
        return Cells.within(self.shape, np.concatenate((mine, theirs)))

    def split(self, others: Cells) -> tuple[Cells, Cells]:
        """These cells that are among others, and those that are not."""
        if self.is_whole or self.is_mask:
            mask, among = self.mask(), others.mask()
            return Cells.masked(mask & among), Cells.masked(mask & ~among)
        positions = self.positions()
        inside = others.has(positions)
        count = int(np.count_nonzero(inside))
        if count in (0, len(positions)):
            # As they are, boxes above all.
            none = Cells.empty(self.shape)
            return (self, none) if count else (none, self)
        return (
            Cells(self.shape, positions=positions[inside]),
            Cells(self.shape, positions=positions[~inside]),
        )

    def has(self, positions: I64) -> Mask:
        """For each position whether its cell is there."""
        if self.is_whole:
            return np.ones(len(positions), np.bool_)
        if self._mask is not None:
            return self._mask.reshape(-1)[positions]
        if self._positions is None:
            return are_in(self.shape, self._boxes or (), positions)
        if not len(self._positions):
            return np.zeros(len(positions), np.bool_)
        at = np.searchsorted(self._positions, positions)
        found: Mask = self._positions[np.minimum(at, len(self._positions) - 1)] == positions
        return found

    def __bool__(self) -> bool:
        return self._count > 0 or self.count > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cells):
            return NotImplemented
        same = self.shape == other.shape and self.count == other.count
        if same and self._boxes is not None and self._boxes == other._boxes:
            return True
        return same and np.array_equal(self.positions(), other.positions())

    __hash__ = None  # type: ignore[assignment]  # equal sets are compared by content

    def __repr__(self) -> str:
        extent = "all" if self.is_whole else f"{self.count:,}"
        return f"<{extent} of {self.size:,} cells, shape {self.shape}>"


def _coordinates(shape: Shape, positions: I64) -> I64:
    if not shape:
        return np.empty((len(positions), 0), np.int64)
    return np.stack(np.unravel_index(positions, shape), axis=1).astype(np.int64, copy=False)


def _region_of(flat: Mask) -> Region:
    """The region of where a mask of one axis is true, without the positions: they take eight times its memory."""
    ends = np.flatnonzero(flat[1:] != flat[:-1])
    first, last = np.append(flat[:1], flat[1:][ends]), np.append(flat[:-1][ends], flat[-1:])
    starts, stops = np.append(0, ends + 1)[first], np.append(ends, len(flat) - 1)[last]
    return Region(starts.astype(np.uint64), stops.astype(np.uint64))


def _box_of(shape: Shape, where: Any) -> Box | None:
    """The box that a number, or a slice with some cells and without a step, for each axis names; None: another index, or one beyond the array."""
    if type(where) is not tuple or len(where) != len(shape):
        return None
    box = []
    for part, length in zip(where, shape, strict=True):
        if type(part) is int:
            if not -length <= part < length:
                return None
            at = part % length
            box.append((at, at))
        elif type(part) is slice:
            first, behind, step = part.indices(length)
            if step != 1 or behind <= first:
                return None
            box.append((first, behind - 1))
        else:
            return None
    return tuple(box)


def _of_axes(shape: Shape, where: Any) -> I64 | None:
    """The positions that a number or a slice for each axis name, without a look at the whole array; None: another index.

    Raises:
        CellError: the array does not have them.
    """
    if shape and type(where) is list and not where:
        return np.empty(0, np.int64)
    if not isinstance(where, tuple) or len(where) != len(shape):
        return None
    if _are_coordinates(where):
        return _of_coordinates(shape, where)
    positions: I64 = np.zeros(1, np.int64)
    for part, length in zip(where, shape, strict=True):
        if isinstance(part, slice):
            axis = np.arange(*part.indices(length))
        elif isinstance(part, int | np.integer) and not isinstance(part, bool):
            if not -length <= part < length:
                raise CellError(f"{where} is not in an array of shape {shape}")
            axis = np.array([int(part) % length])
        else:
            return None
        positions = (positions[:, None] * length + axis).reshape(-1)
    return positions


def _are_coordinates(where: tuple[Any, ...]) -> bool:
    """Whether an index is an array of integers for each axis, all of one length, as ``np.nonzero`` gives them."""
    return bool(where) and all(
        isinstance(part, np.ndarray)
        and part.ndim == 1
        and part.dtype.kind in "iu"
        and len(part) == len(where[0])
        for part in where
    )


def _of_coordinates(shape: Shape, where: tuple[npt.NDArray[np.integer], ...]) -> I64:
    try:
        return np.ravel_multi_index(where, shape)
    except (ValueError, TypeError):
        # Coordinates from the end, or beyond the array, or no coordinates at all.
        pass
    positions: I64 = np.zeros(len(where[0]), np.int64)
    for part, length in zip(where, shape, strict=True):
        if len(part) and (int(part.min()) < -length or int(part.max()) >= length):
            raise CellError(f"coordinates beyond an array of shape {shape}")
        axis = part.astype(np.int64)
        positions = positions * length + np.where(axis < 0, axis + length, axis)
    return positions
