"""Records that an operator's function is slow with, by a clock of the test's own: just those, whatever chain they pass."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lineage_emitter.worker import segment as segments
from lineage_emitter.worker import stopwatch, watch_conditions
from lineage_emitter.worker.by_record import Filter, FlatMap, ForEach, Map, MapValues
from lineage_emitter.worker.detail import Detail
from lineage_emitter.worker.latency import SLOW_MIN_S
from lineage_emitter.worker.operators import Chain, OpaqueFunction, ReadRecords
from lineage_emitter.worker.segment import Segment
from lineage_emitter.worker.stopwatch import Stopwatch
from lineage_emitter.worker.task_config import TaskConfig
from lineage_emitter.worker.values import ReprEncoder, ValueTexts
from lineage_emitter.worker.watched_run import WatchedOperator
from lineage_store.watch_folder import (
    SLOWEST_MAX,
    WatchableNode,
    WatchedJob,
    WatchingFile,
    WatchRequest,
)

pytestmark = pytest.mark.unit

BOUND_S = 1.0


class Clock:
    """Goes on only where the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


class Markers:
    def add(self, markers: list[Any]) -> None:
        pass


@dataclass(frozen=True)
class Step:
    """An operator: ``taken_s`` of record ``n`` is the ``n % len``-th."""

    kind: str
    taken_s: tuple[float, ...]
    items: bool

    def function(self, clock: Clock) -> Any:
        def work(record: int) -> int:
            clock.now_s += self.taken_s[record % len(self.taken_s)]
            return record

        def several(record: int) -> Iterator[int]:
            # Half of the work is done when what it gives is taken.
            part_s = self.taken_s[record % len(self.taken_s)] / 2
            clock.now_s += part_s
            yield record
            clock.now_s += part_s
            yield record

        def silent(record: int) -> Iterator[int]:
            work(record)
            yield from ()

        def lazily(split: int, records: Iterable[int]) -> Iterator[int]:
            return map(work, records)

        def at_once(split: int, records: Iterable[int]) -> list[int]:
            return [work(record) for record in records]

        kinds: dict[str, Callable[[], Any]] = {
            "map": lambda: Map(work),
            "filter": lambda: Filter(lambda record: work(record) % 3 > 0),
            "none": lambda: Filter(lambda record: work(record) < 0),
            "foreach": lambda: ForEach(work),
            "flatMap": lambda: FlatMap(several),
            "lists": lambda: FlatMap(lambda record: [work(record), record]),
            "silent": lambda: FlatMap(silent),
            "lazily": lambda: OpaqueFunction(lazily),
            "at once": lambda: OpaqueFunction(at_once),
        }
        return kinds[self.kind]()

    @property
    def buffers(self) -> bool:
        """Whether it may, for what capture knows."""
        return self.kind in {"lazily", "at once"}

    def outputs(self, records: list[int]) -> list[int]:
        """What it gives."""
        if self.kind == "filter":
            return [record for record in records if record % 3]
        if self.kind in {"flatMap", "lists"}:
            return [record for record in records for _ in range(2)]
        return [] if self.kind in {"none", "silent"} else records

    def slow(self, records: list[int]) -> Counter[str]:
        """Those that it is slow with."""
        slow = (r for r in records if self.taken_s[r % len(self.taken_s)] >= BOUND_S)
        return Counter(map(repr, slow))


STEPS = st.builds(
    Step,
    st.sampled_from(
        ["map", "filter", "none", "foreach", "flatMap", "lists", "silent", "lazily", "at once"]
    ),
    st.lists(st.sampled_from([0.0, 0.125, 0.5, 1.0, 3.0]), min_size=1, max_size=5).map(tuple),
    st.booleans(),
)


def slower_than_bound(node: str) -> WatchRequest:
    return WatchRequest(node, slower_than_s=BOUND_S)


def run(
    folder: Path,
    clock: Clock,
    steps: list[Step],
    records: Iterable[int],
    downstream_s: float,
    request_of: Callable[[str], WatchRequest] = slower_than_bound,
) -> dict[str, list[dict[str, Any]]]:
    """What is reported of each step, in the order of the steps."""
    job = WatchedJob(folder, "app")
    config = TaskConfig("app", str(folder), Markers(), 8 << 20, False)  # type: ignore[arg-type]
    texts = ValueTexts(ReprEncoder(100), None, 100)
    function: Any = ReadRecords(config, "0", "0")
    watching = []
    for number, step in enumerate(steps, 1):
        node = str(number)
        watched = WatchedOperator(str(job.folder), WatchableNode(node, step.kind, "", ""), texts)
        detail = Detail(node, items=step.items, watched=watched)
        function = Chain(function, detail.wrap_step(step.function(clock)))
        watching.append(WatchingFile(job.folder, f"{number:08x}", request_of(node)))
    for _ in function(0, iter(records)):
        clock.now_s += downstream_s
    segments.current_segment().finish()
    found = {
        file.request.node: [
            json.loads(line)
            for path in file.hits.glob("*.jsonl")
            for line in path.read_text().splitlines()
        ]
        for file in watching
    }
    for file in watching:
        file.close()
    job.close()
    return found


