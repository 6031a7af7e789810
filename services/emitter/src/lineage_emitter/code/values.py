"""What values of a function may be, and which calls keep nothing of what they are given.

Records are *plain*: of Python's own types, all the way down. Methods of these types keep nothing but
what they are called on, so a function over plain values can only keep a record where it stores it.
"""

from __future__ import annotations

import ast
import base64
import binascii
import builtins
import datetime as dt
import hashlib
import html
import json
import math
import re
import struct
import unicodedata
import urllib.parse
import uuid
import zlib
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any, Final
from zoneinfo import ZoneInfo

from pyspark.sql import Row


class Kind(IntEnum):
    """What a value may be, the most harmless first; of two kinds the greater holds for both."""

    CONSTANT = 0
    """Immutable, and known before the first record."""
    LOCAL = 1
    """Made from the record at work: it may be changed, what is in it may be the record's."""
    RECORD = 2
    """The record at work, or a part of it: it may be read only, for others may hold it too."""
    FLAT = 3
    """A container of constants that outlives the record at work: it may be read only."""
    DEEP = 4
    """The same, with containers in it."""


PLAIN_SCALARS: Final = frozenset(
    [
        str,
        int,
        float,
        bool,
        type(None),
        bytes,
        complex,
        Decimal,
        Fraction,
        uuid.UUID,
        dt.date,
        dt.timedelta,
    ]
)
_WITH_ZONE: Final = frozenset((dt.datetime, dt.time))
_ZONES: Final = frozenset((type(None), dt.timezone, ZoneInfo))
PLAIN_CONTAINERS: Final = frozenset((tuple, list, dict, set, frozenset, Row))
PARTS_MAX: Final = 10_000
"""Parts of a value that are examined; a larger one is not known to be plain."""
_DEPTH_MAX: Final = 16

MUTATING: Final = frozenset(
    [
        "add",
        "append",
        "clear",
        "close",
        "difference_update",
        "discard",
        "extend",
        "insert",
        "intersection_update",
        "pop",
        "popitem",
        "remove",
        "reverse",
        "send",
        "setdefault",
        "sort",
        "symmetric_difference_update",
        "throw",
        "update",
    ]
)
"""Methods of plain types that change what they are called on."""
READING: Final = frozenset(("copy", "count", "get", "index", "items", "keys", "values"))
"""Methods of containers that only read."""
TEXT_METHODS: Final = frozenset(
    name
    for kind in (str, bytes)
    for name in dir(kind)
    if not name.startswith("_") and not any(hasattr(other, name) for other in (list, dict, set))
)
"""Methods that only texts and bytes have: what they give is new."""

_EAGER = ("all", "any", "dict", "frozenset", "list", "max", "min", "set", "sorted", "sum", "tuple")
EAGER: Final = frozenset(getattr(builtins, name) for name in _EAGER)
"""Calls that have read their iterables when they return."""
PASSING_ON: Final = frozenset((max, min, next, sum))
"""Calls that may give the very thing that they are given."""
WITH_CALLBACK: Final = frozenset((sorted, min, max, map, filter))
LAZY: Final = frozenset((map, filter))

