"""Loads all triples of a data set, those of its index and those that wait, to index them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_store.errors import StoreError
from lineage_store.lake.arrow import int64_of
from lineage_store.lake.footers import read_footer
from lineage_store.lake.opening import read_surely
from lineage_store.lake.table import LakeTable
from lineage_store.triples.columns import Part
from lineage_store.triples.files import Numbers, PartFile
from lineage_store.triples.indexing import Graph
from lineage_store.triples.numbering import (
    Encoded,
    code_type,
    codes_of,
    distinct_numbers,
    distinct_rows,
    encoded_texts,
)

OF_ITEMS = {Part.WAITING: "src_item", Part.WAITING_NODES: "item", Part.ITEMS: "item"}


def read_rows_of(table: LakeTable, file: PartFile, names: list[str] | None = None) -> pa.Table:
    """All rows of a file.

    Args:
        table: the table that it is in.
        file: which.
        names: of these columns alone, less those that it does not have.

    Raises:
        StoreError: it is damaged, or the storage can't be read.
        FileNotFoundError: it is not there any more.
    """

    def read(stream: pa.NativeFile) -> pa.Table:
        metadata = read_footer(stream, file.file.path)
        with pq.ParquetFile(stream, metadata=metadata, page_checksum_verification=True) as parquet:
            return parquet.read(names)

    return read_surely(table, file.file.path, read)


def is_of_items(table: LakeTable, file: PartFile) -> bool | None:
    """Whether a file's items are integers, and not texts; None if it has no items."""
    if file.part not in OF_ITEMS:
        return None
    path = file.file.path
    names = read_surely(table, path, lambda stream: read_footer(stream, path).schema.names)
    return OF_ITEMS[file.part] in names


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
    """All triples of some files; some may be there several times.

    Of items that are integers one file is in memory at a time beside the codes.

    Args:
        table: the table that they are in.
        files: those of an index, and those that wait.

    Raises:
        StoreError: a file is damaged, or items are of two types.
    """
    check_items(table, files)
    rows = _Rows(table, files)
    items = _encoded_items(rows)
    held_codes, src, dst, named = items.codes
    ops = encoded_texts([rows.chunks(Part.OPS, "op_text"), rows.chunks(Part.WAITING, "op_text")])
    labels = encoded_texts(
        [rows.chunks(Part.NODES, "node_text"), rows.chunks(Part.WAITING_NODES, "node_text")]
    )
    held = [
        [codes[numbers] for numbers in rows.numbers(Part.FORWARD, name)]
        for name, codes in (("src", held_codes), ("dst", held_codes), ("op", ops.codes[0]))
    ]
    src, dst, op = (
        np.concatenate([*former, added])
        for former, added in zip(held, (src, dst, ops.codes[1]), strict=True)
    )
    node = np.full(len(items.values), -1, code_type(len(labels.values)))
    former = _concatenated(rows.numbers(Part.ITEMS, "node"))
    known = former >= 0
    since_item, since_node = (
        _concatenated(rows.numbers(Part.NODE_OF, name)) for name in ("number", "node")
    )
    pairs = distinct_rows(
        np.concatenate([held_codes[known], held_codes[since_item], named]),
        np.concatenate(
            [labels.codes[0][former[known]], labels.codes[0][since_node], labels.codes[1]]
        ),
    )
    # Of several nodes of an item the first in order counts: it is written last.
    node[pairs[0][::-1]] = pairs[1][::-1]
    return Graph(items.values, ops.values, labels.values, src, dst, op, node)


class _Rows:
    """Columns of some files, file by file in the order of what orders them."""

    def __init__(self, table: LakeTable, files: Sequence[PartFile]) -> None:
        self._table = table
        self._files = sorted(files, key=lambda file: file.first)

    def chunks(self, part: Part, name: str) -> Iterator[Any]:
        """A column of Arrow; files that do not have it are left out."""
        for file in self._files:
            if file.part is part:
                rows = read_rows_of(self._table, file, [name])
                if rows.column_names:
                    yield rows.column(name)

    def numbers(self, part: Part, name: str) -> Iterator[Numbers]:
        """A column of integers; as :meth:`chunks`."""
        return (int64_of(column) for column in self.chunks(part, name))


def _encoded_items(rows: _Rows) -> Encoded:
    """Items, and the codes of those of an index, of both ends of triples that wait, and of those whose nodes wait."""
    parts = (Part.ITEMS, Part.WAITING, Part.WAITING, Part.WAITING_NODES)
    texts = list(zip(parts, ("item_text", "src_text", "dst_text", "item_text"), strict=True))
    encoded = encoded_texts([rows.chunks(*column) for column in texts])
    if len(encoded.values):
        return encoded
    columns = list(zip(parts, ("item", "src_item", "dst_item", "item"), strict=True))
    values = distinct_numbers(numbers for column in columns for numbers in rows.numbers(*column))
    codes = [
        _concatenated(codes_of(values, numbers) for numbers in rows.numbers(*column))
        for column in columns
    ]
    return Encoded(values, codes)


def _concatenated(columns: Iterable[Numbers]) -> Numbers:
    parts = list(columns)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)
