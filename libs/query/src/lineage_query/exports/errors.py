"""Errors of exports.

LineageError
└── ExportError                 what was asked for can't be exported; the message says what can
    └── ExportTooLargeError     too much for the format; ``count`` of ``limit``
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class ExportError(LineageError):
    """What was asked for can't be exported."""


class ExportTooLargeError(ExportError):
    """More than a format takes: at least ``count``, where ``limit`` is allowed."""

    def __init__(self, message: str, *, count: int, limit: int) -> None:
        super().__init__(message)
        self.count = count
        self.limit = limit
