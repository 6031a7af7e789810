"""Errors of OpenLineage events.

LineageError
└── OpenLineageError                  events that can't be made or sent; the message has advice
    └── OpenLineageUnavailableError   not now: the same may work later
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class OpenLineageError(LineageError):
    """Events that can't be made or sent."""


class OpenLineageUnavailableError(OpenLineageError):
    """The backend does not answer, or not now: try again later."""
