"""Answers of actions: what is found is what was given, and nothing else."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core import answers as module
from lineage_core.answers import Answer, Answers, CollectedAnswer, Found, LinkedRows
from lineage_core.contract.collected import CollectedRows

pytestmark = pytest.mark.unit


def answer_of(count: int, what: str = "collect at job.py:1") -> CollectedAnswer:
    return CollectedAnswer(what, CollectedRows("app", "1", (count,)))


def rows_of(count: int, first: int = 0) -> list[tuple[int, float]]:
    """Rows that say which they are; some have equal values but for that."""
    return [(first + at, at % 2) for at in range(count)]


STEPS: dict[str, Callable[[Any], Any]] = {
    "filtered": lambda rows: [row for row in rows if row[1]],
    "reversed": lambda rows: rows[::-1],
    "sorted": lambda rows: sorted(rows, key=lambda row: (row[1], -row[0])),
    "sliced": lambda rows: rows[1:],
    "repeated": lambda rows: rows + rows[:1],
    "copied": list,
}
CHANGES: dict[str, Callable[[Any], Any]] = {
    "made again": lambda row: (row[0], row[1]),
    "computed": lambda row: (row[0], row[1] * 1),
    "a list": list,
    "a field": lambda row: row[1],
}


@given(
    st.integers(0, 5), st.lists(st.sampled_from(sorted(STEPS)), max_size=4),
    st.none() | st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 9)),
)  # fmt: skip
def test_rows_that_went_through_lists_are_those_that_they_say(
    count: int, steps: list[str], change: tuple[str, int] | None
) -> None:
    answers = Answers()
    other, rows = rows_of(count, 100), rows_of(count)
    answers.keep_list(other, answer_of(count, "other"))
    answers.keep_list(rows, answer_of(count))
    now: list[Any] = rows
    for step in steps:
        now = STEPS[step](now)
    changed = change is not None and bool(now)
    if change is not None and now:
        now = list(now)
        at = change[1] % len(now)
        now[at] = CHANGES[change[0]](now[at])
    found = answers.find(now)
    if now is rows or (now and not changed):
        assert isinstance(found, Found)
        assert found.answer.what == "collect at job.py:1"
        assert list(found.positions) == [row[0] for row in now]
    else:
        # An empty list is nobody's.
        assert isinstance(found, str)


def test_rows_of_two_actions_are_not_linked_to_one() -> None:
    answers = Answers()
    one, other = rows_of(2), rows_of(2, 5)
    answers.keep_list(one, answer_of(2))
    answers.keep_list(other, answer_of(2))
    assert isinstance(answers.find([*one, *other]), str)
    one.append(other[0])
    assert isinstance(answers.find(one), str)


def test_a_row_that_came_twice_as_one_object_is_refused() -> None:
    answers = Answers()
    row = (1, 2.0)
    rows = [row, (2, 2.0), row]
    answers.keep_list(rows, answer_of(3))
    assert "several times" in str(answers.find(rows[:2]))
    assert "several times" in str(answers.find(list(rows)))
    assert isinstance(answers.find(rows[1:2]), Found)
    # The list itself has each where it came.
    found = answers.find(rows)
    assert isinstance(found, Found)
    assert list(found.positions) == [0, 1, 2]
    rows.reverse()
    rows[0], rows[1] = rows[1], rows[0]
    assert "several times" in str(answers.find(rows))


@pytest.mark.parametrize("value", [7, "text", True, None, ()])
def test_values_that_may_be_others_too_are_not_linked(value: Any) -> None:
    answers = Answers()
    values = [value]
    answers.keep_list(values, answer_of(1))
    assert isinstance(answers.find(values), str)


def test_numbers_that_are_equal_are_not_the_same() -> None:
    answers = Answers()
    values = [float(text) for text in ("1.5", "2.5")]
    answers.keep_list(values, answer_of(2))
    found = answers.find(values[::-1])
    assert isinstance(found, Found)
    assert list(found.positions) == [1, 0]
    assert isinstance(answers.find([1.5, float("2.5")]), str)
    assert isinstance(answers.find([abs(value) + 0 for value in values]), str)


def test_answers_of_too_many_rows_go_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROWS_KEPT_MAX", 5)
    answers = Answers()
    lists = [rows_of(3, first) for first in (0, 10, 20)]
    for rows in lists:
        answers.keep_list(rows, answer_of(3))
    assert [isinstance(answers.find(rows), Found) for rows in lists] == [False, False, True]
    huge = rows_of(6)
    answers.keep_list(huge, answer_of(6))
    assert isinstance(answers.find(huge), str)


@pytest.mark.parametrize(
    "value", ["x" * 1000, b"x" * 1000, ["x" * 1000], {"x": ("x" * 1000,)}, ((("x" * 1000,),),)]
)
def test_answers_of_too_many_bytes_go_oldest_first(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = Answers()
    lists = [[(at, value) for at in range(4)] for _ in range(3)]
    size = module._size_of(lists[0])
    assert size > 4000
    monkeypatch.setattr(module, "BYTES_KEPT_MAX", 2 * size + 100)
    for rows in lists:
        answers.keep_list(rows, answer_of(4))
    assert [isinstance(answers.find(rows), Found) for rows in lists] == [False, True, True]
    huge = [(at, value) for at in range(12)]
    answers.keep_list(huge, answer_of(12))
    assert isinstance(answers.find(huge), str)
    assert isinstance(answers.find(lists[2]), Found)


def test_lists_are_not_kept_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LISTS_KEPT_MAX", 2)
    answers = Answers()
    rows = rows_of(3)
    for kept in (rows, [], []):
        answers.keep_list(kept, answer_of(len(kept)))
    assert len(answers._kept.lists) == 2
    assert isinstance(answers.find(rows), str)


def test_lists_are_kept_while_somebody_may_ask() -> None:
    answers = Answers()
    assert not answers.wanted
    one, other = Table([]), Table([])
    answers.want(one)
    answers.want(other)
    rows = rows_of(3)
    answers.keep_list(rows, answer_of(3))
    del one
    gc.collect()
    assert answers.wanted
    assert isinstance(answers.find(rows), Found)
    del other
    gc.collect()
    assert not answers.wanted
    assert isinstance(answers.find(rows), str)
    # Whoever is gone since another program began takes nothing from that.
    early = Table([])
    answers.want(early)
    answers.reset()
    answers.keep_list(rows, answer_of(3))
    del early
    gc.collect()
    assert isinstance(answers.find(rows), Found)


class Table:
    def __init__(self, values: list[int]) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)


class TableAnswer(Answer):
    def link(self, positions: Sequence[int]) -> LinkedRows:
        return LinkedRows(CollectedRows("app", "1", (len(positions),)), positions)

    def has_changed(self, given: Table) -> bool:
        return given.values != [1, 2]


def test_an_object_is_found_while_it_is_there_and_unchanged() -> None:
    answers = Answers()
    table = Table([1, 2])
    answers.keep_object(table, TableAnswer("toPandas at job.py:1"))
    found = answers.find(table)
    assert isinstance(found, Found)
    assert list(found.positions) == [0, 1]
    assert isinstance(answers.find(Table([1, 2])), str)
    table.values[0] = 3
    assert "toPandas at job.py:1 gave has been changed" in str(answers.find(table))
    del table
    gc.collect()
    assert not answers._objects


def test_what_is_linked_is_not_noted() -> None:
    answers = Answers()
    with answers.linking():
        answers.note("collect at job.py:1")
    assert answers.latest == ""
    answers.note("collect at job.py:2")
    assert answers.latest == "collect at job.py:2"
    answers.reset()
    assert answers.latest == ""
