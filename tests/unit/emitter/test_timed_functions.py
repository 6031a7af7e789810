"""Calls of Python functions of DataFrames, by a clock of the test's own: each counts, the slow ones are named, and values and errors pass."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.serializers import CPickleSerializer
from pyspark.sql.types import IntegerType

from lineage_emitter.worker import timed_function, watch_conditions
from lineage_emitter.worker.latency import SLOW_MIN_S, Tally
from lineage_emitter.worker.timed_function import (
    AMBIGUOUS,
    AS_LEFT,
    IN_THREADS,
    Calls,
    Facts,
    TimedFunction,
    timed,
)
from lineage_query.rows.places import parse_valued
from lineage_query.watching.reports import Report, Reports
from lineage_store.watch_folder import (
    SLOWEST_MAX,
    WatchableNode,
    WatchedJob,
    WatchingFile,
    WatchRequest,
)

pytestmark = pytest.mark.unit

NODE = WatchableNode("f3", "half", "udf", "job.py:8")
BOUND_S = 1.0


class Clock:
    """Goes on only where the test says so."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def perf_counter(self) -> float:
        return self.now_s

    monotonic = perf_counter


@pytest.fixture(scope="module")
def clock() -> Iterator[Clock]:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timed_function, "perf_counter", clock.perf_counter)
        patch.setattr(timed_function, "time", clock)
        patch.setattr(watch_conditions, "time", clock)
        patch.setattr(watch_conditions, "_conditions", None)
        yield clock


def facts_of(
    folder: Path, names: list[str] | None = None, types: list[str] | None = None, **more: Any
) -> Facts:
    document = {
        "folder": str(folder),
        "node": [NODE.node, NODE.name, NODE.op, NODE.call_site],
        "texts": True,
        "characters_max": 200,
        "of_rows": True,
        "by_arrow": False,
        "unnamed": "",
        "names": names or ["v"],
        "types": types or ["int"],
    }
    return Facts.of(document | more)


@contextmanager
def watched(folder: Path, *requests: WatchRequest) -> Iterator[tuple[Path, list[WatchingFile]]]:
    """The folder of a job that is watched so."""
    job = WatchedJob(folder, "app")
    files = [WatchingFile(job.folder, f"{n:08x}", request) for n, request in enumerate(requests, 1)]
    yield job.folder, files
    for file in files:
        file.close()
    job.close()


def reported(file: WatchingFile) -> list[dict[str, Any]]:
    """What was written while the task ran."""
    return [
        json.loads(line)
        for path in file.hits.glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]


def sent(accumulated: list[Any]) -> list[dict[str, Any]]:
    """What the driver gets when the task has ended."""
    found: list[dict[str, Any]] = pickle.loads(pickle.dumps(accumulated))
    return found


class Accumulator(list[Any]):
    def add(self, items: list[Any]) -> None:
        self.extend(items)


TAKEN_S = st.lists(st.sampled_from([0.0, 2**-11, 0.125, 0.5, 1.0, 3.0]), max_size=600)


@settings(max_examples=30)
@given(TAKEN_S, st.integers(0, 300))
def test_calls_are_counted_and_the_slow_ones_named(
    clock: Clock, taken_s: list[float], failing: int
) -> None:
    def half(number: int) -> int:
        clock.now_s += taken_s[number]
        if number == failing:
            raise ValueError("no")
        return number // 2

    requests = (
        WatchRequest("half", latency=True),
        WatchRequest("job.py:8", slower_than_s=BOUND_S),
        WatchRequest("job.py:8", "v > 1"),
        WatchRequest("half", "v > 1"),
    )
    accumulated = Accumulator()
    with TemporaryDirectory() as name, watched(Path(name), *requests) as (folder, files):
        function = TimedFunction(half, Calls(facts_of(folder), accumulated))
        for number in range(len(taken_s)):
            if number == failing:
                with pytest.raises(ValueError, match="no"):
                    function(number)
            else:
                assert function(number) == number // 2
        _, of_slow, of_site, of_name = map(reported, files)
    slow = [n for n, seconds in enumerate(taken_s) if seconds >= BOUND_S]
    assert [line["text"] for line in of_slow] == [f"half({n})" for n in slow]
    assert [line["values"] for line in of_slow] == [[["v", str(n)]] for n in slow]
    # Of the line's output a condition may be, of the function it can't.
    assert not of_site
    assert [list(line) for line in of_name] == [["node", "label", "partition", "problem"]] * bool(
        taken_s
    )
    by_watch = {report["watch"]: report for report in sent(accumulated) if report["lines"]}
    if not taken_s:
        assert not by_watch
        return
    total, *slowest = by_watch["00000001"]["lines"]
    assert (total["records"], total["is_whole"]) == (len(taken_s), True)
    assert total["seconds"] == pytest.approx(sum(taken_s))
    expected = sorted((s for s in taken_s if s >= SLOW_MIN_S), reverse=True)[:SLOWEST_MAX]
    assert [line["seconds"] for line in slowest] == expected
    first_of = sorted(range(len(taken_s)), key=lambda n: -taken_s[n])[: len(expected)]
    assert [line["text"] for line in slowest] == [f"half({n})" for n in first_of]


