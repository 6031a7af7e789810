"""Rows of DataFrames that become records of RDDs: one trace through both, both ways."""

from __future__ import annotations

import pickle
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import add
from pathlib import Path
from typing import Any

import pytest
from pyspark import RDD
from pyspark.ml.functions import array_to_vector
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage_core.recipe.document import Recipe
from lineage_core.recipe.names import ROW_NAME
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS
from lineage_emitter import LineageContext
from lineage_emitter.dataframes.naming import naming_columns
from lineage_emitter.errors import ChoiceError, TracingError
from lineage_query.answers import Answer
from lineage_query.engine import QueryEngine
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_store.url import open_store
from tests.support.drawn import drawn
from tests.support.job_runs import STORE, ask, judged

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]

Row = tuple[str | None, int | None, float]
"""Key, number and amount of a row of the file; lines count from 2, behind the header."""


def drawn_rows() -> list[Row]:
    """Rows with NULLs, of which some are equal."""
    draw = random.Random(11)
    some: list[Row] = [
        (
            draw.choice(["a", "b", "c", None]),
            draw.choice([1, 2, 3, 40, None]),
            draw.choice([0.1, 2.5]),
        )
        for _ in range(12)
    ]
    return [*some, *some[:2]]


ROWS = drawn_rows()
LANDS = {"a": "NO", "b": "IT", "c": "IT"}


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("to_rdds")
    # Spark 3.5 refuses dates and times before 1900 otherwise.
    modes = [f"spark.sql.parquet.{kind}RebaseModeInWrite" for kind in ("datetime", "int96")]
    for mode in modes:
        spark.conf.set(mode, "CORRECTED")
    every_kind(spark).coalesce(1).write.parquet(str(folder / "kinds"))
    for mode in modes:
        spark.conf.unset(mode)
    lines = [f"{key or ''},{'' if n is None else n},{x}" for key, n, x in ROWS]
    (folder / "in.csv").write_text("\n".join(["key,n,x", *lines]) + "\n")
    lands = [f"{key},{land}" for key, land in LANDS.items()]
    (folder / "lands.csv").write_text("\n".join(["key,land", *lands]) + "\n")
    return folder


@dataclass
class Read:
    """The tables, as DataFrames."""

    rows: DataFrame
    lands: DataFrame


@pytest.fixture
def read(spark: SparkSession, home: Path) -> Read:
    def table(name: str, schema: str) -> DataFrame:
        return spark.read.csv(str(home / name), schema=schema, header=True)

    return Read(
        table("in.csv", "key string, n int, x double"),
        table("lands.csv", "key string, land string"),
    )


def lines(answer: Answer, name: str) -> list[int]:
    """The lines of a file in an answer."""
    places = [item.location or "" for group in answer.groups for item in group.items]
    found = [re.fullmatch(rf".*{re.escape(name)}:(\d+)", place) for place in places]
    return sorted(int(one[1]) for one in found if one)


# -- the same computation ----------------------------------------------------------------------


def every_kind(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT * FROM VALUES "
        "(1, 2Y, 3S, 4L, 1.5F, 2.5D, 1.25BD, 'text', X'01ff', true, DATE'2024-02-29',"
        " TIMESTAMP'2024-02-29 12:00:00.25', TIMESTAMP_NTZ'2024-02-29 12:00:00', INTERVAL '1' DAY,"
        " array(1, null, 2), map('k', 1, 'l', 2), named_struct('p', 1, 'q', array(named_struct('r', 'x')))),"
        "(null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null),"
        "(1, 2Y, 3S, 4L, double('NaN'), double('-0.0'), 1.25BD, '', X'', false, DATE'0001-01-01',"
        " TIMESTAMP'1969-12-31 23:59:59', TIMESTAMP_NTZ'1969-12-31 23:59:59', INTERVAL '-1' DAY,"
        " array(), map(), named_struct('p', null, 'q', null))"
        " AS t(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)"
    )


