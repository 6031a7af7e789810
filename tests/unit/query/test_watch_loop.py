"""A watch step by step: every record is told once, and its sources once, wherever who looks on stops in between."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, nullcontext
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_core.contract.record_conditions import RecordConditionError
from lineage_core.tracing.trace_result import TraceError
from lineage_emitter.worker.watch_hits import Hits
from lineage_query.watching import reports
from lineage_query.watching.loop import LINKED_S, TRACE_EVERY_S, Event, Found, WatchLoop
from lineage_query.watching.reports import Candidate, Report
from lineage_query.watching.requests import RunningJob, has_operator, requested_watch
from lineage_query.watching.sources import NO_VALUES, NOT_LINKED, ON_DEMAND, Sources
from lineage_store.watch_folder import (
    HITS,
    NODES,
    WatchableNode,
    WatchedJob,
    WatchRequest,
    held_conditions,
)

pytestmark = pytest.mark.unit
NODE = WatchableNode("4", "map", "map", "job.py:3")


class Watched:
    """A watch of a job of this process, on a clock of its own. ``linked``: rows whose sources are known by now."""

    def __init__(self, folder: Path, request: WatchRequest, nodes: Sequence[WatchableNode]) -> None:
        self.job = WatchedJob(folder / "app", "app")
        for node in nodes:
            self.job.add(node)
        self.now, self.linked = 0.0, 0
        running = RunningJob("app", self.job.folder)
        self.loop = WatchLoop(running, request, lambda: nullcontext(self.find), lambda: self.now)
        (path,) = held_conditions(self.job.folder)
        facts = {"node": "4", "label": NODE.label, "partition": 0}
        name = f"{uuid.uuid4().hex}.jsonl"
        self.hits = Hits(str(self.job.folder / HITS / path.stem / name), facts, 1_000)
        self.told: list[Event] = []

    def find(self, candidates: Sequence[Candidate]) -> Sources | None:
        ((_, row, _),) = candidates[0].made_from
        return Sources((), ()) if row < self.linked else None

    def report(self, row: int) -> None:
        self.hits.write({"text": str(row), "made_from": [["0#0", row, row]], "superset": False})

    def step(self, events: int | None = None) -> None:
        """``events``: after which who looks on stops; what is not told then is told later."""
        self.now += TRACE_EVERY_S
        self.told += islice(self.loop.step(), events)

    def close(self) -> None:
        self.job.close()
        self.loop.close()


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("report"), st.integers(1, 4)),
        st.tuples(st.just("link"), st.integers(1, 4)),
        st.tuples(st.just("step"), st.integers(0, 5)),
    ),
    max_size=14,
)


@given(ACTIONS)
def test_each_record_and_its_sources_are_told_once(actions: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as name:
        watched = Watched(Path(name), WatchRequest("4", "record > 1", 1_000), [NODE])
        rows = 0
        for action, count in actions:
            if action == "report":
                for row in range(rows, rows + count):
                    watched.report(row)
                rows += count
            elif action == "link":
                watched.linked += count
            else:
                watched.step(count)
        watched.job.close()
        watched.now += LINKED_S
        for _ in range(2):
            watched.step()
            watched.now += LINKED_S
        assert watched.loop.is_over
        watched.close()
    told = [event.text or "" for event in watched.told if isinstance(event, Report)]
    assert sorted(told) == sorted(map(str, range(rows)))
    found = [event for event in watched.told if isinstance(event, Found)]
    assert Counter(event.report.text for event in found) == Counter(told)
    for event in found:
        is_linked = int(event.report.text or "") < watched.linked
        assert event.sources.reasons == (() if is_linked else (NOT_LINKED,))


def test_a_watch_ends_after_so_many_bytes_and_never_seems_to_have_seen_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "READ_BYTES_MAX", 500)
    watched = Watched(tmp_path, WatchRequest("4", "record > 1", must=True), [NODE])
    watched.linked = 100
    for row in range(100):
        watched.report(row)
    while not watched.loop.is_over:
        watched.step()
    watched.close()
    assert any("as many bytes" in event for event in watched.told if isinstance(event, str))
    assert 0 < sum(isinstance(event, Report) for event in watched.told) < 10
    assert not watched.loop.violations()["sees_all"]
    assert not watched.loop.is_kept


def test_a_job_that_ends_without_the_operator_was_not_watched(tmp_path: Path) -> None:
    watched = Watched(tmp_path, WatchRequest("filter", "record > 1"), [NODE])
    assert watched.loop.is_waited_for
    watched.job.close()
    while not watched.loop.is_over:
        watched.step()
    with pytest.raises(TraceError, match="without an operator filter"):
        watched.loop.check_operator()
    watched.close()


def test_of_a_row_of_a_frame_what_traces_it_is_said_at_once(tmp_path: Path) -> None:
    watched = Watched(tmp_path, WatchRequest("f1", "total > 1", 1_000), [NODE])
    facts: dict[str, Any] = {"text": None, "made_from": [], "superset": False}
    watched.hits.write(facts | {"row": "k=a b,total=2"})
    watched.hits.write(facts | {"row": ""})
    watched.hits.write(facts | {"text": "b", "row": "", "unnamed": "of an array"})
    watched.step()
    watched.step()
    watched.close()
    named, nameless, of_array = [
        event.sources for event in watched.told if isinstance(event, Found)
    ]
    assert (named.groups, nameless.groups) == ((), ())
    assert named.place == "4#k=a b,total=2"
    assert named.reasons == (f"{ON_DEMAND}: lineage back '4#k=a b,total=2' --app app",)
    assert (nameless.place, nameless.reasons) == ("", (NO_VALUES,))
    assert (of_array.place, of_array.reasons) == ("", ("of an array",))
    assert named.to_json()["exact"] is False


@pytest.mark.parametrize("latency", [True, False])
def test_tasks_of_an_action_are_timed_whatever_its_plan_is(tmp_path: Path, latency: bool) -> None:
    request = WatchRequest("job.py:4", "" if latency else "v > 1", latency=latency)
    with closing(WatchedJob(tmp_path / "app", "app")) as job:
        with open(job.folder / NODES, "a", encoding="utf-8") as nodes:
            nodes.write('["", "the rows", "", "job.py:4", "a limit"]\n')
        assert has_operator(job.folder, request) is latency


HALVED = ("Python functions (MapInPandas)", "udf", "job.py:3", "they are over iterators")
LIMITED = ("project", "project", "job.py:3", "a limit stands above")


@pytest.mark.parametrize(
    ("request_of_line", "missed"),
    [
        (WatchRequest("job.py:3", slower_than_s=0.5), HALVED),
        (WatchRequest("udf", slower_than_s=0.5), HALVED),
        (WatchRequest("job.py:3", "v > 1", must=True), LIMITED),
        (WatchRequest("job.py:9", slower_than_s=0.5), None),
    ],
)
def test_functions_that_are_not_timed_are_named(
    tmp_path: Path, request_of_line: WatchRequest, missed: tuple[str, ...] | None
) -> None:
    watched = Watched(tmp_path, request_of_line, [NODE])
    with open(watched.job.folder / NODES, "a", encoding="utf-8") as nodes:
        for facts in (HALVED, LIMITED):
            nodes.write(json.dumps(["", *facts]) + "\n")
    watched.job.close()
    told = [*watched.loop.rest()]
    watched.close()
    expected = [] if missed is None else [f"{missed[0]} can't be watched: {missed[3]}"]
    assert told == expected


@pytest.mark.parametrize(
    ("line", "is_kept"),
    [
        ('["f3", "map [k]", "map", ""]', True),
        ('["", "filter below job.py:3", "filter", "", "a limit"]', True),
        ('["", "the rows", "", "job.py:4", "made before"]', True),
        ('["", "map below job.py:3", "map", "", "a limit"]', False),
        ('["", "all operators", "project,map", "", "a subquery"]', False),
        ('["", "more operators", "*", "", "not listed"]', False),
    ],
)
def test_a_rule_is_not_kept_where_something_could_not_be_watched(
    tmp_path: Path, line: str, is_kept: bool
) -> None:
    watched = Watched(tmp_path, WatchRequest("map", "record > 1", must=True), [NODE])
    with open(watched.job.folder / NODES, "a", encoding="utf-8") as nodes:
        nodes.write(f"{line}\n")
    watched.hits.write({"beyond": 0, "failed": 0, "tested": 3})
    watched.job.close()
    watched.step()
    assert watched.loop.is_over
    assert watched.loop.is_kept is is_kept
    assert any("can't be watched" in str(event) for event in watched.told) is not is_kept
    watched.close()


@pytest.mark.parametrize(
    ("condition", "is_taken"),
    [
        ("record[1] > 3", True),
        ("total > 3 AND k IN ('a', 'b')", True),
        ("total > (SELECT 1)", False),
        ("reflect('java.lang.System', 'exit') = 1", False),
    ],
)
def test_conditions_are_of_records_or_of_rows(condition: str, is_taken: bool) -> None:
    with nullcontext() if is_taken else pytest.raises(RecordConditionError, match="of rows"):
        assert requested_watch("4", condition, "", "", 9).condition == condition
