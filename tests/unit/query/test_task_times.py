"""Tasks by the time of their function: each run once, compared where they are whole, with the slowest records of its own."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytest

from lineage.watch_printing import TASKS_SHOWN, Printer
from lineage_core.tracing.trace_result import TraceError
from lineage_emitter.worker.watch_hits import Hits
from lineage_query.watching.latency import TaskTime, rank_times
from lineage_query.watching.loop import Event, WatchLoop, document_of
from lineage_query.watching.reports import Report, Reports
from lineage_query.watching.requests import RunningJob, requested_watch
from lineage_query.watching.sources import Sources
from lineage_store.watch_folder import (
    HITS,
    WatchableNode,
    WatchedJob,
    WatchRequest,
    held_conditions,
    read_request,
)

pytestmark = pytest.mark.unit


def time_of(number: int, seconds: float, node: str = "2", *, is_whole: bool = True) -> TaskTime:
    return TaskTime(number, node, f"map ({node})", number, 100, seconds, is_whole)


def of_run(
    folder: Path, partition: int, seconds: float, *slowest: tuple[str, float], **more: Any
) -> None:
    """What one run of a task writes at its end."""
    facts = {"node": "2", "label": "map (2)", "partition": partition}
    hits = Hits(str(folder / f"{uuid.uuid4().hex}.jsonl"), facts, 10)
    hits.write({"records": 10, "seconds": seconds, "is_whole": True} | more)
    for text, taken in slowest:
        made_from = [["0#0", 1, 1]]
        hits.write({"text": text, "made_from": made_from, "superset": False, "seconds": taken})
    hits.close()


def test_tasks_are_compared_with_whole_ones_of_their_operator() -> None:
    times = [time_of(n, 0.1 + n / 1_000) for n in range(1, 8)]
    slow, cut = time_of(8, 3.0), time_of(9, 9.0, is_whole=False)
    other = time_of(10, 5.0, "3")
    ranked = rank_times([*times, slow, cut, other])
    assert [task.time.number for task in ranked[:4]] == [9, 10, 8, 7]
    by_number = {task.time.number: task for task in ranked}
    assert by_number[9].deviation is None
    assert "in part" in by_number[9].text
    assert by_number[10].deviation is None
    deviation = by_number[8].deviation
    assert deviation is not None
    assert (deviation.count, len(deviation.tests)) == (8, 3)
    assert by_number[8].text.startswith("partition 8: 3 s with its 100 records, where the median")
    assert not by_number[4].deviation or not by_number[4].deviation.tests


def test_a_task_with_many_more_records_than_others_says_so() -> None:
    times = [time_of(n, 0.1 + n / 1_000) for n in range(1, 8)]
    skewed = TaskTime(8, "2", "map (2)", 8, 1_250, 3.0, is_whole=True)
    by_number = {task.time.number: task.text for task in rank_times([*times, skewed])}
    assert "1,250 records (12.5 times those of the median task), where the median" in by_number[8]
    assert "times those" not in by_number[1]


def test_what_a_task_read_is_said_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(watched(tmp_path, WatchRequest("2", latency=True), [1.0, 2.0])) as loop:
        (path,) = held_conditions(loop.job.folder)
        facts = {"node": "2", "label": "map (2)", "partition": 1}
        hits = Hits(str(loop.job.folder / HITS / path.stem / f"{uuid.uuid4().hex}.jsonl"), facts, 0)
        hits.write({"reads": ["in.csv@0+9", "in.csv@9+3"]})
        hits.close()
        printer = Printer(as_json=False)
        documents = []
        while not loop.is_over:
            for event in loop.step():
                printer.event(event)
                documents.append(document_of(event))
        printer.times(loop)
    first, *reads = capsys.readouterr().out.splitlines()[:3]
    assert first.startswith("1. map (2), partition 1: 2 s")
    assert reads == ["1. reads in.csv@0+9", "1. reads in.csv@9+3"]
    expected = {"operator": "map (2)", "partition": 1, "reads": ["in.csv@0+9", "in.csv@9+3"]}
    assert {"event": "reads"} | expected in documents


def test_runs_of_a_partition_are_tasks_of_their_own(tmp_path: Path) -> None:
    of_run(tmp_path, 0, 2.0, ("a", 1.0), ("a", 0.5))
    of_run(tmp_path, 0, 3.0, ("a", 2.0))
    of_run(tmp_path, 1, float("nan"))
    of_run(tmp_path, 1, 1.0, records="many")
    reports = Reports(tmp_path)
    found = list(reports.read())
    assert sorted(task.seconds for task in reports.tasks) == [2.0, 3.0]
    by_task = {
        task.seconds: [r.seconds for r in found if isinstance(r, Report) and r.task == task.number]
        for task in reports.tasks
    }
    assert by_task == {2.0: [1.0, 0.5], 3.0: [2.0]}


def watched(folder: Path, request: WatchRequest, times: Sequence[float]) -> WatchLoop:
    with closing(WatchedJob(folder / "app", "app")) as job:
        job.add(WatchableNode("2", "map", "map", ""))

        def find(_: object) -> Sources:
            return Sources((), ("not linked",))

        running = RunningJob("app", job.folder)
        loop = WatchLoop(running, request, lambda: nullcontext(find))
        (path,) = held_conditions(job.folder)
        assert read_request(path) == request
        for partition, seconds in enumerate(times):
            of_run(job.folder / HITS / path.stem, partition, seconds, (f"r{partition}", seconds))
    return loop


def test_people_see_the_slowest_tasks_with_their_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = [0.1 + n / 1_000 for n in range(TASKS_SHOWN + 1)]
    times[3] = 4.5
    with closing(watched(tmp_path, WatchRequest("2", latency=True), times)) as loop:
        printer = Printer(as_json=False)
        while not loop.is_over:
            for event in loop.step():
                printer.event(event)
        printer.times(loop)
    first, record, source, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("1. map (2), partition 3: 4.5 s with its 10 records, where the median")
    assert record.endswith("map (2), partition 3: 4.50 s with r3")
    assert source.endswith("not exact: not linked")
    assert others[-1].startswith("... and 1 more tasks")


def test_a_watch_ends_after_so_many_tasks(tmp_path: Path) -> None:
    with closing(watched(tmp_path, WatchRequest("2", limit=2, latency=True), [1.0] * 5)) as loop:
        events: list[Event] = []
        while not loop.is_over:
            events += loop.step()
        assert len(loop.ranked_times()) == 2
    assert sum(isinstance(event, TaskTime) for event in events) == 2
    assert {event.task for event in events if isinstance(event, Report)} == {1, 2}
    assert "stopped watching after 2 tasks (--limit)" in events


def test_time_is_asked_for_alone() -> None:
    assert requested_watch("2", "", "", "", 5, latency=True) == WatchRequest(
        "2", limit=5, latency=True
    )
    with pytest.raises(TraceError, match="--latency"):
        requested_watch("2", "record > 1", "", "", 5, latency=True)
