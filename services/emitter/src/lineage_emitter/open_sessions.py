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
_begun: dict[str, int] = {}
"""How many sessions each SparkContext has had: a next one is an application of its own."""


def count_next(sc: SparkContext) -> None:
    """One more session of a SparkContext begins."""
    _begun[sc.applicationId] = _begun.get(sc.applicationId, 0) + 1


def latest_app(sc: SparkContext) -> str:
    """Spark's id of the application; with a number where an earlier session has closed."""
    number = _begun.get(sc.applicationId, 1)
    return sc.applicationId if number == 1 else f"{sc.applicationId}-{number}"


def forget(sc: SparkContext) -> None:
    """Let capture begin anew where it could not begin."""
    with LOCK:
        if sc.applicationId in SESSIONS and SESSIONS[sc.applicationId] is None:
            del SESSIONS[sc.applicationId]


def open_session_of(sc: SparkContext) -> Session | None:
    """The session of a SparkContext where one is open; none is begun."""
    return SESSIONS.get(sc.applicationId)


def open_sessions() -> list[Session]:
    """Sessions that have not ended."""
    return [session for session in SESSIONS.values() if session is not None]
