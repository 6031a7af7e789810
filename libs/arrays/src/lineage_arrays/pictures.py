"""Pictures of cells over the values of their array, for files and notebooks.

A pixel is the mean of its cells, from black to white; it is coloured where any of them is among the cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from lineage_arrays.cells import I64, Cells, Mask
from lineage_arrays.errors import NoPictureError
from lineage_arrays.planes import (
    COORDINATES_AT_ONCE,
    OPAQUE,
    PERCENTILES,
    PIXELS_MAX,
    THICK,
    U8,
    Plane,
    Shades,
    even_steps,
    marked_pixels,
    pixel_means,
    png_of,
    scale_of,
    shades_of,
)
from lineage_arrays.workflow import AnyArray
from lineage_core.errors import LineageError
from lineage_core.tracing.budget import BudgetError

CELLS_COLOUR = (224, 36, 94)
"""Of cells, as on the page: half of it over values, as greys have no hue of their own."""
BACKGROUND = (238, 238, 238, OPAQUE)
"""Of pixels without a cell, where no values are drawn."""
ENLARGED = 256
"""Pictures of fewer pixels each way are enlarged, by a whole number."""
GAP = 8
"""Transparent pixels between two pictures."""
LISTED_MAX = 1 << 24
"""Cells of a set that are placed one by one."""
PLANE_CELLS_MAX = 1 << 24
"""Cells of a plane whose values are drawn."""
ValuesOf: TypeAlias = Callable[[Plane], AnyArray]
"""Gives the values of a plane as a table; raises LineageError or OSError where it can't."""
Shading: TypeAlias = Callable[[Plane, tuple[int, int]], tuple[U8, Shades]]
"""Gives greys and alphas of the pixels of so many rows and columns of cells of a plane, and their scale; raises as ValuesOf."""


@dataclass(frozen=True)
class CellPicture:
    """Cells of one plane of an array, over its values.

    ``count``: cells of the set that lie in the plane. ``steps``: rows and columns of cells in a pixel, each of which is drawn
    as ``enlarged`` rows and columns. ``scale``: what is black and white; None: no values are drawn, and ``missing`` says why.
    ``pixels``: uint8 of shape (rows, columns, 4), red, green, blue and alpha.
    """

    plane: Plane
    count: int
    steps: tuple[int, int]
    enlarged: tuple[int, int]
    scale: Shades | None
    missing: str
    pixels: U8

    @property
    def png(self) -> bytes:
        return png_of(self.pixels)


def draw_cells(cells: Cells, shading: Shading, side: int = PIXELS_MAX) -> CellPicture:
    """A picture of cells, of the plane that has the most of them.

    Args:
        cells: of an array.
        shading: its values. What it raises is said in the picture's ``missing``.
        side: pixels each way, at most.

    Raises:
        NoPictureError: the array has no axes or no cells, or the cells are too many to be placed one by one.
        BudgetError: the question takes too long.
    """
    plane = fullest_plane(cells)
    steps = even_steps(plane.table, side)
    marks, count = marked_pixels(plane, cells, steps)
    scale: Shades | None = None
    missing, shades = "", None
    try:
        shades, scale = shading(plane, steps)
    except BudgetError:
        raise
    except (LineageError, OSError) as error:
        missing = str(error)
    pixels = _coloured(marks, shades)
    enlarged = _enlarging(pixels.shape[0], pixels.shape[1])
    for axis, times in enumerate(enlarged):
        pixels = np.repeat(pixels, times, axis=axis)
    return CellPicture(plane, count, steps, enlarged, scale, missing, pixels)


def shading_of(values_of: ValuesOf) -> Shading:
    """Values as greys, from the 1st percentile of the pixels to the 99th."""

    def shading(plane: Plane, steps: tuple[int, int]) -> tuple[U8, Shades]:
        if math.prod(plane.table) > PLANE_CELLS_MAX:
            raise NoPictureError(
                f"the plane has {math.prod(plane.table):,} cells, and values of at most {PLANE_CELLS_MAX:,} are drawn"
            )
        means = pixel_means(values_of(plane), steps)
        scale = scale_of(means, PERCENTILES)
        return shades_of(means, scale), scale

    return shading


