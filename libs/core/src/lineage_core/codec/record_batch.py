"""Frames of a spool file: one block each, behind one another.

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

A writer that dies leaves whole frames and at most one begun frame at the end.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO
from zlib import crc32

from lineage_core.codec.csv_cells import PAYLOAD_BYTES_MAX as CONTENT_BYTES_MAX
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
    "decompress",
    "pack_record_batch",
    "read_record_batches",
]

MAGIC = b"LMF1"
PAYLOAD_BYTES_MAX = 64 * 2**20
"""Longest compressed payload in bytes."""
_LENGTH = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """A frame as read; ``payload`` is compressed (see :func:`decompress`).

    The frame takes the bytes ``offset`` to ``stop`` (exclusive), counted from where reading began.
    """

    header: bytes
    payload: bytes
    offset: int
    stop: int


def decompress(payload: bytes) -> bytes:
    """The CSV in a frame's payload.

    Raises:
        FrameError: it can't be decompressed, or is longer than ``CONTENT_BYTES_MAX``.
    """
    return _decompress(payload, CONTENT_BYTES_MAX)


def pack_record_batch(header: bytes, payload: bytes) -> bytes:
    """Make a frame of a header and a payload that :func:`compress` made.

    Raises:
        FrameError: one of them is longer than readers accept.
    """
    _check_length(len(header), HEADER_BYTES_MAX, "header")
    _check_length(len(payload), PAYLOAD_BYTES_MAX, "payload")
    check = crc32(payload, crc32(header))
    return b"".join(
        (
            MAGIC,
            _LENGTH.pack(len(header)),
            header,
            _LENGTH.pack(len(payload)),
            payload,
            _LENGTH.pack(check),
        )
    )


def read_record_batches(stream: IO[bytes]) -> Iterator[RecordBatch]:
    """Read frames up to the end of a stream; lengths are bounded before anything is read.

    Raises:
        TruncatedFrameError: the stream ends within a frame. ``where`` names the frame's offset;
            frames before it have been given out.
        FrameError: the bytes at ``where`` are not a frame.
    """
    offset = 0
    while magic := _read(stream, len(MAGIC)):
        frame = _read_record_batch(stream, magic, offset)
        yield frame
        offset = frame.stop


def _read_record_batch(stream: IO[bytes], magic: bytes, offset: int) -> RecordBatch:
    where = f"byte {offset}"
    if not MAGIC.startswith(magic):
        raise RecordBatchError("not a frame", where=where)
    if len(magic) < len(MAGIC):
        raise TruncatedRecordBatchError("the file ends within a frame", where=where)
    header = _read_part(stream, HEADER_BYTES_MAX, "header", where)
    payload = _read_part(stream, PAYLOAD_BYTES_MAX, "payload", where)
    (check,) = _LENGTH.unpack(_read_whole(stream, _LENGTH.size, where))
    if check != crc32(payload, crc32(header)):
        raise RecordBatchError("its checksum is wrong", where=where)
    size = len(MAGIC) + 3 * _LENGTH.size + len(header) + len(payload)
    return RecordBatch(header, payload, offset, offset + size)


def _read_part(stream: IO[bytes], longest: int, part: str, where: str) -> bytes:
    (length,) = _LENGTH.unpack(_read_whole(stream, _LENGTH.size, where))
    _check_length(length, longest, f"{where}, {part}")
    return _read_whole(stream, length, where)


def _check_length(length: int, longest: int, where: str) -> None:
    if length > longest:
        raise RecordBatchError(f"{length} bytes, at most {longest} are read", where=where)


def _read_whole(stream: IO[bytes], size: int, where: str) -> bytes:
    found = _read(stream, size)
    if len(found) < size:
        raise TruncatedRecordBatchError("the file ends within a frame", where=where)
    return found


def _read(stream: IO[bytes], size: int) -> bytes:
    """Read ``size`` bytes, fewer only at the end of the stream."""
    found = stream.read(size)
    if len(found) == size or not found:
        return found
    parts = [found]
    missing = size - len(found)
    while missing and (found := stream.read(missing)):
        parts.append(found)
        missing -= len(found)
    return b"".join(parts)
