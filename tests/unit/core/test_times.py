"""Times in JSON."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from lineage_core.contract.message import CALENDAR_TIME_MAX, CALENDAR_TIME_MIN
from lineage_core.contract.times import JsonTime, parse_time, time_text

pytestmark = pytest.mark.unit
MOMENTS = st.floats(0, 4e9)


def test_a_time_is_text_in_utc_with_milliseconds() -> None:
    assert time_text(1_795_666_200.25) == "2026-11-26T04:10:00.250Z"
    assert time_text(0) == "1970-01-01T00:00:00.000Z"
    assert time_text(-0.5) == "1969-12-31T23:59:59.500Z"


@given(MOMENTS, MOMENTS)
def test_text_keeps_the_time_and_the_order(first: float, second: float) -> None:
    assert abs(parse_time(time_text(first)) - first) < 0.002
    assert time_text(parse_time(time_text(first))) == time_text(first)
    earlier, later = sorted((first, second))
    assert time_text(earlier) <= time_text(later)


@pytest.mark.parametrize("at", [1e300, math.inf, CALENDAR_TIME_MAX + 1])
def test_a_time_behind_the_calendar_is_its_last(at: float) -> None:
    assert time_text(at) == time_text(CALENDAR_TIME_MAX)
    assert time_text(at).startswith("9999-")


@pytest.mark.parametrize("at", [-1e300, -math.inf, math.nan, CALENDAR_TIME_MIN - 1])
def test_a_time_before_the_calendar_or_none_is_its_first(at: float) -> None:
    assert time_text(at) == time_text(CALENDAR_TIME_MIN)
    assert time_text(at).startswith("0001-")


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-26T04:10:00"])
def test_what_is_no_time_of_a_zone_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"isoformat|zone"):
        parse_time(text)
    with pytest.raises(ValidationError):
        TypeAdapter(JsonTime).validate_python(text)


def test_programs_hold_seconds_and_json_text() -> None:
    adapter = TypeAdapter(JsonTime)
    assert adapter.validate_python("2026-11-26T05:10:00.250+01:00") == 1_795_666_200.25
    assert adapter.validate_python(1.5) == 1.5
    assert adapter.dump_python(1.5) == 1.5
    assert adapter.dump_json(1.5) == b'"1970-01-01T00:00:01.500Z"'
    assert adapter.json_schema() == {"type": "string", "format": "date-time"}