@pytest.fixture(scope="module")
def clock() -> Iterator[Clock]:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stopwatch, "perf_counter", clock.perf_counter)
        patch.setattr(segments, "time", clock)
        patch.setattr(watch_conditions, "_conditions", None)
        yield clock


@given(
    st.lists(STEPS, min_size=1, max_size=4),
    st.lists(st.integers(0, 9), max_size=12),
    st.sampled_from([0.0, 2.0]),
)
def test_a_record_is_reported_where_its_own_function_is_slow_with_it(
    clock: Clock, steps: list[Step], records: list[int], downstream_s: float
) -> None:
    with TemporaryDirectory() as name:
        found = run(Path(name), clock, steps, records, downstream_s)
    given, before = records, ""
    for number, step in enumerate(steps, 1):
        reports = found[str(number)]
        problems = [report for report in reports if "problem" in report]
        before, gets_list = step.kind, before == "at once" and step.buffers
        if gets_list:
            # Who gets a list may look at any of it at any time: the answer says so.
            assert all("at once" in report["problem"] for report in problems)
            assert len(problems) == len(reports) == bool(given)
            found[str(number)] = []
            given = step.outputs(given)
            continue
        assert not problems
        assert Counter(report["text"] for report in reports) == step.slow(given)
        given = step.outputs(given)
        for report in reports:
            assert report["may_buffer"] is step.buffers
            assert report["seconds"] >= BOUND_S
    if len(set(records)) == len(records) and not any(step.items for step in steps):
        # Each report names the row of the source that it is of.
        for report in (report for reports in found.values() for report in reports):
            if not report["superset"]:
                (space, first, last) = report["made_from"][0]
                assert (space, first) == ("0#0", last)
                assert repr(records[first]) == report["text"]


@given(
    st.lists(STEPS, min_size=1, max_size=4),
    st.lists(st.integers(0, 9), max_size=12),
    st.sampled_from([0.0, 2.0]),
)
def test_a_task_has_the_time_of_its_records_and_names_the_slowest(
    clock: Clock, steps: list[Step], records: list[int], downstream_s: float
) -> None:
    with TemporaryDirectory() as name:
        found = run(
            Path(name),
            clock,
            steps,
            records,
            downstream_s,
            lambda node: WatchRequest(node, latency=True),
        )
    given, before = records, ""
    for number, step in enumerate(steps, 1):
        reports = found[str(number)]
        before, gets_list = step.kind, before == "at once" and step.buffers
        taken = [step.taken_s[record % len(step.taken_s)] for record in given]
        if gets_list or not given:
            assert not any(report.get("is_whole") for report in reports)
        else:
            task, *slowest = reports
            assert (task["records"], task["is_whole"]) == (len(given), True)
            assert task["seconds"] == pytest.approx(sum(taken))
            expected = sorted((s for s in taken if s >= SLOW_MIN_S), reverse=True)[:SLOWEST_MAX]
            assert [report["seconds"] for report in slowest] == expected
            # Of equally slow ones the first.
            by_time = sorted(zip(taken, given, strict=True), key=lambda one: -one[0])
            texts = [repr(record) for _, record in by_time[: len(expected)]]
            assert [report["text"] for report in slowest] == texts
        given = step.outputs(given)


def test_a_task_whose_records_are_not_all_taken_is_timed_as_far_as_it_came(
    tmp_path: Path, clock: Clock
) -> None:
    def work(record: int) -> int:
        clock.now_s += record
        return record

    with closing(WatchedJob(tmp_path, "app")) as job:
        request = WatchRequest("1", latency=True)
        with closing(WatchingFile(job.folder, "00000002", request)) as watching:
            watched = WatchedOperator(str(job.folder), WatchableNode("1", "", "", ""), None)
            config = TaskConfig("app", str(tmp_path), Markers(), 8 << 20, False)  # type: ignore[arg-type]
            step = Detail("1", watched=watched).wrap_step(Map(work))
            taken = Chain(ReadRecords(config, "0", "0"), step)(0, iter([1, 2, 9]))
            assert list(islice(taken, 2)) == [1, 2]
            clock.now_s += 7
            segments.current_segment().finish()
            (path,) = watching.hits.glob("*.jsonl")
            task = json.loads(path.read_text().splitlines()[0])
    assert (task["records"], task["seconds"], task["is_whole"]) == (2, 3.0, False)


