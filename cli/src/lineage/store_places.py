"""Where a store and what belongs to it lie on this machine."""

from __future__ import annotations

from lineage.spools import rows_of, spool_of
from lineage_query.erasure.keeping import StorePlace
from lineage_store.lake.address import is_lake
from lineage_store.tiers.address import read_tiers
from lineage_store.url import captured_into, index_folder, is_embedded


def store_place(url: str) -> StorePlace:
    """The folders beside a store.

    Raises:
        StoreError: the text names no store.
    """
    return StorePlace(
        url,
        rows_of(url),
        spool_of(url),
        index_folder(url),
        is_lake=is_lake(url) or read_tiers(url) is not None,
        # A lake is filled by Kafka's writer, too.
        has_pipeline=not is_embedded(url),
        staging=captured_into(url) if is_lake(url) and not url.startswith("lake:s3:") else "",
    )
