"""Time of DataFrames' tasks and of calls of their Python functions, while a job runs: against what the files hold and what the functions did."""

from __future__ import annotations

import base64
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.serializers import CPickleSerializer
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.functions import FUNCTIONS_KEY
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext, scope
from lineage_emitter.dataframes.watched_rows import NOT_TIMED
from lineage_emitter.worker.timed_function import NOT_TESTED
from lineage_query.rows.places import split_name
from lineage_query.watching.latency import TaskReads, TaskTime
from lineage_query.watching.reports import Report, Reports
from lineage_store.recipes import read_recipe
from lineage_store.url import open_store
from lineage_store.watch_folder import WatchRequest, unwatched_nodes, watchable_nodes
from tests.e2e.test_watch import wait_for
from tests.e2e.test_watched_rows import watch_folder, watched
from tests.support.job_runs import STORE, ask, judged

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]

FILES, SLOW, SLOW_S = 3, 77, 1.2
SLOW_FILE = 1
BOUND_S = 1.0


def cells_of(file: int) -> list[tuple[str, int]]:
    cells = [("abc"[n % 3], n % 7 + file) for n in range(12 + 4 * file)]
    return [*cells, ("a", SLOW)] if file == SLOW_FILE else cells


CELLS = {file: cells_of(file) for file in range(FILES)}


def write_files(folder: Path) -> None:
    folder.mkdir()
    for file, cells in CELLS.items():
        (folder / f"{file}.csv").write_text("".join(f"{key},{value}\n" for key, value in cells))


