"""Rows of Parquet files as text, by their place in the file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_core.block import U64
from lineage_core.budget import current
from lineage_store.cut_texts import TEXT_BYTES_MAX, cut_text
from lineage_store.typed_values import UnsureError, array_of, arrow_type

SUFFIX = ".parquet"
GROUP_BYTES_MAX = 512 << 20
ROWS_AT_ONCE = 1_000


def is_parquet(path: str) -> bool:
    """Whether a file is one of Parquet, by its name."""
    return path.endswith(SUFFIX)


def texts_of(file: IO[bytes], rows: U64) -> list[str | None]:
    """Rows (from 0, ascending) as JSON objects without NULLs, as Spark's ``to_json`` has them; None: no such row.

    Reads the row groups that hold one of them, and no others.

    Raises:
        OSError, pa.ArrowException: the file can't be read.
    """
    opened, texts = pq.ParquetFile(file), list[str | None]()
    for group, places in _by_group(opened, rows):
        table = opened.read_row_group(group).take(pa.array(places))
        for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
            found = [_text(row) for row in batch.to_pylist()]
            current().read(sum(map(len, found)))
            texts += found
    return texts + [None] * (len(rows) - len(texts))


def values_of(file: IO[bytes], row: int, columns: Sequence[tuple[str, str]]) -> tuple[Any, ...]:
    """The values of a row (from 0) in columns (names, and types as Spark SQL has them), as Spark gives them.

    Raises:
        UnsureError: Spark may read others, there is no such row, or its row group is too large to be read at once.
        OSError, pa.ArrowException: the file can't be read.
    """
    opened = pq.ParquetFile(file)
    names = opened.schema_arrow.names
    for name, kind in columns:
        if names.count(name) != 1 or opened.schema_arrow.field(name).type != arrow_type(kind):
            raise UnsureError
    for group, places in _by_group(opened, np.array([row], np.uint64)):
        if opened.metadata.row_group(group).total_byte_size > GROUP_BYTES_MAX:
            raise UnsureError
        wanted = [name for name, _ in columns]
        table = opened.read_row_group(group, columns=wanted).slice(int(places[0]), 1)
        held = tuple(table[name][0].as_py() for name in wanted)
        for value, (_, kind) in zip(held, columns, strict=True):
            array_of([value], kind)
        return held
    raise UnsureError


def _by_group(file: pq.ParquetFile, rows: U64) -> Iterator[tuple[int, Any]]:
    """Row groups that hold some of the rows, and where in each they stand."""
    begin = 0
    for group in range(file.num_row_groups):
        stop = begin + file.metadata.row_group(group).num_rows
        low, high = np.searchsorted(rows, np.array([begin, stop], np.uint64)).tolist()
        if low < high:
            yield group, rows[low:high] - np.uint64(begin)
        begin = stop


def _text(row: dict[str, Any]) -> str:
    there = {name: value for name, value in row.items() if value is not None}
    text = json.dumps(there, ensure_ascii=False, separators=(",", ":"), default=str)
    if len(text) <= TEXT_BYTES_MAX // 4:
        return text
    held = text.encode("utf-8", "replace")
    return text if len(held) <= TEXT_BYTES_MAX else cut_text(held[:TEXT_BYTES_MAX], len(held))
