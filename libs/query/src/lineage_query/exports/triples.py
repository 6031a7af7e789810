"""Traces of triples as files, in the formats of other traces: the triples, or items with the triples between them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import IO, Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from lineage_core.environment.extras import needed
from lineage_query.exports.arrow_file import CountedStream
from lineage_query.exports.csv_file import csv_lines
from lineage_query.exports.errors import ExportError, ExportTooLargeError
from lineage_query.exports.graphml import xml_text
from lineage_query.exports.options import ExportOptions
from lineage_query.exports.prov_json import VOCABULARY, local_name
from lineage_query.exports.registry import format_of
from lineage_query.exports.tables import encodable_text
from lineage_query.flowchart import quoted
from lineage_store.triples.tracing import TripleTrace

COLUMNS = ("src", "dst", "op")
ROWS = 50_000


def export_triples(
    traced: TripleTrace,
    data_set: str,
    format_name: str,
    stream: IO[bytes],
    options: ExportOptions | None = None,
) -> None:
    """Write a trace of triples: as a table of them, or as a graph of items.

    Args:
        traced: what is written.
        data_set: which it is of.
        format_name: one of the formats of traces.
        stream: of bytes; it need not be seekable, and stays open.
        options: how many items a graph may have.

    Raises:
        ExportError: unknown format, or a missing dependency.
        ExportTooLargeError: more items or triples than a graph may have; nothing was written.
        OSError: writing to the stream failed.
    """
    name = format_of(format_name).name
    if name in _TABLES:
        _TABLES[name](traced, stream)
        return
    options = options or ExportOptions()
    _check_size("items", len(traced.asked) + len(traced.items), options.items_max, name)
    _check_size("triples", len(traced.triples), options.pairs_max, name)
    _GRAPHS[name](traced, data_set, stream)


def _check_size(what: str, count: int, limit: int, name: str) -> None:
    if count > limit:
        raise ExportTooLargeError(
            f"{count:,} {what} take part, {name} takes {limit:,}: choose csv, arrow or parquet, which take any number",
            count=count,
            limit=limit,
        )


def _write_csv(traced: TripleTrace, stream: IO[bytes]) -> None:
    stream.write(csv_lines([COLUMNS]))
    for first in range(0, len(traced.triples), ROWS):
        rows = traced.triples[first : first + ROWS]
        stream.write(csv_lines([(str(src), str(dst), op) for src, dst, op in rows]))


def _table(traced: TripleTrace) -> pa.Table:
    kind = pa.int64() if isinstance(traced.asked[0], int) else pa.string()
    columns = [*zip(*traced.triples, strict=True)] or [(), (), ()]
    kinds = (kind, kind, pa.string())
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, kinds, strict=True)]
    return pa.table(arrays, list(COLUMNS))


def _write_arrow(traced: TripleTrace, stream: IO[bytes]) -> None:
    rows = _table(traced)
    sink: Any = CountedStream(stream)
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows, ROWS)


def _write_parquet(traced: TripleTrace, stream: IO[bytes]) -> None:
    sink: Any = CountedStream(stream)
    pq.write_table(_table(traced), sink, compression="zstd", row_group_size=ROWS)


def _items(traced: TripleTrace) -> list[str]:
    """The items that were traced, and those that were found."""
    return [str(item) for item in (*traced.asked, *traced.items)]


def _role(traced: TripleTrace, at: int) -> str:
    """Of the item at a place of `_items`."""
    return "start" if at < len(traced.asked) else "found"


def _write_prov(traced: TripleTrace, data_set: str, stream: IO[bytes]) -> None:
    model = needed("prov.model", "PROV-JSON", error=ExportError)
    document = model.ProvDocument()
    own = document.add_namespace("lineage", VOCABULARY)
    base = f"urn:lineage-master:triples:{quote(data_set, safe='')}"
    items = document.add_namespace("item", f"{base}:item:")
    ops = document.add_namespace("op", f"{base}:op:")
    entities = {
        item: document.entity(
            items[local_name(item)],
            {"prov:label": item, own["role"]: _role(traced, at)},
        )
        for at, item in enumerate(_items(traced))
    }
    labels = sorted({op for _, _, op in traced.triples})
    # A name may not be empty, and an operation may have none.
    activities = {
        op: document.activity(ops[local_name(op) or "-"], other_attributes={"prov:label": op})
        for op in labels
    }
    for src, dst, op in traced.triples:
        document.wasDerivedFrom(entities[str(dst)], entities[str(src)], activities[op])
    text = io.StringIO()
    document.serialize(text, format="json", ensure_ascii=False)
    stream.write(encodable_text(text.getvalue()).encode())


def _write_graphml(traced: TripleTrace, data_set: str, stream: IO[bytes]) -> None:
    networkx = needed("networkx", "GraphML", error=ExportError)
    graph = networkx.MultiDiGraph(dataSet=xml_text(data_set), item=xml_text(traced.title))
    # By place: texts that XML can't hold may become alike.
    ids = {item: f"item:{at}" for at, item in enumerate(_items(traced))}
    for at, (item, node) in enumerate(ids.items()):
        graph.add_node(node, kind="item", label=xml_text(item), role=_role(traced, at))
    for src, dst, op in traced.triples:
        graph.add_edge(ids[str(src)], ids[str(dst)], kind="derivation", at=xml_text(op))
    networkx.write_graphml_xml(graph, stream)


def _write_mermaid(traced: TripleTrace, data_set: str, stream: IO[bytes]) -> None:
    comment = " ".join(f"{data_set}: {traced.title}".split())
    lines = [f"%% {comment}", "flowchart LR"]
    ids = {item: f"n{at}" for at, item in enumerate(_items(traced))}
    lines += [f'    {node}["{quoted(item)}"]' for item, node in ids.items()]
    lines += [
        f'    {ids[str(src)]} -->|"{quoted(op)}"| {ids[str(dst)]}'
        for src, dst, op in traced.triples
    ]
    stream.write(encodable_text("\n".join(lines) + "\n").encode())


_TABLES: Mapping[str, Callable[[TripleTrace, IO[bytes]], None]] = {
    "csv": _write_csv,
    "arrow": _write_arrow,
    "parquet": _write_parquet,
}
_GRAPHS: Mapping[str, Callable[[TripleTrace, str, IO[bytes]], None]] = {
    "prov": _write_prov,
    "graphml": _write_graphml,
    "mermaid": _write_mermaid,
}
