"""Errors of the linker.

LineageError
├── UnusableRecordError     a record that is a dead letter: its own fault, whoever reads it
├── RefusedError            Kafka refuses a record as too large, and would again
├── ReadingError            Kafka's client skipped records, or reads no more: begin anew
├── StateLostError          Redis lost what was acked: begin anew where its state stands
├── UnavailableError        a server is away or refuses to write: try the same again, later
│   ├── StateUnavailableError     Redis
│   └── BrokerUnavailableError    Kafka
└── LinkerSettingsError     a setting that can't be used
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class UnusableRecordError(LineageError):
    """A record that can't be used; the message is the reason that its dead letter names."""


class RecordRefusedError(LineageError):
    """Kafka refuses a record as too large, and would refuse it again."""


class ReadingError(LineageError):
    """Kafka's client skipped records, or reads no more; what is not committed is read again by a new one."""


class StateLostError(LineageError):
    """Redis lost its state or has an older one; what it lacks is read again by a new process."""


class UnavailableError(LineageError):
    """A server is away or refuses to write for now; the message says which and why."""


class StateUnavailableError(UnavailableError):
    """Redis does not answer, is full, or is still loading."""


class BrokerUnavailableError(UnavailableError):
    """Kafka does not take what is sent."""


class LinkerSettingsError(LineageError):
    """A setting that can't be used; the message names it and says what to do."""
