"""Columns of unsigned 64-bit numbers in few bytes, to be compressed afterwards.

A column is a mode, and by mode:

========  =========================================================================
``STEP``  first number and difference: every number is the one before plus that
``FROM``  smallest number, then each number less that
``DIFF``  first number, then each difference to the one before, zigzag
========  =========================================================================

Numbers are written in as few bytes as the largest needs, all lowest bytes first, then all second
bytes and so on: the high bytes are nearly all zero, and a compressor takes them for nothing.
All arithmetic is modulo 2**64.
"""

from __future__ import annotations

import struct

import numpy as np

from lineage_core.contract.block import U64
from lineage_core.errors import BlockError

STEP, FROM, DIFF = 0, 1, 2
_HEAD = struct.Struct("<BBQQ")
_ONE = np.uint64(1)


def pack_numbers(numbers: U64) -> bytes:
    """Pack a column; its length is not stored."""
    if len(numbers) == 0:
        return b""
    differences = numbers[1:] - numbers[:-1]
    first = int(numbers[0])
    if len(differences) == 0 or bool((differences == differences[0]).all()):
        step = int(differences[0]) if len(differences) else 0
        return _HEAD.pack(STEP, 0, first, step)
    low = numbers.min()
    spread = int(numbers.max() - low)
    folded = _zigzag(differences)
    swing = int(folded.max())
    if _width(swing) < _width(spread) or (swing < spread // 8):
        return _HEAD.pack(DIFF, _width(swing), first, 0) + _planes(folded, _width(swing))
    return _HEAD.pack(FROM, _width(spread), int(low), 0) + _planes(numbers - low, _width(spread))


def unpack_numbers(packed: memoryview, length: int, where: str) -> tuple[U64, memoryview]:
    """A column of ``length`` numbers, and the bytes after it.

    Raises:
        BlockError: the bytes do not hold such a column; ``where`` is given on.
    """
    if length == 0:
        return np.empty(0, np.uint64), packed
    if len(packed) < _HEAD.size:
        raise BlockError("ends too early", where=where)
    mode, width, first, step = _HEAD.unpack_from(packed)
    packed = packed[_HEAD.size :]
    stored = {STEP: 0, FROM: length, DIFF: length - 1}.get(mode)
    if stored is None or width > 8:
        raise BlockError(f"mode {mode}, width {width} is not known", where=where)
    if len(packed) < stored * width:
        raise BlockError("ends too early", where=where)
    if mode == STEP:
        steps = np.arange(length, dtype=np.uint64) * np.uint64(step)
        return steps + np.uint64(first), packed
    numbers = _from_planes(packed[: stored * width], stored, width)
    packed = packed[stored * width :]
    if mode == FROM:
        return numbers + np.uint64(first), packed
    column = np.empty(length, np.uint64)
    column[0] = first
    column[1:] = (numbers >> _ONE) ^ (~(numbers & _ONE) + _ONE)
    return np.cumsum(column, dtype=np.uint64), packed


def _zigzag(differences: U64) -> U64:
    """0, -1, 1, -2 ... as 0, 1, 2, 3 ..."""
    signed = differences.view(np.int64)
    return (differences << _ONE) ^ (signed >> np.int64(63)).view(np.uint64)


def _width(largest: int) -> int:
    return (largest.bit_length() + 7) // 8


def _planes(numbers: U64, width: int) -> bytes:
    octets = np.ascontiguousarray(numbers).astype("<u8").view(np.uint8).reshape(-1, 8)
    return np.ascontiguousarray(octets[:, :width].T).tobytes()


def _from_planes(packed: memoryview, length: int, width: int) -> U64:
    octets = np.zeros((length, 8), np.uint8)
    octets[:, :width] = np.frombuffer(packed, np.uint8).reshape(width, length).T
    return octets.view("<u8").reshape(-1).astype(np.uint64)
