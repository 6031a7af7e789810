"""Aggregates of a group without some of its rows, from the group's values: no row is read again.

Each aggregate is prepared once for a group, and then gives its value without the rows of one witness. A value is *sure* where Spark gives just this one
when it runs the group without these rows, in whatever order. Sums and averages of doubles are computed exactly and rounded once, while Spark adds in the
order of the rows: they are not sure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import pyarrow as pa

from lineage_dataframes.trace.exact_values import instant

SUM_OF_LONGS_MAX = 2**63
EXACT_IN_DOUBLE = 2**53
DOUBLE_ERROR = Fraction(4, 10**15)
"""Spark averages short decimals in doubles: of a result of so many units, this part may be wrong."""
DECIMAL = Context(prec=80, rounding=ROUND_HALF_UP)


@dataclass(frozen=True, slots=True)
class Without:
    """A value without some rows. ``sure``: Spark gives just this one."""

    value: Any
    sure: bool


Aggregate: TypeAlias = Callable[[Sequence[int]], Without]
"""From numbers of rows that are left out to the value without them."""


def aggregate_of(
    fn: str, values: Sequence[Any], kind: pa.DataType, result: str
) -> Aggregate | None:
    """An aggregate over a group, without some of its rows.

    Args:
        fn: its name in Spark's SQL.
        values: one a row; None where a row does not count: its value is NULL, or a filter leaves it out.
        kind: their type.
        result: the type of the aggregate in Spark's DDL.

    Returns:
        None where there is no closed form: the function or the type is another one.
    """
    if fn == "count":
        return _count(values)
    if fn in {"min", "max"}:
        # Texts of another collation have another order.
        if pa.types.is_string(kind) and result != "string":
            return None
        return _extreme(values, kind, greatest=fn == "max")
    if fn in {"sum", "avg"} and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
        return _exact_sum(values, kind, result, average=fn == "avg")
    if fn in {"sum", "avg"} and pa.types.is_floating(kind):
        return _double_sum(values, average=fn == "avg")
    return None


def _count(values: Sequence[Any]) -> Aggregate:
    total = sum(value is not None for value in values)
    return lambda rows: Without(total - sum(values[n] is not None for n in rows), True)


def _extreme(values: Sequence[Any], kind: pa.DataType, *, greatest: bool) -> Aggregate | None:
    types = pa.types
    is_double = types.is_floating(kind)
    plain = (
        types.is_integer,
        types.is_decimal,
        types.is_boolean,
        types.is_date,
        types.is_timestamp,
        types.is_string,
    )
    if not is_double and not any(is_kind(kind) for is_kind in plain):
        return None

    def key(n: int) -> Any:
        if types.is_timestamp(kind):
            return instant(values[n])
        # NaN is greater than any other number.
        return (math.isnan(values[n]), values[n]) if is_double else values[n]

    counted = [n for n, value in enumerate(values) if value is not None]
    counted.sort(key=key, reverse=greatest)

    def without(rows: Sequence[int]) -> Without:
        left_out = set(rows)
        first = next((n for n in counted if n not in left_out), None)
        value = None if first is None else values[first]
        # Zeros of both signs are equal: which one is given depends on the order of the rows.
        return Without(value, not (is_double and value == 0))

    return without


def _exact_sum(
    values: Sequence[Any], kind: pa.DataType, result: str, *, average: bool
) -> Aggregate | None:
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    # Unscaled: integers, however large.
    units = [
        None if value is None else int(Decimal(value).scaleb(scale, DECIMAL)) for value in values
    ]
    known = [unit for unit in units if unit is not None]
    total, count, reach = sum(known), len(known), sum(map(abs, known))
    if pa.types.is_decimal(kind):
        # No sum of some of the values is greater than that of their magnitudes.
        fits = reach < 10 ** min(kind.precision + 10, 38)
    else:
        fits = reach <= (EXACT_IN_DOUBLE if average else SUM_OF_LONGS_MAX - 1)
    of_decimal = _decimal_type(result)
    if pa.types.is_decimal(kind) and of_decimal is None:
        return None

    def without(rows: Sequence[int]) -> Without:
        gone = [unit for n in rows if (unit := units[n]) is not None]
        rest, number = total - sum(gone), count - len(gone)
        if number == 0:
            return Without(None, True)
        if of_decimal is None:
            return Without(rest / number if average else rest, fits)
        if not average:
            return Without(Decimal(rest).scaleb(-scale, DECIMAL), fits)
        return _rounded(Fraction(rest, number * 10**scale), of_decimal, fits)

    return without


def _decimal_type(text: str) -> tuple[int, int] | None:
    """Precision and scale of ``decimal(10,2)``; None: another type."""
    if not text.startswith("decimal("):
        return None
    precision, scale = text[len("decimal(") : -1].split(",")
    return int(precision), int(scale)


def _rounded(exact: Fraction, of: tuple[int, int], fits: bool) -> Without:
    """A number with the scale of a type, half up; it is sure where an error of doubles would not change it."""
    precision, scale = of
    scaled = abs(exact) * 10**scale
    units = math.floor(scaled + Fraction(1, 2))
    margin = abs(scaled - math.floor(scaled) - Fraction(1, 2))
    sure = fits and margin > scaled * DOUBLE_ERROR and units < 10**precision
    value = Decimal(units if exact >= 0 else -units).scaleb(-scale, DECIMAL)
    return Without(value, sure)


def _double_sum(values: Sequence[Any], *, average: bool) -> Aggregate:
    finite = [
        Fraction(value) if value is not None and math.isfinite(value) else None for value in values
    ]
    total = sum(filter(None, finite), Fraction(0))
    count = sum(value is not None for value in values)
    others = [n for n, value in enumerate(values) if value is not None and not math.isfinite(value)]

    def without(rows: Sequence[int]) -> Without:
        left_out = set(rows)
        number = count - sum(values[n] is not None for n in left_out)
        if number == 0:
            return Without(None, True)
        infinite = {values[n] for n in others if n not in left_out and not math.isnan(values[n])}
        is_nan = any(math.isnan(values[n]) for n in others if n not in left_out)
        if is_nan or len(infinite) > 1:
            return Without(math.nan, True)
        if infinite:
            return Without(infinite.pop(), False)
        rest = total - sum((part for n in left_out if (part := finite[n]) is not None), Fraction(0))
        return Without(_as_double(rest / number if average else rest), False)

    return without


def _as_double(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
