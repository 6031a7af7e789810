"""Records of RDDs that become rows of DataFrames: one trace through both, both ways."""

from __future__ import annotations

import datetime
import decimal
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark import RDD
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lineage.materialising import materialise
from lineage_core.tracing.trace_result import Direction
from lineage_emitter import LineageContext
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.drawn import drawn
from tests.support.job_runs import STORE, ask, judged

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]

Trace = list[tuple[tuple[Any, ...], set[int]]]
"""Rows, each with the lines of in.txt that it is made of."""


def drawn_lines() -> list[tuple[str, int]]:
    draw = random.Random(3)
    return [(draw.choice("abcd"), draw.randint(0, 9)) for _ in range(24)]


LINES = drawn_lines()
LANDS = {"a": "NO", "b": "IT", "c": "IT"}


@pytest.fixture
def read(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text("".join(f"{key} {n}\n" for key, n in LINES))
    return path


def back(folder: Path, place: object) -> Answer:
    return ask(folder, Direction.BACKWARD, str(place))


def forward(folder: Path, place: object) -> Answer:
    return ask(folder, Direction.FORWARD, str(place))


def numbers(answer: Answer, pattern: str) -> list[int]:
    """Lines or rows of files of such a name in an answer."""
    places = [item.location or "" for group in answer.groups for item in group.items]
    found = [re.fullmatch(rf".*{pattern}", place) for place in places]
    return sorted(int(one[1]) for one in found if one)


def lines(answer: Answer) -> list[int]:
    return numbers(answer, r"in\.txt:(\d+)")


def written(folder: Path) -> tuple[Path, list[tuple[Any, ...]]]:
    """The one file of an output, and its rows."""
    (file,) = folder.glob("*.parquet")
    return file, [tuple(row.values()) for row in pq.read_table(file).to_pylist()]


# -- traces ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """Records, what a program makes of them as a DataFrame, and the same by brute force.

    ``columns``: of the DataFrame. ``same``: its rows with the lines that they are made of.
    """

    records: Callable[[RDD[str]], RDD[Any]]
    columns: list[str]
    frame: Callable[[DataFrame, DataFrame], DataFrame]
    same: Callable[[], Trace]
    lands: bool = False


def pairs(rdd: RDD[str]) -> RDD[Any]:
    return rdd.map(lambda line: (line[0], int(line[2:])))


def each_line() -> Trace:
    return [(line, {number}) for number, line in enumerate(LINES, 1)]


def grouped(rows: Trace, key: Callable[[tuple[Any, ...]], Any]) -> dict[Any, Trace]:
    found: dict[Any, Trace] = {}
    for row, of in rows:
        found.setdefault(key(row), []).append((row, of))
    return found


def together(rows: Trace) -> set[int]:
    return {line for _, of in rows for line in of}


def totals() -> Trace:
    rows = [one for one in each_line() if one[0][1] > 2 and one[0][0] in LANDS]
    by_land = grouped(rows, lambda row: LANDS[row[0]])
    return [((land, sum(r[1] for r, _ in of)), together(of)) for land, of in by_land.items()]


def summed() -> Trace:
    by_key = grouped(each_line(), lambda row: row[0])
    return [((key, sum(r[1] for r, _ in of)), together(of)) for key, of in by_key.items()]


def repeated() -> Trace:
    return [((key, at), {number}) for (key, n), (number,) in each_line() for at in range(n % 3)]


def compared() -> Trace:
    rows = summed()
    most = max(row[1] for row, _ in rows)
    return [((*row, most), together(rows)) for row, _ in rows]


def paired() -> Trace:
    return [((key, total, total), of) for (key, total), of in summed()]


JOBS: dict[str, Job] = {
    "filter, join and groups": Job(
        pairs,
        ["key", "n"],
        lambda frame, lands: (
            frame.where("n > 2").join(lands, "key").groupBy("land").agg(F.sum("n"))
        ),
        totals,
    ),
    "records of keys, in an order": Job(
        # Spark reads the records twice: it looks at some of them for where to cut the order.
        lambda rdd: pairs(rdd).reduceByKey(add, 2),
        ["key", "total"],
        lambda frame, _: frame.orderBy(F.desc("total")),
        summed,
    ),
    "several rows of a line": Job(
        lambda rdd: pairs(rdd).flatMap(lambda one: [(one[0], at) for at in range(one[1] % 3)]),
        ["key", "at"],
        lambda frame, _: frame.groupBy("at").count(),
        lambda: [
            ((at, len(of)), together(of))
            for at, of in grouped(repeated(), lambda row: row[1]).items()
        ],
    ),
    "beside all others": Job(
        lambda rdd: pairs(rdd).reduceByKey(add, 2),
        ["key", "total"],
        lambda frame, _: frame.withColumn("most", F.max("total").over(Window.partitionBy())),
        compared,
    ),
    "with itself": Job(
        lambda rdd: pairs(rdd).reduceByKey(add, 2),
        ["key", "total"],
        lambda frame, _: frame.join(frame.withColumnRenamed("total", "other"), "key"),
        paired,
    ),
    "the first of an order": Job(
        lambda rdd: pairs(rdd).reduceByKey(add, 2),
        ["key", "total"],
        lambda frame, _: frame.orderBy(F.desc("total"), "key").limit(2),
        lambda: sorted(summed(), key=lambda one: (-one[0][1], one[0][0]))[:2],
    ),
    "kept by a cache": Job(
        lambda rdd: pairs(rdd).reduceByKey(add, 2),
        ["key", "total"],
        lambda frame, _: cached(frame).where("total > 0"),
        summed,
    ),
}


def cached(frame: DataFrame) -> DataFrame:
    frame.cache().count()
    return frame


ASKED = 2
"""Output rows that are traced back, and lines that are traced forward, of each job."""


@pytest.mark.parametrize("name", drawn(JOBS, 6))
def test_traces_are_those_of_brute_force(
    name: str, capture: Capture, spark: SparkSession, tmp_path: Path, read: Path
) -> None:
    job = JOBS[name]
    with capture() as lc:
        lands = spark.createDataFrame(list(LANDS.items()), "key string, land string")
        frame = spark.createDataFrame(job.records(lc.textFile(str(read), 2)), job.columns)
        job.frame(frame, lands).coalesce(1).write.parquet(str(tmp_path / "out"))
        frame.unpersist()
        app = lc.app
    assert judged(tmp_path, app).complete
    wanted = dict(job.same())
    file, rows = written(tmp_path / "out")
    assert sorted(rows) == sorted(wanted)
    for number in range(ASKED):
        answer = back(tmp_path, f"{file}#{number}")
        assert set(lines(answer)) == wanted[rows[number]], rows[number]
        assert answer.exact, answer.reasons
        (kept,) = [group for group in answer.groups if group.what == "rows of an RDD"]
        assert kept.count == len(kept.items)
        assert all(item.text is not None for item in kept.items)
    for number in (1, 7)[:ASKED]:
        answer = forward(tmp_path, f"{read}:{number}")
        reached = {rows[at] for at in numbers(answer, r"/out/.*\.parquet#(\d+)")}
        assert reached == {row for row, of in wanted.items() if number in of}


def test_a_chain_of_both_is_one_trace(
    capture: Capture, spark: SparkSession, tmp_path: Path, read: Path
) -> None:
    with capture() as lc:
        first = spark.read.text(str(read)).selectExpr("substr(value, 1, 1) AS key", "value")
        records = lc.rdd(first).map(lambda row: (row.key, int(row.value[2:]))).reduceByKey(add, 2)
        second = spark.createDataFrame(records, ["key", "total"]).where("key != 'd'")
        second.coalesce(1).write.parquet(str(tmp_path / "out"))
        app = lc.app
    assert judged(tmp_path, app).complete
    file, rows = written(tmp_path / "out")
    of_key = {key: together(of) for key, of in grouped(each_line(), lambda row: row[0]).items()}
    for number, (key, _) in enumerate(rows):
        answer = back(tmp_path, f"{file}#{number}")
        # Equal lines share a name.
        assert set(lines(answer)) == of_key[key]
        assert [group.what for group in answer.groups] == [
            "DataFrame.rdd",
            "rows of an RDD",
            "text",
        ]
    line = LINES.index(next(one for one in LINES if one[0] == "a")) + 1
    answer = forward(tmp_path, f"{read}:{line}")
    assert {rows[at][0] for at in numbers(answer, r"/out/.*\.parquet#(\d+)")} == {"a"}


def test_a_kept_row_is_asked_for_itself(
    capture: Capture, spark: SparkSession, tmp_path: Path, read: Path
) -> None:
    with capture() as lc:
        frame = spark.createDataFrame(pairs(lc.textFile(str(read), 2)), ["key", "n"])
        assert frame.count() == len(LINES)
        app = lc.app
    (folder,) = (tmp_path / ".lineage/rows" / app).iterdir()
    file = sorted(folder.iterdir())[0]
    assert lines(back(tmp_path, f"{file}#3")) == [4]
    answer = forward(tmp_path, f"{file}#3")
    assert [group.what for group in answer.groups] == ["DataFrame.count"]


def test_rows_of_a_frame_that_many_actions_read_are_kept_once(
    capture: Capture, spark: SparkSession, tmp_path: Path, read: Path
) -> None:
    with capture() as lc:
        frame = spark.createDataFrame(pairs(lc.textFile(str(read), 2)), ["key", "n"])
        for _ in range(3):
            assert len(frame.collect()) == len(LINES)
        app = lc.app
    assert judged(tmp_path, app).complete
    (folder,) = (tmp_path / ".lineage/rows" / app).iterdir()
    assert len(list(folder.iterdir())) == 2
    answer = ask(tmp_path, Direction.FORWARD, f"{read}:5")
    assert [group.what for group in answer.groups] == ["rows of an RDD", *["DataFrame.collect"] * 3]


# -- what is not traced ------------------------------------------------------------------------


def by_chance(line: str) -> bool:
    """Other records each time that they are computed."""
    return random.SystemRandom().random() < 0.5


NOT_TRACED: dict[str, tuple[Callable[[RDD[str]], RDD[Any]], Callable[[DataFrame], object], str]] = {
    "first rows": (pairs, lambda frame: frame.take(2), "may not all have been read"),
    "a limit": (pairs, lambda frame: frame.limit(2), "may not all have been read"),
    "records that differ from run to run": (
        lambda rdd: pairs(rdd.filter(by_chance)),
        lambda frame: frame,
        "gave others",
    ),
    "equal records of other lines": (
        lambda rdd: rdd.filter(by_chance).map(lambda _: ("a", 1)),
        lambda frame: frame,
        "gave others",
    ),
    "values that Spark makes others of": (
        lambda rdd: rdd.map(lambda line: (line, 1.5)),
        lambda frame: frame,
        "a column holds values of class float",
    ),
}
"""Records, what is made of their frame when all of it was read once, and why that is not traced."""


@pytest.mark.parametrize("name", drawn(NOT_TRACED, 2))
def test_what_cannot_be_told_is_not_told(
    name: str, capture: Capture, spark: SparkSession, tmp_path: Path, read: Path
) -> None:
    records, make, reason = NOT_TRACED[name]
    with capture() as lc:
        rdd = records(lc.textFile(str(read), 2))
        frame = spark.createDataFrame(rdd, "key string, n bigint", verifySchema=False)
        frame.count()
        made = make(frame)
        if isinstance(made, DataFrame):
            made.write.parquet(str(tmp_path / "out"))
        app = lc.app
    said = judged(tmp_path, app).reasons
    assert any(reason in one for one in said), said
    answer = forward(tmp_path, f"{read}:1")
    assert "DataFrameWriter.parquet" not in {group.what for group in answer.groups}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rows_mb": 0}, "settings say so (rows_mb)"),
        ({"redact": "tests.e2e.test_rdds_to_frames:by_chance"}, "records are redacted"),
    ],
)
def test_rows_are_not_kept_where_settings_say_so(
    settings: dict[str, Any],
    reason: str,
    capture: Capture,
    spark: SparkSession,
    tmp_path: Path,
    read: Path,
) -> None:
    with capture(**settings) as lc:
        spark.createDataFrame(pairs(lc.textFile(str(read), 2)), ["key", "n"]).count()
        app = lc.app
    assert any(reason in one for one in judged(tmp_path, app).reasons)
    assert not (tmp_path / ".lineage/rows").exists()


def test_more_rows_than_the_limit_are_not_kept(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    with capture(rows_mb=1) as lc:
        records = lc.parallelize(range(40), 2).map(lambda n: (random.Random(n).randbytes(100_000),))
        spark.createDataFrame(records, "data binary").count()
        app = lc.app
    (reason,) = judged(tmp_path, app).reasons
    assert "more of them than the setting rows_mb lets keep" in reason
    assert not list((tmp_path / ".lineage/rows").rglob("*.parquet*"))


def test_where_no_spark_is_the_answer_ends_and_says_how_to_go_on(
    capture: Capture, spark: SparkSession, tmp_path: Path, read: Path
) -> None:
    with capture() as lc:
        frame = spark.createDataFrame(pairs(lc.textFile(str(read), 2)), ["key", "n"])
        frame.groupBy("key").count().coalesce(1).write.parquet(str(tmp_path / "out"))
        app = lc.app
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        answer = QueryEngine(store, RowReader()).ask(TraceQuery(Direction.FORWARD, (f"{read}:2",)))
        made = materialise(store, f"sqlite:///{tmp_path / STORE}", app)
    (warning,) = answer.warnings
    found = re.search(rf"lineage forward '(\S+)' --app {app}", warning)
    assert found is not None
    on = forward(tmp_path, found[1])
    assert [group.what for group in on.groups] == ["DataFrameWriter.parquet"]
    assert list(made.refused.values()) == ["it reads rows of an RDD, whose lineage continues"]


# -- values ------------------------------------------------------------------------------------


def every_kind(n: int) -> tuple[Any, ...]:
    day = datetime.date(1200 + n, 2, 3)
    moment = datetime.datetime(1600 + n, 2, 3, 4, 5, 6, 7)  # noqa: DTZ001 - of the session's time zone
    values = (n, n, n, n, n / 3, n / 3, n % 2 == 0, f"ü{n}", bytes([n, 0]), day, moment, moment)
    nested = ([n, None], {f"k{n}": [1.5]}, (n, [("x",)]), decimal.Decimal(n) / 8)
    return (*values, *nested) if n % 5 else (None,) * (len(values) + len(nested))


KINDS = (
    "a tinyint, b smallint, c int, d bigint, e float, f double, g boolean, h string, i binary, j date, k timestamp,"
    " l timestamp_ntz, m array<int>, n map<string,array<double>>, o struct<p:int,q:array<struct<r:string>>>,"
    " s decimal(10,3)"
)


def test_kept_rows_have_the_values_that_spark_made(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    with capture() as lc:
        frame = spark.createDataFrame(lc.parallelize(range(1, 40), 2).map(every_kind), KINDS)
        wanted = sorted(map(repr, frame.collect()))
        app = lc.app
    assert judged(tmp_path, app).complete
    (folder,) = (tmp_path / ".lineage/rows" / app).iterdir()
    reader = spark.read.schema(KINDS).option("datetimeRebaseMode", "CORRECTED")
    assert sorted(map(repr, reader.parquet(str(folder)).collect())) == wanted


@pytest.mark.parametrize(
    "rows",
    [[(n % 7, f"t{n}") for n in range(1500)], [(n % 7, [f"t{n}"]) for n in range(14)]],
    ids=["many", "nested"],
)
def test_rows_of_a_list_that_no_recipe_carries_are_kept(
    rows: list[Any], capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    with capture() as lc:
        frame = spark.createDataFrame(rows, ["n", "of"])
        spark.createDataFrame(rows, ["never", "read"])
        frame.groupBy("n").count().where("n = 3").coalesce(1).write.parquet(str(tmp_path / "out"))
        assert len(frame.take(2)) == 2
        app = lc.app
    assert judged(tmp_path, app).complete
    file, _ = written(tmp_path / "out")
    (kept,) = back(tmp_path, f"{file}#0").groups
    assert kept.what == "rows of a list"
    assert numbers(back(tmp_path, f"{file}#0"), r"rows\.parquet#(\d+)") == [
        at for at, row in enumerate(rows) if row[0] == 3
    ]
    (folder,) = (tmp_path / ".lineage/rows" / app).iterdir()
    answer = forward(tmp_path, f"{folder}/rows.parquet#3")
    assert len(numbers(answer, r"/out/.*\.parquet#(\d+)")) == 1
