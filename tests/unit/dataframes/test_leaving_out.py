"""Aggregates of a group without some rows: as plain Python gives them over the rows that are left."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_dataframes.trace.exact_values import exact
from lineage_dataframes.trace.leaving_out import aggregate_of

pytestmark = pytest.mark.unit

longs = st.none() | st.integers(-(2**40), 2**40)
cents = st.none() | st.integers(-(10**8), 10**8).map(lambda n: Decimal(n).scaleb(-2))
doubles = st.none() | st.floats(allow_nan=True, allow_infinity=True)
KINDS: dict[str, tuple[st.SearchStrategy[Any], pa.DataType, str]] = {
    "long": (longs, pa.int64(), "bigint"),
    "decimal": (cents, pa.decimal128(10, 2), "decimal(20,2)"),
    "double": (doubles, pa.float64(), "double"),
    "text": (st.none() | st.text(max_size=3), pa.string(), "string"),
}


def group(kind: str) -> st.SearchStrategy[tuple[list[Any], list[int]]]:
    values = st.lists(KINDS[kind][0], min_size=1, max_size=12)
    return values.flatmap(
        lambda each: st.tuples(st.just(each), st.lists(st.integers(0, len(each) - 1), unique=True))
    )


def rest_of(values: list[Any], rows: list[int]) -> list[Any]:
    return [value for n, value in enumerate(values) if n not in rows and value is not None]


def without(fn: str, kind: str, values: list[Any], rows: list[int], result: str = "") -> Any:
    function = aggregate_of(fn, values, KINDS[kind][1], result or KINDS[kind][2])
    assert function is not None
    return function(rows)


@given(group("long"))
def test_sums_of_longs(drawn: tuple[list[Any], list[int]]) -> None:
    rest = rest_of(*drawn)
    found = without("sum", "long", *drawn)
    assert (found.value, found.sure) == (sum(rest) if rest else None, True)


@given(group("long"))
def test_averages_of_longs(drawn: tuple[list[Any], list[int]]) -> None:
    rest = rest_of(*drawn)
    found = without("avg", "long", *drawn, result="double")
    # As Spark does it: a sum in doubles, which is exact here, by a count.
    expected = float(sum(map(float, rest))) / len(rest) if rest else None
    assert (found.value, found.sure) == (expected, True)


@given(group("decimal"))
def test_sums_of_decimals(drawn: tuple[list[Any], list[int]]) -> None:
    rest = rest_of(*drawn)
    found = without("sum", "decimal", *drawn)
    assert (found.value, found.sure) == (sum(rest, Decimal("0.00")) if rest else None, True)
    assert found.value is None or found.value.as_tuple().exponent == -2


@given(group("decimal"))
def test_averages_of_decimals(drawn: tuple[list[Any], list[int]]) -> None:
    rest = rest_of(*drawn)
    found = without("avg", "decimal", *drawn, result="decimal(14,6)")
    if not rest:
        assert (found.value, found.sure) == (None, True)
        return
    exact = Fraction(sum(map(Fraction, rest), Fraction(0)), len(rest))
    assert abs(Fraction(found.value) - exact) <= Fraction(1, 2 * 10**6)
    assert found.value.as_tuple().exponent == -6


@given(group("double"))
def test_sums_of_doubles_are_near_and_not_sure(drawn: tuple[list[Any], list[int]]) -> None:
    rest = rest_of(*drawn)
    found = without("sum", "double", *drawn)
    if all(map(math.isfinite, rest)) and rest:
        exact = sum(map(Fraction, rest), Fraction(0))
        assert not found.sure
        if abs(exact) < Fraction(1e308):
            assert found.value == float(exact)
    else:
        expected = sum(value for value in rest if not math.isfinite(value)) if rest else None
        assert found.sure == (expected is None or math.isnan(expected))
        assert found.value == expected or (math.isnan(expected or 0) and math.isnan(found.value))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_counts_and_extremes(kind: str, data: st.DataObject) -> None:
    values, rows = data.draw(group(kind))
    rest = rest_of(values, rows)
    assert without("count", kind, values, rows).value == len(rest)

    def key(value: Any) -> Any:
        return (math.isnan(value), value) if isinstance(value, float) else value

    for fn, choose in (("min", min), ("max", max)):
        found = without(fn, kind, values, rows)
        expected = choose(rest, key=key) if rest else None
        same = found.value == expected or (repr(found.value) == repr(expected) == "nan")
        assert same, (fn, found, expected)


def test_extremes_of_times_are_of_instants() -> None:
    """Clocks are put back at 3: 2:10 comes after 2:30, and 2:30 twice."""
    kind = pa.timestamp("us", "Europe/Berlin")
    begin = 1_698_539_400 * 10**6
    minutes = [0, 40, 60, 1_000]
    values: list[Any] = pa.array(
        [begin + minute * 60 * 10**6 for minute in minutes], kind
    ).to_pylist()
    assert [(value.hour, value.minute) for value in values] == [(2, 30), (2, 10), (2, 30), (18, 10)]
    greatest = aggregate_of("max", values, kind, "timestamp")
    least = aggregate_of("min", values, kind, "timestamp")
    assert greatest is not None
    assert least is not None
    assert greatest([2, 3]).value is values[1]
    assert greatest([3]).value is values[2]
    assert least([0]).value is values[1]
    early = pa.array([-62_135_596_800 * 10**6], pa.timestamp("us", "Europe/Berlin")).to_pylist()
    found = aggregate_of("max", early, kind, "timestamp")
    assert found is not None
    assert found([]).value == early[0]


def test_times_of_an_hour_that_comes_twice_are_told_apart() -> None:
    zone = ZoneInfo("Europe/Berlin")
    first, second = (
        datetime.datetime(2023, 10, 29, 2, 30, tzinfo=zone, fold=fold) for fold in (0, 1)
    )
    assert first == second
    assert exact(first) != exact(second)
    assert exact(second) == exact(second.astimezone(datetime.UTC))
    local = first.replace(tzinfo=None)
    assert exact(local) == exact(local)
    assert exact(local) != exact(first)


def test_sums_that_may_overflow_on_the_way_are_not_sure() -> None:
    assert not without("sum", "long", [2**62, 2**62, -(2**62)], [2]).sure
    assert not without("avg", "long", [2**60, 1, 3], [2], "double").sure


def test_an_average_at_the_edge_of_rounding_is_not_sure() -> None:
    # 0.01 / 2 has five digits at most; 1.00 / 64 rounds at the sixth.
    assert without("avg", "decimal", [Decimal("0.01"), Decimal("0.00")], [], "decimal(14,6)").sure
    values = [Decimal("1.00"), *[Decimal("0.00")] * 127]
    found = without("avg", "decimal", values, [], "decimal(14,6)")
    assert (found.value, found.sure) == (Decimal("0.007813"), False)


@pytest.mark.parametrize(
    ("fn", "kind"), [("sum", "text"), ("first", "long"), ("stddev_samp", "double")]
)
def test_other_functions_have_no_closed_form(fn: str, kind: str) -> None:
    assert aggregate_of(fn, [], KINDS[kind][1], KINDS[kind][2]) is None


def test_texts_of_another_collation_have_no_closed_form() -> None:
    assert aggregate_of("max", ["a"], pa.string(), "string collate UNICODE_CI") is None


def test_extremes_of_lists_have_no_closed_form() -> None:
    assert aggregate_of("max", [], pa.list_(pa.int64()), "array<bigint>") is None
