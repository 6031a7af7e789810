"""Errors of the store.

LineageError
├── NoSuchRowError                no row matches the query, and all rows were compared
└── StoreError                    the store can't be opened or used
    ├── DamagedError              lineage that the store lost, of one application alone
    ├── DeletedError              an application that was deleted while it was read
    ├── OffsetMovedError          another writer stored the records of a transaction
    ├── StoreUnavailableError     not now: the same may work later
    ├── TriplesNotFoundError      no such triples
    ├── TriplesWaitError          triples that are not indexed yet
    └── UnfitStoreError           not by a store of this kind
"""

from __future__ import annotations

from typing import Final

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import TooManyMessagesError


class NoSuchRowError(LineageError):
    """No row has the values of the query, or fulfils its condition; all rows were compared."""


class StoreError(LineageError):
    """The store can't be opened or used; the message says what to do."""


class DeletedError(StoreError, KeyError):
    """An application was deleted, or begins to be, while it was read: what was found of it may be a part, and is no answer.

    A KeyError, as of one that is not there.
    """

    def __init__(self, app: str, place: object) -> None:
        super().__init__(
            f"there is no application {app} in {place} any more: it was deleted while it was read"
        )

    def __str__(self) -> str:
        return str(self.args[0])


class DamagedError(StoreError):
    """A file of the store is missing or damaged: what it held is lost until it is put back. Nothing else is harmed.

    ``damage``: says which file, and what is wrong with it. ``app``: the application that it is of; empty: not known (yet).
    ``written_at``: when the last of the application was written, in unix seconds; 0 where that is not known.
    """

    def __init__(self, damage: str, app: str = "", written_at: float = 0.0) -> None:
        self.damage = damage
        self.app = app
        self.written_at = written_at
        super().__init__(f"{app} is damaged: {damage}; {way_out(app)}" if app else damage)


def way_out(app: str) -> str:
    """What to do about an application that is damaged."""
    return f"put the file back, of a copy, or remove the application: `lineage rm {app}`"


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


UNREAD: Final = (TooManyMessagesError, DamagedError)
"""Errors about one application alone, which end no question about others: its answer says what is not known."""
