"""Steps shown one by one, as a person goes through them, against a plain list and a place in it."""

from __future__ import annotations

import io

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lineage.steps import show_steps

pytestmark = pytest.mark.unit

NUMBERS = [2, 3, 7]
"""Of steps of which others are left out."""
KEYS = ["", "n", "b", "2", "3", "7", "5", "x", "q"]


def expected(keys: list[str]) -> list[int]:
    place, shown = 0, [2]
    for key in keys:
        before = place
        if key == "q":
            break
        if key in {"", "n"}:
            place = min(place + 1, 2)
        elif key == "b":
            place = max(place - 1, 0)
        elif key in {"2", "3", "7"}:
            place = NUMBERS.index(int(key))
        if place != before or key in {"2", "3", "7"}:
            shown.append(NUMBERS[place])
    return shown


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(KEYS), max_size=12))
def test_forward_and_back(monkeypatch: pytest.MonkeyPatch, keys: list[str]) -> None:
    shown: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdin", io.StringIO("".join(f"{key}\n" for key in keys)))
        show_steps(NUMBERS, lambda place: shown.append(NUMBERS[place]), one_by_one=True)
    assert shown == expected(keys)


def test_what_is_no_step_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("b\n5\n"))
    show_steps(NUMBERS, print, one_by_one=True)
    said = capsys.readouterr()
    assert said.out.split() == ["0"]
    assert "step 2, 1 of 3 (" in said.err
    assert "this is the first step" in said.err
    assert "there is no step 5" in said.err
    show_steps(NUMBERS, print, one_by_one=False)
    assert capsys.readouterr().out.split() == ["0", "1", "2"]
    show_steps([], print, one_by_one=True)
    assert capsys.readouterr().out.split() == []
