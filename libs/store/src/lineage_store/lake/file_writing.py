"""Writes files of the lake: rows of one kind in each row group, in the order that look-ups use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from lineage_store.errors import StoreUnavailableError
from lineage_store.lake.arrow import nulls, pc
from lineage_store.lake.columns import BLOBS, ORDER, PACKED, Kind, file_schema
from lineage_store.lake.file_names import folder_of, new_path
from lineage_store.lake.footers import digest_of_footer, footer_bytes
from lineage_store.lake.storage_errors import reason_of
from lineage_store.lake.table import LakeFile, LakeTable, sync_files

GROUP_BYTES: Final = 1 << 20
"""Bytes of rows in one row group, about: what a look-up of one row reads."""
GROUP_ROWS: Final = 16_384
LEVEL: Final = 3
WRITTEN_BYTES: Final = 4 << 20
"""Bytes that are given to the storage at a time."""

Tables: TypeAlias = Mapping[Kind, pa.Table]
"""Rows by kind."""


def write_file(table: LakeTable, key: str, tables: Tables) -> LakeFile | None:
    """Write rows of an application into a file that no version of the table holds yet; None: there are no rows.

    Raises:
        StoreUnavailableError: the storage can't be written.
    """
    kinds = [kind for kind in Kind if kind in tables and tables[kind].num_rows]
    if not kinds:
        return None
    schema = file_schema(kinds)
    # Its name has the digest of its end: it is made in memory, where its rows are already.
    sink = pa.BufferOutputStream()
    with _writer(sink, schema) as writer:
        for kind in kinds:
            rows = tables[kind].sort_by([(name, "ascending") for name in ORDER[kind]])
            for part in _groups(rows):
                writer.write_table(_as_rows(part, kind, schema), row_group_size=part.num_rows)
    app = _app_in(tables)
    return put_file(table, key, sink.getvalue(), lambda footer: new_path(key, app, footer))


def put_file(
    table: LakeTable, key: str, whole: pa.Buffer, path_of: Callable[[str], str]
) -> LakeFile:
    """Write a file of Parquet that no version of the table holds yet.

    Args:
        table: where it belongs.
        key: of the partition.
        whole: its bytes.
        path_of: its path, by the digest of its footer.

    Raises:
        StoreUnavailableError: the storage can't be written.
    """
    path = path_of(digest_of_footer(footer_bytes(pa.BufferReader(whole))))
    try:
        if table.address.is_local:
            table.files.create_dir(folder_of(key), recursive=True)
        # Without a buffer, delta-rs would be given Arrow's own, which it does not take.
        with table.files.open_output_stream(path, buffer_size=WRITTEN_BYTES) as stream:
            _write(stream, whole)
    except BaseException as error:
        # A disk that is full would be filled by what was begun.
        with suppress(Exception):
            table.files.delete_file(path)
        if isinstance(error, OSError):
            raise StoreUnavailableError(
                f"can't write the lake {table.address.location}: {reason_of(error)}"
            ) from error
        raise
    if table.address.is_local:
        folder = Path(table.address.location) / folder_of(key)
        sync_files(Path(table.address.location) / path, folder, folder.parent)
    return LakeFile(path, whole.size, key)


def _write(stream: pa.NativeFile, whole: pa.Buffer) -> None:
    for at in range(0, whole.size, WRITTEN_BYTES):
        stream.write(whole.slice(at, min(WRITTEN_BYTES, whole.size - at)))


def _app_in(tables: Tables) -> str:
    """The id of the application that rows are of, where they have it."""
    rows = tables.get(Kind.APPLICATION)
    return str(rows["name"][0].as_py()) if rows is not None and rows.num_rows else ""


def _writer(stream: pa.NativeFile, schema: pa.Schema) -> pq.ParquetWriter:
    dictionaries: Any = [
        field.name
        for field in schema
        if field.type == pa.string() and field.name not in BLOBS - {"reason"}
    ]
    return pq.ParquetWriter(
        stream,
        schema,
        compression={name: "none" if name in PACKED else "zstd" for name in schema.names},
        compression_level={name: LEVEL for name in schema.names if name not in PACKED},
        use_dictionary=dictionaries,
        write_statistics=[name for name in schema.names if name not in BLOBS],
        store_schema=False,
        # Else what a disk or a network changed would be read as if it had been written.
        write_page_checksum=True,
    )


def _as_rows(rows: pa.Table, kind: Kind, schema: pa.Schema) -> pa.Table:
    """Rows of a kind with all columns of a file."""
    arrays = [
        pa.array([kind.value] * rows.num_rows, pa.string())
        if field.name == "kind"
        else rows[field.name]
        if field.name in rows.schema.names
        else nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _groups(rows: pa.Table) -> Iterator[pa.Table]:
    """Rows in parts of about the size of a row group."""
    per_row = max(1, rows.nbytes // rows.num_rows)
    if "data" in rows.schema.names or "body" in rows.schema.names:
        yield from _groups_by_bytes(rows, "data" if "data" in rows.schema.names else "body")
        return
    at_once = min(GROUP_ROWS, max(1, GROUP_BYTES // per_row))
    for first in range(0, rows.num_rows, at_once):
        yield rows.slice(first, at_once)


def _groups_by_bytes(rows: pa.Table, column: str) -> Iterator[pa.Table]:
    """Each value of a column may be of another length."""
    lengths = pc.fill_null(pc.binary_length(rows[column]), 0).to_pylist()
    first = held = 0
    for at, length in enumerate(lengths):
        if at > first and (held + length > GROUP_BYTES or at - first == GROUP_ROWS):
            yield rows.slice(first, at - first)
            first, held = at, 0
        held += length
    yield rows.slice(first)
