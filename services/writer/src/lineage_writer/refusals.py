"""Classifies errors of the store: retry, store less at once, or a record may be at fault."""

from __future__ import annotations

from enum import Enum

from neo4j.exceptions import DriverError, Neo4jError

from lineage_store.errors import StoreError, StoreUnavailableError

_OF_RECORDS = {
    "ClientError": frozenset({"Statement", "Schema", "Request", "Procedure"}),
    "DatabaseError": frozenset({"Statement", "Schema", "General"}),
}
"""Classes and categories of Neo4j's status codes that a statement's values may bring about."""
_MEMORY = ("OutOfMemory", "MemoryLimit")


class StoreRefusal(Enum):
    """What to do about it."""

    WAIT = "unavailable"
    """The store is away, busy or refuses everybody: the same batch again, later."""
    SPLIT = "memory"
    """The transaction was too large."""
    SUSPECT = "refused"
    """A record may be at fault."""


def read_refusal(error: Exception) -> StoreRefusal:
    """The reaction to an exception of a transaction."""
    cause = error.__cause__ if isinstance(error, StoreError) else error
    if isinstance(cause, Neo4jError):
        return _of_code(cause.code or "", isinstance(error, StoreUnavailableError))
    if isinstance(error, MemoryError):
        return StoreRefusal.SPLIT
    if isinstance(error, (StoreError, DriverError, OSError)):
        return StoreRefusal.WAIT
    # Not an error of the store, for example a value that the driver can't send.
    return StoreRefusal.SUSPECT


def _of_code(code: str, may_pass: bool) -> StoreRefusal:
    """``code``: for example Neo.ClientError.Statement.TypeError."""
    _, kind, category, title = (*code.split("."), "", "", "", "")[:4]
    if any(word in title for word in _MEMORY):
        return StoreRefusal.SPLIT
    if not may_pass and category in _OF_RECORDS.get(kind, ()):
        return StoreRefusal.SUSPECT
    return StoreRefusal.WAIT
