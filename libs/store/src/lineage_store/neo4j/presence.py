"""Reads an application that may be deleted meanwhile, which takes several transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from lineage_store.errors import DeletedError
from lineage_store.neo4j.connection import Connection
from lineage_store.neo4j.keys import app_key

if TYPE_CHECKING:
    from typing_extensions import LiteralString

_PRESENCE: Final[LiteralString] = (
    "MATCH (a:Application {id: $id}) RETURN elementId(a), a.started_at, a.deleting"
)


class ApplicationReads:
    """Queries about an application; what they find is no answer once it begins to be deleted.

    ``presence``: changes when it begins to be deleted, and is another one for another application of the same id; None: it is not there.
    One whose deletion had begun, and was interrupted, may be read, so that it is deleted or moved to its end.
    """

    def __init__(self, connection: Connection, app: str) -> None:
        self._connection = connection
        self._app = app
        self._ids = {"id": app_key(app)}
        self.presence = _of(connection.read(_PRESENCE, **self._ids))

    @property
    def is_deleting(self) -> bool:
        """Whether its deletion had begun."""
        return self.presence is not None and bool(self.presence[-1])

    def read(self, query: LiteralString, **values: Any) -> list[list[Any]]:
        """All rows of a query.

        Raises:
            DeletedError: the application was deleted since this was made, or begins to be.
            StoreError: the store can't be read.
            BudgetError: the question that it is read for takes too long.
        """
        # The second is asked last: it says when the first may have missed something.
        rows, presence = self._connection.read_each((query, values), (_PRESENCE, self._ids))
        if not self._is_same(_of(presence)):
            raise DeletedError(self._app, self._connection.address.uri)
        return rows

    def _is_same(self, now: tuple[Any, ...] | None) -> bool:
        if now is None or self.presence is None:
            return False
        (node, started_at, deleting), (node_now, started_at_now, deleting_now) = self.presence, now
        # When it began may be told later than the first of it.
        return (node, deleting) == (node_now, deleting_now) and started_at in {0.0, started_at_now}


def _of(rows: Sequence[Sequence[Any]]) -> tuple[Any, ...] | None:
    return tuple(rows[0]) if rows else None
