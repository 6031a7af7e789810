"""Arrays that programs have written to files by themselves, or as the rows of a DataFrame: bound to these files."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.files import holds, read_arrays
from lineage_arrays.formats.names import ROWS, array_name, split_name
from lineage_arrays.formats.rows import write_rows
from lineage_arrays.workflow import Operand, Output


def bind_file(name: str, array: Operand) -> None:
    """Bind an array to the file that has it: it is an output of its workflow.

    Args:
        name: of the array in the file.
        array: as it was written.

    Raises:
        OSError, UntracedError: the file can't be read.
        ArrayLineageError: it has other values, or several arrays.
    """
    path, _ = split_name(name)
    arrays = read_arrays(name)
    if len(arrays) != 1:
        raise ArrayLineageError(f"{path} has {len(arrays)} arrays: name one of them")
    [(written, file)] = arrays
    current = array.current
    if not holds(written, current):
        raise ArrayLineageError(
            f"{array_name(path, file.member)} does not hold the array's values at the same coordinates: it has the shape {written.values.shape} "
            f"and the type {written.values.dtype}, the array {current.shape} and {current.dtype}; close the file before, and name what was written"
        )
    flow = array.flow
    flow.leak("saved")
    flow.outputs.append(Output(array_name(path, file.member), array.node, file))


def write_frame(path: str, array: Operand, columns: Sequence[str] | None) -> str:
    """Write an array to a new file of rows, and bind it to that.

    Args:
        path: of the file.
        array: with one axis or two.
        columns: names of the columns; None: ``_1``, ``_2`` and so on.

    Returns:
        The absolute path.

    Raises:
        OSError: the file is there, or can't be written.
        ArrayLineageError: the file has another ending, there are not as many names as columns, or the array can't be rows.
    """
    target = os.path.abspath(path)
    if not target.lower().endswith(ROWS):
        raise ArrayLineageError(f"{target}: the file's name ends in {ROWS}")
    write_rows(target, array.current, columns)
    try:
        bind_file(target, array)
    except ArrayLineageError:
        # Times that are none become NULL.
        os.unlink(target)
        raise
    return target
