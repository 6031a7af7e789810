"""The formats, and the one function that writes any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO

from lineage_query.exports.arrow_file import write_arrow, write_parquet
from lineage_query.exports.csv_file import write_csv
from lineage_query.exports.errors import ExportError
from lineage_query.exports.graphml import write_graphml
from lineage_query.exports.mermaid_file import write_mermaid
from lineage_query.exports.options import ExportOptions
from lineage_query.exports.prov_json import write_prov
from lineage_query.exports.tables import TableBatch, batches, facts
from lineage_query.record_trace import RecordTrace

Writer = Callable[[RecordTrace, IO[bytes], ExportOptions], Mapping[str, None]]
"""Writes a trace and returns the warnings."""
Table = Callable[[Iterable[TableBatch], Mapping[str, str], IO[bytes]], None]
"""Writes items, with facts about their trace."""


def _items(table: Table) -> Writer:
    def write(traced: RecordTrace, stream: IO[bytes], options: ExportOptions) -> Mapping[str, None]:
        composer = traced.composer()
        table(batches(traced, composer, options), facts(traced), stream)
        return composer.warnings

    return write


@dataclass(frozen=True, slots=True)
class Format:
    """One format: its description, its media type, its file extension (without a dot).

    ``binary``: not printable on a terminal. ``table``: the format lists items, without derivations.
    """

    name: str
    media_type: str
    extension: str
    what: str
    write: Writer
    binary: bool = False
    table: Table | None = None


FORMATS: Mapping[str, Format] = {
    format_.name: format_
    for format_ in (
        Format(
            "csv",
            "text/csv; charset=utf-8",
            "csv",
            "items, one a line",
            _items(write_csv),
            table=write_csv,
        ),
        Format(
            "arrow",
            "application/vnd.apache.arrow.stream",
            "arrows",
            "items as an Arrow stream",
            _items(write_arrow),
            binary=True,
            table=write_arrow,
        ),
        Format(
            "parquet",
            "application/vnd.apache.parquet",
            "parquet",
            "items as a Parquet file",
            _items(write_parquet),
            binary=True,
            table=write_parquet,
        ),
        Format(
            "prov",
            "application/json",
            "prov.json",
            "items, nodes and what was made from what, as PROV-JSON",
            write_prov,
        ),
        Format(
            "graphml",
            "application/graphml+xml",
            "graphml",
            "nodes, items and what was made from what, as GraphML",
            write_graphml,
        ),
        Format(
            "mermaid", "text/vnd.mermaid", "mmd", "nodes with counts, as Mermaid", write_mermaid
        ),
    )
}
"""By name, in the order in which they are listed."""


def format_of(name: str) -> Format:
    """The format of that name.

    Raises:
        ExportError: there is none; the message lists them.
    """
    if name not in FORMATS:
        raise ExportError(f"there is no format {name!r}: give one of {', '.join(FORMATS)}")
    return FORMATS[name]


def format_for(path: str) -> Format | None:
    """The format of a file's extension, if there is one."""
    name = PurePath(path).name.lower()
    names_by_extension = {"arrow": "arrow", "json": "prov", "mermaid": "mermaid", "pq": "parquet"}
    for format_ in FORMATS.values():
        if name.endswith(f".{format_.extension}"):
            return format_
    return FORMATS.get(names_by_extension.get(name.rpartition(".")[2], ""))


def export(
    traced: RecordTrace, name: str, stream: IO[bytes], options: ExportOptions | None = None
) -> tuple[str, ...]:
    """Write a trace to a stream of bytes, which need not be seekable and stays open.

    Returns the warnings: about the trace, changed files, and left out items.

    Raises:
        ExportError: unknown format, or a missing dependency.
        ExportTooLargeError: more items than the format allows; nothing was written.
        OSError: writing to the stream failed.
    """
    return tuple(format_of(name).write(traced, stream, options or ExportOptions()))
