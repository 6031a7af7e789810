"""Errors of the writer.

LineageError
├── SettingsError       the writer can't start with these settings
├── FencedError         another writer has stored these records
├── OffsetGoneError     Kafka has no record at the position sought
└── SourceLostError     Kafka's client can't go on; a new one may
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class SettingsError(LineageError):
    """The writer can't start with these settings; the message names them, without their values."""


class FencedError(LineageError):
    """The partition's offset does not stand where this writer left it."""


class OffsetGoneError(LineageError):
    """Kafka has no record at the position: it was removed, or the topic was created again."""


class SourceLostError(LineageError):
    """Kafka's client fails again and again; a new one may fare better."""
