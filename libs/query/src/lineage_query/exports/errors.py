"""Errors of exports.

LineageError
└── ExportError                 the trace can't be exported in this form; the message lists what can
    └── ExportTooLargeError     too much for the format; ``count`` of ``limit``
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class ExportError(LineageError):
    """The trace can't be exported as requested."""


class ExportTooLargeError(ExportError):
    """Too many items for a format: at least ``count``; ``limit`` are allowed."""

    def __init__(self, message: str, *, count: int, limit: int) -> None:
        super().__init__(message)
        self.count = count
        self.limit = limit
