"""Zstandard by Arrow's codec, with a bound on what comes out."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lineage_core.errors import RecordBatchError

if TYPE_CHECKING:
    import pyarrow as pa

_MAGIC = b"\x28\xb5\x2f\xfd"


@cache
def _codec(level: int) -> pa.Codec:
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=level)


def compress(content: bytes, level: int = 1) -> bytes:
    """Compress to one zstd frame that states the content's size."""
    packed: bytes = _codec(level).compress(content, asbytes=True)
    return packed


def decompress(packed: bytes, size_max: int) -> bytes:
    """Decompress one zstd frame of at most ``size_max`` bytes of content.

    Raises:
        RecordBatchError: it is no such frame, or its content is larger.
    """
    size = _content_size(packed)
    if size > size_max:
        raise RecordBatchError(
            f"{size} bytes of content, at most {size_max} are read", where="zstd"
        )
    try:
        content: bytes = _codec(1).decompress(packed, decompressed_size=size, asbytes=True)
    except (OSError, ValueError) as error:
        raise RecordBatchError(str(error), where="zstd") from error
    if len(content) != size:
        raise RecordBatchError(f"{len(content)} bytes of content, {size} announced", where="zstd")
    return content


def _content_size(packed: bytes) -> int:
    """The content size that a zstd frame states (RFC 8878, section 3.1.1.1)."""
    if packed[:4] != _MAGIC or len(packed) < 6:
        raise RecordBatchError("not a zstd frame", where="zstd")
    descriptor = packed[4]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    at = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    if not width or len(packed) < at + width:
        raise RecordBatchError("does not state the size of its content", where="zstd")
    return int.from_bytes(packed[at : at + width], "little") + (256 if width == 2 else 0)
