"""Rows of files of a table of Delta Lake or Iceberg with their ids, as the file and what is known of it together say."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from lineage_core.contract.block import U64
from lineage_query.rows.file_status import by_state
from lineage_query.rows.reader import RowReader
from lineage_query.rows.row_tracking import NUMBERS_END, FileIds, HeldIds, IdColumns
from lineage_query.rows.typed_values import UnsureError
from lineage_store.paths import RowsError, canonical, plain_path


class TrackedRow(NamedTuple):
    """A row of a file (from 0), its id, and the version that changed it last."""

    ordinal: int
    row_id: int
    version: int


def rows_at(
    reader: RowReader, path: str, ids: FileIds, columns: IdColumns, ordinals: Collection[int]
) -> list[TrackedRow]:
    """Rows of a file.

    Args:
        reader: decides whether it may be read.
        path: of the file.
        ids: what the log says of it.
        columns: of the file, that have ids.
        ordinals: the rows, from 0.

    Raises:
        RowsError: it is gone, is another one than that of the log, can't be read, or its ids can't be.
    """
    return _read(reader, path, ids, "parquet row ids", columns, ordinals)


def rows_with_ids(
    reader: RowReader, path: str, ids: FileIds, columns: IdColumns, row_ids: Collection[int]
) -> list[TrackedRow]:
    """The rows of a file that have some ids, which the file itself names; otherwise as :func:`rows_at`."""
    return _read(reader, path, ids, "parquet rows with ids", columns, row_ids)


def _read(
    reader: RowReader,
    path: str,
    ids: FileIds,
    operation: str,
    columns: IdColumns,
    numbers: Collection[int],
) -> list[TrackedRow]:
    rows = _read_file(reader, path, ids, operation, *columns, _ordered(numbers))
    return [
        TrackedRow(
            ordinal,
            ids.base + ordinal if row_id is None else row_id,
            ids.version if version is None else version,
        )
        for ordinal, row_id, version in rows
    ]


def ids_held(
    reader: RowReader,
    path: str,
    ids: FileIds,
    columns: IdColumns,
    ranges: Collection[range],
    versions: Collection[int],
) -> HeldIds:
    """Whether a file itself names, for some row, an id of some ranges or one of some versions; otherwise as :func:`rows_at`."""
    ends = [(one.start, one.stop) for one in ranges]
    arguments = *columns, ends, _ordered(versions)
    return HeldIds(*_read_file(reader, path, ids, "parquet ids held", *arguments))


def _ordered(numbers: Collection[int]) -> U64:
    if any(number >= 2 * NUMBERS_END for number in numbers):
        raise RowsError("no file has such rows")
    return np.array(sorted(set(numbers)), np.uint64)


def _read_file(
    reader: RowReader, path: str, ids: FileIds, operation: str, *arguments: object
) -> Any:
    file = canonical(path)
    try:
        _check_state(reader, file, ids)
        with closing(reader.opened(file, packed=True)) as opened:
            found = reader.formats.read(operation, opened.stream, *arguments)
        _check_state(reader, file, ids)
    except UnsureError as error:
        raise RowsError(f"{plain_path(path)} has them in another form") from error
    except (OSError, ValueError, pa.ArrowException) as error:
        raise RowsError(f"{plain_path(path)}: {error}") from error
    return found


def _check_state(reader: RowReader, file: str, ids: FileIds) -> None:
    if by_state(reader.state(file), ids.size, ids.mtime) != "same":
        raise RowsError(f"{plain_path(file)} is gone, or is another file now")
