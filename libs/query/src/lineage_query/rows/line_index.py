r"""A sparse index from rows and lines to bytes.

An index has two counts of a file at every :data:`STRIDE` bytes: of *row ends* as Hadoop's line
reader sees them (``\n``, ``\r\n`` and a lone ``\r``; an end lies at its last byte) and of *line
ends* as grep sees them (``\n``). They differ only by lone ``\r``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lineage_core.contract.block import I64, U64

STRIDE = 16 << 10
"""Bytes between two counts: 16 bytes of index for each, one small read for a row."""
BOM = b"\xef\xbb\xbf"
NEWLINE, RETURN = 10, 13


@dataclass(frozen=True, slots=True, eq=False)
class LineIndex:
    """Counts before each stride: ``row_ends``, ``line_ends`` (int64, strides + 1).

    ``size`` is that of the decompressed bytes; ``closed``: the last byte ends a row (and
    ``closed_line``: a line).
    """

    size: int
    bom: bool
    closed: bool
    closed_line: bool
    row_ends: I64
    line_ends: I64

    @property
    def lone_returns(self) -> bool:
        """Whether some row ends at a position that is not the end of a line."""
        return int(self.row_ends[-1]) != int(self.line_ends[-1])

    @property
    def rows(self) -> int:
        """Rows that Hadoop reads from the whole file."""
        # A file with only a byte order mark has no rows for Hadoop.
        if self.size == 0 or (self.bom and self.size == len(BOM)):
            return 0
        return int(self.row_ends[-1]) + (not self.closed)

    @property
    def lines(self) -> int:
        """Lines that grep -n counts."""
        return int(self.line_ends[-1]) + (self.size > 0 and not self.closed_line)


def build(blocks: Iterable[bytes]) -> LineIndex:
    """Index a file from its bytes in order (blocks of any size)."""
    row_counts: list[npt.NDArray[np.intp]] = []
    line_counts: list[npt.NDArray[np.intp]] = []
    size, head, last = 0, b"", -1
    for block, following in _with_next(_in_full_strides(blocks)):
        if not size:
            head = block[: len(BOM)]
        codes = np.frombuffer(block, np.uint8)
        lines = codes == NEWLINE
        ends = lines | lone_returns(block, codes, following) if b"\r" in block else lines
        line_counts.append(_per_stride(lines))
        row_counts.append(line_counts[-1] if ends is lines else _per_stride(ends))
        size += len(block)
        last = block[-1]
    return LineIndex(
        size,
        head == BOM,
        last in (NEWLINE, RETURN),
        last == NEWLINE,
        _running(row_counts),
        _running(line_counts),
    )


def lone_returns(
    block: bytes, codes: npt.NDArray[np.uint8], following: int
) -> npt.NDArray[np.bool_]:
    r"""Where a ``\r`` has no ``\n`` after it; ``following`` is the byte after the block, or -1."""
    lone: npt.NDArray[np.bool_] = codes == RETURN
    lone[:-1] &= codes[1:] != NEWLINE
    if block.endswith(b"\r") and following == NEWLINE:
        lone[-1] = False
    return lone


def ends_in(block: bytes, following: int, *, rows: bool) -> I64:
    """Offsets in a block of its row ends, or of its line ends."""
    codes = np.frombuffer(block, np.uint8)
    ends = codes == NEWLINE
    if rows and b"\r" in block:
        ends |= lone_returns(block, codes, following)
    return np.flatnonzero(ends)


def stride_of(counts: I64, ordinals: U64 | I64) -> I64:
    """The stride that holds the n-th end (from 1); the last one for ends that do not exist."""
    at: I64 = np.searchsorted(counts, ordinals.astype(np.int64), side="left") - 1
    # Not np.clip, which is several times slower for the few values of a query.
    return np.minimum(np.maximum(at, 0), max(0, len(counts) - 2))


def _running(counts: list[npt.NDArray[np.intp]]) -> I64:
    return np.concatenate([np.zeros(1, np.int64), *counts]).cumsum(dtype=np.int64)


def _per_stride(marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    full_stride_bytes = len(marks) // STRIDE * STRIDE
    counts: npt.NDArray[np.intp] = np.count_nonzero(
        marks[:full_stride_bytes].reshape(-1, STRIDE), axis=1
    )
    if full_stride_bytes == len(marks):
        return counts
    return np.append(counts, np.count_nonzero(marks[full_stride_bytes:]))


def _in_full_strides(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in blocks of whole strides, except the last."""
    rest = b""
    for block in blocks:
        rest = rest + block if rest else block
        full_stride_bytes = len(rest) // STRIDE * STRIDE
        if full_stride_bytes:
            yield rest[:full_stride_bytes]
            rest = rest[full_stride_bytes:]
    if rest:
        yield rest


def _with_next(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Each block with the first byte of the next one (-1 after the last)."""
    held: bytes | None = None
    for block in blocks:
        if held is not None:
            yield held, block[0]
        held = block
    if held is not None:
        yield held, -1
