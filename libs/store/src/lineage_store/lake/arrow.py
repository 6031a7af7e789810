"""Arrow's functions over columns: their stubs refuse chunked columns, and columns beside Python's values."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

pc: Any = pyarrow.compute


def nulls(rows: int, kind: pa.DataType) -> Any:
    """A column without values."""
    arrow: Any = pa
    return arrow.nulls(rows, kind)
