"""Join columns in few bytes, as Redis keeps them.

A side is kept in two parts. Its *mark* is small and read for every block of a space: bounds, and
all there is of a dense side. Its *columns* are read only where the bounds say that they matter; short
ones stand behind the mark.

==========  ======================================================================================
part        bytes
==========  ======================================================================================
mark        flags ``<B``, low and high ``<QQ``, runs ``<I`` (dense: row of the first position), then,
            if the flags say so, the attempts that were read as text
columns     flags ``<B``, then, perhaps as one zstd frame: first positions, lengths less 1 (unless
            all are one position), rows, each as :mod:`lineage_core.codec.number_columns`
waiting     JSON (one zstd frame, its length before it) with the block's spaces and the lengths of
            what follows, then the marks of the inputs and of each output space
==========  ======================================================================================
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lineage_core.codec.number_columns import pack_numbers, unpack_numbers
from lineage_core.codec.zstd import compress, decompress
from lineage_core.contract.block_check import BLOCK_RUNS_MAX
from lineage_core.contract.region import Region
from lineage_core.errors import BlockError
from lineage_core.linking.attempts import AttemptsRead
from lineage_core.linking.joining import Side

INLINE_MAX = 256
"""Columns of so many bytes stand behind the mark: reading them apart would cost more."""
COMPRESS_MIN = 128
HASH_GAP_BITS = 32
"""Positions that are further apart than this, on average, are hashes."""
COLUMNS_MAX = 128 << 20
"""Bytes of columns that are read: RUNS_MAX runs take less."""
HEAD_MAX = 64 << 20

_MARK = struct.Struct("<BQQI")
_DENSE, _INLINE, _ATTEMPTS = 1, 2, 4
_ZSTD, _POINTS, _DISTINCT = 1, 2, 4
_ENTRY = struct.Struct("<I")
_NOTHING = np.empty(0, np.uint64)
_NO_ROWS = np.empty(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Mark:
    """What is known of a side without its columns. ``columns``: None where they are elsewhere."""

    low: int
    high: int
    runs: int
    row_low: int
    columns: bytes | None
    attempts: AttemptsRead = None

    @property
    def is_all(self) -> bool:
        """Whether there are no columns elsewhere."""
        return self.row_low >= 0 or self.columns is not None

    @property
    def side(self) -> Side | None:
        """The side, where the mark is all of it."""
        if self.row_low >= 0:
            ends = self.low, self.high
            return Side(_NOTHING, _NOTHING, _NO_ROWS, *ends, self.row_low, True, self.attempts)
        return None if self.columns is None else self.with_columns(self.columns)

    def with_columns(self, columns: bytes) -> Side:
        """The side, given its columns.

        Raises:
            BlockError: they are not such.
        """
        if not columns:
            raise BlockError("ends too early", where="columns")
        flags = columns[0]
        content = columns[1:]
        if flags & _ZSTD:
            # Three columns of full width, and the head of each: what says that it holds more is not unpacked.
            content = decompress(content, min(COLUMNS_MAX, 3 * (8 * self.runs + 32)))
        first, remaining = unpack_numbers(memoryview(content), self.runs, "first")
        last = first
        if not flags & _POINTS:
            lengths, remaining = unpack_numbers(remaining, self.runs, "last")
            last = first + lengths
        rows, remaining = unpack_numbers(remaining, self.runs, "row")
        return Side(
            first,
            last,
            rows.astype(np.uint32),
            self.low,
            self.high,
            distinct=bool(flags & _DISTINCT),
            attempts=self.attempts,
        )


def pack_side(side: Side) -> tuple[bytes, bytes]:
    """Mark and columns; no columns where the mark holds them."""
    flags, attempts = 0, b""
    if side.attempts is not None:
        # Columns do not stand behind them: linkers that do not know of attempts read such marks, too.
        flags, attempts = _ATTEMPTS, side.attempts.to_text().encode()
    if side.dense:
        return _MARK.pack(flags | _DENSE, side.low, side.high, side.row_low) + attempts, b""
    columns = _pack_columns(side)
    inline = not flags and len(columns) <= INLINE_MAX
    mark = _MARK.pack(flags or _INLINE * inline, side.low, side.high, len(side.first))
    return (mark + columns, b"") if inline else (mark + attempts, columns)


def read_mark(packed: bytes) -> Mark:
    """Read the mark that :func:`pack_side` made.

    Raises:
        BlockError: it is none.
    """
    if len(packed) < _MARK.size:
        raise BlockError("ends too early", where="mark")
    flags, low, high, number = _MARK.unpack_from(packed)
    attempts = None
    if flags & _ATTEMPTS:
        attempts = Region.from_text(packed[_MARK.size :].decode("ascii", "replace"))
    if flags & _DENSE:
        return Mark(low, high, 0, number, None, attempts)
    if number > BLOCK_RUNS_MAX:
        raise BlockError(f"{number} runs", where="mark")
    columns = packed[_MARK.size :] if flags & _INLINE else None
    return Mark(low, high, number, -1, columns, attempts)


@dataclass(frozen=True, slots=True)
class WaitingEntry:
    """A join entry without its columns: spaces and marks.

    ``inputs``: None where the entry has none. ``outputs``: by space.
    """

    in_space: str
    inputs: bytes | None
    outputs: Mapping[str, bytes]


def pack_waiting(entry: WaitingEntry) -> bytes:
    """The marks of a block that waits."""
    marks = [*([] if entry.inputs is None else [entry.inputs]), *entry.outputs.values()]
    head = {
        "in": entry.in_space,
        "out": list(entry.outputs),
        "inputs": entry.inputs is not None,
        "sizes": [len(mark) for mark in marks],
    }
    text = compress(json.dumps(head, separators=(",", ":")).encode())
    return b"".join((_ENTRY.pack(len(text)), text, *marks))


def unpack_waiting(packed: bytes) -> WaitingEntry:
    """What :func:`pack_waiting` packed.

    Raises:
        BlockError: it did not.
        FrameError: its head can't be decompressed.
    """
    if len(packed) < _ENTRY.size:
        raise BlockError("ends too early", where="waiting")
    (size,) = _ENTRY.unpack_from(packed)
    at = _ENTRY.size + size
    head = _read_head(decompress(packed[_ENTRY.size : at], HEAD_MAX))
    if at + sum(head.sizes) != len(packed) or len(head.sizes) != len(head.out) + head.inputs:
        raise BlockError("marks of other lengths than its head says", where="waiting")
    marks: list[bytes] = []
    for mark_size in head.sizes:
        marks.append(packed[at : at + mark_size])
        at += mark_size
    inputs = marks.pop(0) if head.inputs else None
    return WaitingEntry(head.in_space, inputs, dict(zip(head.out, marks, strict=True)))


@dataclass(frozen=True, slots=True)
class _Head:
    in_space: str
    out: list[str]
    inputs: bool
    sizes: list[int]


def _read_head(text: bytes) -> _Head:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BlockError(f"not JSON: {error}", where="waiting") from error
    match fields:
        case {"in": str(space), "out": list(out), "inputs": bool(inputs), "sizes": list(sizes)} if (
            all(isinstance(item, str) for item in out)
            and all(type(n) is int and n >= 0 for n in sizes)
        ):
            return _Head(space, out, inputs, sizes)
    raise BlockError("its head has other fields", where="waiting")


def _pack_columns(side: Side) -> bytes:
    points = side.last is side.first
    parts = [pack_numbers(side.first)]
    if not points:
        parts.append(pack_numbers(side.last - side.first))
    parts.append(pack_numbers(side.row.astype(np.uint64)))
    content = b"".join(parts)
    flags = (_POINTS if points else 0) | (_DISTINCT if side.distinct else 0)
    # Hashes of keys don't get shorter; trying costs more than all else here.
    hashes = side.high - side.low > len(side.first) << HASH_GAP_BITS
    if len(content) >= COMPRESS_MIN and not hashes:
        packed = compress(content)
        if len(packed) < len(content):
            return bytes([flags | _ZSTD]) + packed
    return bytes([flags]) + content
