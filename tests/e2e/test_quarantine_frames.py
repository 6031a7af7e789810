"""Rows of DataFrames that Python functions fail on are set aside with their lineage: against a run in memory that does the same."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner

from lineage.main import app as command_line
from lineage_core.recipe.functions import FUNCTIONS_KEY
from lineage_core.recipe.plan import Call, Filter
from lineage_dataframes.trace.backward import trace_backward
from lineage_emitter import LineageContext
from lineage_store.recipes import read_recipe
from lineage_store.url import open_store
from tests.integration.test_table_chains import CONF
from tests.support.job_runs import CLI, STORE, judged, run_plain, run_program, write_job
from tests.support.versions import not_before_41, only_in
from tests.tables.conf import SMALL_SPARK
from tests.tables.jars import table_jars

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
KEY = "0f" * 32


@dataclass(frozen=True)
class Traced:
    """A row, and the lines that it was made from."""

    key: str
    value: Any
    lines: frozenset[int]


FUNCTIONS = """
import pandas as pd
import pyarrow as pa

def in_pandas(function):
    def of_series(*columns: pd.Series) -> pd.Series:
        return pd.Series([function(*row) for row in zip(*columns)])
    return of_series

def in_arrow(function):
    def of_arrays(*columns: pa.Array) -> pa.Array:
        return pa.array([function(*row) for row in zip(*[c.to_pylist() for c in columns])])
    return of_arrays

def parsed(text):
    return int(text)

def divided(value):
    return 60 // (value % 4)

def is_chosen(value):
    return [True, False, True][value % 4]

def looked_up(key, value):
    return {"a": 7, "b": 8, "c": 9}[key] + value

def refused(*values):
    raise LookupError("none")

def is_positive(value):
    if value == 0 and str(value).startswith("-"):
        raise LookupError("a zero below zero")
    return True
