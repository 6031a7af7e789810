"""Footers of files of Parquet, which nothing in the format guards: their digest is in the file's name."""

from __future__ import annotations

import hashlib
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lineage_store.lake.file_names import footer_digest_in

TAIL_BYTES: Final = 64 << 10
"""What is read of the end at first: most footers are smaller."""
END_BYTES: Final = 8
"""After the metadata: its length in four bytes, and "PAR1"."""


def footer_bytes(stream: pa.NativeFile) -> bytes:
    """The end of a file from its metadata on.

    Raises:
        ArrowInvalid: the file is shorter than its footer says.
        OSError: the storage can't be read.
    """
    size = stream.size()
    length = min(size, TAIL_BYTES)
    tail = _read_at(stream, size - length, length)
    length = int.from_bytes(tail[-END_BYTES:][:4], "little") + END_BYTES
    if length > size:
        raise pa.ArrowInvalid(f"its footer would have {length:,} bytes of {size:,}")
    return tail[-length:] if length <= len(tail) else _read_at(stream, size - length, length)


def _read_at(stream: pa.NativeFile, offset: int, length: int) -> bytes:
    stream.seek(offset)
    return stream.read(length)


def digest_of_footer(footer: bytes) -> str:
    """What names of files say of their footers."""
    return hashlib.blake2b(footer, digest_size=16).hexdigest()


def read_footer(stream: pa.NativeFile, path: str) -> pq.FileMetaData:
    """The metadata of a file, parsed only where its bytes are those that were written.

    A bit that changed in statistics would hide rows, and in others ends the process: Arrow can't refuse all of them.

    Raises:
        ArrowInvalid: the bytes are others.
        OSError: the storage can't be read.
    """
    footer = footer_bytes(stream)
    written = footer_digest_in(path)
    if written and digest_of_footer(footer) != written:
        raise pa.ArrowInvalid("its footer has other bytes than were written")
    return pq.read_metadata(pa.BufferReader(footer))
