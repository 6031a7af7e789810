"""Cells of large files of NumPy, which are read once from end to end: for their checksum, and for the cells that a question is about.

Nothing is read twice, so what is shown is what the checksum is of.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from lineage_arrays.cells import I64, Shape
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.workflow import AnyArray
from lineage_core.tracing.budget import current_budget
from lineage_store.checksums import sha256_of

READ_BYTES = 16 << 20
PICKED_BYTES_MAX = 64 << 20
"""Bytes of the cells of one question, at most."""
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def picked_cells(
    file: IO[bytes], path: str, checksum: str, shape: Shape, positions: I64
) -> AnyArray:
    """Values at positions (row-major, in any order) of the array of an ``.npy`` file.

    Raises:
        ArrayLineageError: the file has another checksum, is none, or has another array; or the cells take too many bytes.
        BudgetError: the question takes too long.
    """
    picker = _Picker(path, shape, positions)
    if sha256_of(picker.parts(file)) != checksum:
        raise ArrayLineageError(
            f"{path} has changed since it was recorded: its values now are not those of then"
        )
    return picker.values()


class _Picker:
    """Takes the parts of a file as they come, and keeps the cells that are needed."""

    def __init__(self, path: str, shape: Shape, positions: I64) -> None:
        self._path, self._shape, self._positions = path, shape, positions
        self._rest = b""
        self._at = 0
        self._values: AnyArray | None = None
        self._order = self._sorted = positions

    def parts(self, file: IO[bytes]) -> Iterator[bytes]:
        """All parts of a file, after their cells were kept."""
        while part := file.read(READ_BYTES):
            current_budget().check()
            self._take(part if self._values is not None else self._begin(part))
            yield part

    def values(self) -> AnyArray:
        """The values, after all parts.

        Raises:
            ArrayLineageError: the file ended too early, or goes on behind its array.
        """
        if self._values is None or self._rest or self._at != math.prod(self._shape):
            raise ArrayLineageError(f"{self._path} has no whole array")
        return self._values

    def _begin(self, part: bytes) -> memoryview:
        """Read the header, which lies in the first part: what comes behind it."""
        header = io.BytesIO(part)
        try:
            read_header = _HEADERS[np.lib.format.read_magic(header)]
            shape, is_fortran, dtype = read_header(header)
        except (ValueError, KeyError) as error:
            raise ArrayLineageError(f"{self._path} is no .npy file that is read in parts: {error}") from error  # fmt: skip
        if dtype.hasobject or not dtype.itemsize or shape != self._shape:
            raise ArrayLineageError(f"{self._path} has no such array of shape {self._shape}")
        if len(self._positions) * dtype.itemsize > PICKED_BYTES_MAX:
            raise ArrayLineageError(
                f"the cells take {len(self._positions) * dtype.itemsize >> 20:,} MiB, more than {PICKED_BYTES_MAX >> 20}: "
                "ask for fewer, or for a part of the plane"
            )
        in_file = self._positions
        if is_fortran:
            axes = np.unravel_index(in_file, shape)
            in_file = np.ravel_multi_index(axes, shape, order="F").astype(np.int64)
        self._order = np.argsort(in_file, kind="stable")
        self._sorted = in_file[self._order]
        self._values = np.empty(len(in_file), dtype)
        return memoryview(part)[header.tell() :]

    def _take(self, part: bytes | memoryview) -> None:
        assert self._values is not None
        content = self._rest + part if self._rest else part
        size = self._values.dtype.itemsize
        count = len(content) // size
        whole, self._rest = content[: count * size], bytes(content[count * size :])
        low, high = np.searchsorted(self._sorted, [self._at, self._at + count])
        if low < high:
            items = np.frombuffer(whole, self._values.dtype)
            self._values[self._order[low:high]] = items[self._sorted[low:high] - self._at]
        self._at += count


def is_large(file: IO[bytes], bytes_max: int) -> bool:
    """Whether a file has more bytes than are held at once; it stands at its beginning afterwards."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    return size > bytes_max


def positions_of_plane(shape: Shape, index: tuple[Any, ...], cells_max: int) -> I64:
    """The positions of the cells of a plane (`lineage_arrays.planes.Plane.index`), row by row.

    Raises:
        ArrayLineageError: they are more than ``cells_max``.
    """
    ranges = [part if isinstance(part, tuple) else (part, part + 1) for part in index]
    cells = math.prod(last - first for first, last in ranges)
    if cells > cells_max:
        raise ArrayLineageError(
            f"the plane has {cells:,} cells, and of a file of this size at most {cells_max:,} are shown: ask for a part of it, as in 3,0:1000,0:1000"
        )
    if not shape:
        return np.zeros(1, np.int64)
    axes = np.ix_(*(np.arange(*one) for one in ranges))
    return np.ravel_multi_index(axes, shape).reshape(-1).astype(np.int64)
