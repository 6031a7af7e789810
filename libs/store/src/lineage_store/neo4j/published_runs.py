"""Which applications OpenLineage was told of: kept with them, so that no writer forgets it.

What was told as abandoned may only have been late, behind a writer that was away: when its end comes
after all, it is told of again. Any number of writers tell. One that wants to tell of an application claims it for a while; a claim
that nobody finished runs out, and the next one tells again: at least once, and mostly just once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, LiteralString

from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_store.neo4j.connection import Connection
from lineage_store.neo4j.keys import app_key

CLAIM_S = 60.0
"""Longer than telling takes, whatever the backend does."""

_UNPUBLISHED: Final[LiteralString] = """
MATCH (a:Application)
WITH a, coalesce(a.status, 'running') AS status, coalesce(a.openlineage_told, '') AS told
WHERE CASE status WHEN 'running' THEN told = ''
    AND a.seen_at < coalesce($heard_now, timestamp() / 1000.0) - $silent_s ELSE told <> status END
RETURN a.app ORDER BY a.started_at, a.app
"""

_CLAIM: Final[LiteralString] = """
MATCH (a:Application {id: $id})
SET a.openlineage_claims = coalesce(a.openlineage_claims, 0) + 1
WITH a
WHERE coalesce(a.openlineage_claimed_until, 0.0) < $now
SET a.openlineage_claimed_until = $until
RETURN a.app
"""
# The first SET takes the lock: who waits for it sees what the other one wrote.

_RELEASE: Final[LiteralString] = """
MATCH (a:Application {id: $id})
REMOVE a.openlineage_claimed_until
"""

_PUBLISHED: Final[LiteralString] = """
MATCH (a:Application {id: $id})
SET a.openlineage_told = $status
REMOVE a.openlineage_claimed_until, a.openlineage_claims
"""


class PublishedRuns:
    """What one database knows of it. Times in unix seconds."""

    def __init__(self, connection: Connection, clock: Callable[[], float | None]) -> None:
        self._connection = connection
        self._clock = clock

    def unpublished(self) -> list[str]:
        """Applications that ended, or fell silent, and were not told of so; the oldest first.

        How long one is silent is by the store's clock alone.

        Raises:
            StoreError: the store can't be read.
        """
        rows = self._connection.read(
            _UNPUBLISHED, heard_now=self._clock(), silent_s=ABANDONED_AFTER_S
        )
        return [app for (app,) in rows]

    def claim(self, app: str, now: float) -> bool:
        """Whether this caller is to tell of an application; others are kept from it for a while.

        Raises:
            StoreError: the store can't be written.
        """
        rows = self._connection.write(
            lambda transaction: transaction.run(
                _CLAIM, id=app_key(app), now=now, until=now + CLAIM_S
            ).values()
        )
        return bool(rows)

    def release(self, app: str) -> None:
        """Let others try.

        Raises:
            StoreError: the store can't be written.
        """
        self._connection.write(
            lambda transaction: transaction.run(_RELEASE, id=app_key(app)).consume()
        )

    def record_published(self, app: str, status: str) -> None:
        """Remember that it was told of, and as what.

        Raises:
            StoreError: the store can't be written.
        """
        self._connection.write(
            lambda transaction: transaction.run(
                _PUBLISHED, id=app_key(app), status=status
            ).consume()
        )
