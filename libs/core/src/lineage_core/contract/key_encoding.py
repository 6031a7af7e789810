"""Canonical encodings of keys: equal keys, and only they, have one encoding.

Every encoding begins with the tag of its type and contains its own length.

==========================  ======================================================================
keys                        encoding
==========================  ======================================================================
``None``                    ``N``
text                        ``s``, length, UTF-8 (lone surrogates as three bytes each)
bytes                       ``b``, length, bytes
whole numbers               ``i`` and 8 bytes signed, beyond these ``I``, length, signed bytes
other real numbers          ``q``, numerator and denominator in lowest terms, each encoded;
                            ``+`` and ``-`` infinite
complex, imaginary not 0    ``c``, real part, imaginary part
tuples                      ``(``, length, elements
frozensets                  ``{``, length, encodings of the elements in order
date, naive datetime        ``d``, ``D``: days, days and microseconds
aware datetime              ``U``: microseconds from year 1 in UTC
naive and aware time        ``t``, ``T``: microseconds
timedelta                   ``e``: microseconds, 16 bytes signed
UUID                        ``u``, 16 bytes
the program's own classes   ``O``, the parts that its equality and hash compare, as a tuple: *not canonical*,
                            but equal for equal keys; where the parts are known
anything else               ``o``, Python's hash: *not canonical*
==========================  ======================================================================

Subclasses count as their base if they take over its equality and hash (named tuples, pyspark's
Row); NumPy's scalars count as the Python values that they equal.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final
from uuid import UUID

import numpy as np

_BITS_MAX: Final = 2**14
"""Numbers with a longer numerator or denominator are not canonical: encoding them costs too much."""
_DEPTH_MAX: Final = 32
_DECIMAL_DIGITS_MAX: Final = 20_000
"""A decimal exponent beyond this implies a number beyond ``_BITS_MAX``."""
SIGNED_MAX: Final = 2**63
_UNSIGNED_MASK: Final = 2**64 - 1
_MICROSECOND: Final = dt.timedelta(microseconds=1)
_YEAR_1: Final = dt.datetime.min  # noqa: DTZ901 - naive on purpose, as the keys are


class _NotCanonicalError(Exception):
    """The key has no canonical encoding."""


PartsOf = Callable[[object], "tuple[object, ...] | None"]
"""The values that equality and hash of a key of the program's own class compare; None: not known."""


