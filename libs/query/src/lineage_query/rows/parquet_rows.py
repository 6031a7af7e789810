"""Rows of Parquet files as text, by their place in the file."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lineage_core.contract.block import U64
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.cut_texts import TEXT_BYTES_MAX, cut_text
from lineage_query.rows.typed_values import (
    Held,
    RequestedValue,
    UnsureError,
    array_of,
    arrow_type,
    places_where,
)

READ_BYTES = 1 << 20
"""Bytes of a column read at once; without it a column's whole part of a row group is in memory."""
BATCH_BYTES = 16 << 20
"""Bytes of rows decoded at once, according to the sizes in the row group's metadata."""
BATCH_ROWS_MAX = 10_000
TAIL_BYTES = 8
"""Size of the footer length and the magic number at the end of a file."""
FOOTER_BYTES_MAX = 8 << 20
"""Maximum size of a file's metadata, which is read at once: three bytes of it may take 700 bytes of memory."""
PARTS_MAX = 100_000
"""Maximum number of columns, or of row groups: objects for all are allocated before their metadata is checked."""
TEXT_ROWS = 8
"""Rows converted to Python values at once: a value that the file stores once may be in each of them."""


def texts_of(file: IO[bytes], rows: U64) -> list[str | None]:
    """Rows (from 0, ascending) as JSON objects without NULLs, as Spark's ``to_json`` has them; None: no such row.

    Reads the row groups that hold one of them, and of these no rows behind the last one, a batch at a time.

    Raises:
        OSError, pa.ArrowException: the file can't be read.
        BudgetError: as :meth:`lineage_core.tracing.budget.Budget.read`.
    """
    opened, texts = open_parquet(file), list[str | None]()
    for group, places in by_group(opened, rows):
        for batch in batches_of(opened, group, places):
            for begin in range(0, len(batch), TEXT_ROWS):
                batch_texts = [_text(row) for row in batch.slice(begin, TEXT_ROWS).to_pylist()]
                current_budget().count_text(sum(map(len, batch_texts)))
                texts += batch_texts
    return texts + [None] * (len(rows) - len(texts))


def values_from(
    file: IO[bytes], first: int, count: int, columns: Sequence[tuple[str, str]]
) -> list[tuple[Any, ...]]:
    """The values of up to ``count`` rows that follow each other, the first one at ``first`` (from 0), as Spark gives them.

    Args:
        file: it may have fewer rows.
        first: the first one.
        count: how many.
        columns: their names, and types as Spark SQL has them.

    Returns:
        The values of each row, in the order of ``columns``.

    Raises:
        UnsureError: Spark may read others.
        OSError, pa.ArrowException: the file can't be read.
        BudgetError: as :meth:`lineage_core.tracing.budget.Budget.check`.
    """
    opened = bounded_parquet(file)
    names = opened.schema_arrow.names
    for name, kind in columns:
        if names.count(name) != 1 or opened.schema_arrow.field(name).type != arrow_type(kind):
            raise UnsureError
    column_names = [name for name, _ in columns]
    rows: list[tuple[Any, ...]] = []
    requested = np.arange(first, first + count, dtype=np.uint64)
    for group, places in by_group(opened, requested):
        for batch in batches_of(opened, group, places, column_names):
            values = [batch[name].to_pylist() for name in column_names]
            for of_column, (_, kind) in zip(values, columns, strict=True):
                array_of(of_column, kind)
            rows += zip(*values, strict=True) if values else [()] * len(batch)
    return rows


def rows_with(file: IO[bytes], terms: Mapping[str, RequestedValue]) -> U64:
    """Rows (from 0, ascending) whose columns have the given values.

    Raises:
        UnsureError: Spark may find others.
        OSError, pa.ArrowException: the file can't be read.
        BudgetError: as :meth:`lineage_core.tracing.budget.Budget.check`.
    """
    positions, begin = [np.empty(0, np.uint64)], 0
    with bounded_parquet(file, coerce_int96_timestamp_unit="us") as opened:
        names = opened.schema_arrow.names
        for name, term in terms.items():
            # A name with a dot is the path of a nested column, too.
            if [column_name for column_name in names if column_name.lower() == name.lower()] != [
                name
            ] or "." in name:
                raise UnsureError
            if term.kind == "timestamp":
                _check_instants(opened, name)
            if pa.types.is_dictionary(opened.schema_arrow.field(name).type):
                raise UnsureError
        rows = opened.metadata.num_rows
    if not terms:
        return places_where([], rows)
    for batch in open_parquet(file, coerce_int96_timestamp_unit="us").iter_batches(
        BATCH_ROWS_MAX, columns=list(terms)
    ):
        current_budget().check()
        masks = [_in_column(term, batch.column(name)) for name, term in terms.items()]
        positions.append(places_where(masks, len(batch)) + np.uint64(begin))
        begin += len(batch)
    if begin != rows:
        raise UnsureError
    return np.concatenate(positions)


