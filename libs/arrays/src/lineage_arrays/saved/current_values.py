"""Values of recorded arrays, of files of this machine that are byte for byte the recorded ones."""

from __future__ import annotations

import math
from functools import partial

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.files import is_folder, read_arrays, version_at
from lineage_arrays.formats.names import array_name
from lineage_arrays.pictures import ValuesOf
from lineage_arrays.planes import Plane
from lineage_arrays.saved.file_questions import (
    CHANGED,
    READ_IN_PARTS,
    WHOLE_BYTES_MAX,
    plane_table,
)
from lineage_arrays.workflow import AnyArray, ArrayFile
from lineage_store.paths import open_file

CELLS_MAX = 1 << 27
"""Cells of an array that is in memory as a whole."""


def values_of_file(file: ArrayFile | None, *, large: bool = True) -> ValuesOf:
    """Gives the values of a recorded array; raises ArrayLineageError or OSError where its file is not what it was, or takes too much.

    Args:
        file: as it was recorded; None: the array is in none.
        large: whether files are read, too, that take long: a `.npy` file from end to end, of any length.
    """
    return partial(_plane_values, file, large)


def _plane_values(file: ArrayFile | None, large: bool, plane: Plane) -> AnyArray:
    if file is None:
        raise ArrayLineageError("the array was not saved")
    size = version_at(file.path)[0]
    if size != file.size:
        raise ArrayLineageError(CHANGED.format(file.path))
    if size > WHOLE_BYTES_MAX and not (large and file.path.lower().endswith(READ_IN_PARTS)):
        raise ArrayLineageError(
            f"{file.path} has {size >> 20:,} MiB, more than the {WHOLE_BYTES_MAX >> 20} MiB that are read for a picture"
        )
    if size <= WHOLE_BYTES_MAX and math.prod(plane.shape) > CELLS_MAX:
        raise ArrayLineageError(
            f"the array has more than the {CELLS_MAX:,} cells that are read for a picture"
        )
    if is_folder(file.path):
        return plane.values(_folder_values(file, plane))
    with open_file(file.path) as opened:
        source = (file.path, file.member, file.checksum, list(plane.shape))
        return plane_table(opened, source, plane)


def _folder_values(file: ArrayFile, plane: Plane) -> AnyArray:
    [(read, current)] = read_arrays(array_name(file.path, file.member))
    if current.checksum != file.checksum:
        raise ArrayLineageError(CHANGED.format(file.path))
    if read.values.shape != plane.shape:
        raise ArrayLineageError(f"{file.path} has no such array of shape {plane.shape}")
    return read.values
