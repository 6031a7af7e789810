"""Arrow streams and Parquet files, a batch of items at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any, cast

from lineage_query.exports.tables import TableBatch, encodable_text

if TYPE_CHECKING:
    import pyarrow as pa

GROUP_ROWS = 50_000
"""Rows of one row group of a Parquet file; its columns are in memory until it is written."""
GROUP_BYTES = 8 << 20
"""Bytes of Arrow columns after which a row group is written all the same: rows may be long."""


def write_arrow(batches: Iterable[TableBatch], facts: Mapping[str, str], stream: IO[bytes]) -> None:
    """Write the items of a trace as an Arrow IPC stream; its schema's metadata describe the trace (``about``)."""
    import pyarrow as pa

    schema = _schema(facts)
    # Typed by its behaviour: the stubs accept only files.
    sink = cast(Any, CountedStream(stream))
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(_columns(batch, schema))


def write_parquet(
    batches: Iterable[TableBatch], facts: Mapping[str, str], stream: IO[bytes]
) -> None:
    """Write the items of a trace as a Parquet file (zstd); its metadata describe the trace (``about``)."""
    import pyarrow.parquet as pq

    schema = _schema(facts)
    sink = cast(Any, CountedStream(stream))
    # Addresses and texts hardly repeat: a dictionary of them would only be held in memory.
    repeated: Any = ["role", "node", "name", "binding", "app"]
    with pq.ParquetWriter(sink, schema, compression="zstd", use_dictionary=repeated) as writer:
        for table in _row_groups(batches, schema):
            writer.write_table(table)


def _schema(facts: Mapping[str, str]) -> pa.Schema:
    import pyarrow as pa

    dictionary_text = pa.dictionary(pa.int32(), pa.string())
    return pa.schema(
        [
            pa.field("role", dictionary_text, nullable=False),
            pa.field("node", dictionary_text, nullable=False),
            pa.field("name", dictionary_text, nullable=False),
            pa.field("address", pa.string(), nullable=False),
            pa.field("location", pa.string()),
            pa.field("text", pa.string()),
            pa.field("exact", pa.bool_(), nullable=False),
            pa.field("binding", pa.string()),
            pa.field("app", dictionary_text, nullable=False),
        ],
        metadata={f"lineage.{key}": encodable_text(text) for key, text in facts.items()},
    )


def _columns(batch: TableBatch, schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    rows = len(batch.items)
    columns: list[pa.Array[Any]] = [
        *(_same(text, rows) for text in (batch.role, batch.node, batch.name)),
        _texts([item.address for item in batch.items]),
        _texts([item.location for item in batch.items]),
        _texts([item.text for item in batch.items]),
        pa.array(batch.exact, pa.bool_()),
        pa.array([item.binding for item in batch.items], pa.string()),
        _same(batch.app, rows),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _same(text: str, rows: int) -> pa.Array[Any]:
    """One text for all rows."""
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(
        pa.array([0] * rows, pa.int32()), pa.array([encodable_text(text)], pa.string())
    )


def _texts(texts: list[str | None]) -> pa.Array[Any]:
    import pyarrow as pa

    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if t is None else encodable_text(t) for t in texts], pa.string())


def _row_groups(batches: Iterable[TableBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """Batches together until they are worth a row group."""
    import pyarrow as pa

    record_batches: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        record_batches.append(_columns(batch, schema))
        rows += record_batches[-1].num_rows
        size += record_batches[-1].nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.Table.from_batches(record_batches, schema)
            record_batches, rows, size = [], 0, 0
    if record_batches:
        yield pa.Table.from_batches(record_batches, schema)


class CountedStream:
    """A stream for pyarrow that need not support tell() (a pipe), and is not closed."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._at = 0
        self.closed = False
        self.mode = "wb"

    def write(self, part: Any) -> int:
        self._stream.write(part)
        size = memoryview(part).nbytes
        self._at += size
        return size

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False
