"""Stores to test with: fresh ones, of every kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lineage_store.neo4j.connection import Address, read_address
from lineage_store.neo4j.store import Neo4jStore

if TYPE_CHECKING:
    from tests.support.servers import Neo4jUnderTest


def address_of(neo4j: Neo4jUnderTest) -> Address:
    """How the programs find the server."""
    return read_address(neo4j.uri, neo4j.settings)


@contextmanager
def empty_neo4j(
    neo4j: Neo4jUnderTest, clock: Callable[[], float | None] = lambda: None
) -> Iterator[Neo4jStore]:
    """A store without applications, before and after."""
    with Neo4jStore(address_of(neo4j), clock=clock) as store:
        _clear(store)
        try:
            yield store
        finally:
            _clear(store)


def _clear(store: Neo4jStore) -> None:
    for record in store.applications():
        store.delete(record.app)