FRAMES: dict[str, Callable[[SparkSession, Path], DataFrame]] = {
    "every kind": lambda spark, home: spark.read.parquet(str(home / "kinds")),
    "names that repeat": lambda spark, _: spark.range(5, numPartitions=2).selectExpr(
        "id", "id + 1 AS id", "'x' AS `a b.c`"
    ),
    "no rows": lambda spark, _: spark.range(0).selectExpr("id", "cast(id AS string) AS text"),
    "several batches": lambda spark, _: spark.range(3000, numPartitions=2).selectExpr(
        "id", "id % 7"
    ),
    "vectors": lambda spark, _: spark.range(4).select(
        "id", array_to_vector(F.array(F.col("id") * 1.5))
    ),
    "random": lambda spark, _: spark.range(20, numPartitions=2).selectExpr("id", "rand(3) AS r"),
    "no columns": lambda spark, _: spark.range(3).select(),
}


def described(rdd: RDD[Any]) -> list[Any]:
    """All that a program can see of the rows."""
    rows = rdd.collect()
    seen = [
        (type(one), repr(one), getattr(one, "__fields__", None), pickle.dumps(one)) for one in rows
    ]
    mapped = rdd.map(lambda row: (row, len(row))).collect()
    return [repr(seen), repr(mapped), repr(rdd.glom().collect())]


@pytest.mark.long
@pytest.mark.parametrize("name", drawn(FRAMES, 3))
def test_a_program_sees_the_rows_that_it_would_have_seen(
    name: str, capture: Capture, spark: SparkSession, home: Path, tmp_path: Path
) -> None:
    wanted = described(FRAMES[name](spark, home).rdd)
    with capture() as lc:
        assert described(lc.rdd(FRAMES[name](spark, home))) == wanted
        app = lc.app
    assert judged(tmp_path, app).complete == (name != "no columns")


@pytest.mark.long
def test_what_moves_whole_batches_sees_them_too(
    capture: Capture, spark: SparkSession, home: Path
) -> None:
    def results(rdd: RDD[Any]) -> list[Any]:
        rdd.cache()
        found = [
            rdd.first(),
            list(rdd.toLocalIterator()),
            rdd.repartition(3).glom().collect(),
            rdd.zip(rdd).collect(),
            rdd.union(rdd).coalesce(1).collect(),
            rdd.cartesian(rdd).take(50),
            rdd.count(),
        ]
        rdd.unpersist()
        return found

    frame = FRAMES["names that repeat"](spark, home)
    wanted = results(frame.rdd)
    with capture() as lc:
        assert results(lc.rdd(frame)) == wanted


def test_a_frame_of_the_records_is_as_it_was(
    capture: Capture, spark: SparkSession, home: Path
) -> None:
    frame = FRAMES["every kind"](spark, home)
    with capture() as lc:
        again = spark.createDataFrame(lc.rdd(frame), frame.schema)
        assert again.schema == frame.schema
        assert repr(again.collect()) == repr(frame.collect())


