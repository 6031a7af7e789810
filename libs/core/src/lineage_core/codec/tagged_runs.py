"""Tagged ranges as bytes, as they go from one process of a trace to another: columns as those of blocks, compressed."""

from __future__ import annotations

import struct

import numpy as np

from lineage_core.codec.number_columns import pack_numbers, unpack_numbers
from lineage_core.codec.zstd import compress, decompress
from lineage_core.tracing.tagged import TaggedRuns

_COUNT = struct.Struct("<I")
_BYTES_MAX = 1 << 31


def pack_tagged(rows: TaggedRuns) -> bytes:
    """Pack rows; at most 2**32 - 1."""
    columns = (rows.tag.astype(np.uint64), rows.first, rows.last - rows.first)
    numbers = (*columns, rows.reason.astype(np.uint64))
    flags = np.packbits(rows.each).tobytes()
    return compress(b"".join((_COUNT.pack(len(rows)), flags, *map(pack_numbers, numbers))))


def unpack_tagged(packed: bytes) -> TaggedRuns:
    """The rows.

    Raises:
        RecordBatchError: the bytes are no such rows.
        BlockError: as above.
    """
    content = memoryview(decompress(packed, _BYTES_MAX))
    (count,) = _COUNT.unpack_from(content)
    flags = -(-count // 8)
    at = _COUNT.size
    packed_flags = np.frombuffer(content[at : at + flags], np.uint8)
    each = np.unpackbits(packed_flags, count=count).astype(np.bool_)
    content = content[at + flags :]
    columns = []
    for name in ("tag", "first", "last", "reason"):
        column, content = unpack_numbers(content, count, name)
        columns.append(column)
    tag, first, length, reason = columns
    return TaggedRuns(tag.astype(np.int64), first, first + length, each, reason.astype(np.int64))