@pytest.fixture
def one_file_a_task(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(FUNCTIONS_KEY, "0f" * 32)
    wanted = {
        "spark.sql.files.minPartitionNum": str(FILES),
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name in wanted:
        spark.conf.unset(name)


def write_totals(spark: SparkSession, source: Path, out: Path) -> None:
    slow, slow_s = SLOW, SLOW_S

    @F.udf(returnType="int", useArrow=False)
    def grown(value: int) -> int:
        if value == slow:
            time.sleep(slow_s)
        return value + 1

    @F.udf(returnType="int", useArrow=False)
    def halved(value: int) -> int:
        return value // 2

    read = spark.read.schema("k string, v int").csv(str(source)).where("v <> 3")
    frame = read.select("k", halved(grown("v")).alias("h"))
    frame.groupBy("k").agg(F.sum("h").alias("total")).write.parquet(str(out))


def expected_totals() -> dict[str, int]:
    totals = Counter[str]()
    for key, value in (cell for cells in CELLS.values() for cell in cells):
        totals[key] += (value + 1) // 2 if value != 3 else 0
    return dict(totals)


def check_recipe(folder: Path, app: str) -> None:
    """The output's recipe has the functions as the program made them."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        recipe = read_recipe(store.graph(app), "0")
    assert recipe is not None
    code = {function.name: base64.b64decode(function.command) for function in recipe.functions}
    assert set(code) == {"grown", "halved"}
    (halved, _) = CPickleSerializer().loads(code["halved"])
    assert halved(9) == 4
    assert not any(b"timed_function" in command for command in code.values())


def stages_of(reports: Reports) -> list[TaskTime]:
    """The tasks of stages."""
    return [task for task in reports.tasks if task.label.startswith("stage")]


def times_of(reports: Reports, label: str) -> dict[int, TaskTime]:
    """By partition, the tasks of what is called so."""
    return {t.partition: t for t in reports.tasks if t.label.startswith(label)}


@pytest.mark.usefixtures("one_file_a_task")
def test_tasks_and_calls_are_timed_and_name_what_they_read(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    write_files(source)
    with capture(watch_frames=True) as lc:
        app, folder = lc.app, watch_folder(lc)
        requests = [
            WatchRequest("udf", latency=True),
            WatchRequest("udf", slower_than_s=BOUND_S),
            WatchRequest("udf", "v > 1"),
            WatchRequest("aggregate", slower_than_s=BOUND_S),
            WatchRequest("somewhere.py:1", latency=True),
        ]
        with watched(folder, requests) as reports:
            write_totals(spark, source, tmp_path / "out")
            of_time, of_slow, of_condition, of_rows, elsewhere = reports
            events: list[object] = []

            def all_told() -> bool:
                events.extend(of_time.read())
                stages = len(stages_of(of_time))
                calls = len(of_time.tasks) - stages
                return len(of_time.reads) == stages > FILES and calls == 2 * FILES

            wait_for(all_told, "times")
            notes = [[*found.read()] for found in (of_condition, of_rows)]
            slow = [one for one in of_slow.read() if isinstance(one, Report)]
            assert not [*elsewhere.read()]
            labels = {facts.label for facts in watchable_nodes(folder) if facts.op == "udf"}
        assert lc.session is not None
        assert lc.session.frames.wait_until_recorded(240)
    written = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {row.k: row.total for row in written} == expected_totals()
    assert len(labels) == 2
    assert {*map(str, notes[0])} == {f"{label}: {NOT_TESTED}" for label in labels}
    assert all(str(note).endswith(NOT_TIMED) for note in notes[1])
    assert notes[1]
    reads = [one for one in events if isinstance(one, TaskReads)]
    from_files = [read for read in reads if "csv@" in read.parts[0]]
    check_tasks(of_time, from_files, source)
    check_keys(spark, of_time, [read for read in reads if read not in from_files])
    check_calls(of_time, events, slow)
    assert judged(tmp_path, app).complete
    check_recipe(tmp_path, app)
    check_sources(tmp_path, source, slow)


@pytest.mark.usefixtures("one_file_a_task")
def test_what_is_not_known_of_tasks_and_functions_is_not_said(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "in"
    write_files(source)

    def kept(batches: Iterable[Any]) -> Iterator[Any]:
        yield from batches

    read = spark.read.schema("k string, v int").csv(str(source))
    with capture(watch_frames=True) as lc:
        folder = watch_folder(lc)
        with watched(folder, [WatchRequest("project", latency=True)]) as (reports,):
            # Which partitions are put together where there are as many as before depends on where they lie.
            read.selectExpr("v + 1 AS w").coalesce(2 * FILES).collect()
            read.selectExpr("v + 2 AS w").collect()
            read.mapInPandas(kept, "k string, v int").collect()
            events: list[object] = []

            def all_told() -> bool:
                events.extend(reports.read())
                return len(stages_of(reports)) == 2 * FILES and len(reports.reads) >= FILES

            wait_for(all_told, "times")
        slow, must = WatchRequest("udf", slower_than_s=BOUND_S), WatchRequest("udf", "v > 1")
        missed = [node.label for node in unwatched_nodes(folder) if node.fits(slow)]
        assert not [node for node in unwatched_nodes(folder) if node.fits(must)]
    assert missed == ["Python functions (MapInPandas)"]
    assert {read.label for read in reports.reads.values()} == {
        task.label for task in stages_of(reports) if "Coalesce" not in task.label
    }


def check_tasks(reports: Reports, reads: Sequence[TaskReads], source: Path) -> None:
    """Each file was read by one task, which has as many records as Spark's reader gave of the file."""
    file_of = {
        read.partition: file
        for read in reads
        for file in CELLS
        if read.parts
        == (split_name(f"file:{source}/{file}.csv", 0, (source / f"{file}.csv").stat().st_size),)
    }
    assert sorted(file_of.values()) == sorted(CELLS), reads
    (label,) = {read.label for read in reads}
    tasks = times_of(reports, label)
    records = {file: tasks[partition].records for partition, file in file_of.items()}
    # The reader itself leaves out what the filter does.
    assert records == calls_of_files()
    (slow,) = [partition for partition, file in file_of.items() if file == SLOW_FILE]
    assert tasks[slow].seconds >= SLOW_S


def check_keys(spark: SparkSession, reports: Reports, reads: Sequence[TaskReads]) -> None:
    """Each task behind the shuffle has the rows of the keys that fulfil its condition, and each key is of one task."""
    # Each task of the first stage gives a row a key at most.
    files_of = Counter(
        key for cells in CELLS.values() for key in {k for k, value in cells if value != 3}
    )
    keys = spark.createDataFrame([(key,) for key in files_of], "k string")
    seen = list[str]()
    for read in reads:
        (condition,) = read.parts
        with scope.suspended():
            rows = keys.where(condition.removeprefix("rows with ")).collect()
        found = [row.k for row in rows]
        task = times_of(reports, read.label)[read.partition]
        assert task.records == sum(files_of[key] for key in found)
        seen += found
    assert len(reads) == 2
    assert sorted(seen) == sorted(files_of)


def calls_of_files() -> dict[int, int]:
    """By file, the rows that a function is called for."""
    return {file: sum(value != 3 for _, value in cells) for file, cells in CELLS.items()}


def check_calls(reports: Reports, events: Sequence[object], slow: Sequence[Report]) -> None:
    """Each function was called for each row once; the slow call is one of the slowest of its task."""
    of_functions = defaultdict[str, list[TaskTime]](list)
    for task in reports.tasks:
        if not task.label.startswith("stage"):
            of_functions[task.label].append(task)
    assert len(of_functions) == 2
    for tasks in of_functions.values():
        assert Counter(task.records for task in tasks) == Counter(calls_of_files().values())
        assert all(task.is_whole for task in tasks)
    assert all(call.seconds is not None and call.seconds >= BOUND_S for call in slow)
    call = slow_call(slow)
    (task,) = [
        one for one in of_functions[call.label] if one.records == calls_of_files()[SLOW_FILE]
    ]
    named = slow_call(
        [one for one in events if isinstance(one, Report) and one.task == task.number]
    )
    for report in (call, named):
        assert report.row == f"{call.key[0]}#v={SLOW}"
        assert report.seconds is not None
        assert SLOW_S <= report.seconds <= task.seconds


def slow_call(reports: Sequence[Report]) -> Report:
    (call,) = [one for one in reports if one.text == f"grown({SLOW})"]
    return call


def check_sources(folder: Path, source: Path, slow: Sequence[Report]) -> None:
    """A call is traced to just the rows with its arguments."""
    node = slow_call(slow).key[0]
    for value in (SLOW, 5):
        answer = ask(folder, Direction.BACKWARD, f"{node}#v={value}")
        found = {str(item.location) for group in answer.groups for item in group.items}
        assert {place.rpartition("/")[2] for place in found} == {
            f"{file}.csv:{line}"
            for file, cells in CELLS.items()
            for line, (_, other) in enumerate(cells, 1)
            if other == value
        }
