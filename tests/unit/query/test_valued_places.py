"""Rows of DataFrames by their values, as people type them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_query.rows.places import ValuedPlace, parse_valued

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "of", "values"),
    [
        ("out#city=Oslo", "out", [("city", "Oslo")]),
        ("s3://b/a#b/x#city=Oslo,total=5.0", "s3://b/a#b/x", [("city", "Oslo"), ("total", "5.0")]),
        ("out#time=12:30", "out", [("time", "12:30")]),
        ("out#a=", "out", [("a", None)]),
        ('out#a=""', "out", [("a", "")]),
        ("out#a=#12", "out", [("a", "#12")]),
        ('out#a="b#c=d"', "out", [("a", "b#c=d")]),
        ('out#"a=b"="x, ""y"""', "out", [("a=b", 'x, "y"')]),
        ("orders[3]@1742", "orders", [("partition", "3"), ("offset", "1742")]),
        ("kafka://a:1,b:2/x.y[0]@0", "kafka://a:1,b:2/x.y", [("partition", "0"), ("offset", "0")]),
    ],
)
def test_values_are_read(text: str, of: str, values: list[tuple[str, str | None]]) -> None:
    assert parse_valued(text) == ValuedPlace(of, tuple(values))


@pytest.mark.parametrize(
    "text",
    [
        "out#1",
        "x:1",
        "write#0#1",
        "out",
        "#a=1",
        "a[1]@2+3",
        "a[1]",
        "a@2",
        "[1]@2",
        "out#a=1,",
        "out#a=1,b",
        'out#a=b"c',
        "a\0#b=1",
    ],
)
def test_other_places_have_none(text: str) -> None:
    assert parse_valued(text) is None


LETTERS = st.text(st.sampled_from('ab"#=,:/ 1é'), min_size=1, max_size=6)


@given(
    of=LETTERS,
    values=st.lists(st.tuples(LETTERS, st.none() | LETTERS | st.just("")), min_size=1, max_size=3),
)
def test_what_is_written_is_read_again(of: str, values: list[tuple[str, str | None]]) -> None:
    place = ValuedPlace(of, tuple(values))
    assert parse_valued(str(place)) == place
