"""Questions about files of arrays, answered by plain values: a server has them answered in a confined process.

Of a file each function gets the bytes, and answers only where these are the ones that were recorded. The process may open no
file later, so what is needed is loaded with this module.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import IO, Any, TypeAlias

import numpy as np

from lineage_arrays.cells import I64, Cells
from lineage_arrays.errors import ArrayLineageError, CellError
from lineage_arrays.formats.decoding import decoded
from lineage_arrays.formats.loading import load_numpy
from lineage_arrays.formats.trees import checksum_over, decoded_files
from lineage_arrays.planes import Plane, Shades, shaded
from lineage_arrays.saved.address import parse_index
from lineage_arrays.saved.large_files import is_large, picked_cells, positions_of_plane
from lineage_arrays.saved.questions import TEXT_MAX, picture_plain, refusing
from lineage_arrays.workflow import AnyArray
from lineage_core.contract.region import Region
from lineage_store.checksums import sha256_of

OPERATIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "picture": ("lineage_arrays.saved.file_questions", "draw_picture"),
        "values": ("lineage_arrays.saved.file_questions", "list_values"),
    }
)
"""Functions of a file and of arguments, as :class:`lineage_query.rows.confined.ConfinedFormats` calls them."""
READ_BYTES = 16 << 20
WHOLE_BYTES_MAX = 128 << 20
"""Longest file that is in memory as a whole, with its array beside it."""
READ_IN_PARTS = ".npy"
"""The ending of files that may be longer."""
PLANE_CELLS_MAX = 4 << 20
"""Cells of a picture of such a file."""
Source: TypeAlias = "tuple[str, str, str, list[int]]"
"""An array as it was recorded: the path of its file, whose ending says the format, its name in the file, the file's checksum, and its shape."""

TreeSizes: TypeAlias = "list[tuple[str, int]]"
"""Files of a folder: their paths in it, and their sizes, in order of paths."""
CHANGED = "{} has changed since it was recorded: its values now are not those of then"

load_numpy()


@refusing
def draw_picture(
    file: IO[bytes],
    source: Source,
    plane: str,
    side: int,
    bounds: tuple[float, float] | None,
    robust: bool = False,
) -> dict[str, Any]:
    """A picture of a plane of an array in a file.

    ``bounds``: the values that are black and white; None: the least and the greatest. ``robust``: as :func:`shaded` has it.
    """
    shown = Plane.of(tuple(source[3]), parse_index(plane) if plane else ...)
    return _drawn(shown, plane_table(file, source, shown), side, bounds, robust)


def plane_table(file: IO[bytes], source: Source, plane: Plane) -> AnyArray:
    """The cells of a plane of an array in a file, which must have the very bytes that were recorded.

    Raises:
        ArrayLineageError: it has others, or can't be read; or the plane of a large file has too many cells.
    """
    if _is_read_in_parts(file, source):
        positions = positions_of_plane(plane.shape, plane.index, PLANE_CELLS_MAX)
        return _picked(file, source, positions).reshape(plane.table)
    return plane.values(_array_of(file, *source))


@refusing
def draw_tree_picture(
    file: IO[bytes],
    files: TreeSizes,
    source: Source,
    plane: str,
    side: int,
    bounds: tuple[float, float] | None,
    robust: bool = False,
) -> dict[str, Any]:
    """As :func:`draw_picture`, of an array in a folder, whose files lie one behind the other in ``file``."""
    shown = Plane.of(tuple(source[3]), parse_index(plane) if plane else ...)
    table = shown.values(_array_of_tree(file, files, *source))
    return _drawn(shown, table, side, bounds, robust)


def _drawn(
    shown: Plane, table: AnyArray, side: int, bounds: tuple[float, float] | None, robust: bool
) -> dict[str, Any]:
    scale = None if bounds is None else Shades(*bounds)
    picture, scale = shaded(table, side, scale, robust=robust)
    return {"plane": str(shown), "low": scale.low, "high": scale.high, **picture_plain(picture)}


