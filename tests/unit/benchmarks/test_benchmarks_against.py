"""What a change costs: both sides do the same tasks in turn, and must come to the same results."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks.against import (
    AFTER,
    BEFORE,
    COMPARED,
    Side,
    arguments_of,
    checked_out,
    compare,
    summary_of_queries,
    task_names,
)
from benchmarks.against_side import FRAMES, JOBS
from benchmarks.pairs import RunError
from benchmarks.report.against import tables_of
from benchmarks.report.rows import Row

pytestmark = pytest.mark.unit


class FakeSide:
    """Takes as long as it is told."""

    def __init__(self, kind: str, calls: list[str], wall_s: float, result: str = "same") -> None:
        self.kind, self.calls, self.wall_s, self.result = kind, calls, wall_s, result

    def measured(self, name: str) -> tuple[float, float]:
        self.calls.append(f"{self.kind} {name}")
        return self.wall_s, self.wall_s / 2

    def call(self, verb: str, name: str) -> dict[str, Any]:
        return {"found": {"output": f"{self.result} of {name}"}}


def sides(calls: list[str], result: str = "same") -> dict[str, Side]:
    made = {
        BEFORE: FakeSide(BEFORE, calls, 2.0),
        AFTER: FakeSide(AFTER, calls, 1.0, result),
    }
    return cast("dict[str, Side]", made)


def test_sides_take_turns_and_warm_rounds_do_not_count() -> None:
    calls: list[str] = []
    found = compare(sides(calls), ["grep", "join"], warm=1, pairs=3, seconds=60)
    assert calls[:8] == [
        *("after grep", "before grep", "after join", "before join"),
        *("before grep", "after grep", "before join", "after join"),
    ]
    assert found["grep"]["wall_ratio"] == {"median": 0.5, "low": 0.5, "high": 0.5}
    assert found["join"]["cpu_s"] == {BEFORE: 1.0, AFTER: 0.5}


def test_no_round_begins_when_time_is_up_once_one_has_counted() -> None:
    found = compare(sides([]), ["grep"], warm=2, pairs=3, seconds=0)
    assert found["grep"]["pairs"] == 1


def test_other_results_end_the_run() -> None:
    with pytest.raises(RunError, match="grep"):
        compare(sides([], "other"), ["grep"], warm=0, pairs=1, seconds=60)


def test_a_revision_that_is_none_is_refused() -> None:
    with pytest.raises(RunError, match="no-such"), checked_out("no-such-revision"):
        pass


def test_jobs_come_before_the_traces_over_what_they_leave() -> None:
    names = task_names(arguments_of(["HEAD"]))
    places = {name: place for place, name in enumerate(names[JOBS])}
    assert all(places[job] < places[f"{job}: back"] for job in COMPARED)
    assert len(names[FRAMES]) == 22
    assert task_names(arguments_of(["HEAD", "--only", "grep"])) == {
        JOBS: ["grep", "grep: back", "grep: forward"],
        FRAMES: [],
    }


def test_the_page_shows_tasks_and_queries_together() -> None:
    jobs = compare(sides([]), ["grep"], warm=0, pairs=2, seconds=60)
    queries = compare(sides([]), ["tpch 1", "tpch 2"], warm=0, pairs=2, seconds=60)
    row = Row(
        {
            "benchmark": "against",
            "revision": "abc",
            "frames": summary_of_queries(queries),
            "tasks": {**jobs, **queries},
            "provenance": {"commit": "def", "command": "python -m benchmarks.against abc"},
        }
    )
    shown = tables_of([row]).splitlines()
    assert "abc" in shown[0]
    assert "def" in shown[0]
    ratio = "0.500 (0.500 to 0.500)"
    assert shown[-2:] == [
        f"| grep | 2 | 2 | 1 | {ratio} | 1 | 0.5 | {ratio} |",
        f"| traces of 2 queries | 2 |  |  | {ratio} |  |  | {ratio} |",
    ]
