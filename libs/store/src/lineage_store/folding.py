"""Messages that are stored as what differs from an earlier message of their type.

A streaming query may run for months, and what is recorded of its batches is the same but for files, numbers and times. The text of one
such message is kept once (its recipe, say), and others refer to it.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from lineage_core.codec.zstd import compress, decompress
from lineage_core.contract.message import MESSAGE_BYTES_MAX
from lineage_core.errors import RecordBatchError
from lineage_store.errors import StoreError

LEVEL = 9
"""Of zstd and deflate: a message is written once, and takes a millisecond at most."""
WINDOW_BYTES = 32 << 10
"""How far back deflate looks: of a longer base, its end counts."""


class FoldedBody(NamedTuple):
    """A stored body (``folded``) with the stored body of the message that it refers to."""

    folded: bytes
    base: str | bytes


Body = str | bytes | FoldedBody
"""A stored body: as it is, compressed, or folded."""


def packed_body(body: str) -> bytes:
    """The body of a recipe's message, compressed."""
    return compress(body.encode(), LEVEL)


def folded_body(body: str, base: str) -> bytes:
    """A body as what differs from another's."""
    packer = zlib.compressobj(LEVEL, zdict=_dictionary(base))
    return packer.compress(body.encode()) + packer.flush()


def expanded_body(body: Body) -> str:
    """The text of a stored body.

    Raises:
        StoreError: the bytes are damaged, or are not of this base.
    """
    if isinstance(body, str):
        return body
    if isinstance(body, bytes):
        try:
            return decompress(body, MESSAGE_BYTES_MAX).decode()
        except (RecordBatchError, UnicodeDecodeError) as error:
            raise StoreError(f"a stored message can't be read: {error}") from error
    return _unfolded(body.folded, expanded_body(body.base))


def _unfolded(folded: bytes, base: str) -> str:
    # The format has checksums of the base and of the text: neither is mistaken for another.
    unpacker = zlib.decompressobj(zdict=_dictionary(base))
    try:
        text = unpacker.decompress(folded, MESSAGE_BYTES_MAX)
        if not unpacker.eof:
            raise StoreError("a stored message is cut short, or too long")
        return text.decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise StoreError(f"a stored message can't be read: {error}") from error


def _dictionary(base: str) -> bytes:
    return base.encode()[-WINDOW_BYTES:]