def test_a_watch_that_comes_late_or_goes_early_has_a_task_in_part(
    tmp_path: Path, clock: Clock
) -> None:
    def work(number: int) -> None:
        clock.now_s += 1.0

    accumulated = Accumulator()
    with watched(tmp_path) as (folder, _):
        function = TimedFunction(work, Calls(facts_of(folder), accumulated))
        function(1)
        late = WatchingFile(folder, "00000007", WatchRequest("f3", latency=True))
        for number in range(3):
            function(number)
        late.close()
        early = WatchingFile(folder, "00000008", WatchRequest("f3", latency=True))
        function(4)
        early.close()
        function(5)
    lines = {report["watch"]: report["lines"][0] for report in sent(accumulated)}
    # It is looked for between portions of calls.
    assert lines["00000007"] == {"records": 2, "seconds": 2.0, "is_whole": False}
    assert lines["00000008"] == {"records": 1, "seconds": 1.0, "is_whole": False}


def test_reports_are_bounded_and_the_others_counted(tmp_path: Path, clock: Clock) -> None:
    def work(number: int) -> None:
        clock.now_s += BOUND_S

    accumulated = Accumulator()
    with watched(tmp_path, WatchRequest("udf", limit=2, slower_than_s=BOUND_S)) as (folder, files):
        function = TimedFunction(work, Calls(facts_of(folder), accumulated))
        for number in range(5):
            function(number)
        (of_slow,) = map(reported, files)
    assert [line["text"] for line in of_slow] == ["half(0)", "half(1)"]
    (end,) = sent(accumulated)
    assert end["lines"] == [{"beyond": 3, "failed": 0, "tested": 0}]


