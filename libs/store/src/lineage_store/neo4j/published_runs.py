"""Records which applications were published to OpenLineage, with the applications, so that all writers share it.

An application that was published as abandoned may only have been late, because a writer was away: when its end
arrives, it is published again. Any number of writers publish. A writer first claims an application for a while; a claim that is
not released or finished expires, and the next writer publishes again: at least once, and mostly exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lineage_core.contract.verdict import ABANDONED_AFTER_S
from lineage_store.neo4j.connection import Connection
from lineage_store.neo4j.keys import app_key

if TYPE_CHECKING:
    from typing_extensions import LiteralString

CLAIM_S = 60.0
"""Longer than publishing takes, whatever the backend does."""

_UNPUBLISHED: Final[LiteralString] = """
MATCH (a:Application)
WITH a, coalesce(a.status, 'running') AS status, coalesce(a.openlineage_told, '') AS published
WHERE CASE status WHEN 'running' THEN published = ''
    AND a.seen_at < coalesce($heard_now, timestamp() / 1000.0) - $silent_s ELSE published <> status END
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
# The first SET takes the lock: a writer that waits for it then reads what the other one wrote.

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
    """The published applications of one database. Times in unix seconds."""

    def __init__(self, connection: Connection, clock: Callable[[], float | None]) -> None:
        self._connection = connection
        self._clock = clock

    def unpublished(self) -> list[str]:
        """Applications that ended, or fell silent, and were not published as such; the oldest first.

        Only the store's clock decides how long an application is silent.

        Raises:
            StoreError: the store can't be read.
        """
        rows = self._connection.read(
            _UNPUBLISHED, heard_now=self._clock(), silent_s=ABANDONED_AFTER_S
        )
        return [app for (app,) in rows]

    def claim(self, app: str, now: float) -> bool:
        """Whether this caller may publish an application; others can't claim it for a while.

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
        """Release a claim, so that others can publish the application.

        Raises:
            StoreError: the store can't be written.
        """
        self._connection.write(
            lambda transaction: transaction.run(_RELEASE, id=app_key(app)).consume()
        )

    def record_published(self, app: str, status: str) -> None:
        """Record that an application was published, and with which status.

        Raises:
            StoreError: the store can't be written.
        """
        self._connection.write(
            lambda transaction: transaction.run(
                _PUBLISHED, id=app_key(app), status=status
            ).consume()
        )
