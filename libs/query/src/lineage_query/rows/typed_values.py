"""Values as people type them, compared with what files hold: only where both surely read as Spark reads them.

A trace by values may be silently wrong if a value is parsed in another way than the query parses it. So only texts
in an unambiguous form are accepted; for all others this module raises `UnsureError`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any, TypeAlias, cast
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from lineage_core.contract.block import U64
from lineage_core.contract.iso_times import iso_time

NEAR = 1e-9
"""Relative difference up to which two doubles are one value, as in queries."""
TIME_ZONE = "spark.sql.session.timeZone"
INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Integer types, with their number of bits."""
_SPELLED = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,18})")
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,30})(\.\d{1,30})?")
_REAL = re.compile(r"-?(0|[1-9]\d{0,30})(\.\d{1,30})?(E-?\d{1,3})?")
_NO_NUMBER = {"NaN", "Infinity", "-Infinity"}
"""The texts of non-finite doubles in Spark."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d{1,6})?")
_PYTHON = {
    "string": str, "boolean": bool, "float": float, "double": float, "date": datetime.date,
    "tinyint": int, "smallint": int, "int": int, "bigint": int,
}  # fmt: skip
"""Types of Python's values, by those of Spark's."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
FIRST_YEAR = 1901
_YEARS = range(1971, 2037)
"""Years in which calendars agree and all libraries have the same time zone rules."""
Held: TypeAlias = "pa.Array[Any] | pa.ChunkedArray[Any]"
"""A column of a file."""
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


class UnsureError(Exception):
    """A value that another reader may parse differently: only the query can decide."""


@dataclass(frozen=True)
class RequestedValue:
    """The value to search in a column: ``kind`` as Spark SQL writes its type, ``value`` in Python; None is NULL."""

    kind: str
    value: Any

    def in_arrow(self, held: Held) -> Held:
        """Which of a column's values equal it; booleans without NULLs.

        Raises:
            UnsureError: the type of the column is not the one that Spark assigns to it.
        """
        # It makes a function in Python of each of Arrow's, and most questions name no values.
        import pyarrow.compute as pc

        if self.kind != "timestamp" and held.type != arrow_type(self.kind):
            raise UnsureError
        same: Any
        if self.value is None:
            return cast(Held, pc.is_null(held))
        if self.kind in {"float", "double"}:
            near = _near(self.value)
            wide = held.cast(pa.float64())
            same = pc.and_(
                pc.greater_equal(wide, self.value - near), pc.less_equal(wide, self.value + near)
            )
        elif self.kind == "timestamp":
            micros = pa.scalar(self.value, pa.timestamp("us", held.type.tz))
            same = pc.equal(held.cast(pa.timestamp("us", held.type.tz)), micros)
        else:
            same = pc.equal(held, pa.scalar(self.value, arrow_type(self.kind)))
        return cast(Held, pc.fill_null(same, False))

    def in_text(self, text: str) -> bool:
        """Whether a field of a file of CSV holds it; an empty one is NULL.

        Raises:
            UnsureError: another reader may see another value.
        """
        if text == "":
            return self.value is None
        # Spark may read a text that is not a value of the type as NULL, or fail: the result is unsure.
        return self.equals(text if self.kind == "string" else _read(text, self.kind))

    def in_json(self, held: Any) -> bool:
        """Whether a value of a JSON object, with numbers as `Decimal`, is it.

        Raises:
            UnsureError: another reader may see another value.
        """
        if held is None:
            return self.value is None
        if self.kind == "boolean":
            if not isinstance(held, bool):
                raise UnsureError
            return bool(held == self.value)
        if self.kind in {"string", "date"}:
            if not isinstance(held, str):
                raise UnsureError
            return self.equals(held if self.kind == "string" else _read(held, self.kind))
        if isinstance(held, bool) or not isinstance(held, Decimal | int):
            raise UnsureError
        if self.kind in {"float", "double"}:
            real = float(Decimal(held))
            return self.equals(real if self.kind == "double" else _single(real))
        return self.equals(_read(str(held) if isinstance(held, int) else f"{held:f}", self.kind))

    def equals(self, held: Any) -> bool:
        """Whether a value, read by the type, is it."""
        if self.value is None:
            return False
        if self.kind in {"float", "double"}:
            return bool(abs(held - self.value) <= _near(self.value))
        return bool(held == self.value)


def places_where(masks: Sequence[Held], rows: int) -> U64:
    """The places, from 0, of ``rows`` rows at which all masks hold."""
    fulfilled = np.ones(rows, np.bool_)
    for mask in masks:
        fulfilled &= np.asarray(mask, np.bool_)
    return np.flatnonzero(fulfilled).astype(np.uint64)