def test_a_task_whose_calls_were_not_all_counted_is_none_of_all_its_calls(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(number: int) -> None:
        clock.now_s += 1.0

    def fail(_: Path) -> list[Path]:
        raise OSError

    accumulated = Accumulator()
    with watched(tmp_path, WatchRequest("f3", latency=True)) as (folder, _):
        function = TimedFunction(work, Calls(facts_of(folder), accumulated))
        function(1)
        with monkeypatch.context() as patch:
            patch.setattr(watch_conditions, "held_conditions", fail)
            for number in range(4):
                function(number)
        for number in range(4):
            function(number)
    (total, *_) = sent(accumulated)[0]["lines"]
    assert 0 < total["records"] < 9
    assert not total["is_whole"]


def test_a_watch_is_told_that_calls_in_threads_are_not_timed(tmp_path: Path, clock: Clock) -> None:
    def work(number: int) -> None:
        clock.now_s += 1.0

    def call(count: int) -> None:
        for number in range(count):
            thread = threading.Thread(target=function, args=(number,))
            thread.start()
            thread.join()

    timed_request = WatchRequest("f3", slower_than_s=BOUND_S)
    accumulated = Accumulator()
    requests = (timed_request, WatchRequest("job.py:8", "v > 1"))
    with watched(tmp_path, *requests) as (folder, (first, of_site)):
        function = TimedFunction(work, Calls(facts_of(folder), accumulated))
        call(3)
        later = WatchingFile(folder, "00000007", timed_request)
        call(9)
        told = [[line["problem"] for line in reported(file)] for file in (first, later, of_site)]
        later.close()
    # What counts rows of the line's output has nothing to do with calls.
    assert told == [[IN_THREADS], [IN_THREADS], []]


def test_what_a_call_changed_is_not_shown_as_its_arguments(tmp_path: Path, clock: Clock) -> None:
    def work(cells: list[int], by: int) -> None:
        clock.now_s += BOUND_S
        cells.clear()

    with watched(tmp_path, WatchRequest("f3", slower_than_s=BOUND_S)) as (folder, (file,)):
        facts = facts_of(folder, ["c", "b"], ["array<int>", "int"], unnamed="an array")
        TimedFunction(work, Calls(facts, Accumulator()))([1, 2], 3)
        (line,) = reported(file)
    assert line["text"] == f"half([], 3{AS_LEFT})"


def test_profilers_see_the_function_s_own_code(tmp_path: Path) -> None:
    def work(number: int) -> int:
        """Work."""
        return number

    function: Any = TimedFunction(work, Calls(facts_of(tmp_path), Accumulator()))
    assert function.__code__ is work.__code__
    assert function.__name__ == "work"
    assert not hasattr(TimedFunction(abs, Calls(facts_of(tmp_path), Accumulator())), "__code__")


def test_batches_are_timed_as_such(tmp_path: Path, clock: Clock) -> None:
    def work(column: list[int]) -> list[int]:
        clock.now_s += len(column)
        return column

    accumulated = Accumulator()
    with watched(tmp_path, WatchRequest("half", latency=True)) as (folder, _):
        facts = facts_of(folder, of_rows=False, unnamed="in batches")
        function = TimedFunction(work, Calls(facts, accumulated))
        assert function([1, 2]) == [1, 2]
        assert function([3]) == [3]
    (report,) = sent(accumulated)
    total, first, second = report["lines"]
    assert total == {"records": 3, "seconds": 3.0, "is_whole": True}
    assert (first["text"], second["text"]) == ("half(a batch of 2 rows)", "half(a batch of 1 rows)")
    assert (first["values"], first["unnamed"]) == ([], "in batches")


def test_what_goes_wrong_here_is_not_seen_by_the_task(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Any:
        raise RuntimeError

    accumulated = Accumulator()
    with watched(tmp_path, WatchRequest("half", latency=True)) as (folder, _):
        calls = Calls(facts_of(folder), accumulated)
        function = TimedFunction(abs, calls)
        assert function(-1) == 1
        monkeypatch.setattr(calls, "_description", fail)
        monkeypatch.setattr(calls, "_take_up", fail)
        monkeypatch.setattr(calls, "_sum", fail)
        monkeypatch.setattr(Tally, "add", fail)
        assert [function(-n) for n in range(9)] == list(range(9))
        assert isinstance(sent(accumulated), list)


TEXTS = st.text(max_size=8) | st.sampled_from(["", " a ", 'a"b', "a,b", "a=b", "a#b", "\0", "�"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-9, 9) | st.none(),
    "string": TEXTS | st.none(),
    "double": st.floats() | st.none(),
    "boolean": st.booleans() | st.none(),
    "decimal(9,2)": st.decimals(-9, 9, places=2) | st.none(),
    "date": st.dates() | st.none(),
}


def read_as(text: str | None, kind: str) -> Any:
    """The value that a trace reads."""
    readers: dict[str, Callable[[str], Any]] = {
        "int": int,
        "string": str,
        "double": float,
        "boolean": lambda text: text == "true",
        "decimal(9,2)": decimal.Decimal,
        "date": datetime.date.fromisoformat,
    }
    return None if text is None else readers[kind](text)


@settings(max_examples=50)
@given(
    st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4).flatmap(
        lambda kinds: st.tuples(st.just(kinds), st.tuples(*(VALUES[kind] for kind in kinds)))
    ),
    st.booleans(),
)
def test_a_call_names_the_rows_with_just_its_arguments(
    clock: Clock, drawn: tuple[list[str], tuple[Any, ...]], by_arrow: bool
) -> None:
    kinds, values = drawn
    names = [f'c,"{n}' for n in range(len(kinds))]

    def work(*_: Any) -> None:
        clock.now_s += BOUND_S

    request = WatchRequest("f3", slower_than_s=BOUND_S)
    with TemporaryDirectory() as name, watched(Path(name), request) as (folder, (file,)):
        facts = facts_of(folder, names, kinds, by_arrow=by_arrow)
        TimedFunction(work, Calls(facts, Accumulator()))(*values)
        (report,) = Reports(file.hits).read()
    assert isinstance(report, Report)
    if report.row == "":
        unclear = by_arrow and any(isinstance(v, float) and math.isnan(v) for v in values)
        broken = any(isinstance(v, str) and ("\0" in v or "�" in v) for v in values)
        assert unclear or broken
        assert broken or AMBIGUOUS in report.unnamed
        return
    assert report.row is not None
    place = parse_valued(report.row)
    assert place is not None
    assert (place.of, [column for column, _ in place.values]) == ("f3", names)
    for value, kind, (_, text) in zip(values, kinds, place.values, strict=True):
        read = read_as(text, kind)
        both_nan = kind == "double" and str(value) == str(read) == "nan"
        assert both_nan or (read == value and type(read) is type(value))


def test_the_code_is_the_function_s_own(tmp_path: Path) -> None:
    code = CPickleSerializer().dumps((len, IntegerType()))
    facts = {
        "folder": str(tmp_path),
        "node": ["f3", "len", "udf", ""],
        "texts": True,
        "characters_max": 9,
        "of_rows": True,
        "by_arrow": False,
        "unnamed": "",
        "names": ["v"],
        "types": ["string"],
    }
    function, returns = timed(json.dumps(facts), CPickleSerializer().dumps(Accumulator()), code)
    assert function("abc") == 3
    assert returns == IntegerType()
