"""How the influences of rows on a row of an RDD are ranked."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from lineage.program_influence import RowInfluence, State, _distances, _Influences
from lineage_query.reruns import ReplayedRow, Rerun
from lineage_store.rerun_plan import RerunSource

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
        # A few signs for numbers that fit in no memory.
        ("1e99999999 1", "2e99999999 2", (float("inf"), Fraction(1))),
        ("1e99999999999999999999", "1e-99999999999999999999", (float("inf"),)),
        ("1e99999999999999999999", "1e99999999999999999999", (0,)),
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


def without(reasons: tuple[str, ...], state: State, *, fails_on_few: bool) -> tuple[str, int]:
    """The state of a row, and how many runs it took."""
    source: Any = SimpleNamespace(node="0")
    program: Any = SimpleNamespace(sources=[source], upstream=lambda node: [source])
    output: Any = SimpleNamespace(node="1")
    rerun = Rerun("app", program, output, (), {}, bool(reasons), reasons, ())
    made = list[RerunSource]()

    def run(sources: list[RerunSource]) -> Any:
        made.extend(sources)
        fails = fails_on_few and sources[0].kept is not None
        report = SimpleNamespace(problems=(), errors=())
        return SimpleNamespace(report=report, code=int(fails))

    class Influences(_Influences):
        def _row(self, run: Any, rerun: Rerun) -> ReplayedRow:
            return ReplayedRow("out:1", "a", (), state)  # type: ignore[arg-type]

    runs: Any = SimpleNamespace(run=run, forget=lambda run: None)
    influence = Influences(SimpleNamespace(), runs, rerun)._without(replace(rerun, left_out={}))  # type: ignore[arg-type]
    return influence.state, len(made)


def test_a_run_that_fails_on_a_few_rows_is_made_on_all() -> None:
    assert without((), "same", fails_on_few=True) == ("same", 2)
    assert without((), "gone", fails_on_few=False) == ("gone", 1)


def test_a_row_that_may_depend_on_others_is_never_surely_gone() -> None:
    assert without(
        ("records of zipWithIndex may depend on others",), "gone", fails_on_few=False
    ) == (
        "unclear",
        1,
    )