# -- traces ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """A frame, and what a program makes of its rows.

    ``frame``: of the tables. ``output``: the RDD of texts. ``made_of``: by text of an output record, the lines of
    in.csv it is made of; ``lands``: and of lands.csv.
    """

    frame: Callable[[Read], DataFrame]
    output: Callable[[RDD[Any]], RDD[str]]
    made_of: Callable[[], dict[str, set[int]]]
    lands: bool = False


ASKED = 6
"""Output rows of each job that are traced back, the last ones: equal rows are among them."""


def numbered() -> Iterator[tuple[int, Row]]:
    return enumerate(ROWS, 2)


def by(text_of: Callable[[Row], str | None]) -> dict[str, set[int]]:
    """Lines by the output record that they go into; None: into none."""
    found: dict[str, set[int]] = {}
    for line, row in numbered():
        text = text_of(row)
        if text is not None:
            found.setdefault(text, set()).add(line)
    return found


def per_key(rdd: RDD[Any]) -> RDD[str]:
    return rdd.map(lambda row: (row.key, 1)).reduceByKey(add).map(lambda one: str(one[0]))


JOBS: dict[str, Job] = {
    "rows": Job(
        lambda read: read.rows,
        lambda rdd: rdd.map(str),
        lambda: by(lambda row: f"Row(key={row[0]!r}, n={row[1]!r}, x={row[2]!r})"),
    ),
    "keys": Job(lambda read: read.rows, per_key, lambda: by(lambda row: str(row[0]))),
    "filter and join": Job(
        lambda read: read.rows.where("n > 1").join(read.lands, "key"),
        lambda rdd: rdd.map(lambda row: (row.land, row)).groupByKey().map(lambda one: one[0]),
        lambda: by(lambda row: LANDS[row[0]] if row[0] and (row[1] or 0) > 1 else None),
        lands=True,
    ),
    "groups": Job(
        # The sum of doubles is no part of the names.
        lambda read: read.rows.groupBy("key", "n").agg(F.sum("x").alias("x")),
        lambda rdd: rdd.map(lambda row: f"{row.key} {row.n}"),
        lambda: by(lambda row: f"{row[0]} {row[1]}"),
    ),
    "distinct and other columns": Job(
        lambda read: read.rows.selectExpr("n AS a", "n IS NULL AS b", "key AS c").distinct(),
        lambda rdd: rdd.filter(lambda row: row.b).map(lambda row: str(row.c)),
        lambda: by(lambda row: str(row[0]) if row[1] is None else None),
    ),
    "over whole partitions": Job(
        lambda read: read.rows.select("key").coalesce(1),
        lambda rdd: rdd.mapPartitions(lambda rows: [str(len(list(rows)))]),
        lambda: {str(len(ROWS)): {line for line, _ in numbered()}},
    ),
}


@pytest.mark.parametrize("name", drawn(JOBS, 3))
def test_traces_are_those_of_brute_force(
    name: str, capture: Capture, read: Read, tmp_path: Path, home: Path
) -> None:
    job = JOBS[name]
    out = tmp_path / "out"
    with capture() as lc:
        job.output(lc.rdd(job.frame(read))).coalesce(1).saveAsTextFile(str(out))
        app = lc.app
    assert judged(tmp_path, app).complete
    wanted = job.made_of()
    outputs = (out / "part-00000").read_text().splitlines()
    assert set(outputs) == set(wanted)
    for number, text in list(enumerate(outputs, 1))[-ASKED:]:
        answer = ask(tmp_path, Direction.BACKWARD, f"{out}/part-00000:{number}")
        assert set(lines(answer, "in.csv")) == wanted[text], text
        equal = outputs.count(text) > 1
        superset = name == "over whole partitions" or equal
        assert answer.exact == (not superset), (text, answer.reasons)
        if job.lands:
            keys = {ROWS[line - 2][0] for line in wanted[text]}
            found = {list(LANDS)[line - 2] for line in lines(answer, "lands.csv")}
            assert found == keys
        (frame,) = [group for group in answer.groups if group.what == "DataFrame.rdd"]
        assert frame.count >= 1
        assert ROW_NAME not in str(frame.items[0].text)
    # Two equal rows among them.
    for line in (2, 5, len(ROWS) + 1):
        answer = ask(tmp_path, Direction.FORWARD, f"{home}/in.csv:{line}")
        found = {outputs[at - 1] for at in lines(answer, "part-00000")}
        assert found == {text for text, of in wanted.items() if line in of}, line


def test_records_are_told_by_name_in_each_run(capture: Capture, read: Read, tmp_path: Path) -> None:
    """However often the rows are read, and wherever they were then."""
    with capture() as lc:
        rdd = lc.rdd(read.rows.repartition(3))
        both = rdd.union(rdd).map(lambda row: str(row.key)).distinct(1)
        both.saveAsTextFile(str(tmp_path / "out"))
        assert rdd.cache().count() == rdd.count() == len(ROWS)
        app = lc.app
    assert judged(tmp_path, app).complete
    wanted = by(lambda row: str(row[0]))
    for number, text in enumerate((tmp_path / "out/part-00000").read_text().splitlines(), 1):
        answer = ask(tmp_path, Direction.BACKWARD, f"{tmp_path}/out/part-00000:{number}")
        assert set(lines(answer, "in.csv")) == wanted[text]


def test_the_row_that_a_function_failed_on_is_traced(
    capture: Capture, read: Read, tmp_path: Path
) -> None:
    with capture() as lc:
        failing = lc.rdd(read.rows.where("n IS NOT NULL")).map(lambda row: 1 // (row.n - 3))
        with pytest.raises(SPARK_ERRORS, match="ZeroDivisionError"):
            failing.collect()
    answer = ask(tmp_path, Direction.BACKWARD, "crash#0#0")
    assert lines(answer, "in.csv") == [line for line, row in numbered() if row[1] == 3]


def test_a_program_finds_the_records_and_their_names(
    capture: Capture, read: Read, tmp_path: Path
) -> None:
    with capture() as lc:
        rdd = lc.rdd(read.rows)
        keys: Any = rdd.map(lambda row: (row.key, 1)).reduceByKey(add)
        found = keys.getLineage().filter(lambda one: one[0] == "c")
        records = found.goBackAll()
        assert [one.address.partition("#")[0] for one in records.collect()] == ["df.rdd@0"]
        assert found.goBack().goBack().count == 1
        forth = records.goNextAll()
        assert [one.value for one in forth.collect()] == [("c", 1)]


def test_a_program_goes_on_to_the_rows_of_sources(
    capture: Capture, read: Read, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with capture() as lc:
        rdd = lc.rdd(read.rows.where("n IS NOT NULL").join(read.lands, "key"))
        totals: Any = rdd.map(lambda row: (row.land, row.n)).reduceByKey(add)
        for land in ("NO", "IT"):
            found = totals.getLineage().filter(lambda one, land=land: one[0] == land)
            behind = found.frame_rows()
            wanted = {
                line: row for line, row in numbered() if row[0] and row[1] and LANDS[row[0]] == land
            }
            rows = behind.rows(next(path for path in behind.paths if path.endswith("in.csv")))
            assert sorted(map(tuple, rows.collect())) == sorted(wanted.values())
            behind.show()
            places = re.findall(r"in\.csv:(\d+)", capsys.readouterr().out)
            assert sorted(map(int, places)) == sorted(wanted)
        totals.getLineage().goBackAll().show()
        assert "frame_rows() gives what they were made from" in capsys.readouterr().out
        # Of two frames one is to be said; where there is none there is nothing to say.
        other = lc.rdd(read.lands)
        both: Any = rdd.map(lambda row: row.land).union(other.map(lambda row: row.land))
        with pytest.raises(ChoiceError):
            both.getLineage().frame_rows()
        lands = both.getLineage().frame_rows(other)
        assert (lands.count, lands.exact) == (len(LANDS), True)
        alone: Any = lc.textFile(str(home / "in.csv"), 1)
        with pytest.raises(TracingError, match="no row of a DataFrame"):
            alone.getLineage().frame_rows()


def test_where_no_spark_is_the_answer_ends_and_says_how_to_go_on(
    capture: Capture, read: Read, tmp_path: Path
) -> None:
    with capture() as lc:
        lc.rdd(read.rows.where("n = 3")).map(str).coalesce(1).saveAsTextFile(str(tmp_path / "out"))
        app = lc.app
    place = f"{tmp_path}/out/part-00000:1"
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        answer = QueryEngine(store, RowReader()).ask(TraceQuery(Direction.BACKWARD, (place,)))
        (frame,) = [node for node in store.graph(app).nodes() if node.kind == "frame"]
        recipe = Recipe.from_json(store.graph(app).recipe(frame.node) or "")
    (group,) = answer.groups
    assert group.items[0].address.startswith("df.rdd@0#")
    assert recipe.names_rows
    (warning,) = answer.warnings
    found = re.search(rf"lineage back '({frame.node}#{ROW_NAME}=-?\d+)' --app {app}", warning)
    assert found is not None
    on = ask(tmp_path, Direction.BACKWARD, found[1])
    assert lines(on, "in.csv") == lines(ask(tmp_path, Direction.BACKWARD, place), "in.csv") != []


def test_a_changed_file_is_not_traced(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in.txt").write_text("a\nb\n")
    with capture() as lc:
        lc.rdd(spark.read.text(str(tmp_path / "in.txt"))).map(str).saveAsTextFile(
            str(tmp_path / "out")
        )
    (tmp_path / "in.txt").write_text("a\nb\nc\n")
    with pytest.raises(ChangedSourceError, match=r"in\.txt"):
        ask(tmp_path, Direction.BACKWARD, f"{tmp_path}/out/part-00000:1")


# -- names -------------------------------------------------------------------------------------


def named_by(frame: DataFrame) -> set[str]:
    """The columns that rows are named by."""
    return {frame.columns[place] for place in naming_columns(frame)}


def test_columns_that_another_run_gives_otherwise_are_no_part_of_names(
    read: Read, spark: SparkSession, home: Path
) -> None:
    twice = F.udf(lambda text: f"{text}{text}")
    frame = read.rows.groupBy("key").agg(
        F.sum("x").alias("sum"),
        F.sum("x").cast("string").alias("digits"),
        F.sum("n").alias("whole"),
        F.collect_list("n").alias("list"),
        F.max("x").alias("most"),
    )
    frame = frame.withColumn("random", F.rand()).withColumn("python", twice("key"))
    assert named_by(frame) == {"key", "whole", "most"}
    assert named_by(FRAMES["every kind"](spark, home)) == set("abcdefghijklmnoq")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (lambda read: read.rows.selectExpr("sum(x) AS s"), "no column of its rows is sure"),
        (lambda read: read.rows.selectExpr(f"n AS {ROW_NAME}"), f"a field called {ROW_NAME}"),
        (lambda read: read.rows.sample(0.5, seed=1).groupBy("key").count(), "draws a sample"),
    ],
)
def test_rows_without_names_begin_anew_and_the_verdict_says_why(
    made: Callable[[Read], DataFrame], reason: str, capture: Capture, read: Read, tmp_path: Path
) -> None:
    with capture() as lc:
        lc.rdd(made(read)).map(str).coalesce(1).saveAsTextFile(str(tmp_path / "out"))
        app = lc.app
    (said,) = judged(tmp_path, app).reasons
    assert said.startswith("unknown part: DataFrame.rdd at ")
    assert reason in said
    answer = ask(tmp_path, Direction.BACKWARD, f"{tmp_path}/out/part-00000:1")
    assert [group.label for group in answer.groups] == ["df.rdd"]


def test_rows_that_differ_in_other_columns_alone_share_a_name(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "in.json").write_text('{"n":1,"m":"a"}\n{"n":1,"m":"b"}\n{"n":2,"m":"c"}\n')
    frame = spark.read.schema("n int, m string").json(str(tmp_path / "in.json"))
    frame = frame.selectExpr("n", "map('m', m) AS m")
    with capture() as lc:
        rdd: Any = lc.rdd(frame).map(lambda row: f"{row.n} {row.m['m']}")
        rdd.sortBy(str, numPartitions=1).saveAsTextFile(str(tmp_path / "out"))
    back = [ask(tmp_path, Direction.BACKWARD, f"{tmp_path}/out/part-00000:{n}") for n in (1, 2, 3)]
    assert [(lines(one, "in.json"), one.exact) for one in back] == [
        ([1, 2], False),
        ([1, 2], False),
        ([3], True),
    ]
    assert back[0].reasons == ("2 rows have the values of 1",)
    forth = [ask(tmp_path, Direction.FORWARD, f"{tmp_path}/in.json:{n}") for n in (1, 3)]
    assert [(lines(one, "part-00000"), one.exact) for one in forth] == [
        ([1, 2], False),
        ([3], True),
    ]


def test_rows_that_come_out_otherwise_now_end_the_answer(
    capture: Capture, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with capture() as lc:
        lc.rdd(read.rows.where("n = 3")).map(str).coalesce(1).saveAsTextFile(str(tmp_path / "out"))

    def refused(*_: Any, **__: Any) -> None:
        raise RefusedError("of 1 rows 1 come out otherwise when they are computed anew")

    monkeypatch.setattr("lineage_dataframes.trace.crossing.trace_named", refused)
    answer = ask(tmp_path, Direction.BACKWARD, f"{tmp_path}/out/part-00000:1")
    assert ([group.label for group in answer.groups], answer.exact) == (["df.rdd"], False)
    assert "come out otherwise" in answer.reasons[0]
