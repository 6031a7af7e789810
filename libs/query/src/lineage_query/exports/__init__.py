"""Exports of traces, one module for each format.

    tables ── csv_file, arrow_file     items, one a row, any number of them
    derived ─ prov_json, graphml       items and their derivations, up to a limit
    mermaid_file                       the nodes on the way, with counts

:func:`export` writes one, :func:`exported` also returns a report of what it wrote; :data:`FORMATS` lists them.
"""

from __future__ import annotations

from lineage_query.exports.errors import ExportError, ExportTooLargeError
from lineage_query.exports.exported import Exported, check_format, exported
from lineage_query.exports.options import ExportOptions
from lineage_query.exports.registry import FORMATS, Format, export, format_for, format_of

__all__ = [
    "FORMATS",
    "ExportError",
    "ExportOptions",
    "ExportTooLargeError",
    "Exported",
    "Format",
    "check_format",
    "export",
    "exported",
    "format_for",
    "format_of",
]
