"""Rows of DataFrames' operators that are watched while a job runs: against a plain filter over the same operator."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.frames_oracle import ParquetTables
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext, scope
from lineage_emitter.dataframes.jvm import frame_of
from lineage_emitter.dataframes.watched_rows import NOT_TIMED
from lineage_query.watching.reports import Report, Reports
from lineage_query.watching.requests import counting_condition
from lineage_store.watch_folder import (
    WatchableNode,
    WatchRequest,
    unwatched_nodes,
    watchable_nodes,
)
from tests.e2e.test_watch import all_watching, line_of, running
from tests.support.drawn import drawn
from tests.support.frame_tables import ORDERS, PLACES, QUERIES
from tests.support.job_runs import ask, judged, lineage

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
Texts = Counter[tuple[str | None, ...]]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ParquetTables:
    folder = tmp_path_factory.mktemp("tables")
    return ParquetTables.written(folder, {"orders": ORDERS, "places": PLACES})


def watch_folder(lc: LineageContext) -> Path:
    assert lc.session is not None
    folder = lc.session.watched.folder
    assert folder is not None
    return folder


@contextmanager
def watched(folder: Path, requests: Sequence[WatchRequest]) -> Iterator[list[Reports]]:
    """What is reported of each of some requests."""
    files = [counting_condition(folder, request) for request in requests]
    try:
        yield [Reports(file.hits) for file in files]
    finally:
        for file in files:
            file.close()


def operators(lc: LineageContext) -> list[tuple[WatchableNode, Any]]:
    """Those of the action that returned last, each with its plan (Spark's object)."""
    assert lc.session is not None
    rule = lc.session.watched_rows._rule
    action = str(next(lc.session.watched_rows._numbers) - 1)
    lines = str(rule.operators(action)).splitlines()
    return [
        (WatchableNode(*json.loads(line)), rule.plan(action, place))
        for place, line in enumerate(lines)
    ]


def texts_of(reports: Sequence[Report]) -> Texts:
    """By the text of each value of a row."""
    found = Counter[tuple[str | None, ...]]()
    for report in reports:
        assert report.text is not None
        values = json.loads(report.text, parse_int=str, parse_float=str)
        found[tuple(str(v).lower() if isinstance(v, bool) else v for v in values.values())] += 1
    return found


def filtered(spark: SparkSession, plan: Any, condition: str, column: str) -> Texts:
    """What a plain filter finds."""
    with scope.suspended():
        frame = frame_of(spark, plan)
        names = [f"c{n}" for n in range(len(frame.columns))]
        condition = condition.replace(f"`{column}`", names[frame.columns.index(column)])
        rows = frame.toDF(*names).where(condition)
        texts = rows.select(*(F.col(name).cast("string") for name in names))
        return Counter(tuple(row) for row in texts.collect())


def conditions_on(frame: DataFrame) -> list[tuple[str, str]]:
    """A column, and a condition on it, of each that has a name of its own and a type of constants."""
    names = [name.lower() for name in frame.columns]
    found = []
    for name, kind in frame.dtypes:
        if names.count(name.lower()) == 1 and "`" not in name:
            if kind.startswith(("int", "bigint", "decimal", "double")):
                found.append((name, f"`{name}` > 0 AND NOT `{name}` IN (3, 9.99)"))
            elif kind == "string":
                found.append((name, f"`{name}` >= 'O' OR `{name}` IS NULL"))
    return found


def check_query(capture: Capture, spark: SparkSession, query: str) -> int:
    """Returns how many rows were compared."""
    plain = spark.sql(query).collect()
    with capture(watch_frames=True, value_length=10_000) as lc:
        assert lc.session is not None
        with lc.session.frames.pause():
            assert spark.sql(query).collect() == plain
            requests = requests_on(spark, operators(lc))
            with watched(watch_folder(lc), [request for _, request in requests]) as files:
                assert spark.sql(query).collect() == plain
                found = operators(lc)
                notes = [
                    note for reports in files for note in reports.read() if isinstance(note, str)
                ]
            assert not notes
            return sum(
                compared(spark, reports, facts, plan, column, request)
                for (column, request), reports in zip(requests, files, strict=True)
                for facts, plan in found
                if request.fits(facts)
            )


def compared(
    spark: SparkSession,
    reports: Reports,
    facts: WatchableNode,
    plan: Any,
    column: str,
    request: WatchRequest,
) -> int:
    of_node = [report for report in reports.reports if report.key[0] == facts.node]
    expected = filtered(spark, plan, request.condition, column)
    assert texts_of(of_node) == expected, (facts, request)
    return len(of_node)


def requests_on(
    spark: SparkSession, found: Sequence[tuple[WatchableNode, Any]]
) -> list[tuple[str, WatchRequest]]:
    names = dict[str, list[tuple[str, str]]]()
    with scope.suspended():
        for facts, plan in found:
            names.setdefault(facts.name, conditions_on(frame_of(spark, plan))[:2])
    every = [(name, *condition) for name, of in names.items() for condition in of]
    return [(column, WatchRequest(name, text)) for name, column, text in every][:16]


@pytest.mark.parametrize("name", drawn(QUERIES, 4))
def test_what_is_reported_is_what_a_filter_over_the_operator_finds(
    name: str, capture: Capture, spark: SparkSession, tables: ParquetTables
) -> None:
    tables.views(spark)
    count = check_query(capture, spark, QUERIES[name])
    assert count or name in {
        "inner limit",
        "limit",
        "values",
        "global",
        "quoting",
        "self join",
        "twice",
    }


def test_rows_that_break_a_rule_and_the_lines_that_they_were_made_from(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    cells = [("abc"[n * n % 3], n % 7 - 2) for n in range(40)]
    source = tmp_path / "in.csv"
    source.write_text("".join(f"{key},{value}\n" for key, value in cells))
    read = spark.read.schema("k string, v int").csv(str(source))
    sums = {
        key: sum(value + 1 for k, value in cells if k == key and value + 1 != 3)
        for key in {k for k, _ in cells}
    }
    bound = sorted(sums.values())[-1]
    with capture(watch_frames=True) as lc:
        app = lc.app
        folder = watch_folder(lc)
        requests = [
            WatchRequest("aggregate", f"total >= {bound}"),
            WatchRequest("aggregate", f"total < {bound}", must=True),
            WatchRequest("aggregate", "record[1] > 3"),
            WatchRequest("aggregate", "missing = 1"),
            WatchRequest("aggregate", slower_than_s=1.0),
        ]
        with watched(folder, requests) as reports:
            frame = read.select("k", (F.col("v") + 1).alias("w")).where("w <> 3").repartition(3)
            frame = frame.groupBy("k").agg(F.sum("w").alias("total"))
            frame.write.parquet(str(tmp_path / "out"))
            fulfilling, breaking, of_record, missing, slow = reports
            read_all = [list(found.read()) for found in reports]
            names = {facts.op for facts in watchable_nodes(folder)}
    expected = Counter({(key, str(total)): 1 for key, total in sums.items() if total >= bound})
    assert texts_of(fulfilling.reports) == expected == texts_of(breaking.reports)
    assert (breaking.count, breaking.tested, breaking.sees_all) == (1, len(sums), True)
    assert "are of SQL" in str(read_all[2])
    assert "it has no column missing" in str(read_all[3])
    assert NOT_TIMED in str(read_all[4])
    assert not any(found.reports for found in (of_record, missing, slow))
    assert {"aggregate", "filter"} <= names
    assert judged(tmp_path, app).complete
    (report, *_) = fulfilling.reports
    assert report.row is not None
    answer = ask(tmp_path, Direction.BACKWARD, report.row)
    lines = {
        int(str(item.location).rpartition(":")[2])
        for group in answer.groups
        for item in group.items
    }
    (key,) = [key for (key, _) in expected]
    assert lines == {n for n, (k, v) in enumerate(cells, 1) if k == key and v + 1 != 3}


@pytest.fixture
def whole_stages(spark: SparkSession) -> Iterator[None]:
    """Code of whole stages, which computes a column when it is first needed; tests of plans do without."""
    wanted = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    before = {name: spark.conf.get(name) or "" for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.mark.usefixtures("whole_stages")
def test_an_expression_is_computed_for_the_rows_that_the_job_computes_it_for(
    capture: Capture, spark: SparkSession
) -> None:
    numbers = spark.range(10).select(F.col("id").alias("k"), (F.lit(100) / F.col("id")).alias("y"))
    # Division by zero fails: of the row that the join leaves out.
    frame = numbers.join(F.broadcast(spark.range(5, 8).toDF("k")), "k")
    expected = sorted([(k, 100 / k) for k in (5, 6, 7)])
    with capture(watch_frames=True) as lc:
        assert lc.session is not None
        requests = [WatchRequest("join", "k > 5"), WatchRequest("project", "y > 0", must=True)]
        with watched(watch_folder(lc), requests) as (of_output, of_project):
            assert sorted(tuple(row) for row in frame.collect()) == expected
            for reports in (of_output, of_project):
                list(reports.read())
            missed = [node.ops for node in unwatched_nodes(watch_folder(lc))]
        assert not of_project.reports
        assert {report.label.partition(" ")[0] for report in of_output.reports} <= {"join"}
    assert "project" in missed


JOB = """
    import os, time
    from pyspark.sql import SparkSession, functions as F

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    frame = spark.read.schema("k string, v int").csv("in.csv").where("v <> 3")
    while not os.path.exists("go"):
        time.sleep(0.05)
    frame.groupBy("k").agg(F.sum("v").alias("total")).write.csv("out")  # write
    spark.stop()
"""


@pytest.mark.long
def test_by_the_command(tmp_path: Path) -> None:
    cells = [("abc"[n * n % 3], n % 7) for n in range(40)]
    (tmp_path / "in.csv").write_text("".join(f"{key},{value}\n" for key, value in cells))
    sums = Counter[str]()
    for key, value in cells:
        sums[key] += value * (value != 3)
    bound = min(sums.values())
    site = line_of("write", JOB)
    with running(tmp_path, JOB, LINEAGE_WATCH="false", LINEAGE_WATCH_FRAMES="true"):
        children = all_watching(
            tmp_path,
            {
                "over": (site, f"total > {bound}"),
                "kept": (site, "--must", f"total >= {bound}"),
                "broken": (site, "--must", f"total > {bound}"),
            },
        )
        (tmp_path / "go").touch()
        ended = {name: (child, documents(child)) for name, child in children.items()}
    codes = {name: child.returncode for name, (child, _) in ended.items()}
    assert codes == {"over": 0, "kept": 0, "broken": 1}
    texts = {name: [d["text"] for d in of if "text" in d] for name, (_, of) in ended.items()}
    over = {key: total for key, total in sums.items() if total > bound}
    assert {json.loads(text)["k"]: json.loads(text)["total"] for text in texts["over"]} == over
    assert not texts["kept"]
    assert len(texts["broken"]) == len(sums) - len(over)
    (place, *_) = [d["place"] for d in ended["over"][1] if d.get("place")]
    answer = lineage(tmp_path, "back", place, "--json")
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    lines = {
        int(item["location"].rpartition(":")[2])
        for group in found["sources"]
        for item in group["items"]
    }
    of_key = place.partition("k=")[2][0]
    assert lines == {n for n, (k, v) in enumerate(cells, 1) if k == of_key and v != 3}


def documents(child: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, errors = child.communicate(timeout=180)
    assert child.returncode in {0, 1}, errors
    return [json.loads(line) for line in out.splitlines()]
