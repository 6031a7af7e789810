"""The record-level view of an application, where its store keeps such views."""

from __future__ import annotations

from lineage_store.errors import UnfitStoreError
from lineage_store.neo4j.record_view import RecordView
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.port import GraphStore
from lineage_store.tiers.store import TieredStore


def view_of(store: GraphStore, app: str) -> RecordView:
    """The record-level view of an application.

    Raises:
        KeyError: there is no such application.
        UnfitStoreError: the store is no Neo4j, or the application was archived to a lake.
    """
    if isinstance(store, TieredStore):
        store = store.place(app).tier
    if not isinstance(store, Neo4jStore):
        raise UnfitStoreError(
            "record-level views are stored in Neo4j: name one by --store neo4j://HOST:PORT or "
            "LINEAGE_STORE (`lineage stack up` runs one); `lineage export` works with every store"
        )
    return store.record_view(app)
