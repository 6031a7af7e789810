"""What Arrow's and deltalake's stubs refuse: functions over chunked columns and beside Python's values, and tables of files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

if TYPE_CHECKING:
    from deltalake import DeltaTable

pc: Any = pyarrow.compute


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
