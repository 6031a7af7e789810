"""Record-level lineage capture for PySpark, and for any program by :class:`LineageApi`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_emitter.context import LineageContext
    from lineage_emitter.dataframes.in_program import FrameLineage, frame_lineage
    from lineage_emitter.dataframes.replayed_frames import ReplayedRows, SmallestRows
    from lineage_emitter.dataframes.traced_frames import FrameRows, OutputRows
    from lineage_emitter.driver.partition_rule import exact
    from lineage_emitter.driver.rdd import LineageRDD
    from lineage_emitter.program.tracing import TracedItem, TracedItems
    from lineage_emitter.sdk.api import LineageApi

__all__ = [
    "FrameLineage",
    "FrameRows",
    "LineageApi",
    "LineageContext",
    "LineageRDD",
    "OutputRows",
    "ReplayedRows",
    "SmallestRows",
    "TracedItem",
    "TracedItems",
    "exact",
    "frame_lineage",
]

_HOMES = {
    "FrameLineage": "dataframes.in_program",
    "FrameRows": "dataframes.traced_frames",
    "LineageApi": "sdk.api",
    "LineageContext": "context",
    "LineageRDD": "driver.rdd",
    "OutputRows": "dataframes.traced_frames",
    "ReplayedRows": "dataframes.replayed_frames",
    "SmallestRows": "dataframes.replayed_frames",
    "TracedItem": "program.tracing",
    "TracedItems": "program.tracing",
    "exact": "driver.partition_rule",
    "frame_lineage": "dataframes.in_program",
}


def __getattr__(name: str) -> Any:
    """Load PySpark only for those who use it."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