_BUILTINS = [
    "abs",
    "ascii",
    "bin",
    "bool",
    "bytes",
    "chr",
    "complex",
    "divmod",
    "enumerate",
    "filter",
    "float",
    "format",
    "hex",
    "int",
    "isinstance",
    "iter",
    "len",
    "map",
    "next",
    "oct",
    "ord",
    "pow",
    "range",
    "repr",
    "reversed",
    "round",
    "slice",
    "str",
    "zip",
]
_IMMUTABLE_RESULTS = [
    "abs",
    "ascii",
    "bin",
    "bool",
    "bytes",
    "chr",
    "complex",
    "float",
    "format",
    "frozenset",
    "hex",
    "int",
    "len",
    "oct",
    "ord",
    "range",
    "repr",
    "round",
    "str",
    "tuple",
]
IMMUTABLE_RESULTS: Final = frozenset(getattr(builtins, name) for name in _IMMUTABLE_RESULTS) | {
    re.compile,
    Decimal,
    dt.date,
    dt.datetime,
    dt.timedelta,
}
"""Calls that give a constant when they are given constants."""
_FUNCTIONS: Final[tuple[Callable[..., Any], ...]] = (
    *EAGER,
    *(getattr(builtins, name) for name in _BUILTINS),
    *(re.compile, re.match, re.search, re.fullmatch, re.split, re.findall, re.finditer, re.escape),
    *(json.loads, json.dumps, struct.pack, struct.unpack, struct.unpack_from),
    *(base64.b64decode, base64.b64encode, binascii.hexlify, binascii.unhexlify),
    *(hashlib.md5, hashlib.sha1, hashlib.sha256, hashlib.blake2b, zlib.crc32, zlib.decompress),
    *(html.escape, html.unescape, unicodedata.normalize),
    *(urllib.parse.quote, urllib.parse.unquote, urllib.parse.urlsplit, urllib.parse.parse_qs),
    *(ast.literal_eval, Decimal, Fraction, uuid.UUID, Row),
    *(dt.date, dt.datetime, dt.time, dt.timedelta),
    *(getattr(math, name) for name in dir(math) if callable(getattr(math, name))),
)
_BY_IDENTITY: Final = {id(function): function for function in _FUNCTIONS}
_CLASS_METHODS: Final = frozenset(
    [(dict, "fromkeys"), (int, "from_bytes"), (float, "fromhex"), (bytes, "fromhex")]
) | {
    (kind, name)
    for kind in (dt.date, dt.datetime)
    for name in ("strptime", "fromisoformat", "fromtimestamp", "combine")
}


def keeps_nothing(function: object) -> bool:
    """Whether a call of ``function`` with plain values keeps none of them, and changes none."""
    if id(function) in _BY_IDENTITY:
        return True
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if not isinstance(name, str):
        return False
    if isinstance(owner, type) and (owner, name) in _CLASS_METHODS:
        return True
    # str.upper and the like, called on the text.
    of_text = getattr(function, "__objclass__", None) in (str, bytes)
    return of_text and name in TEXT_METHODS and type(function) is type(str.upper)


def is_plain(value: object) -> bool:
    """Whether a value is of Python's own types, all the way down."""
    return type(value) in PLAIN_SCALARS or _parts_are_plain(value)


def _is_scalar(value: Any) -> bool:
    kind = type(value)
    return kind in PLAIN_SCALARS or (kind in _WITH_ZONE and type(value.tzinfo) in _ZONES)


def _parts_are_plain(value: object) -> bool:
    level: list[Any] = [value]
    checked_parts = 0
    for _ in range(_DEPTH_MAX):
        below: list[Any] = []
        for part in level:
            kind = type(part)
            if _is_scalar(part):
                continue
            if kind not in PLAIN_CONTAINERS:
                return False
            below += part
            if kind is dict:
                below += part.values()
            elif kind is Row:
                below.append(getattr(part, "__fields__", None))
            checked_parts += len(part) + 1
            if checked_parts > PARTS_MAX:
                return False
        if not below:
            return True
        level = below
    return False


def kind_of(value: object) -> Kind | None:
    """The kind of a value from outside of a function; None where it is of no kind."""
    if isinstance(value, re.Pattern | range) or _is_scalar(value):
        return Kind.CONSTANT
    if value is Ellipsis or value is NotImplemented:
        return Kind.CONSTANT
    if not is_plain(value):
        return None
    if type(value) in (tuple, frozenset, Row):
        return Kind.CONSTANT if _is_frozen(value) else Kind.DEEP
    items = value.values() if isinstance(value, dict) else value
    return Kind.FLAT if all(_is_frozen(item) for item in items) else Kind.DEEP  # type: ignore[attr-defined]


def _is_frozen(value: Any) -> bool:
    if type(value) in (tuple, frozenset, Row):
        return all(map(_is_frozen, value))
    return _is_scalar(value)