"""
functions: dict[str, Any] = {"__name__": "job"}
# Of a program that is no module: their code travels, and nothing is looked up of what they import.
exec(FUNCTIONS, functions)
parsed, divided, is_chosen, looked_up, refused, is_positive = (
    functions[name]
    for name in ("parsed", "divided", "is_chosen", "looked_up", "refused", "is_positive")
)


OfUdf = Callable[[Callable[..., Any], str], Any]


def of_udf(function: Callable[..., Any], kind: str) -> Any:
    return F.udf(function, kind, useArrow=False)


of_pyspark: Any = F

KINDS: dict[str, OfUdf] = {
    "rows": of_udf,
    "rows by Arrow": lambda function, kind: F.udf(function, kind, useArrow=True),
    "pandas": lambda function, kind: of_pyspark.pandas_udf(functions["in_pandas"](function), kind),
    "arrays": lambda function, kind: of_pyspark.arrow_udf(functions["in_arrow"](function), kind),
}
"""Ways in which functions of a row get it."""


def steps_of(of_udf: OfUdf) -> dict[str, Callable[[DataFrame], DataFrame]]:
    def with_value(function: Callable[..., Any], *columns: str) -> Callable[[DataFrame], DataFrame]:
        return lambda frame: frame.withColumn("v", of_udf(function, "int")(*columns))

    return {
        "divided": with_value(divided, "v"),
        "looked up": with_value(looked_up, "k", "v"),
        "chained": lambda frame: frame.withColumn(
            "v", of_udf(divided, "int")(of_udf(divided, "int")("v"))
        ),
        "chosen": lambda frame: frame.where(of_udf(is_chosen, "boolean")("v")),
        "not used": lambda frame: frame.withColumn("w", of_udf(parsed, "int")("k")).drop("w"),
        "sorted": lambda frame: frame.orderBy("v", "k"),
        "union": lambda frame: frame.union(frame),
        "grouped": lambda frame: frame.groupBy("k").agg(F.sum("v").cast("int").alias("v")),
    }


STEPS = tuple(steps_of(of_udf))
VALUES: dict[str, Callable[[Traced], Any]] = {
    "divided": lambda row: divided(row.value),
    "looked up": lambda row: looked_up(row.key, row.value),
    "chained": lambda row: divided(divided(row.value)),
}


def in_memory(steps: Sequence[str], lines: Sequence[str]) -> tuple[list[Traced], list[Traced]]:
    """What a program gives, and what it sets aside."""
    set_aside: list[Traced] = []

    def each(of_row: Callable[[Traced], Any], rows: list[Traced]) -> Iterator[tuple[Traced, Any]]:
        for row in rows:
            try:
                value = of_row(row)
            except Exception:
                set_aside.append(row)
            else:
                yield row, value

    cells = [line.split(",") for line in lines]
    rows = [Traced(key, text, frozenset([n])) for n, (key, text) in enumerate(cells, 1)]
    rows = [
        Traced(row.key, value, row.lines)
        for row, value in each(lambda row: parsed(row.value), rows)
    ]
    for step in steps:
        if step in VALUES:
            rows = [Traced(row.key, v, row.lines) for row, v in each(VALUES[step], rows)]
        elif step == "chosen":
            rows = [row for row, chosen in each(lambda row: is_chosen(row.value), rows) if chosen]
        elif step == "union":
            # Each side calls the functions by itself.
            rows, set_aside[:] = rows + rows, set_aside + set_aside
        elif step == "grouped":
            ordered = sorted(rows, key=lambda row: row.key)
            rows = [
                Traced(
                    key,
                    sum(row.value for row in group),
                    frozenset[int]().union(*(row.lines for row in group)),
                )
                for key, found in groupby(ordered, key=lambda row: row.key)
                for group in [list(found)]
            ]
    return rows, set_aside


def drawn(seed: int) -> tuple[list[str], list[str]]:
    draw = random.Random(seed)
    lines = [f"{draw.choice('abcd')},{draw.randrange(40)}" for _ in range(draw.randrange(5, 40))]
    for _ in range(draw.randrange(1, 4)):
        lines.insert(draw.randrange(len(lines)), draw.choice(["a,two", "b,x", "c,1 2"]))
    steps = [step for step, _ in groupby(draw.choices(STEPS, k=draw.randrange(1, 6)))]
    if "grouped" in steps:
        # Behind a shuffle Spark computes both sides of a union at once, or not.
        first = steps.index("grouped")
        steps = [*steps[: first + 1], *(s for s in steps[first + 1 :] if s != "union")]
    return steps, lines


def listed(folder: Path, app: str, *options: str) -> dict[str, Any]:
    store = f"sqlite:///{folder / STORE}"
    result = CliRunner().invoke(
        command_line, ["--store", store, "quarantine", app, "--json", *options]
    )
    assert result.exit_code == 0, (result.output, result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def lines_of(found: dict[str, Any]) -> set[int]:
    return {
        int(item["location"].rpartition(":")[2])
        for record in found["records"]
        for group in record["sources"]
        for item in group["items"]
    }


def check_drawn(
    capture: Capture,
    spark: SparkSession,
    folder: Path,
    seed: int,
    rows_traced: int,
    of_udf: OfUdf = of_udf,
) -> None:
    steps, lines = drawn(seed)
    source = folder / "lines.csv"
    source.write_text("".join(f"{line}\n" for line in lines))
    with capture(quarantine=1_000) as lc:
        frame = spark.read.schema("k string, t string").csv(str(source))
        frame = frame.select("k", of_udf(parsed, "int")("t").alias("v"))
        for step in steps:
            frame = steps_of(of_udf)[step](frame)
        collected = [(row.k, row.v) for row in frame.collect()]
        # Once more: what is set aside again is the same.
        assert Counter((row.k, row.v) for row in frame.toLocalIterator()) == Counter(collected)
        app = lc.app
    expected, set_aside = in_memory(steps, lines)
    verdict = judged(folder, app)
    assert verdict.complete, verdict.reasons
    assert Counter(collected) == Counter((row.key, row.value) for row in expected), (seed, steps)
    found = listed(folder, app, "--limit", "1000")
    assert lines_of(found) == {line for row in set_aside for line in row.lines}, (seed, steps)
    assert all(record["exact"] for record in found["records"]), found
    assert sum(entry["records"] for entry in found["operators"]) == len(set_aside), (seed, steps)
    with open_store(f"sqlite:///{folder / STORE}") as store:
        graph = store.graph(app)
        (node, *_) = [n.node for n in graph.nodes() if n.op == "DataFrame.collect"]
        recipe = read_recipe(graph, node)
    assert recipe is not None
    for key, value in list(dict.fromkeys(collected))[:rows_traced]:
        witnesses = trace_backward(spark, recipe, [{"k": key, "v": value}])
        ordinals = {int(n) + 1 for of in witnesses.rows.values() for n in of}
        same = [row.lines for row in expected if (row.key, row.value) == (key, value)]
        assert ordinals == frozenset[int]().union(*same), (seed, steps, key, value)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FUNCTIONS_KEY, KEY)


@pytest.mark.parametrize("seed", [0, pytest.param(4, marks=pytest.mark.long)])
def test_what_is_left_and_what_is_set_aside(
    capture: Capture, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    check_drawn(capture, spark, tmp_path, seed, rows_traced=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(5, 40))
def test_more_of_what_is_left_and_set_aside(
    capture: Capture, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    check_drawn(capture, spark, tmp_path, seed, rows_traced=4)


def kind_of(name: str, *marks: Any) -> Any:
    """A kind, where this Spark has functions of it that are set aside."""
    old = (
        []
        if name in {"rows", "pandas"}
        else [not_before_41("functions of rows by Arrow that are set aside")]
    )
    return pytest.param(name, marks=[*marks, *old])


BY_ARROW = [
    kind_of("rows by Arrow", pytest.mark.long),
    kind_of("pandas"),
    kind_of("arrays", pytest.mark.long),
]


@pytest.mark.parametrize("kind", BY_ARROW)
def test_what_functions_that_get_rows_by_arrow_leave_and_set_aside(
    capture: Capture, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    check_drawn(capture, spark, tmp_path, 8, rows_traced=1, of_udf=KINDS[kind])


@pytest.mark.long
@pytest.mark.parametrize("kind", BY_ARROW)
@pytest.mark.parametrize("seed", range(50, 60))
def test_more_of_what_functions_by_arrow_leave_and_set_aside(
    capture: Capture, spark: SparkSession, tmp_path: Path, seed: int, kind: str
) -> None:
    check_drawn(capture, spark, tmp_path, seed, rows_traced=2, of_udf=KINDS[kind])


# -- which rows, and where none --------------------------------------------------------------------

CELLS = [
    "0.0,a'b$,2024-10-27 02:30:00,2024-02-29,1.50,true",
    '-0.0,"x ""y"" \\",1899-01-01 00:00:01,0033-02-01,-0.01,false',
    "NaN,ü\U0001f600,2024-03-31 03:00:00.000001,9999-12-31,,true",
    ",,,,,",
    "1e300, , 2024-07-01 12:00:00,1970-01-01,99999.99,",
]
COLUMNS = "d double, s string, t timestamp, day date, c decimal(7,2), b boolean"


@pytest.mark.long
@pytest.mark.parametrize("kind", [*map(kind_of, KINDS)])
def test_rows_are_named_by_arguments_of_any_kind(
    capture: Capture, spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    of_udf = KINDS[kind]
    source = tmp_path / "cells.csv"
    source.write_text("".join(f"{line}\n" for line in CELLS), encoding="utf-8")
    with capture(quarantine=9) as lc:
        frame = spark.read.schema(COLUMNS).csv(str(source))
        assert frame.select(of_udf(refused, "int")(*frame.columns)).collect() == []
        counted = frame.where(of_udf(is_positive, "boolean")("d")).groupBy().count()
        assert [row[0] for row in counted.collect()] == [len(CELLS) - 1]
        app = lc.app
    found = listed(tmp_path, app)
    lines = [lines_of({"records": [record]}) for record in found["records"]]
    # One zero is not the other.
    assert sorted(map(sorted, lines)) == [[1], [2], [2], [3], [4], [5]], found
    assert {entry["records"] for entry in found["operators"]} == {5, 1}


@pytest.mark.long
def test_where_none_are_set_aside_a_failing_row_ends_the_job(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "lines.csv"
    source.write_text("a,x\nb,1\nc,x\n")

    def frame(function: Any) -> DataFrame:
        return spark.read.schema("k string, t string").csv(str(source)).select(function("t"))

    number = of_udf(parsed, "int")
    with capture(quarantine=2) as lc:
        assert frame(number).count() == 3
        assert [row[0] for row in frame(number).collect()] == [1]
        # Others would have to come in the place of the row.
        with pytest.raises(Exception, match="invalid literal"):
            frame(number).limit(2).collect()
        with pytest.raises(Exception, match="invalid literal"):
            frame(number.asNondeterministic()).collect()
        app = lc.app
    assert lines_of(listed(tmp_path, app)) == {1, 3}
    number = of_udf(parsed, "int")
    with capture(quarantine=1), pytest.raises(Exception, match="had set aside 1 records"):
        frame(number).collect()
    for settings in ({"quarantine": 2, "values": False}, {}):
        with capture(**settings), pytest.raises(Exception, match="invalid literal"):
            frame(number).collect()


OF_BATCHES = """
from collections.abc import Iterator

