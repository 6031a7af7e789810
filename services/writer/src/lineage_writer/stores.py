"""Which store the writer fills: Neo4j, or a lake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lineage_store.lake.address import is_lake, read_lake_address
from lineage_store.lake.store import LakeStore
from lineage_store.neo4j.connection import read_address
from lineage_store.neo4j.store import Neo4jStore
from lineage_store.tiers.address import hot_part
from lineage_writer.loading import Store
from lineage_writer.publishing import PublishingStore

COMMIT_S: Final = 5.0
"""How long a commit to a lake is tried before it counts as refused: others may be quicker, the storage may be away."""


def store_opener(url: str) -> Callable[[], Store]:
    """What opens the store of an address, brought up to date; of a database with a lake behind it the database.

    Raises:
        StoreError: the address is of no store that the writer fills.
    """
    if is_lake(url):
        lake = read_lake_address(url)

        def open_lake() -> LakeStore:
            store = LakeStore(lake, retry_s=COMMIT_S)
            store.prepare()
            return store

        return open_lake
    address = read_address(hot_part(url))
    # What is transient is tried again by the writer itself.
    return lambda: Neo4jStore(address, retry_s=0)


def publishing_store_opener(url: str) -> Callable[[], PublishingStore] | None:
    """What opens the store once more, to publish from it; None: it does not record what was published.

    Raises:
        StoreError: the address is of no store that the writer fills.
    """
    if is_lake(url):
        return None
    address = read_address(hot_part(url))
    return lambda: Neo4jStore(address)
