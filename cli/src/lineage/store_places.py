"""Where a store and what belongs to it lie on this machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lineage.spools import rows_of
from lineage_query.erasure.keeping import StorePlace
from lineage_store.lake.address import is_lake
from lineage_store.tiers.address import read_tiers
from lineage_store.url import captured_into, index_folder, is_embedded, spool_of

if TYPE_CHECKING:
    from lineage_kafka.pipeline_records import PipelineRecords


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
        topics=_pipeline_records if os.environ.get("LINEAGE_KAFKA") else None,
        staging=captured_into(url) if is_lake(url) and not url.startswith("lake:s3:") else "",
    )


def _pipeline_records() -> PipelineRecords:
    from lineage_kafka.dead_letters import read_kafka_settings
    from lineage_kafka.pipeline_records import PipelineRecords

    return PipelineRecords(read_kafka_settings())
