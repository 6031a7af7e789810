"""Errors of tracing by recipes.

LineageError
└── FramesError
    ├── RefusedError        the recipe does not allow a sound trace; the message says why
    │   ├── NotComputedError    Spark could not run a query; what it says may hold values of rows
    │   └── TiedError           a window numbers rows that its order does not distinguish
    ├── ChangedSourceError  a source is not what it was when the job ran
    ├── RowError            the requested row can't be what the recipe gives
    │   ├── NoMatchError        no row of the output or source has the values, or fulfils the condition
    │   └── NotReadError        the job has not read what a place names
    └── NoSparkError        Spark does not start
"""

from __future__ import annotations

from lineage_core.errors import LineageError
from lineage_store.errors import NoSuchRowError


class FramesError(LineageError):
    """Base of what tracing by recipes raises."""


class RefusedError(FramesError):
    """No sound trace: the plan holds what can't be computed anew where it matters."""


class NotComputedError(RefusedError):
    """Spark could not run a query of the trace. What it says may hold values of rows."""


class TiedError(RefusedError):
    """Rows that a window's order does not distinguish may have been numbered otherwise (`building.Builder.tied`)."""


class ChangedSourceError(FramesError):
    """Files of a source are gone or were written since the job ran."""


class RowError(FramesError):
    """No row of the output, computed anew, has the values that were given."""


class NoMatchError(RowError, NoSuchRowError):
    """No row of an output or a source has the values that were given, or fulfils the condition."""


class NotReadError(RowError):
    """A place is of no file, or of no other source, that the job has read."""


class NoSparkError(FramesError):
    """Spark does not start. ``hint``: what else may be done, part of the message."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(f"{message}; {hint}" if hint else message)
        self.hint = hint