@refusing
def list_values(file: IO[bytes], source: Source, ranges: str, limit: int) -> dict[str, Any]:
    """Values of the first ``limit`` cells at some positions of an array in a file."""
    count, cells = _asked(source, ranges, limit)
    values = (
        _picked(file, source, cells.positions())
        if _is_read_in_parts(file, source)
        else _at(_array_of(file, *source), cells)
    )
    return _listed(count, cells, values)


@refusing
def list_tree_values(
    file: IO[bytes], files: TreeSizes, source: Source, ranges: str, limit: int
) -> dict[str, Any]:
    """As :func:`list_values`, of an array in a folder, whose files lie one behind the other in ``file``."""
    count, cells = _asked(source, ranges, limit)
    return _listed(count, cells, _at(_array_of_tree(file, files, *source), cells))


def _asked(source: Source, ranges: str, limit: int) -> tuple[int, Cells]:
    """How many cells some ranges have, and the first of them."""
    shape = tuple(source[3])
    region = Region.from_text(ranges)
    if region.runs and int(region.last[-1]) >= math.prod(shape):
        raise CellError(f"an array of shape {shape} has no position {int(region.last[-1])}")
    return region.count, Cells(shape, positions=_first_positions(region, limit))


def _at(array: AnyArray, cells: Cells) -> AnyArray:
    return np.atleast_1d(array[tuple(cells.coordinates().T)])


def _listed(count: int, cells: Cells, values: AnyArray) -> dict[str, Any]:
    return {
        "count": count,
        "values": [
            {"position": str(position), "cell": cell, "text": _text(value)}
            for position, cell, value in zip(
                cells.positions().tolist(), cells.coordinates().tolist(), values, strict=True
            )
        ],
    }


def _is_read_in_parts(file: IO[bytes], source: Source) -> bool:
    """Whether a file is too large to be held, and of a format that is read in parts."""
    return source[0].lower().endswith(READ_IN_PARTS) and is_large(file, WHOLE_BYTES_MAX)


def _picked(file: IO[bytes], source: Source, positions: I64) -> AnyArray:
    path, _, checksum, shape = source
    return picked_cells(file, path, checksum, tuple(shape), positions)


def _array_of(file: IO[bytes], path: str, member: str, checksum: str, shape: list[int]) -> AnyArray:
    """The array of a file, which must have the very bytes that were recorded.

    Raises:
        ArrayLineageError: it has others, or can't be read.
    """
    content = _content_of(file)
    if sha256_of([content]) != checksum:
        raise ArrayLineageError(CHANGED.format(path))
    arrays = [one for one in decoded(path, io.BytesIO(content), member) if one.member == member]
    if len(arrays) != 1 or list(arrays[0].values.shape) != shape:
        raise ArrayLineageError(f"{path} has no such array of shape {tuple(shape)}")
    return arrays[0].values


def _array_of_tree(
    file: IO[bytes], sizes: TreeSizes, path: str, member: str, checksum: str, shape: list[int]
) -> AnyArray:
    """The array of a folder, whose files must be the very ones that were recorded; raises as :func:`_array_of`."""
    content = _content_of(file)
    ends = np.cumsum([0, *(size for _, size in sizes)]).tolist()
    if ends[-1] != len(content):
        raise ArrayLineageError(CHANGED.format(path))
    files = {
        name: content[begin:end]
        for (name, _), (begin, end) in zip(sizes, pairwise(ends), strict=True)
    }
    checksums = ((name, sha256_of([part])) for name, part in sorted(files.items()))
    if checksum_over(checksums) != checksum:
        raise ArrayLineageError(CHANGED.format(path))
    values = decoded_files(path, files).values
    if member or list(values.shape) != shape:
        raise ArrayLineageError(f"{path} has no such array of shape {tuple(shape)}")
    return values


def _content_of(file: IO[bytes]) -> memoryview:
    content = bytearray()
    while part := file.read(READ_BYTES):
        content += part
    return memoryview(content)


def _first_positions(region: Region, limit: int) -> I64:
    """The first positions of a region, whatever its size."""
    positions: list[int] = []
    for first, last in zip(region.first.tolist(), region.last.tolist(), strict=True):
        room = limit - len(positions)
        if room <= 0:
            break
        positions += range(first, min(last, first + room - 1) + 1)
    return np.array(positions, np.int64)


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return str(value)[:TEXT_MAX]
