"""Errors of the emitter.

LineageError (lineage_core)
├── CaptureFailedError         capture could not go on; the job does, unless on_error=fail
├── UnsupportedOperatorError   an operator that capture can't follow soundly
└── SettingsError              a setting that can't be used
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class CaptureFailedError(LineageError):
    """Capture could not go on."""


class UnsupportedOperatorError(LineageError):
    """An operator whose lineage can't be captured soundly.

    ``operator`` names it; the message says what to do instead.
    """

    def __init__(self, operator: str, way_out: str) -> None:
        super().__init__(f"{operator} has no record-level lineage: {way_out}")
        self.operator = operator


class SettingsError(LineageError):
    """A setting that can't be used."""
