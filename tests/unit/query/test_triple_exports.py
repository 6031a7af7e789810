"""Traces of triples as files: each format has all of the trace, and is read again."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import networkx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_query.exports import FORMATS, ExportError, ExportOptions, ExportTooLargeError
from lineage_query.exports.triples import export_triples
from lineage_store.triples.prov_source import prov_triples
from lineage_store.triples.reading import ReadCounts
from lineage_store.triples.tracing import Method, TripleTrace

pytestmark = pytest.mark.unit

TEXTS = [
    ("a b", 'c"<,', "x:1"),
    ('c"<,', "é%20\x01", "x:1"),
    ('c"<,', "a b", ""),
    ("a b", "a b", "=z"),
]


def traced(triples: list[tuple[Any, Any, str]]) -> TripleTrace:
    item = triples[0][0]
    others = sorted({end for triple in triples for end in triple[:2]} - {item})
    return TripleTrace([item], others, triples, Method.RQ, len(triples), ReadCounts())


def exported(found: TripleTrace, name: str, items_max: int = 100) -> bytes:
    stream = io.BytesIO()
    export_triples(found, "set", name, stream, ExportOptions(items_max=items_max))
    return stream.getvalue()


def test_tables_have_all_triples() -> None:
    found = traced(TEXTS)
    rows = list(csv.reader(io.StringIO(exported(found, "csv").decode(), newline="")))
    assert rows == [["src", "dst", "op"], *map(list, TEXTS)]
    for numbers in (traced([(1, 2, "a"), (2, -3, "b")]), found):
        tables = (
            pa.ipc.open_stream(exported(numbers, "arrow")).read_all(),
            pq.read_table(io.BytesIO(exported(numbers, "parquet"))),
        )
        for table in tables:
            assert list(zip(*table.to_pydict().values(), strict=True)) == numbers.triples


def test_prov_is_imported_again(tmp_path: Path) -> None:
    path = tmp_path / "a.prov.json"
    path.write_bytes(exported(traced(TEXTS), "prov"))
    base = "urn:lineage-master:triples:set:"
    again = [
        tuple(unquote(part.removeprefix(base).partition(":")[2]) for part in triple)
        for triple in prov_triples(path)
    ]
    assert sorted(again) == sorted((src, dst, op or "-") for src, dst, op in TEXTS)


def test_graphml_has_all_items_and_triples() -> None:
    graph = networkx.read_graphml(io.BytesIO(exported(traced(TEXTS), "graphml")))
    label = {node: facts["label"] for node, facts in graph.nodes(data=True)}
    edges = [(label[src], label[dst], facts["at"]) for src, dst, facts in graph.edges(data=True)]
    assert sorted(edges) == sorted(
        (src, dst.replace("\x01", "\ufffd"), op) for src, dst, op in TEXTS
    )
    assert [facts["label"] for _, facts in graph.nodes(data=True) if facts["role"] == "start"] == [
        "a b"
    ]


def test_mermaid_draws_items_and_triples() -> None:
    text = exported(traced(TEXTS), "mermaid").decode()
    assert '    n0["a b"]\n    n1["c#quot;#lt;,"]\n' in text
    assert '    n0 -->|"x:1"| n1\n' in text
    assert text.count("-->") == len(TEXTS)


def test_graphs_are_bounded() -> None:
    for name in FORMATS:
        if FORMATS[name].table is None:
            with pytest.raises(ExportTooLargeError, match="choose csv, arrow or parquet"):
                exported(traced(TEXTS), name, items_max=2)
        else:
            assert exported(traced(TEXTS), name, items_max=2)
    with pytest.raises(ExportError, match="no format"):
        exported(traced(TEXTS), "x")