@pytest.mark.parametrize(
    ("step", "fails"), [("mapValues", False), ("mapValues", True), ("map", True), ("flatMap", True)]
)
def test_a_slow_record_is_told_as_the_function_s_step_got_it(
    tmp_path: Path, clock: Clock, step: str, fails: bool
) -> None:
    def work(value: Any) -> Any:
        clock.now_s += 2
        if fails:
            raise ValueError(value)
        return value

    kinds = {"mapValues": MapValues, "map": Map, "flatMap": FlatMap}
    texts = ValueTexts(ReprEncoder(100), None, 100)
    with closing(WatchedJob(tmp_path, "app")) as job:
        slow = WatchRequest("1", slower_than_s=BOUND_S)
        with closing(WatchingFile(job.folder, "00000003", slow)) as watching:
            watched = WatchedOperator(str(job.folder), WatchableNode("1", "", "", ""), texts)
            config = TaskConfig("app", str(tmp_path), Markers(), 8 << 20, False)  # type: ignore[arg-type]
            wrapped = Detail("1", watched=watched).wrap_step(kinds[step](work))
            taken = iter(Chain(ReadRecords(config, "0", "0"), wrapped)(0, iter([("a", 1)])))
            if fails:
                with pytest.raises(ValueError, match="1"):
                    next(taken)
            else:
                assert list(taken) == [("a", 1)]
            segments.current_segment().finish()
            (path,) = watching.hits.glob("*.jsonl")
            (report,) = map(json.loads, path.read_text().splitlines())
    assert (report["text"], report["seconds"], report["may_buffer"]) == ("('a', 1)", 2.0, False)
    assert report["made_from"] == [["0#0", 0, 0]]


@pytest.fixture
def segment(tmp_path: Path) -> Segment:
    config = TaskConfig("app", str(tmp_path), Markers(), 8 << 20, False)  # type: ignore[arg-type]
    return Segment(config, "1", 0, 0)


def timed(segment: Segment) -> tuple[Stopwatch[str], list[tuple[str, int, float]]]:
    reported: list[tuple[str, int, float]] = []
    return Stopwatch(segment, lambda *report: reported.append(report)), reported


def test_what_capture_takes_is_not_the_function_s(clock: Clock, segment: Segment) -> None:
    stopwatch, reported = timed(segment)
    stopwatch.set_bounds([(BOUND_S, "a")])

    def capture() -> None:
        clock.now_s += 4
        segment.guard(lambda: setattr(clock, "now_s", clock.now_s + 4))

    for record in stopwatch.inputs(iter([1, 2])):
        segment.guard(capture)
        clock.now_s += record * 0.5
    assert reported == [("a", 2, 1.0)]


def test_a_bound_counts_only_once_what_the_function_gives_is_seen(
    clock: Clock, segment: Segment
) -> None:
    stopwatch, reported = timed(segment)
    unseen = stopwatch.outputs(iter([1, 2]))
    stopwatch.set_bounds([(BOUND_S, "a")])
    inputs = stopwatch.inputs(iter([1, 2, 3]))
    for _, _ in zip(inputs, unseen, strict=False):
        # Others have it.
        clock.now_s += 4
    assert not reported
    stopwatch.await_outputs()
    assert next(inputs, None) is None
    for _ in stopwatch.inputs(iter([4])):
        clock.now_s += 4
    assert reported == [("a", 4, 4.0)]


def test_bounds_that_come_and_go_report_the_record_at_work_once_each(
    clock: Clock, segment: Segment
) -> None:
    stopwatch, reported = timed(segment)
    stopwatch.set_bounds([(1.0, "a")])
    for _ in stopwatch.inputs(iter([7])):
        for made in stopwatch.outputs(iter("xyz")):
            clock.now_s += 9  # which others take
            if made == "x":
                stopwatch.set_bounds([(3.0, "b"), (1.0, "a")])
        clock.now_s += 2
        stopwatch.check()
        clock.now_s += 2
    assert reported == [("a", 7, 2.0), ("b", 7, 4.0)]


@pytest.mark.parametrize("ends", ["fails", "leaves the rest"])
def test_a_function_that_takes_no_further_record_is_timed_with_its_last(
    tmp_path: Path, clock: Clock, ends: str
) -> None:
    def function(split: int, records: Iterable[int]) -> Iterator[int]:
        for record in islice(records, 2):
            yield record
            clock.now_s += record
        if ends == "fails":
            raise ValueError("no more")

    job = WatchedJob(tmp_path, "app")
    config = TaskConfig("app", str(tmp_path), Markers(), 8 << 20, False)  # type: ignore[arg-type]
    watched = WatchedOperator(str(job.folder), WatchableNode("1", "", "", ""), None)
    watching = WatchingFile(job.folder, "00000001", WatchRequest("1", slower_than_s=BOUND_S))
    detail = Detail("1", watched=watched)
    chain = Chain(ReadRecords(config, "0", "0"), detail.wrap_step(OpaqueFunction(function)))
    try:
        with suppress(ValueError):
            assert list(chain(0, iter([0, 3, 5]))) == [0, 3]
        (hits,) = watching.hits.glob("*.jsonl")
        (report,) = map(json.loads, hits.read_text().splitlines())
        assert report["made_from"] == [["0#0", 1, 1]]
        assert report["seconds"] == 3.0
    finally:
        watching.close()
        job.close()
