"""Which SparkContexts are captured: one session each, at most."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

    from lineage_emitter.session.session import Session

LOCK = threading.Lock()
"""Held while a session begins."""
SESSIONS: dict[str, Session | None] = {}
"""By Spark's id of the application; None where capture could not begin, or can't go on."""
_session_counts: dict[str, int] = {}
"""How many sessions each SparkContext has had: a next one is an application of its own."""


def count_next(sc: SparkContext) -> None:
    """One more session of a SparkContext begins."""
    _session_counts[sc.applicationId] = _session_counts.get(sc.applicationId, 0) + 1


def latest_app(sc: SparkContext) -> str:
    """Spark's id of the application; with a number where an earlier session has closed."""
    number = _session_counts.get(sc.applicationId, 1)
    return sc.applicationId if number == 1 else f"{sc.applicationId}-{number}"


def allow_retry(sc: SparkContext) -> None:
    """Allow capture to begin where it could not begin before."""
    with LOCK:
        if sc.applicationId in SESSIONS and SESSIONS[sc.applicationId] is None:
            del SESSIONS[sc.applicationId]


def open_session_of(sc: SparkContext) -> Session | None:
    """The session of a SparkContext where one is open; none is started."""
    return SESSIONS.get(sc.applicationId)


def open_sessions() -> list[Session]:
    """Sessions that have not ended."""
    return [session for session in SESSIONS.values() if session is not None]