def open_parquet(file: IO[bytes], **options: Any) -> pq.ParquetFile:
    """Open a file of Parquet that others wrote, to read it piece by piece: texts that it has once are not copied for each row.

    Their columns, nested ones too, are dictionaries then.
    """
    schema = bounded_parquet(file).schema
    columns = map(schema.column, range(len(schema)))
    once = [
        column.path
        for column in columns
        if column.physical_type == "BYTE_ARRAY" and _is_text(column)
    ]
    return bounded_parquet(file, read_dictionary=once, **options)


def _check_footer(file: IO[bytes]) -> None:
    """Check that reading a file's metadata does not exceed the memory limit.

    Raises:
        OSError: it would, or the file can't be read.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - TAIL_BYTES, 0))
    tail = file.read(TAIL_BYTES)
    file.seek(0)
    if int.from_bytes(tail[:4], "little") > FOOTER_BYTES_MAX:
        raise OSError(errno.EFBIG, f"its footer has more than {FOOTER_BYTES_MAX >> 20} MiB")


def _is_text(column: Any) -> bool:
    return column.logical_type.type in {"NONE", "STRING", "JSON", "ENUM"}


def bounded_parquet(file: IO[bytes], **options: Any) -> pq.ParquetFile:
    """A file of Parquet that others wrote, whose metadata is bounded. For whole rows see :func:`open_parquet`.

    Raises:
        OSError, pa.ArrowException: it can't be read.
    """
    _check_footer(file)
    return pq.ParquetFile(
        file,
        buffer_size=READ_BYTES,
        pre_buffer=False,
        thrift_container_size_limit=PARTS_MAX,
        **options,
    )


def batches_of(
    file: pq.ParquetFile, group: int, places: U64, columns: list[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of a row group at some positions (ascending), batch by batch.

    Raises:
        BudgetError: the query is cancelled or takes too long.
    """
    metadata = file.metadata.row_group(group)
    row_bytes = max(metadata.total_byte_size // max(metadata.num_rows, 1), 1)
    size = min(max(BATCH_BYTES // row_bytes, 1), BATCH_ROWS_MAX)
    begin = 0
    for batch in file.iter_batches(size, row_groups=[group], columns=columns):
        current_budget().check()
        stop = begin + len(batch)
        low, high = np.searchsorted(places, np.array([begin, stop], np.uint64)).tolist()
        if low < high:
            yield batch.take(pa.array(places[low:high] - np.uint64(begin)))
        if high == len(places):
            return
        begin = stop


def _in_column(term: RequestedValue, column: Any) -> Held:
    """Which of a column's values are it, where the column may name them by a dictionary."""
    if not isinstance(column, pa.DictionaryArray):
        return term.in_arrow(column)
    fulfilled: Any = term.in_arrow(column.dictionary)
    if term.value is None:
        return cast(Held, pc.is_null(column))
    return cast(Held, pc.fill_null(pc.take(fulfilled, column.indices), False))


def _check_instants(opened: pq.ParquetFile, name: str) -> None:
    """See that a column's times are instants, not times of day anywhere."""
    column_index = opened.schema.names.index(name)
    column, kind = opened.schema.column(column_index), opened.schema_arrow.field(name).type
    if not pa.types.is_timestamp(kind):
        raise UnsureError
    if column.physical_type != "INT96" and kind != pa.timestamp("us", "UTC"):
        raise UnsureError


def by_group(file: pq.ParquetFile, rows: U64) -> Iterator[tuple[int, Any]]:
    """Row groups that hold some of the rows, with the positions of the rows in each."""
    begin = 0
    for group in range(file.num_row_groups):
        stop = begin + file.metadata.row_group(group).num_rows
        low, high = np.searchsorted(rows, np.array([begin, stop], np.uint64)).tolist()
        if low < high:
            yield group, rows[low:high] - np.uint64(begin)
        begin = stop


def _text(row: dict[str, Any]) -> str:
    values = {name: value for name, value in row.items() if value is not None}
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), default=str)
    if len(text) <= TEXT_BYTES_MAX // 4:
        return text
    encoded = text.encode("utf-8", "replace")
    return (
        text if len(encoded) <= TEXT_BYTES_MAX else cut_text(encoded[:TEXT_BYTES_MAX], len(encoded))
    )
