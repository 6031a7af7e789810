"""Errors of the emitter.

LineageError (lineage_core)
├── CaptureFailedError         capture could not go on; the job does, unless on_error=fail
├── DeliveryError              Kafka did not take lineage; it waits in the spool
├── UnsupportedOperatorError   an operator that capture can't follow soundly
├── UnfitExecutorsError        executors can't run captured functions; the job runs without capture
├── TracingError               a question from inside the program that has no answer
│   ├── ChoiceError            several nodes are meant: say which
│   └── NotLinkedError         the store does not have the lineage yet; ask again
├── RerunError                 a program that is run again does what a replay can't follow
├── ConnectSessionError       a session of Spark Connect, which can't be captured
└── SettingsError              a setting that can't be used
RowsNotStoredError (ValueError) rows that can't be stored; never leaves the emitter
"""

from __future__ import annotations

from collections.abc import Sequence

from lineage_core.errors import LineageError


class CaptureFailedError(LineageError):
    """Capture could not go on."""


class DeliveryError(LineageError):
    """Kafka did not take lineage: it waits in the spool for ``lineage send``."""


class UnsupportedOperatorError(LineageError):
    """An operator whose lineage can't be captured soundly.

    ``operator`` names it; the message says what to do instead.
    """

    def __init__(self, operator: str, way_out: str) -> None:
        super().__init__(f"{operator} has no record-level lineage: {way_out}")
        self.operator = operator


class UnfitExecutorsError(LineageError):
    """Executors can't run captured functions: the job runs as it is, without lineage."""


class RerunError(LineageError):
    """A program that ``lineage replay`` runs again does what a replay can't follow."""


class SettingsError(LineageError):
    """A setting that can't be used."""


class ConnectSessionError(LineageError):
    """A session of Spark Connect: its work runs in a server's process, where nothing of it is captured.

    ``operation``: what was asked of it.
    """

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation}: a session of Spark Connect runs its work in the server's process, where this program captures "
            "nothing; capture the server's program, or run this one with a Spark of its own (`lineage run`, no SPARK_REMOTE)"
        )
        self.operation = operation


class RowsNotStoredError(ValueError):
    """Rows can't be stored; the message says why."""


class TracingError(LineageError):
    """A question from inside the program that has no answer; the message says what does."""


class ChoiceError(TracingError):
    """There are several ways to go, or several nodes of a name.

    ``choices``: what can be said instead, one text for each.
    """

    def __init__(self, what: str, choices: Sequence[str]) -> None:
        super().__init__(
            f"{what}: say which, by the RDD or by the name in front: " + "; ".join(choices)
        )
        self.choices = tuple(choices)


class NotLinkedError(TracingError):
    """The store does not have the lineage yet: it may later."""
