"""Values of rows in a form in which equal ones have equal bits."""

from __future__ import annotations

import datetime
import math
import struct
from collections import Counter
from typing import Any

from lineage_dataframes.sources.lossy_formats import TRIMMED_CHARACTERS
from lineage_dataframes.spark import literals

FIRST_TIME = datetime.datetime(1, 1, 1, tzinfo=datetime.UTC)


def instant(value: datetime.datetime) -> datetime.timedelta | datetime.datetime:
    """What orders times as Spark does. Of one zone Python compares wall clocks, where clocks that are put back show an hour twice."""
    offset = value.utcoffset()
    if offset is None:
        return value
    # As a duration, since a time in UTC may be before the year 1.
    return value.replace(tzinfo=datetime.UTC) - FIRST_TIME - offset


def exact(value: Any) -> Any:
    """A value so that equal ones have equal bits: NaN equals NaN, zeros differ by their signs."""
    if isinstance(value, datetime.datetime):
        return (type(value).__name__, instant(value))
    if isinstance(value, float):
        return ("NaN",) if math.isnan(value) else ("double", struct.pack(">d", value))
    if isinstance(value, dict):
        return tuple((name, exact(entry)) for name, entry in value.items())
    if isinstance(value, list | tuple):
        return tuple(map(exact, value))
    return (type(value).__name__, value)


def is_near(first: Any, second: Any) -> bool:
    """Whether two values in the form of `exact` are doubles that differ in their last digits alone."""
    if not (isinstance(first, tuple) and isinstance(second, tuple)):
        return False
    if (first[:1], second[:1]) != (("double",), ("double",)):
        return False
    (one,), (other,) = struct.unpack(">d", first[1]), struct.unpack(">d", second[1])
    return math.isclose(one, other, rel_tol=literals.RELATIVE_TOLERANCE)


def as_written(value: Any, written: str | None) -> str:
    """A text in the form of `exact`, as files of a format give it back, NULL as the empty one."""
    _, text = value
    return (text or "").strip(TRIMMED_CHARACTERS) if written == "csv" else text or ""


def taken(counts: Counter[tuple[Any, ...]], row: tuple[Any, ...]) -> bool:
    """Take one of a row from ``counts``; False where none is left."""
    if not counts[row]:
        return False
    counts[row] -= 1
    return True
