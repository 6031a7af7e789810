"""What Arrow's and deltalake's stubs refuse: functions over chunked columns and beside Python's values, and tables of files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

if TYPE_CHECKING:
    from deltalake import DeltaTable

pc: Any = pyarrow.compute

# `to_numpy`, `pa.array`, `Schema.empty_table`, `Table.group_by` and others import pandas to see whether they were given a Series: it takes longer than a trace.


def nulls(rows: int, kind: pa.DataType) -> Any:
    """A column without values."""
    arrow: Any = pa
    return arrow.nulls(rows, kind)


def live_files(table: DeltaTable) -> pa.Table:
    """The files of a version of a table of Delta Lake: ``path``, ``size_bytes``, ``partition.NAME`` and others.

    Raises:
        DeltaError: the log can't be read.
    """
    added: Any = table.get_add_actions(flatten=True)
    return pa.RecordBatchReader.from_stream(added).read_all()


def int64_of(column: Any) -> npt.NDArray[np.int64]:
    """A column of numbers without nulls as an array."""
    chunks = [np.from_dlpack(chunk) for chunk in getattr(column, "chunks", [column])]
    return np.concatenate(chunks, dtype=np.int64) if chunks else np.empty(0, np.int64)


def array_of(values: npt.NDArray[np.signedinteger[Any]]) -> Any:
    """An array of numbers as a column of 64 bits."""
    data = np.ascontiguousarray(values, np.int64).data
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(data)])


def array_of_texts(values: Sequence[str]) -> Any:
    """Texts as a column.

    Raises:
        ArrowCapacityError: they have more bytes than a column may.
    """
    data = [value.encode() for value in values]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    if ends[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"{ends[-1]:,} bytes of text are too many for one column")
    ends = ends.astype(np.int32)
    return pa.StringArray.from_buffers(
        len(data), pa.py_buffer(ends.data), pa.py_buffer(b"".join(data))
    )


def mask_of(values: Iterable[bool]) -> Any:
    """Which rows are chosen, as a column."""
    chosen = np.fromiter(values, np.bool_)
    bits = np.packbits(chosen, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(chosen), [None, pa.py_buffer(bits.data)])


def scalar_of(value: str | bytes | bool | float) -> Any:
    """A value beside columns: a whole number has 64 bits."""
    match value:
        case bool():
            return mask_of([value])[0]
        case int():
            return array_of(np.array([value], np.int64))[0]
        case float():
            kind, data = pa.float64(), np.array([value], np.float64).data
            return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(data)])[0]
        case str():
            return array_of_texts([value])[0]
        case bytes():
            ends = np.array([0, len(value)], np.int32)
            buffers = [None, pa.py_buffer(ends.data), pa.py_buffer(value)]
            return pa.Array.from_buffers(pa.binary(), 1, buffers)[0]
