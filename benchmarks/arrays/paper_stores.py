"""FullOne and FullMany as the paper describes them (section VI), for comparison: tables by key, an entry for each cell or region.

The paper's are hash tables of BerkeleyDB, and libspatialindex; these are SQLite's tables by key, and its R-tree. Cells are positions of
four bytes; nothing is waited for on disk. Region pairs are written in one transaction, in bulk.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.operators import Encoding


class PaperStore:
    """Region pairs of equally many cells in a file, looked up from the output (the paper's backward-optimised encodings)."""

    def __init__(
        self, path: Path, shape: Shape, encoding: Encoding, outputs: I64, inputs: I64
    ) -> None:
        """Write pairs: row n of both arrays holds the positions of the n-th."""
        self.path = path
        self.source = self.target = shape
        self._encoding = encoding
        self._store = sqlite3.connect(path)
        self._store.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;")
        self._store.execute(
            "CREATE TABLE regions (number INTEGER PRIMARY KEY, inputs BLOB, outputs BLOB)"
        )
        with self._store:
            if encoding is Encoding.ONE:
                self._write_one(outputs, inputs)
            else:
                self._write_many(outputs, inputs)

    def _write_one(self, outputs: I64, inputs: I64) -> None:
        """For each output cell an entry with the numbers of its pairs; the input cells of a pair in one that these share."""
        self._store.execute(
            "CREATE TABLE cells (cell INTEGER, number INTEGER, PRIMARY KEY (cell, number)) WITHOUT ROWID"
        )
        self._store.executemany(
            "INSERT INTO regions (number, inputs) VALUES (?, ?)", enumerate(_serialised(inputs))
        )
        numbers = np.repeat(np.arange(len(outputs)), outputs.shape[1])
        entries = zip(outputs.reshape(-1).tolist(), numbers.tolist(), strict=True)
        self._store.executemany("INSERT OR IGNORE INTO cells VALUES (?, ?)", entries)

    def _write_many(self, outputs: I64, inputs: I64) -> None:
        """For each pair an entry with its output cells and its input cells; an R-tree has the boxes around the output cells."""
        self._store.execute(
            "CREATE VIRTUAL TABLE boxes USING rtree_i32 (number, top, bottom, first, last)"
        )
        pairs = zip(_serialised(inputs), _serialised(outputs), strict=True)
        self._store.executemany("INSERT INTO regions (inputs, outputs) VALUES (?, ?)", pairs)
        rows, columns = np.divmod(outputs, self.target[1])
        corners = (rows.min(1), rows.max(1), columns.min(1), columns.max(1))
        numbers = range(1, len(outputs) + 1)
        boxes = zip(numbers, *(corner.tolist() for corner in corners), strict=True)
        self._store.executemany("INSERT INTO boxes VALUES (?, ?, ?, ?, ?)", boxes)

    def backward(self, cells: Cells) -> Cells:
        ask = self._ask_one if self._encoding is Encoding.ONE else self._ask_many
        parts = [
            np.frombuffer(inputs, "<u4")
            for cell in cells.positions().tolist()
            for inputs in ask(cell)
        ]
        return Cells.at(self.source, np.concatenate([np.empty(0, "<u4"), *parts]).astype(np.int64))

    def _ask_one(self, cell: int) -> Iterator[bytes]:
        query = "SELECT inputs FROM cells JOIN regions USING (number) WHERE cell = ?"
        for (inputs,) in self._store.execute(query, (cell,)):
            yield inputs

    def _ask_many(self, cell: int) -> Iterator[bytes]:
        row, column = divmod(cell, self.target[1])
        query = (
            "SELECT inputs, outputs FROM boxes JOIN regions USING (number)"
            " WHERE top <= ?1 AND bottom >= ?1 AND first <= ?2 AND last >= ?2"
        )
        for inputs, outputs in self._store.execute(query, (row, column)):
            if (np.frombuffer(outputs, "<u4") == cell).any():
                yield inputs

    def forward(self, cells: Cells) -> Cells:
        """Read all pairs."""
        query = (
            "SELECT inputs, cell FROM cells JOIN regions USING (number)"
            if self._encoding is Encoding.ONE
            else "SELECT inputs, outputs FROM regions"
        )
        reached = [
            np.atleast_1d(np.frombuffer(out, "<u4") if isinstance(out, bytes) else out)
            for inputs, out in self._store.execute(query)
            if cells.has(np.frombuffer(inputs, "<u4").astype(np.int64)).any()
        ]
        return Cells.at(
            self.target, np.concatenate([np.empty(0, np.int64), *reached]).astype(np.int64)
        )


def _serialised(rows: I64) -> Iterator[bytes]:
    packed = rows.astype("<u4")
    width = packed.shape[1] * packed.itemsize
    content = memoryview(packed.tobytes())
    return (bytes(content[at : at + width]) for at in range(0, len(content), width))
