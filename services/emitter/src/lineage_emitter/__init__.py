"""Record-level lineage capture for PySpark, and for any program by :class:`LineageApi`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_emitter.api import LineageApi
    from lineage_emitter.context import LineageContext
    from lineage_emitter.frames.in_program import FrameLineage, FrameRows, OutputRows, frame_lineage
    from lineage_emitter.partition_rule import exact
    from lineage_emitter.program.tracing import TracedItem, TracedItems
    from lineage_emitter.rdd import LineageRDD

__all__ = [
    "FrameLineage",
    "FrameRows",
    "LineageApi",
    "LineageContext",
    "LineageRDD",
    "OutputRows",
    "TracedItem",
    "TracedItems",
    "exact",
    "frame_lineage",
]

_HOMES = {
    "FrameLineage": "frames.in_program",
    "FrameRows": "frames.in_program",
    "LineageApi": "api",
    "LineageContext": "context",
    "LineageRDD": "rdd",
    "OutputRows": "frames.in_program",
    "TracedItem": "program.tracing",
    "TracedItems": "program.tracing",
    "exact": "partition_rule",
    "frame_lineage": "frames.in_program",
}


def __getattr__(name: str) -> Any:
    """Load PySpark only for those who use it."""
    import importlib

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
