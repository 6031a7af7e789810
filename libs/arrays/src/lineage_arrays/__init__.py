"""Lineage of the cells of NumPy arrays."""

from lineage_arrays.cells import Cells
from lineage_arrays.errors import (
    ArrayLineageError,
    CellError,
    ModeError,
    RecordingError,
    UntracedError,
)
from lineage_arrays.querying import CellTrace
from lineage_arrays.recording import Recording
from lineage_arrays.traced import TracedArray

__all__ = [
    "ArrayLineageError",
    "CellError",
    "CellTrace",
    "Cells",
    "ModeError",
    "Recording",
    "RecordingError",
    "TracedArray",
    "UntracedError",
]
