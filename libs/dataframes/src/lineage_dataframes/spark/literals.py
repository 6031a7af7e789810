"""Constants as Spark SQL text that reads back as the very value."""

from __future__ import annotations

import base64
import datetime
import decimal
import math
from collections.abc import Sequence
from typing import Any

from lineage_core.recipe.plan import Literal
from lineage_dataframes.errors import RefusedError

RELATIVE_TOLERANCE = 1e-9
"""Relative difference up to which two doubles are the same value: sums of doubles differ with their order."""

FLOATING_TYPES = {"double", "float"}
"""Types, as Spark names them, whose sums differ with their order."""


_ESCAPES = {"\\": "\\\\", "'": "\\'", "\0": "\\u0000", "$": "\\u0024"}


def string_constant(value: str) -> str:
    """A string constant. ``$`` begins what Spark may replace before it reads a statement, so it is written by its code."""
    return "'" + "".join(_ESCAPES.get(sign, sign) for sign in value) + "'"


def quoted_name(name: str) -> str:
    """A column's name."""
    return f"`{name.replace('`', '``')}`"


def recipe_constant(literal: Literal) -> str:
    """A recipe's constant."""
    kind, value = literal.type, literal.value
    if value is None:
        return "NULL" if kind == "void" else f"CAST(NULL AS {kind})"
    if kind == "boolean":
        return value
    if kind == "int":
        return (
            f"({value})" if value.startswith("-") and value != "-2147483648" else _cast(value, kind)
        )
    if kind.startswith("string") and "collate" not in kind:
        return string_constant(value)
    return _cast(value, kind)


def constant(value: Any, kind: str) -> str:
    """A Python value of a column of the type ``kind`` (as Spark or Arrow give it).

    Raises:
        RefusedError: a constant can't be written for such a value.
    """
    if value is None:
        return f"CAST(NULL AS {kind})"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        if kind == "timestamp_ntz":
            return f"CAST({string_constant(value.isoformat(' '))} AS TIMESTAMP_NTZ)"
        return f"TIMESTAMP_MICROS({_epoch_micros(value)})"
    if isinstance(value, bytes | bytearray):
        return f"UNBASE64('{base64.b64encode(bytes(value)).decode()}')"
    if isinstance(value, float):
        return _cast(_double_text(value), "float" if kind == "float" else "double")
    if isinstance(value, decimal.Decimal):
        return _cast(f"{value:f}", kind)
    if isinstance(value, int | str | datetime.date):
        return _cast(str(value), kind)
    raise RefusedError(f"a value of type {kind} can't be compared")


def value_condition(column: str, value: Any, kind: str) -> str:
    """The condition that ``column`` holds ``value``; doubles count as equal when they are `RELATIVE_TOLERANCE`."""
    if isinstance(value, float) and math.isnan(value):
        # A comparison would be asked of a Parquet file's least and greatest values, which leave NaN out.
        return f"coalesce(isnan({column}), false)"
    if isinstance(value, float) and kind in {"float", "double"} and math.isfinite(value):
        near = max(abs(value) * RELATIVE_TOLERANCE, 1e-300)
        return f"({column} BETWEEN {_cast(repr(value - near), 'double')} AND {_cast(repr(value + near), 'double')})"
    return f"{column} <=> {constant(value, kind)}"


def stored_otherwise(value: Any) -> bool:
    """Whether Parquet's filters may miss rows that hold the value, when it is compared as a constant."""
    return isinstance(value, float) and (math.isnan(value) or value == 0)


def comparable(kind: str) -> bool:
    """Whether values of the type can be compared with a constant."""
    return not kind.startswith(("map", "variant", "array", "struct", "interval", "void")) and bool(
        kind
    )


def any_of(conditions: Sequence[str]) -> str:
    """The disjunction."""
    return "(" + " OR ".join(conditions) + ")" if conditions else "false"


def all_of(conditions: Sequence[str]) -> str:
    """The conjunction."""
    return "(" + " AND ".join(conditions) + ")" if conditions else "true"


def hash_term(terms: Sequence[str], salt: int = 0) -> str:
    """A 64-bit hash of a key: Spark's passes over NULLs, so where they are is hashed, too."""
    if not terms:
        return "CAST(0 AS BIGINT)"
    parts = [part for term in terms for part in (term, f"isnull({term})")]
    return f"xxhash64({', '.join([str(salt), *parts])})"


def _cast(value: str, kind: str) -> str:
    return f"CAST({string_constant(value)} AS {kind})"


def _double_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return repr(value) if math.isfinite(value) else ("Infinity" if value > 0 else "-Infinity")


def _epoch_micros(value: datetime.datetime) -> int:
    if value.tzinfo is None:
        value = value.astimezone()
    since = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
