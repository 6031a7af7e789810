"""Failing rows are traced while there is time: a search that may take so many seconds takes no more for what only says where it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.trace import sifting
from lineage_query import program_sifts

pytestmark = pytest.mark.unit


def traced_frames(stop: Callable[[int], str]) -> Any:
    rows = [(number,) for number in range(8)]
    return sifting.traced_rows(Mock(), Mock(), rows, are_stored=True, stop=stop)


def traced_programs(stop: Callable[[int], str]) -> Any:
    return program_sifts.traced_rows(Mock(), [f"out:{n}" for n in range(8)], None, stop)


@pytest.mark.parametrize("traced", [traced_frames, traced_programs])
def test_no_row_is_traced_when_the_time_is_up(
    monkeypatch: pytest.MonkeyPatch, traced: Callable[[Callable[[int], str]], Any]
) -> None:
    calls = []

    def refused(*arguments: Any, **_: Any) -> None:
        calls.append(arguments)
        raise TraceError("it can't be traced")

    monkeypatch.setattr(sifting, "trace_backward", refused)
    monkeypatch.setattr(program_sifts, "plan_rerun", refused)
    assert traced(lambda _: "1 seconds" if len(calls) == 3 else "") == [{}] * 3
    assert len(calls) == 3
