"""Sets of cells of one array.

A cell is named by its position: its row-major index. Few cells are kept as their positions, many as a mask,
all of them as a flag; which one it is does not show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_arrays.errors import CellError
from lineage_core.contract.region import Region
from lineage_core.contract.runs import sorted_unique

if not hasattr(np, "permute_dims"):
    raise ImportError(f"lineage_arrays needs NumPy 2.0 or newer; this is {np.__version__}")

Shape: TypeAlias = tuple[int, ...]
I64: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

DENSE = 32
"""From one cell in so many on, a mask takes less memory than positions and is quicker to combine."""


class Cells:
    """A set of cells of an array of some shape. Immutable."""

    __slots__ = ("_mask", "_positions", "shape", "size")

    def __init__(
        self, shape: Shape, *, positions: I64 | None = None, mask: Mask | None = None
    ) -> None:
        """Take sorted distinct positions, or a mask of the shape, or (neither) all cells."""
        self.shape = shape
        self.size = math.prod(shape)
        self._positions = positions
        self._mask = mask

    @classmethod
    def empty(cls, shape: Shape) -> Cells:
        return cls(shape, positions=np.empty(0, np.int64))

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
        if len(requested) * DENSE >= size:
            flat = np.zeros(size, np.bool_)
            flat[requested] = True
            return cls.masked(flat.reshape(shape))
        return cls(shape, positions=sorted_unique(requested))

    @classmethod
    def masked(cls, mask: Mask) -> Cells:
        """The cells where a mask is true."""
        count = int(np.count_nonzero(mask))
        if count == mask.size:
            return cls.whole(mask.shape)
        if count * DENSE < mask.size:
            return cls(mask.shape, positions=np.flatnonzero(mask))
        return cls(mask.shape, mask=mask)

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
        positions = _of_axes(shape, where)
        if positions is not None:
            return cls.at(shape, positions)
        mask = np.zeros(shape, np.bool_)
        try:
            mask[where] = True
        except IndexError as error:
            raise CellError(str(error)) from error
        return cls.masked(mask)

    @property
    def is_whole(self) -> bool:
        """Whether all cells are there; an array without cells has no whole set."""
        return self._positions is None and self._mask is None

    @property
    def count(self) -> int:
        if self._positions is not None:
            return len(self._positions)
        return self.size if self._mask is None else int(np.count_nonzero(self._mask))

    def positions(self) -> I64:
        """The positions in order."""
        if self._positions is not None:
            return self._positions
        return np.arange(self.size) if self._mask is None else np.flatnonzero(self._mask)

    def coordinates(self) -> npt.NDArray[np.int64]:
        """The coordinates in order of positions: int64 of shape (count, axes)."""
        if not self.shape:
            return np.empty((self.count, 0), np.int64)
        return np.stack(np.unravel_index(self.positions(), self.shape), axis=1).astype(np.int64)

    def mask(self) -> Mask:
        """A mask of the array's shape."""
        if self._mask is not None:
            return self._mask
        mask = np.full(self.shape, self.is_whole)
        if self._positions is not None:
            mask.reshape(-1)[self._positions] = True
        return mask

    def region(self) -> Region:
        """The positions as a region of the contract."""
        if self.is_whole:
            return Region(np.zeros(1, np.uint64), np.array([self.size - 1], np.uint64))
        return Region.from_positions(self.positions())

    def __or__(self, other: Cells) -> Cells:
        if self.is_whole or not other.count:
            return self
        if other.is_whole or not self.count:
            return other
        if self._positions is not None and other._positions is not None:
            return Cells.at(self.shape, np.concatenate((self._positions, other._positions)))
        return Cells.masked(self.mask() | other.mask())

    def __bool__(self) -> bool:
        return self.count > 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Cells):
            return NotImplemented
        same = self.shape == other.shape and self.count == other.count
        return same and np.array_equal(self.positions(), other.positions())

    __hash__ = None  # type: ignore[assignment]  # equal sets are compared by content

    def __repr__(self) -> str:
        extent = "all" if self.is_whole else f"{self.count:,}"
        return f"<{extent} of {self.size:,} cells, shape {self.shape}>"


def _of_axes(shape: Shape, where: Any) -> I64 | None:
    """The positions that a number or a slice for each axis name, without a look at the whole array; None: another index.

    Raises:
        CellError: the array does not have them.
    """
    if not isinstance(where, tuple) or len(where) != len(shape):
        return None
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
