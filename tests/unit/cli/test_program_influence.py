"""How the influences of rows on a row of an RDD are ranked."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from lineage.program_influence import RowInfluence, _distances

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("before", "after", "distances"),
    [
        ("Anna 37.5", "Anna 5.5", (Fraction(32),)),
        ("Anna 37.5", "Bob 37.5", (float("inf"),)),
        ("('a', 3)", "('a', -1)", (Fraction(4),)),
        ("a 1", "a 1 2", (float("inf"),)),
        ("2013-04-19 x 1e3", "2013-04-20 x 1E2", (0, 0, Fraction(1), Fraction(900))),
        ("", "", ()),
    ],
)
def test_how_far_texts_lie_apart(
    before: str, after: str, distances: tuple[Fraction | float, ...]
) -> None:
    assert _distances(before, after) == distances


def test_rows_come_first_that_change_it_most() -> None:
    rows = [
        RowInfluence("1", "", "gone"),
        RowInfluence("2", "", "fails", error="ValueError: no"),
        RowInfluence("3", "", "changed", ("b 1",)),
        RowInfluence("4", "", "changed", ("a 10",)),
        RowInfluence("5", "", "changed", ("a 2",)),
        RowInfluence("6", "", "same", ("a 1",)),
        RowInfluence("7", "", "unclear", ("a 1", "a 3")),
    ]
    keys = [row.key("a 1") for row in rows]
    assert all(one > other for one, other in itertools.pairwise(keys))
    assert [row.in_words for row in rows] == [
        "no row",
        "the program fails: ValueError: no",
        "b 1",
        "a 10",
        "a 2",
        "the same",
        "one of: a 1 | a 3",
    ]
    assert [row.to_json()["after"] for row in rows] == [
        None,
        None,
        "b 1",
        "a 10",
        "a 2",
        "a 1",
        None,
    ]
