"""Places and decimal numbers in a byte buffer, found and parsed in columns.

All of it goes in pieces that stay in the processor's cache: columns of whole blocks would cost
more in page faults than in arithmetic. Eight digits are read as one 64-bit word and turned into a number by three multiplications (SWAR);
a number of up to 20 digits takes three words.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lineage_core.contract.block import I64, U64

U8: TypeAlias = npt.NDArray[np.uint8]
Mask: TypeAlias = npt.NDArray[np.bool_]

PAD = 24
"""Bytes that a buffer needs before the first number: words end where a number ends."""
DIGITS_MAX = 20
_PIECE_BYTES = 2**16
_PIECE_NUMBERS = 2**13

_u = np.uint64
_ZEROS = _u(0x3030303030303030)
_SIXES = _u(0x0606060606060606)
_HIGH = _u(0xF0F0F0F0F0F0F0F0)
_LAST_BYTES: U64 = np.array([0] + [2**64 - 2 ** (64 - 8 * n) for n in range(1, 9)], np.uint64)
"""Mask of the last ``n`` bytes in memory of a little-endian word."""
_FIRST_BYTES = [2 ** (8 * n) - 1 for n in range(9)]
_E8, _E16 = _u(10**8), _u(10**16)
_TOP, _REST = divmod(2**64 - 1, 10**16)


def words_of(buffer: U8) -> U64:
    """Little-endian 64-bit words that begin at each byte of a buffer (a view, unaligned)."""
    return np.ndarray((max(len(buffer) - 7, 0),), "<u8", buffer, strides=(1,))


def parse_numbers(buffer: U8, start: I64, stop: I64) -> tuple[U64, Mask]:
    """Parse the numbers at ``start[i]`` to ``stop[i]`` (exclusive).

    Every place must begin at least :data:`PAD` bytes behind the begin of the buffer.

    Returns:
        The numbers, and a mask of the places that hold none: not decimal digits only, a leading
        zero, no digit at all, or above 2**64 - 1. Numbers under the mask are arbitrary.
    """
    words = words_of(buffer)
    value, bad = np.empty(len(start), np.uint64), np.empty(len(start), np.bool_)
    for at in range(0, len(start), _PIECE_NUMBERS):
        piece = slice(at, at + _PIECE_NUMBERS)
        value[piece], bad[piece] = _parse_piece(buffer, words, start[piece], stop[piece])
    return value, bad


def differs_from_index(buffer: U8, start: I64, stop: I64) -> Mask:
    """Mask of the places ``start[i]`` to ``stop[i]`` that do not hold ``i`` in decimal digits.

    Places as for :func:`parse_numbers`; at most 100,000,000 of them.
    """
    words = words_of(buffer)
    bad = np.empty(len(start), np.bool_)
    for at in range(0, len(start), _PIECE_NUMBERS):
        piece = slice(at, min(at + _PIECE_NUMBERS, len(start)))
        expected, mask, length = _numerals(at)
        count = piece.stop - at
        bad[piece] = (stop[piece] - start[piece]) != length[:count]
        bad[piece] |= ((words[stop[piece] - 8] ^ expected[:count]) & mask[:count]) != 0
    return bad


@lru_cache(maxsize=64)  # all that a block can have, in 2 MiB
def _numerals(first: int) -> tuple[U64, U64, I64]:
    """Of a piece of numbers from ``first``: their digits as the last bytes of words, masks, lengths."""
    number = np.arange(first, first + _PIECE_NUMBERS, dtype=np.uint64)
    word, length = np.zeros_like(number), np.zeros(len(number), np.int64)
    remaining = number
    for digit_index in range(8):
        has_digit = (remaining > 0) if digit_index else np.ones(len(number), np.bool_)
        digit = (remaining % _u(10) + _u(48)) << _u(8 * (7 - digit_index))
        word |= np.where(has_digit, digit, _u(0))
        length += has_digit
        remaining = remaining // _u(10)
    return word, _LAST_BYTES[length], length


def _parse_piece(buffer: U8, words: U64, start: I64, stop: I64) -> tuple[U64, Mask]:
    length = stop - start
    longest = int(length.max(initial=0))
    bad: Mask = (length < 1) | (length > DIGITS_MAX)
    bad |= (length > 1) & (buffer[start] == 48)
    value, wrong = _parse_eight_digits(words, stop - 8, length)
    bad |= wrong
    if longest > 8:
        _add_longer(words, stop, length, value, bad)
    return value, bad


def _add_longer(words: U64, stop: I64, length: I64, value: U64, bad: Mask) -> None:
    """Add to ``value`` the digits before the last eight, in place."""
    long_rows = np.flatnonzero(length > 8)
    all_long = len(long_rows) == len(length)
    at = stop if all_long else stop[long_rows]
    size = length if all_long else length[long_rows]
    middle, wrong = _parse_eight_digits(words, at - 16, size - 8)
    low = middle * _E8 + (value if all_long else value[long_rows])
    if int(size.max()) > 16:
        high, wrong_high = _parse_eight_digits(words, at - 24, size - 16)
        wrong |= wrong_high
        wrong |= (high > _u(_TOP)) | ((high == _u(_TOP)) & (low > _u(_REST)))
        low += high * _E16
    if all_long:
        value[:] = low
        bad |= wrong
    else:
        value[long_rows] = low
        bad[long_rows] |= wrong


def _parse_eight_digits(words: U64, at: I64, length: I64) -> tuple[U64, Mask]:
    """The numbers in the last ``length`` (0 to 8, or clipped to that) bytes of words at ``at``."""
    word = words[at]
    word ^= _ZEROS
    word &= _LAST_BYTES[np.clip(length, 0, 8)]
    bad: Mask = (((word + _SIXES) | word) & _HIGH) != 0
    word *= _u(2561)
    word >>= _u(8)
    word &= _u(0x00FF00FF00FF00FF)
    word *= _u(6553601)
    word >>= _u(16)
    word &= _u(0x0000FFFF0000FFFF)
    word *= _u(42949672960001)
    word >>= _u(32)
    return word, bad


def lacks_prefix(buffer: U8, start: I64, prefix: bytes) -> Mask:
    """Mask of the places whose bytes do not begin with ``prefix``.

    Places are in order.
    """
    words = words_of(buffer)
    bad: Mask = np.zeros(len(start), np.bool_)
    # A word at the end of the last prefixes would lie beyond the buffer.
    inside = int(np.searchsorted(start, len(buffer) - len(prefix) - 8, side="right"))
    for row in range(inside, len(start)):
        at = int(start[row])
        bad[row] = buffer[at : at + len(prefix)].tobytes() != prefix
    parts = [prefix[at : at + 8] for at in range(0, len(prefix), 8)]
    expected_words = [
        (_u(int.from_bytes(part, "little")), _u(_FIRST_BYTES[len(part)])) for part in parts
    ]
    for first in range(0, inside, _PIECE_NUMBERS):
        piece = slice(first, min(first + _PIECE_NUMBERS, inside))
        position = start[piece].copy()
        for expected, mask in expected_words:
            bad[piece] |= ((words[position] ^ expected) & mask) != 0
            position += 8
    return bad


def find_bytes(buffer: U8, codes: tuple[int, ...]) -> I64:
    """Where bytes of one of the ``codes`` stand, in order."""
    positions = [np.empty(0, np.int64)]
    if not codes:
        return positions[0]
    mask, same = np.empty(_PIECE_BYTES, np.bool_), np.empty(_PIECE_BYTES, np.bool_)
    for at in range(0, len(buffer), _PIECE_BYTES):
        piece = buffer[at : at + _PIECE_BYTES]
        marks, matches = mask[: len(piece)], same[: len(piece)]
        np.equal(piece, codes[0], out=marks)
        for code in codes[1:]:
            np.equal(piece, code, out=matches)
            marks |= matches
        positions.append(np.flatnonzero(marks) + at)
    return np.concatenate(positions)
