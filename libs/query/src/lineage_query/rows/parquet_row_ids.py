"""Ids of rows that files of a table of Delta Lake or Iceberg hold beside the rows, without the rows themselves."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import IO, Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lineage_core.contract.block import U64
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.parquet_rows import batches_of, bounded_parquet, by_group
from lineage_query.rows.typed_values import UnsureError

SCANNED_MAX = 50_000_000
"""Maximum number of rows of one file whose ids are read to find some: takes about a second."""
SCANNED_AT_ONCE = 1 << 16
RESERVED: Mapping[str, bytes] = MappingProxyType(
    {"_row_id": b"2147483540", "_last_updated_sequence_number": b"2147483539"}
)
"""Iceberg's columns of ids and of commits, and the numbers by which it knows its columns: others may have these names.
https://iceberg.apache.org/spec/#reserved-field-ids"""
RowIds: TypeAlias = tuple[int, int | None, int | None]
"""A row of a file (from 0), its id, and the version that changed it last; None: the file does not say."""


def row_ids_at(file: IO[bytes], row_id: str, version: str, rows: U64) -> list[RowIds]:
    """What a file says of some rows (from 0, ascending).

    Args:
        file: the file.
        row_id: the name of the column of ids.
        version: the name of the column of versions.
        rows: the rows.

    Raises:
        UnsureError: the file has other columns of these names, or not all of the rows.
        OSError, pa.ArrowException: the file can't be read.
        BudgetError: as :meth:`lineage_core.tracing.budget.Budget.check`.
    """
    opened = bounded_parquet(file)
    names = _names_in(opened, row_id, version)
    if opened.metadata.num_rows <= int(rows.max(initial=0)):
        raise UnsureError
    if not names:
        return [(row, None, None) for row in rows.tolist()]
    found: list[RowIds] = []
    for group, places in by_group(opened, rows):
        for batch in batches_of(opened, group, places, names):
            values = [
                batch[name].to_pylist() if name in names else [None] * len(batch)
                for name in (row_id, version)
            ]
            numbers = rows[len(found) : len(found) + len(batch)].tolist()
            found += list(zip(numbers, *values, strict=True))
    if len(found) != len(rows):
        raise UnsureError
    return found


def rows_with_ids(file: IO[bytes], row_id: str, version: str, ids: U64) -> list[RowIds]:
    """The rows of a file whose ids it holds and are among some (ascending); ids that the log alone gives don't count.

    Raises:
        UnsureError, OSError, pa.ArrowException, BudgetError: as :func:`row_ids_at`; or too many rows would have to be read.
    """
    opened = bounded_parquet(file)
    names = _names_in(opened, row_id, version)
    if row_id not in names or not len(ids):
        return []
    groups = list(_groups_with(opened, row_id, int(ids[0]), int(ids[-1])))
    if sum(opened.metadata.row_group(group).num_rows for group, _ in groups) > SCANNED_MAX:
        raise OSError(errno.EFBIG, f"the ids of more than {SCANNED_MAX:,} rows are to be read")
    wanted = pa.array(ids.astype(np.int64))
    found: list[RowIds] = []
    for group, begin in groups:
        first = begin
        for batch in opened.iter_batches(SCANNED_AT_ONCE, row_groups=[group], columns=names):
            current_budget().check()
            places = np.flatnonzero(
                pc.is_in(batch[row_id], value_set=wanted).to_numpy(zero_copy_only=False)
            )
            if len(places):
                held: pa.RecordBatch = batch.take(pa.array(places, pa.int64()))
                versions = held[version].to_pylist() if version in names else [None] * len(places)
                numbers = (places + first).tolist()
                found += list(zip(numbers, held[row_id].to_pylist(), versions, strict=True))
            first += len(batch)
    return found


def ids_held(
    file: IO[bytes], row_id: str, version: str, ranges: Sequence[tuple[int, int]], versions: U64
) -> tuple[bool, bool, bool, bool]:
    """Whether a file holds any id of some ranges (each with its end), or any of some versions: the fields of `HeldIds`, as a plain tuple.

    Raises:
        UnsureError, OSError, pa.ArrowException, BudgetError: as :func:`rows_with_ids`.
    """
    opened = bounded_parquet(file)
    names = _names_in(opened, row_id, version)
    if names and opened.metadata.num_rows > SCANNED_MAX:
        raise OSError(errno.EFBIG, f"the ids of more than {SCANNED_MAX:,} rows are to be read")
    if not opened.metadata.num_rows:
        return False, False, False, False
    has_id = has_version = False
    lacks_id, lacks_version = row_id not in names, version not in names
    wanted = pa.array(versions.astype(np.int64))
    for batch in opened.iter_batches(SCANNED_AT_ONCE, columns=names) if names else ():
        current_budget().check()
        if row_id in names:
            ids = batch[row_id]
            lacks_id |= ids.null_count > 0
            known = ids.drop_null().to_numpy(zero_copy_only=False)
            has_id |= any(bool(((known >= low) & (known < end)).any()) for low, end in ranges)
        if version in names:
            lacks_version |= batch[version].null_count > 0
            has_version |= bool(pc.any(pc.is_in(batch[version], value_set=wanted)).as_py())
    return has_id, lacks_id, has_version, lacks_version


def _names_in(opened: pq.ParquetFile, *names: str) -> list[str]:
    """Those of some columns of whole numbers that a file has.

    Raises:
        UnsureError: it has others of these names.
    """
    schema = opened.schema_arrow
    held = [name for name in names if name in schema.names]
    for name in held:
        # A name with a dot is the path of a nested column, too.
        if "." in name or schema.names.count(name) != 1 or schema.field(name).type != pa.int64():
            raise UnsureError
        number = (schema.field(name).metadata or {}).get(b"PARQUET:field_id")
        if name in RESERVED and number != RESERVED[name]:
            raise UnsureError
    return held


def _groups_with(
    opened: pq.ParquetFile, row_id: str, low: int, high: int
) -> Iterator[tuple[int, int]]:
    """The row groups that may hold ids from ``low`` to ``high``, each with the number of the rows before it."""
    columns = range(len(opened.schema))
    (at,) = (column for column in columns if opened.schema.column(column).path == row_id)
    begin = 0
    for group in range(opened.num_row_groups):
        metadata = opened.metadata.row_group(group)
        if _may_hold(metadata.column(at).statistics, low, high):
            yield group, begin
        begin += metadata.num_rows


def _may_hold(statistics: Any, low: int, high: int) -> bool:
    is_known = statistics is not None and statistics.has_min_max
    return not is_known or (statistics.min <= high and statistics.max >= low)