def fullest_plane(cells: Cells) -> Plane:
    """The plane of the array's usual axes (:meth:`Plane.of`) with the most cells of a set; of equal ones the first.

    Raises:
        NoPictureError: as :func:`draw_cells`.
    """
    if not cells.shape:
        raise NoPictureError("an array without axes has no picture")
    if not cells.size:
        raise NoPictureError("an array without cells has no picture")
    plane = Plane.of(cells.shape, ...)
    if cells.is_whole:
        return plane
    if not cells.is_mask and cells.count > LISTED_MAX:
        raise NoPictureError(
            f"{cells.count:,} cells are too many for a picture: ask about fewer of them"
        )
    fixed = [axis for axis, part in enumerate(plane.index) if not isinstance(part, tuple)]
    if not fixed or not cells.count:
        return plane
    lengths = tuple(cells.shape[axis] for axis in fixed)
    at = np.unravel_index(_fullest(cells, fixed, lengths), lengths)
    chosen = dict(zip(fixed, (int(one) for one in at), strict=True))
    return Plane(cells.shape, tuple(chosen.get(axis, p) for axis, p in enumerate(plane.index)))


def _fullest(cells: Cells, fixed: list[int], lengths: tuple[int, ...]) -> int:
    """The row-major number of the plane with the most cells, among those that the ``fixed`` axes tell apart."""
    if cells.is_mask:
        shown = tuple(axis for axis in range(len(cells.shape)) if axis not in fixed)
        return int(np.argmax(np.count_nonzero(cells.mask(), axis=shown)))
    numbers: list[I64] = [
        np.ravel_multi_index(tuple(part[:, axis] for axis in fixed), lengths).astype(np.int64)
        for part in cells.coordinates_in_parts(COORDINATES_AT_ONCE)
    ]
    planes, counts = np.unique(np.concatenate(numbers), return_counts=True)
    return int(planes[np.argmax(counts)])


def _enlarging(rows: int, columns: int) -> tuple[int, int]:
    times = max(ENLARGED // max(rows, columns), 1)
    return max(times, -(-THICK // rows)), max(times, -(-THICK // columns))


def _coloured(marks: Mask, shades: U8 | None) -> U8:
    """Pixels of the marked cells in their colour, over greys and alphas where there are some."""
    pixels: U8 = np.empty((*marks.shape, 4), np.uint8)
    colour = np.array((*CELLS_COLOUR, OPAQUE), np.uint8)
    if shades is None:
        pixels[:] = np.where(marks[:, :, None], colour, np.array(BACKGROUND, np.uint8))
        return pixels
    pixels[:, :, :3], pixels[:, :, 3] = shades[:, :, :1], shades[:, :, 1]
    over = marks & (shades[:, :, 1] > 0)
    pixels[over, :3] = pixels[over, :3] // 2 + colour[:3] // 2
    pixels[marks & ~over] = colour
    return pixels


def beside(pictures: Sequence[CellPicture]) -> tuple[U8, list[int]]:
    """Pictures from left to right, with transparent pixels between them, and the first column of each."""
    height = max(one.pixels.shape[0] for one in pictures)
    widths = [one.pixels.shape[1] for one in pictures]
    together: U8 = np.zeros((height, sum(widths) + GAP * (len(pictures) - 1), 4), np.uint8)
    lefts = [sum(widths[:at]) + GAP * at for at in range(len(pictures))]
    for one, left in zip(pictures, lefts, strict=True):
        rows, columns = one.pixels.shape[:2]
        together[:rows, left : left + columns] = one.pixels
    return together, lefts


def box_of(cells: Cells) -> tuple[tuple[int, int], ...]:
    """For each axis the range (first, behind the last) of the coordinates of some cells; they are one at least."""
    if cells.is_whole:
        return tuple((0, length) for length in cells.shape)
    if cells.is_mask:
        mask, axes = cells.mask(), range(len(cells.shape))
        along = [
            np.flatnonzero(mask.any(axis=tuple(other for other in axes if other != axis)))
            for axis in axes
        ]
        return tuple((int(one[0]), int(one[-1]) + 1) for one in along)
    parts = list(cells.coordinates_in_parts(COORDINATES_AT_ONCE))
    low = np.min([part.min(axis=0) for part in parts], axis=0)
    high = np.max([part.max(axis=0) for part in parts], axis=0)
    return tuple(zip(low.tolist(), (high + 1).tolist(), strict=True))
