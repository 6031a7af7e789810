"""Errors of the store.

LineageError
├── NoSuchRowError                no row matches the query, and all rows were compared
└── StoreError                    the store can't be opened or used
    ├── OffsetMovedError          another writer stored the records of a transaction
    ├── StoreUnavailableError     not now: the same may work later
    ├── TriplesNotFoundError      no such triples
    ├── TriplesWaitError          triples that are not indexed yet
    └── UnfitStoreError           not by a store of this kind
"""

from __future__ import annotations

from lineage_core.errors import LineageError


class NoSuchRowError(LineageError):
    """No row has the values of the query, or fulfils its condition; all rows were compared."""


class StoreError(LineageError):
    """The store can't be opened or used; the message says what to do."""


class StoreUnavailableError(StoreError):
    """The store does not answer or refuses to write for now: try again later."""


class OffsetMovedError(StoreError):
    """An offset of Kafka is not where the transaction would move it from; nothing of the transaction is stored."""


class UnfitStoreError(StoreError):
    """Stores of another kind can do it; the message names them."""


class TriplesNotFoundError(StoreError):
    """There is no such data set of triples, or no such item in it."""


class TriplesWaitError(StoreError):
    """Triples wait to be indexed, so a trace would leave them out; the message has the command that indexes them."""
