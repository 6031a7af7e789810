"""Loads all triples of a data set, those of its index and those that wait, to index them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_store.errors import StoreError
from lineage_store.lake.arrow import int64_of
from lineage_store.lake.opening import as_store_errors
from lineage_store.lake.table import LakeTable
from lineage_store.triples.columns import COLUMNS, Part
from lineage_store.triples.files import PartFile
from lineage_store.triples.indexing import Graph
from lineage_store.triples.numbering import distinct_rows, encoded_numbers, encoded_texts

OF_ITEMS = {Part.WAITING: "src_item", Part.WAITING_NODES: "item", Part.ITEMS: "item"}
LOADED = (
    Part.WAITING, Part.WAITING_NODES, Part.ITEMS, Part.OPS, Part.NODES, Part.NODE_OF, Part.FORWARD,
)  # fmt: skip
"""What all of an index is made of."""


def read_rows_of(table: LakeTable, file: PartFile) -> pa.Table:
    """All rows of a file.

    Raises:
        StoreError: it is damaged, or the storage can't be read.
        FileNotFoundError: it is not there any more.
    """
    with as_store_errors(file.file.path), table.files.open_input_file(file.file.path) as stream:
        return pq.read_table(stream, partitioning=None)


def is_of_items(table: LakeTable, file: PartFile) -> bool | None:
    """Whether a file's items are integers, and not texts; None if it has no items."""
    if file.part not in OF_ITEMS:
        return None
    with as_store_errors(file.file.path), table.files.open_input_file(file.file.path) as stream:
        return OF_ITEMS[file.part] in pq.read_schema(stream).names


def check_items(table: LakeTable, files: Sequence[PartFile]) -> None:
    """Refuse files whose items are of two types.

    Raises:
        StoreError: they are.
    """
    if len({is_of_items(table, file) for file in files} - {None}) > 1:
        raise StoreError(
            "the data set has integers and texts as items; remove it, and import again"
        )


def load_graph(table: LakeTable, files: Sequence[PartFile]) -> Graph:
    """All triples of some files, each once.

    Args:
        table: the table that they are in.
        files: those of an index, and those that wait.

    Raises:
        StoreError: a file is damaged, or items are of two types.
    """
    check_items(table, files)
    parts = {part: _rows(table, part, files) for part in LOADED}
    waiting, held = parts[Part.WAITING], parts[Part.ITEMS]
    names = parts[Part.WAITING_NODES]
    is_text = any(
        "item_text" in rows.column_names or "src_text" in rows.column_names
        for rows in (waiting, held, names)
    )
    kind = "text" if is_text else "item"
    columns = [
        _column(held, "item_text" if is_text else "item"),
        _column(waiting, f"src_{kind}"),
        _column(waiting, f"dst_{kind}"),
        _column(names, "item_text" if is_text else "item"),
    ]
    items = (
        encoded_texts(columns) if is_text else encoded_numbers([int64_of(one) for one in columns])
    )
    held_codes, src, dst, named = items.codes
    ops = encoded_texts([_column(parts[Part.OPS], "op_text"), _column(waiting, "op_text")])
    labels = encoded_texts([_column(parts[Part.NODES], "node_text"), _column(names, "node_text")])
    edges = parts[Part.FORWARD]
    src, dst, op = distinct_rows(
        np.concatenate([held_codes[int64_of(_column(edges, "src"))], src]),
        np.concatenate([held_codes[int64_of(_column(edges, "dst"))], dst]),
        np.concatenate([ops.codes[0][int64_of(_column(edges, "op"))], ops.codes[1]]),
    )
    node = np.full(len(items.values), -1, np.int64)
    former = int64_of(_column(held, "node"))
    known = former >= 0
    since = parts[Part.NODE_OF]
    pairs = distinct_rows(
        np.concatenate([held_codes[known], held_codes[int64_of(_column(since, "number"))], named]),
        np.concatenate(
            [
                labels.codes[0][former[known]],
                labels.codes[0][int64_of(_column(since, "node"))],
                labels.codes[1],
            ]
        ),
    )
    # Of several nodes of an item the first in order counts: it is written last.
    node[pairs[0][::-1]] = pairs[1][::-1]
    return Graph(items.values, ops.values, labels.values, src, dst, op, node)


def _rows(table: LakeTable, part: Part, files: Sequence[PartFile]) -> pa.Table:
    chosen = sorted((file for file in files if file.part is part), key=lambda file: file.first)
    if not chosen:
        return pa.table({})
    return pa.concat_tables([read_rows_of(table, file) for file in chosen])


def _column(rows: pa.Table, name: str) -> Any:
    if name in rows.column_names:
        return rows.column(name)
    kinds: dict[str, Any] = {
        column: kind for columns in COLUMNS.values() for column, kind in columns.items()
    }
    return pa.chunked_array([], kinds[name])