class Encoder:
    """Encodes one key.

    ``canonical`` turns False when a part of it has no canonical encoding, ``hashed`` turns True when
    a part is known by its hash only. ``parts_of``: what keys of the program's own classes compare.
    """

    __slots__ = ("canonical", "hashed", "parts_of")

    def __init__(self, parts_of: PartsOf | None = None) -> None:
        self.canonical = True
        self.hashed = False
        self.parts_of = parts_of

    def encode(self, key: Any, depth: int = 0) -> bytes:
        kind = type(key)
        if kind is str:
            return _text(key)
        if kind is tuple:
            return self._tuple(key, depth)
        try:
            handler = _BY_TYPE.get(kind) or _handler_of(kind)
            if handler is not None:
                return handler(self, key, depth)
        except (_NotCanonicalError, ArithmeticError, ValueError):
            pass
        return self.encode_opaque(key, depth)

    def encode_opaque(self, key: object, depth: int) -> bytes:
        self.canonical = False
        parts = None if self.parts_of is None else self.parts_of(key)
        if parts is not None and depth < _DEPTH_MAX:
            return b"O" + self._tuple(parts, depth)
        self.hashed = True
        return b"o" + (hash(key) & _UNSIGNED_MASK).to_bytes(8, "little")

    def _tuple(self, key: Any, depth: int) -> bytes:
        if depth >= _DEPTH_MAX:
            return self.encode_opaque(key, depth)
        parts = [_tag_and_length(b"(", len(key))]
        parts += [self.encode(part, depth + 1) for part in tuple.__iter__(key)]
        return b"".join(parts)

    def _frozenset(self, key: Any, depth: int) -> bytes:
        if depth >= _DEPTH_MAX:
            return self.encode_opaque(key, depth)
        parts = sorted(self.encode(part, depth + 1) for part in frozenset.__iter__(key))
        return b"".join([_tag_and_length(b"{", len(parts)), *parts])

    def _float(self, key: Any, depth: int) -> bytes:
        number = float.__float__(key)
        if number.is_integer():
            return _int(int(number))
        if number - number != 0:
            return self._not_finite(number)
        return _ratio(*number.as_integer_ratio())

    def _not_finite(self, number: Any) -> bytes:
        if np.isnan(number):  # NaN has one position, though no NaN is the key that another is.
            self.canonical, self.hashed = False, True
            return b"n"
        return b"+" if number > 0 else b"-"

    def _decimal(self, key: Decimal, depth: int) -> bytes:
        if Decimal.is_nan(key):
            self.canonical, self.hashed = False, True
            return b"n"
        if Decimal.is_infinite(key):
            return b"-" if Decimal.is_signed(key) else b"+"
        exponent = _exponent(key)
        if Decimal.is_zero(key):
            return _int(0)
        if Decimal.adjusted(key) > _DECIMAL_DIGITS_MAX or exponent < -_DECIMAL_DIGITS_MAX:
            raise _NotCanonicalError
        return _ratio(*Decimal.as_integer_ratio(key))

    def _complex(self, key: Any, depth: int) -> bytes:
        real, imaginary = key.real, key.imag
        if imaginary == 0:
            return self._float(float(real), depth)
        return b"c" + self._float(float(real), depth) + self._float(float(imaginary), depth)

    def _longdouble(self, key: Any, depth: int) -> bytes:
        if not np.isfinite(key):
            return self._not_finite(key)
        return _ratio(*key.as_integer_ratio())

    def _datetime(self, key: Any, depth: int) -> bytes:
        base = dt.datetime.replace(key, tzinfo=None, fold=0)
        naive: int = (base - _YEAR_1) // _MICROSECOND
        offset = _offset(self, key)
        if offset is None:
            return b"D" + naive.to_bytes(8, "little", signed=True)
        return b"U" + (naive - offset // _MICROSECOND).to_bytes(8, "little", signed=True)

    def _time(self, key: Any, depth: int) -> bytes:
        naive = ((key.hour * 60 + key.minute) * 60 + key.second) * 10**6 + key.microsecond
        offset = _offset(self, key)
        if offset is None:
            return b"t" + int(naive).to_bytes(8, "little", signed=True)
        return b"T" + int(naive - offset // _MICROSECOND).to_bytes(8, "little", signed=True)

    def _datetime64(self, key: Any, depth: int) -> bytes:
        self.canonical, self.hashed = False, True
        instant = key.astype("M8[us]")
        if np.isnat(instant) or instant != key or not isinstance(instant.item(), dt.datetime):
            return self.encode_opaque(key, depth)
        return self._datetime(instant.item(), depth)

    def _timedelta64(self, key: Any, depth: int) -> bytes:
        self.canonical, self.hashed = False, True
        span = key.astype("m8[us]")
        if np.isnat(span) or span != key or not isinstance(span.item(), dt.timedelta):
            return self.encode_opaque(key, depth)
        return _timedelta(self, span.item(), depth)


def _text(key: str) -> bytes:
    text = utf8(key)
    return (_TEXT_HEADS[len(text)] if len(text) < 256 else _tag_and_length(b"s", len(text))) + text


def _tag_and_length(tag: bytes, length: int) -> bytes:
    return tag + length.to_bytes(8, "little")


_TEXT_HEADS: Final = [_tag_and_length(b"s", length) for length in range(256)]
_TUPLE_HEADS: Final = [_tag_and_length(b"(", length) for length in range(256)]


def plain_tuple(key: tuple[object, ...]) -> bytes | None:
    """The encoding of a tuple of just texts and whole numbers, the common composite key."""
    if len(key) > 255:
        return None
    encoding = _TUPLE_HEADS[len(key)]
    for part in key:
        if type(part) is str:
            encoding += _text(part)
        elif type(part) is int and -SIGNED_MAX <= part < SIGNED_MAX:
            encoding += b"i" + part.to_bytes(8, "little", signed=True)
        else:
            return None
    return encoding


def utf8(key: str) -> bytes:
    try:
        return str.encode(key)
    except UnicodeEncodeError:
        return str.encode(key, "utf-8", "surrogatepass")


def _int(key: int) -> bytes:
    if -SIGNED_MAX <= key < SIGNED_MAX:
        return b"i" + key.to_bytes(8, "little", signed=True)
    bits = key.bit_length()
    if bits > _BITS_MAX:
        raise _NotCanonicalError
    size = bits // 8 + 1
    return _tag_and_length(b"I", size) + key.to_bytes(size, "little", signed=True)


def _ratio(numerator: int, denominator: int) -> bytes:
    if denominator == 1:
        return _int(numerator)
    return b"q" + _int(numerator) + _int(denominator)


def _exponent(key: Decimal) -> int:
    """The exponent of a finite decimal without trailing zeros in its digits."""
    _, digits, exponent = Decimal.as_tuple(key)
    trailing = 0
    for digit in reversed(digits):
        if digit:
            break
        trailing += 1
    return int(exponent) + trailing


def _offset(encoder: Encoder, key: Any) -> dt.timedelta | None:
    """The UTC offset that equality and hash use; ambiguous ones are not canonical."""
    if key.tzinfo is None:
        return None
    first: dt.timedelta | None = key.replace(fold=0).utcoffset()
    if first != key.replace(fold=1).utcoffset():
        encoder.canonical, encoder.hashed = False, True
    return first


def _timedelta(encoder: Encoder, key: Any, depth: int) -> bytes:
    return b"e" + int(key // _MICROSECOND).to_bytes(16, "little", signed=True)


_Handler = Callable[[Encoder, Any, int], bytes]

_BASES: Final[dict[type, _Handler]] = {
    type(None): lambda encoder, key, depth: b"N",
    str: lambda encoder, key, depth: _text(key),
    bytes: lambda encoder, key, depth: _tag_and_length(b"b", len(key)) + bytes(key),
    int: lambda encoder, key, depth: _int(int.__int__(key)),
    float: Encoder._float,
    complex: Encoder._complex,
    Decimal: Encoder._decimal,
    Fraction: lambda encoder, key, depth: _ratio(key.numerator, key.denominator),
    tuple: Encoder._tuple,
    frozenset: Encoder._frozenset,
    dt.datetime: Encoder._datetime,
    dt.date: lambda encoder, key, depth: b"d" + key.toordinal().to_bytes(4, "little"),
    dt.time: Encoder._time,
    dt.timedelta: _timedelta,
    UUID: lambda encoder, key, depth: b"u" + key.bytes,
}
_NUMPY: Final[tuple[tuple[type, _Handler], ...]] = (
    (np.bool_, lambda encoder, key, depth: _int(int(key))),
    (np.datetime64, Encoder._datetime64),
    (np.timedelta64, Encoder._timedelta64),  # before integer, which NumPy derives it from
    (np.integer, lambda encoder, key, depth: _int(int(key))),
    (np.longdouble, Encoder._longdouble),
    (np.floating, lambda encoder, key, depth: encoder._float(float(key), depth)),
    (np.clongdouble, lambda encoder, key, depth: encoder.encode_opaque(key, depth)),
    (np.complexfloating, lambda encoder, key, depth: encoder._complex(complex(key), depth)),
    (np.str_, lambda encoder, key, depth: _text(str.__str__(key))),
    (np.bytes_, lambda encoder, key, depth: encoder.encode(bytes(key), depth)),
)
_BY_TYPE: dict[type, _Handler] = {**_BASES, bool: _BASES[int]}
_BY_TYPE_MAX: Final = 4096


def _handler_of(kind: type) -> _Handler | None:
    """How keys of a type are encoded; None if they are not canonical. Remembers what it finds."""
    encode_kind: _Handler | None = None
    if issubclass(kind, np.generic):
        encode_kind = next((handler for base, handler in _NUMPY if issubclass(kind, base)), None)
    else:
        base = next((base for base in kind.__mro__ if base in _BASES), None)
        if base is not None and _takes_over(kind, base):
            encode_kind = _BASES[base]
    if encode_kind is not None and len(_BY_TYPE) < _BY_TYPE_MAX:
        _BY_TYPE[kind] = encode_kind
    return encode_kind


def _takes_over(kind: type, base: type) -> bool:
    """Whether a subclass has the equality and the hash of its base."""
    return kind.__hash__ is base.__hash__ and kind.__eq__ is base.__eq__