def arrow_type(kind: str) -> pa.DataType:
    """The type in Arrow of values that Spark, Arrow and Python certainly read as the same value.

    Raises:
        UnsureError: those of the type they may not.
    """
    plain: dict[str, pa.DataType] = {
        "string": pa.string(),
        "boolean": pa.bool_(),
        "float": pa.float32(),
        "double": pa.float64(),
        "date": pa.date32(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
    }
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is not None:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if kind not in plain:
        raise UnsureError
    return plain[kind]


def array_of(values: Sequence[Any], kind: str) -> pa.Array[Any]:
    """Values of a column of the type ``kind``, as Spark returns them to Python, in Arrow as Spark writes them.

    Raises:
        UnsureError: they may not be the same.
    """
    type_ = arrow_type(kind)
    for value in values:
        if value is not None and type(value) is not _PYTHON.get(kind, Decimal):
            raise UnsureError
        if isinstance(value, datetime.date) and value.year < FIRST_YEAR:
            raise UnsureError
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, OverflowError, UnicodeError) as problem:
        raise UnsureError from problem


def requested_value(text: str | None, kind: str, settings: Mapping[str, str]) -> RequestedValue:
    """A value that somebody typed, or NULL, of a column.

    Args:
        text: the value; None is NULL.
        kind: the column's type as Spark SQL or a schema's JSON has it.
        settings: of the job.

    Raises:
        UnsureError: Spark may parse it differently or reject it.
    """
    kind = _SPELLED.get(kind, kind)
    if kind != "timestamp":
        arrow_type(kind)
    if text is None:
        return RequestedValue(kind, None)
    if kind == "timestamp":
        return RequestedValue(kind, _instant(text, settings.get(TIME_ZONE, "")))
    value = text if kind == "string" else _read(text, kind)
    if isinstance(value, float) and not np.isfinite(value):
        raise UnsureError
    # Files of old writers have days of another calendar.
    if isinstance(value, datetime.date) and value.year < FIRST_YEAR:
        raise UnsureError
    return RequestedValue(kind, value)


def _read(text: str, kind: str) -> Any:
    """A value by its text."""
    if kind in INTEGERS:
        value, bits = int(_fully(_INTEGER, text)), INTEGERS[kind]
        if not -(1 << (bits - 1)) <= value < 1 << (bits - 1):
            raise UnsureError
        return value
    if kind in {"float", "double"}:
        real = float(text if text in _NO_NUMBER else _fully(_REAL, text))
        return real if kind == "double" else _single(real)
    if kind == "boolean":
        if text not in {"true", "false"}:
            raise UnsureError
        return text == "true"
    if kind == "date":
        return _date(text)
    decimal = _DECIMAL.fullmatch(kind)
    if decimal is None:
        raise UnsureError
    return _decimal(_fully(_NUMBER, text), int(decimal[1]), int(decimal[2]))


def _fully(form: re.Pattern[str], text: str) -> str:
    if not text.isascii() or form.fullmatch(text) is None:
        raise UnsureError
    return text


def _single(value: float) -> float:
    """A number rounded to a 32-bit float, if it is not exactly between two of these (parsers may differ then)."""
    with np.errstate(over="ignore"):
        near = np.float32(value)
        other = np.nextafter(near, np.float32(np.copysign(np.inf, value - float(near))))
    if np.isfinite(value) and abs(float(other) - value) == abs(value - float(near)):
        raise UnsureError
    return float(near)


def _near(value: float) -> float:
    return max(abs(value) * NEAR, 1e-300)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    value = Decimal(text)
    with localcontext() as context:
        context.prec = 100
        exact = value.quantize(Decimal(1).scaleb(-scale))
    # Spark rounds numbers with more digits after the point, and can't represent larger numbers.
    if exact != value or len(exact.as_tuple().digits) > precision:
        raise UnsureError
    return exact


def _date(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(_fully(_DATE, text))
    except ValueError:
        raise UnsureError from None


def _instant(text: str, zone: str) -> int:
    """Microseconds since 1970 of a time of day in a time zone."""
    try:
        local = iso_time(_fully(_TIME, text))
        time_zone = ZoneInfo("UTC" if zone in {"UTC", "GMT", "Etc/UTC"} else zone)
    except (ValueError, OSError, KeyError):
        raise UnsureError from None
    at = local.replace(tzinfo=time_zone)
    # At the end of summer time an hour occurs twice, at its start an hour is skipped.
    if local.year not in _YEARS or at.utcoffset() != at.replace(fold=1).utcoffset():
        raise UnsureError
    since = at - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
