"""Errors of lineage over arrays.

LineageError
└── ArrayLineageError          the base
    ├── UntracedError          a call whose lineage is not known; ``way_out`` says what to do instead
    ├── CellError              cells that the array does not have
    ├── ModeError              an operator lacks what the mode asks of it, or reported something that can't be
    ├── GivenUpError           stored lineage was read for as long as it may be; a trace goes on in another way
    ├── NoPictureError         an array has no picture
    ├── NoChoiceError          no choice of strategies is within the limits
    └── RecordingError         a recording can't be stored, or what is stored can't be read
"""

from __future__ import annotations

from typing import Any

from lineage_core.errors import LineageError


class ArrayLineageError(LineageError):
    """Base of the errors of lineage over arrays."""


class UntracedError(ArrayLineageError, TypeError):
    """A call whose lineage is not known. ``way_out``: what to do instead."""

    def __init__(self, detail: str, way_out: str) -> None:
        super().__init__(f"{detail}: {way_out}")
        self.detail = detail
        self.way_out = way_out

    def __reduce__(self) -> Any:
        # A worker's error reaches the program as itself.
        return UntracedError, (self.detail, self.way_out)


class CellError(ArrayLineageError, IndexError):
    """Cells that the array does not have."""


class ModeError(ArrayLineageError):
    """An operator does not support a mode, or reported region pairs that can't be."""


class GivenUpError(ArrayLineageError):
    """Stored lineage was read for as long as it may be."""


class NoPictureError(ArrayLineageError):
    """An array has no picture, or none of these cells."""


class NoChoiceError(ArrayLineageError):
    """No choice of strategies is within the limits."""


class RecordingError(ArrayLineageError):
    """A recording can't be stored, or what is stored can't be read."""
