"""Planes: the part of an array that a picture shows, a row or a table of cells, and the pixels that it becomes.

A plane is an index of NumPy with a number for each axis of the array but for at most two, which have slices: ``3,:,100:200``.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lineage_arrays.cells import I64, Cells, Mask, Shape
from lineage_arrays.errors import CellError
from lineage_core.tracing.budget import current_budget

PERCENTILES = (1.0, 99.0)
"""Pixels that are black and white: a few extreme ones leave the others to be seen."""
THICK = 16
"""Pixels each way that a picture has at least: a row of cells is a line of one pixel."""
PIXELS_MAX = 1_024
"""Longest side of a picture."""
COORDINATES_AT_ONCE = 1 << 20
"""Cells that are placed at once: their coordinates take eight bytes for each axis."""
U8 = npt.NDArray[np.uint8]
F64 = npt.NDArray[np.float64]
OPAQUE = 255
SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""Of files of PNG."""
_COLOUR_TYPES = {2: 4, 4: 6}
"""Of PNG, by the number of channels: grey, or red, green and blue, with an alpha channel."""


@dataclass(frozen=True)
class Plane:
    """A part of an array as rows and columns of cells.

    ``index``: for each axis the coordinate, or the range (first, behind the last) of one that the picture shows.
    """

    shape: Shape
    index: tuple[int | tuple[int, int], ...]

    @classmethod
    def of(cls, shape: Shape, where: Any) -> Plane:
        """The plane that an index names; ``...`` the first one, over the last two axes, or those before a last one of up to four channels.

        Raises:
            CellError: the array has no such plane.
        """
        if where is ...:
            return cls(shape, _first(shape))
        if not isinstance(where, tuple) or len(where) != len(shape):
            raise CellError(
                f"a plane of an array of shape {shape} has a number or a slice for each axis, as in 3,:,100:200"
            )
        return cls(
            shape, tuple(_part(*parts) for parts in zip(where, shape, strict=True))
        )._checked()

    def _checked(self) -> Plane:
        if len(self._shown) > 2:
            raise CellError("a plane has slices for two axes at most: give numbers for the others")
        return self

    @property
    def _shown(self) -> list[int]:
        return [axis for axis, part in enumerate(self.index) if isinstance(part, tuple)]

    @property
    def ranges(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Ranges of the rows and of the columns; an axis that the picture lacks has one."""
        shown = [part for part in self.index if isinstance(part, tuple)]
        padded = [(0, 1), (0, 1), *shown][-2:]
        return padded[0], padded[1]

    @property
    def table(self) -> tuple[int, int]:
        """How many rows and columns it has."""
        (top, bottom), (left, right) = self.ranges
        return bottom - top, right - left

    def __str__(self) -> str:
        return ",".join(
            f"{part[0]}:{part[1]}" if isinstance(part, tuple) else str(part) for part in self.index
        )

    def values(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The cells of an array in the plane, as a table."""
        index = tuple(slice(*part) if isinstance(part, tuple) else part for part in self.index)
        return np.asarray(array[index]).reshape(self.table)

    def places(self, cells: Cells) -> tuple[I64, I64]:
        """Rows and columns of those of some cells that lie in the plane, from its first ones; not of all cells of an array."""
        none = np.empty(0, np.int64)
        parts = [(none, none), *map(self._places, cells.coordinates_in_parts(COORDINATES_AT_ONCE))]
        rows, columns = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(columns)

    def _places(self, coordinates: I64) -> tuple[I64, I64]:
        current_budget().check()
        within: Mask = np.ones(len(coordinates), np.bool_)
        for axis, part in enumerate(self.index):
            low, high = part if isinstance(part, tuple) else (part, part + 1)
            within &= (coordinates[:, axis] >= low) & (coordinates[:, axis] < high)
        shown = [
            coordinates[within, axis] - part[0]
            for axis, part in enumerate(self.index)
            if isinstance(part, tuple)
        ]
        none = np.zeros(int(within.sum()), np.int64)
        padded = [none, none, *shown][-2:]
        return padded[0], padded[1]


def _first(shape: Shape) -> tuple[int | tuple[int, int], ...]:
    whole: list[int | tuple[int, int]] = [(0, length) for length in shape]
    channels = len(shape) > 2 and shape[-1] <= 4
    shown = {len(shape) - 3, len(shape) - 2} if channels else {len(shape) - 2, len(shape) - 1}
    return tuple(part if axis in shown else 0 for axis, part in enumerate(whole))


def _part(part: object, length: int) -> int | tuple[int, int]:
    if isinstance(part, slice):
        first, behind, step = part.indices(length)
        if step != 1:
            raise CellError("slices of a plane have steps of 1")
        return first, max(behind, first)
    if not isinstance(part, int) or not -length <= part < length:
        raise CellError(f"{part!r} is no coordinate on an axis of {length:,} cells")
    return part % length


@dataclass(frozen=True)
class Picture:
    """Pixels of a plane. ``steps``: rows and columns of cells in a pixel; ``png``: the pixels."""

    size: tuple[int, int]
    steps: tuple[int, int]
    png: bytes


def steps_of(table: tuple[int, int], side: int) -> tuple[int, int]:
    """Rows and columns of cells in a pixel, so that a table of cells has at most ``side`` pixels each way."""
    rows, columns = table
    return max(math.ceil(rows / side), 1), max(math.ceil(columns / side), 1)


def even_steps(table: tuple[int, int], side: int) -> tuple[int, int]:
    """As :func:`steps_of`, and the same each way where the picture is not too thin then."""
    steps = steps_of(table, side)
    even = max(steps)
    return (even, even) if min(table) >= even * THICK else steps


def marked(plane: Plane, cells: Cells, side: int) -> tuple[Picture, int]:
    """A picture of where cells lie, and how many lie in the plane: a pixel is opaque where any of its cells is among them."""
    steps = steps_of(plane.table, side)
    pixels, count = marked_pixels(plane, cells, steps)
    alpha = np.where(pixels, OPAQUE, 0).astype(np.uint8)
    size = pixels.shape[0], pixels.shape[1]
    return Picture(size, steps, png_of(np.stack((alpha, alpha), axis=-1))), count


def marked_pixels(plane: Plane, cells: Cells, steps: tuple[int, int]) -> tuple[Mask, int]:
    """The pixels of so many rows and columns of cells of a plane in which any of some cells lie, and how many lie in the plane."""
    rows, columns = (-(-length // step) for length, step in zip(plane.table, steps, strict=True))
    pixels: Mask = np.zeros((rows, columns), np.bool_)
    if cells.is_whole:
        pixels[:] = True
        return pixels, math.prod(plane.table)
    if cells.is_mask:
        pixels = plane.values(cells.mask())
        count = int(np.count_nonzero(pixels))
        for axis, step in enumerate(steps):
            starts = np.arange(0, plane.table[axis], step)
            pixels = np.logical_or.reduceat(pixels, starts, axis=axis)
        return pixels, count
    at_rows, at_columns = plane.places(cells)
    pixels[at_rows // steps[0], at_columns // steps[1]] = True
    return pixels, len(at_rows)


@dataclass(frozen=True)
class Shades:
    """The scale of a picture of values: black is ``low``, white is ``high``; both None where no cell has a finite value."""

    low: float | None
    high: float | None


def shaded(
    table: npt.NDArray[Any], side: int, scale: Shades | None = None, *, robust: bool = False
) -> tuple[Picture, Shades]:
    """A picture of numbers: a pixel is the mean of the finite ones among its cells, and transparent where there are none.

    Args:
        table: of numbers, truth values, or times; complex numbers by their magnitude.
        side: pixels each way, at most.
        scale: what is black and what is white; None: the least and the greatest pixel.
        robust: without a scale, `PERCENTILES` of the pixels; steps are even (:func:`even_steps`).

    Raises:
        CellError: the cells are no numbers.
    """
    steps = (even_steps if robust else steps_of)((table.shape[0], table.shape[1]), side)
    means = pixel_means(table, steps)
    if scale is None:
        scale = scale_of(means, PERCENTILES) if robust else scale_of(means)
    return Picture((means.shape[0], means.shape[1]), steps, png_of(shades_of(means, scale))), scale


def scale_of(means: F64, percentiles: tuple[float, float] = (0, 100)) -> Shades:
    """The scale on which these percentiles of the finite pixels are black and white; where both are one value, all pixels are on it."""
    some = means[np.isfinite(means)]
    if not len(some):
        return Shades(None, None)
    low, high = np.percentile(some, percentiles, method="nearest")
    if low == high:
        low, high = some.min(), some.max()
    return Shades(float(low), float(high))


def shades_of(means: F64, scale: Shades) -> U8:
    """Greys and alphas of pixels on a scale: transparent where they are not finite."""
    finite = np.isfinite(means)
    low, high = scale.low or 0.0, scale.high or 0.0
    # Halves: the distance of two finite numbers may not be one.
    width = high / 2 - low / 2
    with np.errstate(invalid="ignore", over="ignore"):
        shares = (means / 2 - low / 2) / width if width else np.zeros_like(means)
    grey = np.where(finite, np.clip(np.nan_to_num(shares), 0, 1) * OPAQUE, 0)
    return np.stack((grey, np.where(finite, OPAQUE, 0)), axis=-1).astype(np.uint8)


def pixel_means(table: npt.NDArray[Any], steps: tuple[int, int]) -> F64:
    """The mean of the finite numbers of each pixel; not a number where there are none."""
    numbers = _numbers_of(table.dtype)
    rows = -(-table.shape[0] // steps[0])
    starts = np.arange(0, table.shape[1], steps[1])
    means = np.full((rows, len(starts)), np.nan)
    if not means.size:
        return means
    for row in range(rows):
        current_budget().check()
        part = numbers(table[row * steps[0] : (row + 1) * steps[0]])
        finite = np.isfinite(part)
        counts = np.add.reduceat(finite.sum(axis=0), starts)
        # Divided first: a sum of finite numbers may not be one.
        each = np.repeat(counts, np.diff(np.append(starts, table.shape[1])))
        shares = np.where(finite, part, 0) / np.maximum(each, 1)
        means[row] = np.where(counts, np.add.reduceat(shares.sum(axis=0), starts), np.nan)
    return means


def _numbers_of(dtype: np.dtype[Any]) -> Callable[[npt.NDArray[Any]], F64]:
    if dtype.kind == "c":
        return lambda part: np.abs(part).astype(np.float64)
    if dtype.kind in "mM":
        return _of_times
    if dtype.kind in "biuf":
        return lambda part: part.astype(np.float64)
    raise CellError(f"cells of type {dtype} are no numbers, and have no shades")


def _of_times(part: npt.NDArray[Any]) -> F64:
    return np.where(np.isnat(part), np.nan, part.astype(np.int64).astype(np.float64))


def png_of(pixels: U8) -> bytes:
    """A PNG (ISO/IEC 15948). Without a pixel it has a transparent one, as PNG has no empty picture.

    Args:
        pixels: uint8 of shape (rows, columns, 2), a grey and its alpha, or (rows, columns, 4), red, green, blue and alpha.
    """
    if not pixels.size:
        pixels = np.zeros((1, 1, pixels.shape[2]), np.uint8)
    height, width, channels = pixels.shape
    # Each line begins with its filter: none.
    lines = np.zeros((height, 1 + channels * width), np.uint8)
    lines[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return SIGNATURE + b"".join(map(_chunk, parts))


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    name, content = part
    return (
        struct.pack(">I", len(content))
        + name
        + content
        + struct.pack(">I", zlib.crc32(name + content))
    )
