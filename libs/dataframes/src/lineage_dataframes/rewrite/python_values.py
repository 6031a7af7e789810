"""Python values of columns, as Spark, pandas and NumPy give them, in the one form that is compared."""

from __future__ import annotations

import datetime
import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import numpy as np

from lineage_dataframes.errors import RowError

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
"""Whole numbers by their type."""

EXACT_IN_DOUBLE_MAX = 1 << 53
"""Whole numbers up to it are exact in a double."""

SHOWN_MAX = 60

_DECIMAL = re.compile(r"decimal\((\d+), ?(-?\d+)\)")


class WallClock(datetime.datetime):
    """A time as the clock of the session's time zone shows it: pandas and NumPy have no other."""


def to_column_value(value: Any, kind: str, name: str) -> Any:
    """A value of a column as Spark itself gives it; None is NULL.

    What pandas has for values that are missing (NA, NaT, and NaN in columns of no floating numbers) is None.

    Args:
        value: of Python, NumPy or pandas; no text, unless the column holds texts.
        kind: the column's type as recipes have it: one whose values can be compared (`literals.comparable`).
        name: the column, for the error.

    Raises:
        RowError: it is no value of the column, or is ambiguous.
    """
    is_floating = kind in {"float", "double"}
    value = _to_python(value)
    if value is None or (not is_floating and _is_nan(value)):
        return None
    convert = _CONVERTERS.get(kind) or next(
        (converter for start, converter in _CONVERTERS_BY_PREFIX.items() if kind.startswith(start)),
        None,
    )
    if convert is None:
        return value
    try:
        converted = convert(value, kind)
    except (ValueError, OverflowError, InvalidOperation):
        converted = None
    if converted is None:
        raise RowError(f"{_shortened(value)} is no value of {name}, which is {kind}")
    return converted


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def _to_python(value: Any) -> Any:
    """A value of Python in the place of one of NumPy or pandas; None where it is missing."""
    pandas = sys.modules.get("pandas")
    if pandas is not None:
        if value is pandas.NaT or value is pandas.NA:
            return None
        if isinstance(value, pandas.Timestamp):
            if value.nanosecond:
                raise RowError(f"{value} has nanoseconds, and Spark's times have none")
            time = value.to_pydatetime()
            return time if time.tzinfo is not None else _wall_clock(time)
    if isinstance(value, np.datetime64):
        return _from_numpy_time(value)
    if isinstance(value, np.floating):
        return float(value)
    return value.item() if isinstance(value, np.bool_ | np.integer) else value


def _from_numpy_time(value: np.datetime64) -> datetime.datetime | None:
    if np.isnat(value):
        return None
    micros = value.astype("datetime64[us]")
    time = micros.item()
    if micros != value or not isinstance(time, datetime.datetime):
        raise RowError(f"{value} is no time that Spark's columns can hold")
    return _wall_clock(time)


def _wall_clock(time: datetime.datetime) -> WallClock:
    return WallClock.combine(time.date(), time.time())


def _is_nan(value: Any) -> bool:
    return value.is_nan() if isinstance(value, Decimal) else _is_float_nan(value)


def _is_float_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _boolean(value: Any, _kind: str) -> bool | None:
    return value if isinstance(value, bool) else None


def _integer(value: Any, kind: str) -> int | float | None:
    """A whole number: in columns where some are missing pandas makes floating ones of them.

    A floating number stays one where it stands for several.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = int(value)
    if number != value or not -1 << INTEGER_BITS[kind] - 1 <= number <= 1 << INTEGER_BITS[kind] - 1:
        return None
    if isinstance(value, float) and abs(value) > EXACT_IN_DOUBLE_MAX:
        return value
    return number if number < 1 << INTEGER_BITS[kind] - 1 else None


def _floating(value: Any, kind: str) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    number = float(value)
    if isinstance(value, int) and int(number) != value:
        return None
    if kind == "double" or not math.isfinite(number):
        return number
    with np.errstate(over="ignore"):
        single = float(np.float32(number))
    return single if math.isfinite(single) else None


def _decimal(value: Any, kind: str) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    sizes = _DECIMAL.fullmatch(kind)
    if sizes is None:
        return None
    digits, scale = int(sizes[1]), int(sizes[2])
    with localcontext(prec=1000):
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        number = exact.quantize(Decimal(1).scaleb(-scale))
        return (
            number if number == exact and abs(number) < Decimal(1).scaleb(digits - scale) else None
        )


def _text(value: Any, _kind: str) -> str | None:
    return str(value) if isinstance(value, str) else None


def _binary(value: Any, _kind: str) -> bytes | None:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None


def _date(value: Any, _kind: str) -> datetime.date | None:
    if not isinstance(value, datetime.datetime):
        return value if isinstance(value, datetime.date) else None
    # pandas and NumPy have midnights for dates.
    is_midnight = value.time() == datetime.time() and value.tzinfo is None
    return value.date() if is_midnight else None


def _time(value: Any, _kind: str) -> datetime.datetime | None:
    return value if isinstance(value, datetime.datetime) else None


def _time_without_zone(value: Any, _kind: str) -> datetime.datetime | None:
    has_no_zone = isinstance(value, datetime.datetime) and value.tzinfo is None
    return datetime.datetime.combine(value.date(), value.time()) if has_no_zone else None


_Convert = Callable[[Any, str], Any]

_CONVERTERS: dict[str, _Convert] = {
    "boolean": _boolean,
    **dict.fromkeys(INTEGER_BITS, _integer),
    "float": _floating,
    "double": _floating,
    "binary": _binary,
    "date": _date,
    "timestamp": _time,
    "timestamp_ntz": _time_without_zone,
}
_CONVERTERS_BY_PREFIX: dict[str, _Convert] = {"decimal(": _decimal, "string": _text}
"""Types that have parameters, by their beginning."""
