"""Positions of keys: equal keys get equal positions in every process.

Equal means Python's equality, as a dict sees it: ``1 == 1.0 == True == Decimal(1)``. The position
is the 64-bit XXH3 of the key's encoding (:mod:`lineage_core.contract.key_encoding`). A text alone is
hashed as its UTF-8 with seed 1, a whole number of 64 bits as its eight bytes with seed 2, without
the tag: the common cases are fast. Everything else has seed 0.

Keys of the program's own classes whose equality and hash compare known parts have the position of
these parts (:func:`positions_of`). For other keys that are not canonical, positions are only as distinct as ``hash``:
their lineage is a superset. These are keys of other types, or of subclasses with an equality of their own, and
NaN (it does not equal itself), numbers beyond 2**16384, times whose UTC offset is ambiguous,
NumPy's times, tuples nested deeper than 32, and tuples and sets that hold any of these. Two keys
in 2**64 may share a position by chance; code that holds all keys of a space can detect it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from lineage_core.contract.block import U64
from lineage_core.contract.key_encoding import SIGNED_MAX, Encoder, PartsOf, plain_tuple, utf8

_SEED_TEXT: Final = 1
_SEED_INT: Final = 2
_FILE_NODE: Final = re.compile(r"file\.[0-9a-f]{16}")
_FAST: Final = frozenset((str, int))
_xxh3: Callable[[bytes, int], int] = xxh3_64_intdigest


class KeyPositions(NamedTuple):
    """Positions of keys (uint64, one each) and what their equality means.

    ``canonical``: all equal keys, of any type, have one position. ``hashed``: the position of a key
    is only as distinct as its hash. Keys of the program's own classes are neither: equal ones have one
    position, keys of other types that equal them may have another.
    """

    positions: U64
    canonical: bool
    hashed: bool


def positions_of(keys: Sequence[object], parts_of: PartsOf) -> KeyPositions:
    """Positions of keys, those of the program's own classes by the parts that they compare.

    Raises:
        TypeError: a key is not hashable.
    """
    kinds = set(map(type, keys))
    if kinds <= _FAST:
        return KeyPositions(*key_positions(keys), hashed=False)
    positions = np.empty(len(keys), np.uint64)
    canonical, hashed = True, False
    for number, key in enumerate(keys):
        position = _common_type_position(key)
        if position is not None:
            positions[number] = position
            continue
        encoder = Encoder(parts_of)
        positions[number] = _encoded_position(key, encoder)
        canonical, hashed = canonical and encoder.canonical, hashed or encoder.hashed
    return KeyPositions(positions, canonical, hashed)


def key_position(key: object) -> tuple[int, bool]:
    """Position of a key, and whether it is canonical: the same for all equal keys, everywhere.

    Raises:
        TypeError: the key is not hashable.
    """
    position = _common_type_position(key)
    if position is not None:
        return position, True
    encoder = Encoder()
    return _encoded_position(key, encoder), encoder.canonical


def _common_type_position(key: object) -> int | None:
    """Position of a key of the common types; None for others."""
    if type(key) is str:
        return text_position(key)
    if type(key) is int and -SIGNED_MAX <= key < SIGNED_MAX:
        return _xxh3(key.to_bytes(8, "little", signed=True), _SEED_INT)
    if type(key) is tuple and (plain := plain_tuple(key)) is not None:
        return _xxh3(plain, 0)
    return None


def _encoded_position(key: object, encoder: Encoder) -> int:
    encoding = encoder.encode(key)
    if encoding[0] == 0x69:  # i: a whole number of another type
        return _xxh3(encoding[1:], _SEED_INT)
    if encoding[0] == 0x73:  # s: a text of another type
        return _xxh3(encoding[9:], _SEED_TEXT)
    return _xxh3(encoding, 0)


def text_position(text: str) -> int:
    """Position of a text as a key; also of the opaque strings of an SDK in their space."""
    try:
        return _xxh3(text.encode(), _SEED_TEXT)
    except UnicodeEncodeError:
        return _xxh3(utf8(text), _SEED_TEXT)


def file_node(place: str) -> str:
    """The node whose items are the bytes of a file, in each application."""
    return f"file.{text_position(place):016x}"


def is_file_node(node: str) -> bool:
    """Whether a node's items are the bytes of a file."""
    return _FILE_NODE.fullmatch(node) is not None


def key_positions(keys: Sequence[object]) -> tuple[U64, bool]:
    """Positions of keys (uint64, one each), and whether all of them are canonical.

    Raises:
        TypeError: a key is not hashable.
    """
    kinds = set(map(type, keys))
    if kinds == {str}:
        return text_positions(keys), True  # type: ignore[arg-type]
    if kinds == {int} and (integer_positions := _integer_positions(keys)) is not None:  # type: ignore[arg-type]
        return integer_positions, True
    positions_and_canonical = list(map(key_position, keys))
    positions = np.fromiter(
        (position for position, _ in positions_and_canonical),
        np.uint64,
        len(positions_and_canonical),
    )
    return positions, all(canonical for _, canonical in positions_and_canonical)


def _integer_positions(keys: Sequence[int]) -> U64 | None:
    """Positions of whole numbers, or None when one does not fit 64 bits."""
    try:
        raw = np.array(keys, "<i8").tobytes()
    except OverflowError:
        return None
    parts = (raw[at : at + 8] for at in range(0, len(raw), 8))
    return np.fromiter(map(_xxh3, parts, repeat(_SEED_INT)), np.uint64, len(keys))


def text_positions(texts: Sequence[str]) -> U64:
    """Positions of texts: uint64, one each."""
    try:
        positions = map(_xxh3, map(str.encode, texts), repeat(_SEED_TEXT))
        return np.fromiter(positions, np.uint64, len(texts))
    except UnicodeEncodeError:
        return np.fromiter(map(text_position, texts), np.uint64, len(texts))
