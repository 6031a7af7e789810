"""Where steps stop: at the first record that fulfils a condition, and never past one in silence."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage.breakpoints import Breakpoint, RowInHand, StepRecords, prompt, stop, value_of
from lineage_core.contract.marked_texts import read_marked
from lineage_core.contract.record_conditions import RecordConditionError
from lineage_core.tracing.trace_result import TraceError
from lineage_emitter.worker.marking import MarkedTexts
from lineage_emitter.worker.values import ReprEncoder

pytestmark = pytest.mark.unit


@dataclass(frozen=True)
class Named:
    number: int
    name: str
    count: int
    inputs: tuple[int, ...] = ()

    def fits(self, named: str) -> bool:
        return named in {str(self.number), self.name}


def in_hand(number: int, records: list[Any], when: str, count: int = 0) -> StepRecords[Named]:
    step = Named(number, f"op{number}", count or len(records))
    return StepRecords(step, tuple(records), Breakpoint(when).tests(records))


numbers = st.lists(st.integers(0, 9) | st.just("text"), max_size=6)


@given(st.lists(numbers, min_size=1, max_size=5), st.integers(0, 5))
def test_the_first_step_is_the_one_a_plain_loop_finds(steps: list[list[Any]], until: int) -> None:
    when = "record > 7"
    expected = next(
        (
            n
            for n, records in enumerate(steps, 1)
            if n == until or any(isinstance(one, int) and one > 7 for one in records)
        ),
        None,
    )
    found = [in_hand(n, records, when) for n, records in enumerate(steps, 1)]
    named = str(until) if 0 < until <= len(steps) else ""
    stopped = stop(found, Breakpoint(when, named))
    assert (stopped.at and stopped.at.step.number) == expected
    assert len(stopped.steps) == (expected or len(steps))
    failed = sum(records.count("text") for records in steps[: expected or len(steps)])
    assert bool(stopped.notes) == bool(failed)
    if stopped.at is not None and stopped.at.fulfilling:
        wanted = [one for one in steps[(expected or 0) - 1] if isinstance(one, int) and one > 7]
        assert [stopped.at.records[n] for n in stopped.at.shown(10)] == wanted
        assert stopped.at.count == len(wanted)


def test_what_was_not_tested_is_said() -> None:
    step = StepRecords(Named(1, "map", 5), (1, None), ("no", None))
    stopped = stop([step], Breakpoint("record > 7"))
    assert stopped.at is None
    assert stopped.notes == (
        "step 1 (map): 1 of 5 records were not tested, as no value of theirs was kept",
        "step 1 (map): the first 2 of 5 records were tested",
    )
    with pytest.raises(TraceError, match="no step is nothing: there are 1 map"):
        stop([step], Breakpoint("record > 7", "nothing"))
    with pytest.raises(RecordConditionError):
        Breakpoint("__import__('os').system('true')")


def test_a_row_is_looked_at_by_names_that_are_its_own() -> None:
    row = RowInHand.of(("city", "n", "n"), ("Oslo", Decimal("1.5"), 2))
    tests = {
        "record['city'] == 'Oslo' and record[1] > 1": "yes",
        "record[2] is None": "no",
        "record['n'] == 2": "failed",
        "record['other'] == 2": "failed",
        "len(record) == 3": "yes",
    }
    for condition, expected in tests.items():
        assert Breakpoint(condition).tests([row]) == (expected,), condition


class Point:
    def __init__(self, x: int) -> None:
        self.x = x

    def __len__(self) -> int:
        return self.x

    def __repr__(self) -> str:
        return "7"


def test_records_are_tested_as_they_are_and_not_as_they_look() -> None:
    texts = pickle.loads(pickle.dumps(MarkedTexts("len(record) > 3", "mark")))
    long = list(range(150))
    for record, expected in ((Point(4), "yes"), (Point(2), "no"), (5, "failed"), (long, "yes")):
        text = texts(record)
        assert read_marked("mark", text) == (expected, ReprEncoder(32_768)(record))
    # What does not begin with the mark was not tested, whatever it says.
    assert read_marked("mark", "+5") == (None, "+5")


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=10) | st.binary(max_size=5),
    lambda parts: st.lists(parts, max_size=120) | st.tuples(parts, parts)
    | st.dictionaries(st.text(max_size=3), parts, max_size=3),
    max_leaves=20,
)  # fmt: skip


@given(plain)
def test_a_value_in_hand_is_the_value_or_its_text(value: Any) -> None:
    text = ReprEncoder(60)(value)
    found = value_of(text, 60)
    assert found in (value, text)
    # What is short and has no long container is always there.
    if text == repr(value) and len(text) < 60:
        assert (found, type(found)) == (value, type(value))


def test_a_prompt_has_the_records(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["print(sum(records), step.name)"])

    def typed(_: str = "") -> str:
        try:
            return next(lines)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("builtins.input", typed)
    prompt(StepRecords(Named(3, "map", 9), (1, 2), (None, None)))
    shown = capsys.readouterr()
    assert "3 map" in shown.out
    assert "2 records of step 3 (map) are in records (the first of 9)" in shown.err