import pandas as pd

def in_steps(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for batch in batches:
        yield batch.map(int)

def frames(batches):
    for batch in batches:
        yield batch.assign(t=batch["t"].map(int))

def summed(column: pd.Series) -> int:
    return int(column.map(int).sum())

def together(column: pd.Series) -> pd.Series:
    if len(column) == 4:
        raise ValueError("invalid literal: all of them")
    return column.map(len)
"""


@pytest.mark.long
def test_functions_of_more_than_a_row_end_the_job_as_without_capture(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "lines.csv"
    source.write_text("a,x\nb,1\na,2\nb,3\n")
    of: dict[str, Any] = {"__name__": "job"}
    exec(OF_BATCHES, of)
    read = spark.read.schema("k string, t string").csv(str(source))
    frames = [
        read.select(of_pyspark.pandas_udf(of["in_steps"], "int")("t")),
        read.mapInPandas(of["frames"], "k string, t int"),
        read.groupBy("k").agg(of_pyspark.pandas_udf(of["summed"], "int")("t")),
        read.select(of_pyspark.pandas_udf(of["together"], "int")("t")),
    ]
    with capture(quarantine=9) as lc:
        for frame in frames:
            with pytest.raises(Exception, match="invalid literal"):
                frame.collect()
        app = lc.app
    assert listed(tmp_path, app)["operators"] == []


@pytest.mark.long
def test_a_plan_that_was_looked_at_before_capture_leaves_out_what_its_recipe_does(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "lines.csv"
    source.write_text("a,x\nb,1\nc,x\nd,2\n")
    read = spark.read.schema("k string, t string").csv(str(source))
    frame = read.select("k", of_udf(parsed, "int")("t").alias("v"))
    frame.explain()
    with capture(quarantine=9) as lc:
        frame.write.csv(str(tmp_path / "out"))
        # Its own plan has no such filter: it runs that one.
        with pytest.raises(Exception, match="invalid literal"):
            frame.collect()
        app = lc.app
    assert written(tmp_path / "out") == ["b,1", "d,2"]
    assert lines_of(listed(tmp_path, app)) == {1, 3}
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        graph = store.graph(app)
        (node,) = [n.node for n in graph.nodes() if n.op == "DataFrameWriter.csv"]
        recipe = read_recipe(graph, node)
    assert recipe is not None
    conditions = [node.condition for node in recipe.plan if isinstance(node, Filter)]
    assert "not" in [condition.fn for condition in conditions if isinstance(condition, Call)]


@pytest.mark.long
def test_what_no_plan_says_is_named_by_the_verdict(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "lines.csv"
    source.write_text("a,x\nb,1\n")
    spark.udf.register("parsed", of_udf(parsed, "int"))
    spark.read.schema("k string, t string").csv(str(source)).createOrReplaceTempView("lines")
    with capture(quarantine=9) as lc:
        spark.sql("CACHE TABLE numbers AS SELECT parsed(t) FROM lines")
        app = lc.app
    spark.sql("UNCACHE TABLE numbers")
    verdict = judged(tmp_path, app)
    assert not verdict.complete
    assert any("no plan that was recorded says so" in reason for reason in verdict.reasons), verdict


@pytest.mark.long
def test_jobs_that_may_not_read_all_rows_fail_as_without_capture(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "lines.csv"
    source.write_text("".join(f"k{n},{'x' if n == 1 else n}\n" for n in range(500)))
    number = of_udf(parsed, "int")
    read = spark.read.schema("k string, t string").csv(str(source))
    frame = read.select("k", number("t").alias("v"))
    first = "import itertools\ndef first(batches):\n    yield from itertools.islice(batches, 1)\n"
    first += "def one(rows):\n    next(rows)\n"
    of_batches: dict[str, Any] = {"__name__": "job"}
    exec(first, of_batches)
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")
    jobs: list[Callable[[], object]] = [
        lambda: frame.where("v > 0").limit(3).collect(),
        lambda: frame.where("v > 0").limit(3).write.csv(str(tmp_path / "out")),
        lambda: frame.mapInPandas(of_batches["first"], "k string, v int").collect(),
        lambda: frame.rdd.take(1),
        lambda: frame.foreachPartition(of_batches["one"]),
    ]
    try:
        with capture(quarantine=9) as lc:
            for job in jobs:
                with pytest.raises(Exception, match="invalid literal"):
                    job()
            assert frame.where("v > 0").orderBy("v").limit(2).collect() == [("k2", 2), ("k3", 3)]
            app = lc.app
        # What was set aside is that of the last one alone; and a plan outlives capture.
        assert [entry["records"] for entry in listed(tmp_path, app)["operators"]] == [1]
        with pytest.raises(Exception, match="invalid literal"):
            frame.collect()
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.mark.long
def test_values_are_those_of_plain_pyspark(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    text = """
import datetime

def paired(text):
    return zip(text, [datetime.date(2020, 1, int(text))])

def mapped(text):
    return {datetime.date(2020, 1, int(text)): map(datetime.date.fromordinal, [int(text)])}

def named(text):
    return {"d": datetime.date(2020, 1, int(text)), "n": int(text)}
"""
    of_text: dict[str, Any] = {"__name__": "job"}
    exec(text, of_text)
    kinds = {
        "paired": "array<struct<k:string,d:date>>",
        "mapped": "map<date,array<date>>",
        "named": "struct<n:int,d:date>",
    }
    frame = spark.createDataFrame([("7",), ("x",), ("8",)], "t string")
    columns = [of_udf(of_text[name], kind)("t") for name, kind in kinds.items()]
    plain = frame.where("t <> 'x'").select(*columns).collect()
    assert plain[0][0][0].k == "7"
    with capture(quarantine=9):
        assert frame.select(*columns).collect() == plain


# -- by the command --------------------------------------------------------------------------------

JOB = """
import sys
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.conf.set("spark.sql.shuffle.partitions", "2")
table = spark.read.schema("city string, amount string").csv(sys.argv[1])


def parsed(text):
    return int(text)


def half(number):
    return 12 // number


numbers = table.select("city", F.udf(parsed, "int", useArrow=False)("amount").alias("n")).cache()
halves = numbers.withColumn("h", F.udf(half, "int", useArrow=False)("n"))
halves.groupBy("city").agg(F.sum("h").alias("total")).write.csv(sys.argv[2] + "/totals")
numbers.write.csv(sys.argv[2] + "/numbers")
"""
LINES = ["Oslo,4", "Rome,3", "Oslo,two", "Lima,0", "Oslo,6", "Rome,x"]
MENDED = ["Oslo,4", "Rome,3", "Oslo,2", "Lima,1", "Oslo,6"]
REPAIR = """
CHANGED = {"two": "2", "0": "1"}

def repaired(row):
    amount = CHANGED.get(row["amount"])
    return row | {"amount": amount} if amount else None

def left(row):
    return row
"""


def written(folder: Path) -> list[str]:
    return sorted(
        line for part in folder.glob("*.csv") for line in part.read_text("utf-8").splitlines()
    )


BY_PANDAS = """
@F.pandas_udf("int")
def parsed_all(texts: pd.Series) -> pd.Series:
    return texts.map(int)

@F.pandas_udf("int")
def half_all(numbers: pd.Series) -> pd.Series:
    return 12 // numbers.map(lambda number: number if number else 1 // number)
"""


@pytest.mark.long
@pytest.mark.parametrize("by_pandas", [False, True])
def test_outputs_again_on_repaired_rows_are_plain_pyspark_on_these(
    tmp_path: Path, *, by_pandas: bool
) -> None:
    job = JOB
    if by_pandas:
        job = job.replace("import sys", "import sys\nimport pandas as pd")
        job = job.replace("numbers =", f"{BY_PANDAS}\nnumbers =")
        for name in ("parsed", "half"):
            job = job.replace(f'F.udf({name}, "int", useArrow=False)', f"{name}_all")
    write_job(tmp_path, job)
    (tmp_path / "repair.py").write_text(REPAIR)
    (tmp_path / "in.csv").write_text("\n".join(LINES) + "\n")
    (tmp_path / "mended.csv").write_text("\n".join(MENDED) + "\n")
    env = {FUNCTIONS_KEY: KEY}
    failed = run_program(tmp_path, [*CLI, "run", "job.py", "in.csv", "plain"], env)
    assert failed.returncode != 0
    captured = [*CLI, "run", "job.py", "in.csv", "out"]
    ran = run_program(tmp_path, captured, env | {"LINEAGE_QUARANTINE": "5"})
    assert ran.returncode == 0, ran.stderr
    assert "3 records were set aside" in ran.stderr
    assert written(tmp_path / "out/numbers") == ["Lima,0", "Oslo,4", "Oslo,6", "Rome,3"]
    assert written(tmp_path / "out/totals") == ["Oslo,5", "Rome,4"]
    found = json.loads(run_program(tmp_path, [*CLI, "quarantine", "--json"], env).stdout)
    counts = {entry["operator"].split()[0]: entry["records"] for entry in found["operators"]}
    end = "_all" if by_pandas else ""
    assert counts == {f"parsed{end}": 2, f"half{end}": 1}
    assert lines_of(found) == {3, 4, 6}
    assert all(record["exact"] for record in found["records"])
    plain = run_plain(tmp_path, "job.py", "mended.csv", "plain")
    assert plain.returncode == 0, plain.stderr
    replay = [*CLI, "replay", "--quarantined", "--json", "--with"]
    mended = run_program(tmp_path, [*replay, "repair.py:repaired", "--to", "again"], env)
    assert mended.returncode == 0, mended.stderr
    by_name = {Path(one["to"]).name: one for one in json.loads(mended.stdout)["outputs"]}
    assert {name: one["repaired"] for name, one in by_name.items()} == {"totals": 3, "numbers": 3}
    assert json.loads(mended.stdout)["reasons"] == []
    for name in ("totals", "numbers"):
        assert written(tmp_path / "out" / name) != written(tmp_path / "plain" / name)
        assert written(tmp_path / "again" / name) == written(tmp_path / "plain" / name)
    still = run_program(tmp_path, [*replay, "repair.py:left", "--to", "other"], env)
    assert (still.returncode, "invalid literal for int" in still.stderr) == (2, True), still.stderr
    # Without the key the functions can't be run again.
    refused = run_program(tmp_path, [*replay, "repair.py:repaired", "--to", "third"])
    assert (refused.returncode, "no key was given" in refused.stderr) == (2, True), refused.stderr


# -- rows of tables --------------------------------------------------------------------------------

TABLES_JOB = """
import json
import sys
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()


def parsed(text):
    return int(text)


spark.udf.register("parsed", F.udf(parsed, "int", useArrow=False))
rows = spark.createDataFrame([(1, "1"), (2, "x"), (3, "3")], "id int, t string")
rows.createOrReplaceTempView("lines")
said = {}
STATEMENTS = [
    "UPDATE {table} SET t = cast(parsed(t) + 1 AS string) WHERE id > 0",
    "DELETE FROM {table} WHERE parsed(t) = 3",
    "MERGE INTO {table} a USING lines b ON a.id = b.id AND parsed(a.t) = 3 WHEN MATCHED THEN DELETE",
    "MERGE INTO {table} a USING (SELECT id, parsed(t) n FROM lines) b ON a.id = b.id "
    "WHEN MATCHED THEN UPDATE SET t = cast(n + 1 AS string) WHEN NOT MATCHED BY SOURCE THEN DELETE",
]
for form in ("delta", "iceberg"):
    for n, statement in enumerate(STATEMENTS):
        name = f"delta.`{sys.argv[1]}/{n}`" if form == "delta" else f"local.db.t{n}"
        rows.coalesce(1).writeTo(name).using(form).create() if form == "iceberg" else (
            rows.coalesce(1).write.format("delta").save(f"{sys.argv[1]}/{n}")
        )
        try:
            spark.sql(statement.format(table=name))
            failed = False
        except Exception as problem:
            failed = "invalid literal" in str(problem) or str(problem)
        left = sorted(map(list, spark.table(name).collect()))
        said[f"{form}: {statement}"] = [failed, left]
try:
    rows.select(F.expr("parsed(t) n")).write.format("delta").save(f"{sys.argv[1]}/numbers")
    said["numbers"] = spark.read.format("delta").load(f"{sys.argv[1]}/numbers").count()
except Exception:
    said["numbers"] = None
with open(sys.argv[2], "w") as file:
    json.dump(said, file)
"""


@pytest.mark.long
@only_in("Apache Iceberg", "4.1")
def test_statements_that_change_rows_of_tables_leave_none_out(tmp_path: Path) -> None:
    jars = ",".join(map(str, sorted(table_jars().glob("*.jar"))))
    write_job(tmp_path, TABLES_JOB)
    (tmp_path / "conf").mkdir()
    said: dict[str, dict[str, Any]] = {}
    for name in ("plain", "captured"):
        settings = f"{SMALL_SPARK}spark.jars {jars}\n{CONF.format(home=tmp_path / name)}"
        (tmp_path / "conf/spark-defaults.conf").write_text(settings)
        env = {"SPARK_CONF_DIR": str(tmp_path / "conf")}
        arguments = (str(tmp_path / name / "delta"), f"{name}.json")
        if name == "plain":
            ran = run_plain(tmp_path, "job.py", *arguments, env=env)
        else:
            env["LINEAGE_QUARANTINE"] = "9"
            ran = run_program(tmp_path, [*CLI, "run", "job.py", *arguments], env)
        assert ran.returncode == 0, ran.stderr
        text = (tmp_path / f"{name}.json").read_text().replace(str(tmp_path / name), "")
        said[name] = json.loads(text)
    # What is written anew leaves the row out, as ever.
    assert (said["plain"].pop("numbers"), said["captured"].pop("numbers")) == (None, 2)
    assert said["captured"] == said["plain"]
    everything = [[1, "1"], [2, "x"], [3, "3"]]
    assert list(said["plain"].values()) == [[True, everything]] * 8


CACHED_JOB = """
import json
import sys
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()


def parsed(text):
    return int(text)


rows = spark.createDataFrame([(1, "1"), (2, "x"), (3, "3")], "id int, t string")
said = {}
for form in ("delta", "iceberg"):
    for n, (bad, is_computed) in enumerate([(True, True), (True, False), (False, True)]):
        name = f"delta.`{sys.argv[1]}/{n}`" if form == "delta" else f"local.db.t{n}"
        rows.coalesce(1).writeTo(name).using(form).create() if form == "iceberg" else (
            rows.coalesce(1).write.format("delta").save(f"{sys.argv[1]}/{n}")
        )
        lines = rows if bad else rows.where("id <> 2").union(rows.where("id = 2").withColumn("t", F.lit("2")))
        number = F.udf(parsed, "int", useArrow=False)("t")
        numbers = lines.select("id", number.alias("n")).cache()
        numbers.createOrReplaceTempView("numbers")
        try:
            # As the program would go on without capture, too.
            computed = numbers.count() and len(numbers.collect()) if is_computed else None
        except Exception:
            computed = None
        try:
            spark.sql(
                f"MERGE INTO {name} a USING numbers b ON a.id = b.id WHEN MATCHED THEN UPDATE SET t = "
                "cast(n + 1 AS string) WHEN NOT MATCHED BY SOURCE THEN DELETE"
            )
            failed = ""
        except Exception as problem:
            failed = str(problem)
        numbers.unpersist()
        said[f"{form} {n}"] = [computed, failed, sorted(map(list, spark.table(name).collect()))]
with open(sys.argv[2], "w") as file:
    json.dump(said, file)
"""


@pytest.mark.long
@only_in("Apache Iceberg", "4.1")
def test_statements_do_not_take_for_deleted_what_a_cached_frame_lacks(tmp_path: Path) -> None:
    jars = ",".join(map(str, sorted(table_jars().glob("*.jar"))))
    write_job(tmp_path, CACHED_JOB)
    (tmp_path / "conf").mkdir()
    settings = f"{SMALL_SPARK}spark.jars {jars}\n{CONF.format(home=tmp_path)}"
    (tmp_path / "conf/spark-defaults.conf").write_text(settings)
    env = {"SPARK_CONF_DIR": str(tmp_path / "conf"), "LINEAGE_QUARANTINE": "9"}
    command = [*CLI, "run", "job.py", str(tmp_path / "delta"), "said.json"]
    ran = run_program(tmp_path, command, env)
    assert ran.returncode == 0, ran.stderr
    said: dict[str, tuple[int | None, str, Any]] = json.loads((tmp_path / "said.json").read_text())
    everything = [[1, "1"], [2, "x"], [3, "3"]]
    for form in ("delta", "iceberg"):
        lacking, not_computed, whole = (said[f"{form} {n}"] for n in range(3))
        assert (lacking[0], lacking[2]) == (2, everything), said
        assert "lacks rows that a Python function failed on" in lacking[1], said
        # What it computes itself fails as ever.
        assert (not_computed[0], not_computed[2]) == (None, everything), said
        assert "invalid literal" in not_computed[1], said
        assert list(whole) == [3, "", [[1, "2"], [2, "3"], [3, "4"]]], said
