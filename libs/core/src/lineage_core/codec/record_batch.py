"""Record batches of a spool file: one block each, one after another.

====================  =================================================================
bytes                 what
====================  =================================================================
4                     ``LMF1``
4                     length of the header, unsigned little-endian
that many             header: JSON (:class:`lineage_core.codec.csv_codec.BlockHeader`)
4                     length of the payload, unsigned little-endian
that many             payload: the block's CSV, compressed with zstd
4                     CRC-32 of header and payload, unsigned little-endian
====================  =================================================================

A writer that is killed leaves whole record batches and at most one incomplete one at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO
from zlib import crc32

from lineage_core.codec.csv_cells import CSV_BYTES_MAX as CONTENT_BYTES_MAX
from lineage_core.codec.zstd import compress
from lineage_core.codec.zstd import decompress as _decompress
from lineage_core.contract.block_header import HEADER_BYTES_MAX
from lineage_core.errors import RecordBatchError, TruncatedRecordBatchError

__all__ = [
    "CONTENT_BYTES_MAX",
    "HEADER_BYTES_MAX",
    "PAYLOAD_BYTES_MAX",
    "RecordBatch",
    "compress",
    "decompress_payload",
    "pack_record_batch",
    "read_record_batches",
]

RECORD_BATCH_MAGIC = b"LMF1"
PAYLOAD_BYTES_MAX = 64 * 2**20
"""Longest compressed payload in bytes."""
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A record batch as read; ``payload`` is compressed (see :func:`decompress_payload`).

    It takes the bytes ``offset`` to ``stop`` (exclusive), counted from where reading began.
    """

    header: bytes
    payload: bytes
    offset: int
    stop: int


def decompress_payload(payload: bytes) -> bytes:
    """The CSV in the payload of a record batch.

    Raises:
        RecordBatchError: it can't be decompressed, or is longer than ``CONTENT_BYTES_MAX``.
    """
    return _decompress(payload, CONTENT_BYTES_MAX)


def pack_record_batch(header: bytes, payload: bytes) -> bytes:
    """Make a record batch of a header and a payload that :func:`compress` made.

    Raises:
        RecordBatchError: one of them is longer than readers accept.
    """
    _check_length(len(header), HEADER_BYTES_MAX, "header")
    _check_length(len(payload), PAYLOAD_BYTES_MAX, "payload")
    check = crc32(payload, crc32(header))
    return b"".join(
        (
            RECORD_BATCH_MAGIC,
            _LENGTH.pack(len(header)),
            header,
            _LENGTH.pack(len(payload)),
            payload,
            _LENGTH.pack(check),
        )
    )


def read_record_batches(stream: IO[bytes]) -> Iterator[RecordBatch]:
    """Read record batches up to the end of a stream; lengths are checked before anything is read.

    Raises:
        TruncatedRecordBatchError: the stream ends within a record batch. ``where`` names its offset;
            those before it have been yielded.
        RecordBatchError: the bytes at ``where`` are not a record batch.
    """
    offset = 0
    while magic := _read(stream, len(RECORD_BATCH_MAGIC)):
        record_batch = _read_record_batch(stream, magic, offset)
        yield record_batch
        offset = record_batch.stop


def _read_record_batch(stream: IO[bytes], magic: bytes, offset: int) -> RecordBatch:
    where = f"byte {offset}"
    if not RECORD_BATCH_MAGIC.startswith(magic):
        raise RecordBatchError("not a record batch", where=where)
    if len(magic) < len(RECORD_BATCH_MAGIC):
        raise TruncatedRecordBatchError("the file ends within a record batch", where=where)
    header = _read_part(stream, HEADER_BYTES_MAX, "header", where)
    payload = _read_part(stream, PAYLOAD_BYTES_MAX, "payload", where)
    (check,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size, where))
    if check != crc32(payload, crc32(header)):
        raise RecordBatchError("its checksum is wrong", where=where)
    size = len(RECORD_BATCH_MAGIC) + 3 * _LENGTH.size + len(header) + len(payload)
    return RecordBatch(header, payload, offset, offset + size)


def _read_part(stream: IO[bytes], longest: int, part: str, where: str) -> bytes:
    (length,) = _LENGTH.unpack(_read_exactly(stream, _LENGTH.size, where))
    _check_length(length, longest, f"{where}, {part}")
    return _read_exactly(stream, length, where)


def _check_length(length: int, longest: int, where: str) -> None:
    if length > longest:
        raise RecordBatchError(f"{length} bytes, at most {longest} are read", where=where)


def _read_exactly(stream: IO[bytes], size: int, where: str) -> bytes:
    content = _read(stream, size)
    if len(content) < size:
        raise TruncatedRecordBatchError("the file ends within a record batch", where=where)
    return content


def _read(stream: IO[bytes], size: int) -> bytes:
    """Read ``size`` bytes, fewer only at the end of the stream."""
    content = stream.read(size)
    if len(content) == size or not content:
        return content
    parts = [content]
    missing_bytes = size - len(content)
    while missing_bytes and (content := stream.read(missing_bytes)):
        parts.append(content)
        missing_bytes -= len(content)
    return b"".join(parts)
