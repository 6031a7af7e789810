"""Python functions in DataFrames: what a trace says without their code, and with it where the key allows it."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.frames_oracle import ParquetTables, recipe_of_frame, same_rows, same_value
from lineage_core.errors import FunctionsKeyError
from lineage_core.recipe.document import Function, Recipe
from lineage_core.recipe.functions import sign_recipe
from lineage_core.recipe.plan import PythonRows
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.forward import trace_forward
from tests.support.versions import BEFORE_41, IN_35, not_before_41, not_in_35

pytestmark = pytest.mark.integration

KEY = "a key for tests of functions"
CITIES = ["Oslo", "Rome", "Oslo", None, "Lima", "Rome", "Oslo"]
ORDERS = pa.table(
    {
        "id": pa.array(range(7), pa.int64()),
        "city": CITIES,
        "weight": [0.5, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0],
    }
)
ROWS = "id bigint, city string, weight double"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> ParquetTables:
    folder = tmp_path_factory.mktemp("tables")
    return ParquetTables.written(folder, {"orders": ORDERS}, files=1)


@pytest.fixture
def spark(spark_context: SparkContext, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    monkeypatch.setattr(spark_context, "pythonExec", sys.executable)
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    return session


@pytest.fixture
def orders(spark: SparkSession, tables: ParquetTables) -> DataFrame:
    tables.views(spark)
    return spark.table("orders")


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """The job has a key; a trace has none unless it is given."""
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n", encoding="utf-8")
    monkeypatch.setenv("LINEAGE_FUNCTIONS_KEY_FILE", str(path))
    return KEY


def noted(frame: DataFrame, monkeypatch: pytest.MonkeyPatch) -> Recipe:
    """The frame's recipe; what follows is as in another process, where no key is set."""
    recipe = recipe_of_frame(frame)
    monkeypatch.delenv("LINEAGE_FUNCTIONS_KEY_FILE", raising=False)
    return recipe


def ids(witnesses: Witnesses) -> list[int]:
    """The rows of orders: a row's id is its place."""
    return sorted(row for rows in witnesses.rows.values() for row in rows.tolist())


JOB = """
from typing import Iterator
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

def letter(city):
    return "none" if city is None else city[:1].lower()

def pandas_letter(city: pd.Series) -> pd.Series:
    return city.str[:1].str.lower().fillna("none")

def arrow_letter(city: pa.Array) -> pa.Array:
    return pc.fill_null(pc.utf8_lower(pc.utf8_slice_codeunits(city, 0, 1)), "none")

LETTERS = {
    "plain": F.udf(letter, "string", useArrow=False),
    "by arrow": F.udf(letter, "string", useArrow=True),
    "pandas": F.pandas_udf(pandas_letter, "string"),
}
if hasattr(F, "arrow_udf"):
    LETTERS["arrow"] = F.arrow_udf(arrow_letter, "string")

def odd(number):
    open(RAN, "w").close()
    return number % 2

def plus(number):
    return number + 1

def rated(number, label):
    if number < 0:
        import lineage_rates
        return lineage_rates.RATE
    return number // len(label)

def batches(parts):
    yield from parts

def some(parts):
    for part in parts:
        yield part[part.id % 2 == 0]

@F.pandas_udf("bigint")
def each(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
    yield from parts

@F.pandas_udf("double")
def most(weight: pd.Series) -> float:
    return float(weight.max())

if hasattr(F, "arrow_udf"):
    @F.arrow_udf("double")
    def total(weight: pa.Array) -> float:
        return float(sum(weight.to_pylist()))

@F.udtf(returnType="twice bigint")
class Twice:
    def eval(self, number):
        yield (2 * number,)
"""


def job(**names: object) -> SimpleNamespace:
    """What a job's program defines; like its main module it can't be imported, so that code travels."""
    program: dict[str, Any] = {"__name__": "job", **names}
    exec(JOB, program)
    return SimpleNamespace(**program)


@pytest.mark.parametrize(
    "kind",
    [
        "plain",
        pytest.param("by arrow", marks=pytest.mark.long),
        "pandas",
        pytest.param("arrow", marks=[pytest.mark.long, not_before_41("arrow_udf")]),
    ],
)
def test_with_its_code_a_function_decides_below_an_aggregate(
    kind: str, orders: DataFrame, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = job().LETTERS[kind]

    def asked(frame: DataFrame) -> DataFrame:
        kept = frame.where(letter("city") != "r").groupBy(letter("city").alias("letter"))
        return kept.agg(F.sum("weight").alias("w"))

    output = [tuple(row) for row in asked(orders).collect()]
    assert sorted(output) == [("l", 8.0), ("none", 4.0), ("o", 34.5)]
    recipe = noted(asked(orders), monkeypatch)
    spark = orders.sparkSession
    for row in output[: 2 if kind == "plain" else 1]:
        found = trace_backward(spark, recipe, [row], key=key)
        wanted = [n for n, city in enumerate(CITIES) if (city or "none").lower().startswith(row[0])]
        assert (ids(found), found.exact) == (wanted, True)
        # The program, run on these rows alone, gives the row.
        again = asked(orders.where(F.col("id").isin(ids(found))))
        assert [tuple(one) for one in again.collect()] == [row]
    with pytest.raises(RefusedError, match=r"can't be computed anew .*no key was given"):
        trace_backward(spark, recipe, [output[0]])


def test_forward_by_code(orders: DataFrame, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    letter = job().LETTERS["plain"]
    frame = orders.where(letter("city") != "r").groupBy(letter("city").alias("letter")).count()
    recipe = noted(frame, monkeypatch)
    (path,) = {file.path for source in recipe.sources for file in source.files}
    for places, wanted in (([0], [("o", 3)]), ([1, 3], [("none", 1)])):
        ahead = trace_forward(orders.sparkSession, recipe, {path: places}, key=key)
        assert (same_rows(ahead.rows, wanted), ahead.exact) == (True, True)


def test_a_function_that_gives_a_struct(
    orders: DataFrame, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parted(number: int) -> tuple[int, str]:
        return number % 2, "x" * number

    both = F.udf(parted, "struct<odd: bigint, text: string>", useArrow=False)("id")
    frame = orders.groupBy(both["odd"].alias("odd")).agg(F.sum("id").alias("ids"))
    recipe = noted(frame, monkeypatch)
    assert ids(trace_backward(orders.sparkSession, recipe, [(1, 9)], key=key)) == [1, 3, 5]
    rows = noted(orders.select("id", both.alias("both")), monkeypatch)
    assert ids(trace_backward(orders.sparkSession, rows, [(3, (1, "xxx"))], key=key)) == [3]


def test_what_is_observed_of_rows_leaves_them_as_they_are(
    orders: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = orders.observe("seen", F.count(F.lit(1)), F.sum("weight").alias("w"))
    for frame in (observed, orders.observe(Observation(), F.max("id")).where("id > 2")):
        grouped = frame.groupBy("city").count()
        row = next(tuple(one) for one in grouped.collect() if one[0] == "Oslo")
        found = trace_backward(orders.sparkSession, noted(grouped, monkeypatch), [row])
        assert (len(ids(found)), found.exact) == (row[1], True)


def test_code_is_run_by_its_key_and_unchanged_or_not_at_all(
    orders: DataFrame, key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"

    told = F.udf(job(RAN=str(ran)).odd, "bigint", useArrow=False)
    recipe = noted(orders.groupBy(told("id").alias("odd")).count(), monkeypatch)
    spark, row = orders.sparkSession, (1, 3)
    (function,) = recipe.functions
    other = dataclasses.replace(function, command=function.command[:-8] + "AAAAAAA=")
    older = dataclasses.replace(function, python="3.10")
    moved = dataclasses.replace(function, modules={"pandas": "pandas 1.0"})

    def resigned(one: Function) -> Recipe:
        return sign_recipe(dataclasses.replace(recipe, functions=(one,)), KEY.encode())

    refused = [
        (recipe, None, "no key was given"),
        (recipe, "another key of a program", "its signature does not fit the key"),
        (dataclasses.replace(recipe, signature=""), key, "it is not signed"),
        (dataclasses.replace(recipe, functions=(other,)), key, "signature does not fit"),
        (dataclasses.replace(recipe, site="other.py:1"), key, "signature does not fit"),
        (resigned(older), key, "run by Python 3.10"),
        (resigned(moved), key, "imports pandas, which is not what it was"),
    ]
    for one, held, says in refused:
        found = trace_backward(spark, one, [row], key=held)
        assert ids(found) == list(range(7))
        assert re.search(rf"code of odd is not run: .*{says}", "; ".join(found.reasons))
    assert not ran.exists()
    monkeypatch.setenv("LINEAGE_FUNCTIONS_KEY", KEY)
    assert ids(trace_backward(spark, resigned(function), [row])) == [1, 3, 5]
    assert ran.exists()
    with pytest.raises(FunctionsKeyError, match="at least 16 bytes"):
        trace_backward(spark, recipe, [row], key="short")


def test_what_code_is_not_taken(
    orders: DataFrame, key: str, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    context = spark.sparkContext
    table, counter = context.broadcast({0: 1}), context.accumulator(0)

    def counting(one: int) -> int:
        counter.add(1)
        return one

    large = bytes(300 * 1024)
    columns = [
        F.udf(lambda one: one, "bigint").asNondeterministic()("id"),
        F.udf(lambda one: table.value[one % 1], "bigint")("id"),
        F.udf(counting, "bigint", useArrow=False)("id"),
        F.udf(lambda one: one + len(large), "bigint")("id"),
        job().each("id"),
    ]
    frame = orders.select(*[one.alias(f"c{n}") for n, one in enumerate(columns)])
    recipe = noted(frame, monkeypatch)
    assert (recipe.functions, recipe.signature) == ((), "")
    said = " | ".join(recipe.opaque())
    for why in (
        "not deterministic",
        "a broadcast variable",
        "an accumulator",
        "bytes, more than",
        "over batches",
    ):
        assert f"a Python function {why}" in said or why in said
    monkeypatch.setenv("LINEAGE_FUNCTIONS_KEY", "short")
    assert (
        "at least 16 bytes"
        in recipe_of_frame(orders.select(job().LETTERS["plain"]("city"))).opaque()[0]
    )


def over_many(orders: DataFrame) -> dict[str, DataFrame]:
    """Functions that make rows of many."""
    some, batches, twice = (getattr(job(), name) for name in ("some", "batches", "Twice"))
    some_orders, cities = orders.where("id < 5"), orders.groupBy("city")
    spark = orders.sparkSession
    spark.udtf.register("twice", twice)
    some_orders.createOrReplaceTempView("some_orders")
    by_arrow = (
        {}
        if IN_35
        else {"applyInArrow": some_orders.groupBy("city").applyInArrow(lambda part: part, ROWS)}
    )
    return {
        **by_arrow,
        "mapInPandas": some_orders.mapInPandas(some, ROWS),
        "mapInArrow": some_orders.mapInArrow(batches, ROWS),
        "applyInPandas": some_orders.groupBy("city").applyInPandas(lambda part: part[:1], ROWS),
        "cogroups": some_orders.groupBy("city")
        .cogroup(cities)
        .applyInPandas(lambda left, right: left, ROWS),
        "table function": spark.sql("SELECT * FROM some_orders, LATERAL twice(id)"),
        "twice": some_orders.mapInPandas(some, ROWS).mapInPandas(some, ROWS),
    }


@pytest.mark.parametrize(
    "name",
    [
        "mapInPandas", "mapInArrow", "applyInPandas", "cogroups", "table function", "twice",
        pytest.param("applyInArrow", marks=not_in_35("applyInArrow")),
    ],
)  # fmt: skip
def test_rows_of_many_have_all_of_them_as_witnesses(name: str, orders: DataFrame) -> None:
    spark = orders.sparkSession
    frame = over_many(orders)[name]
    row = tuple(frame.collect()[0])
    recipe = recipe_of_frame(frame)
    assert any(isinstance(node, PythonRows) for node in recipe.plan)
    found = trace_backward(spark, recipe, [row])
    assert ids(found)[:5] == [0, 1, 2, 3, 4]
    # The other side of the cogroups has had all orders.
    assert set(ids(found)) == set(range(7 if name == "cogroups" else 5))
    assert any("can't be known" in reason for reason in found.reasons)
    # What was left out before the function has no part in what it made; of the rest any row may have.
    (path,) = {file.path for source in recipe.sources for file in source.files}
    if name != "cogroups":
        assert trace_forward(spark, recipe, {path: [6]}).rows == ()
    with pytest.raises(RefusedError, match="any row of the output"):
        trace_forward(spark, recipe, {path: [1]})


def test_rows_of_unknown_number_stand_where_rows_pass_one_by_one(orders: DataFrame) -> None:
    spark = orders.sparkSession
    made = over_many(orders)["mapInPandas"]
    other = orders.select(F.col("id").alias("number"), F.col("weight").alias("heavy"))
    passed = made.where("weight > 1").join(other, F.expr("id = number")).orderBy("id").limit(2)
    row = tuple(passed.collect()[0])
    found = trace_backward(spark, recipe_of_frame(passed), [row])
    # All orders below 5 through the function, and the very row on the other side.
    assert sorted(ids(found)) == [0, 1, 2, 2, 3, 4] or set(ids(found)) == {0, 1, 2, 3, 4}
    assert not found.exact
    for decided in (
        made.groupBy("city").count(),
        made.select(F.count("*")),
        made.limit(2).groupBy().count(),
        made.withColumn("n", F.row_number().over(Window.partitionBy("city").orderBy("id"))),
        other.join(made, F.expr("id = number"), "left_semi"),
        other.join(made, F.expr("id = number"), "left"),
    ):
        with pytest.raises(RefusedError, match=r"which rows some gave|can't be computed anew"):
            trace_backward(spark, recipe_of_frame(decided))


def test_aggregates_and_windows_by_python_name_their_group(orders: DataFrame) -> None:
    most = job().most
    spark = orders.sparkSession
    for function in (most,) if BEFORE_41 else (most, job().total):
        frame = orders.groupBy("city").agg(function("weight").alias("m"))
        row = next(row for row in frame.collect() if row.city == "Rome")
        found = trace_backward(spark, recipe_of_frame(frame), [tuple(row)])
        assert (ids(found), found.exact) == ([1, 5], True)
        alone = orders.where(F.col("id").isin(ids(found))).groupBy("city")
        again = alone.agg(function("weight").alias("m")).collect()
        assert same_value(tuple(again[0]), tuple(row))
        by_city = Window.partitionBy("city")
        running = by_city.orderBy("id").rowsBetween(Window.unboundedPreceding, 0)
        whole = orders.select("id", function("weight").over(by_city).alias("m"))
        found = trace_backward(spark, recipe_of_frame(whole), [(2, None)])
        assert (ids(found), found.exact) == ([0, 2, 6], True)
        frame = orders.select("id", function("weight").over(running).alias("m"))
        found = trace_backward(spark, recipe_of_frame(frame), [(2, None)])
        assert set(ids(found)) >= {0, 2}
        assert set(ids(found)) <= {0, 2, 6}
    kept = orders.groupBy("city").agg(most("weight").alias("m")).where("m > 5")
    with pytest.raises(RefusedError, match="can't be computed anew"):
        trace_backward(spark, recipe_of_frame(kept.groupBy().count()))


def test_calls_within_calls_and_what_is_imported(
    orders: DataFrame, key: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "lineage_rates.py").write_text("import lineage_base\nRATE = 2\n", encoding="utf-8")
    base = tmp_path / "lineage_base.py"
    base.write_text("HALF = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))

    program = job()
    plus, rated = (F.udf(one, "bigint", useArrow=False) for one in (program.plus, program.rated))
    spark = orders.sparkSession
    frame = orders.groupBy(rated(plus(F.col("id") * 2), F.lit("abc")).alias("k")).count()
    recipe = noted(frame, monkeypatch)
    assert [function.name for function in recipe.functions] == ["plus", "rated"]
    assert {"lineage_rates", "lineage_base"} <= set(recipe.functions[1].modules)
    (row,) = frame.where("k = 1").collect()
    found = trace_backward(spark, recipe, [tuple(row)], key=key)
    assert (ids(found), found.exact) == ([n for n in range(7) if (2 * n + 1) // 3 == 1], True)
    base.write_text("HALF = 2\n", encoding="utf-8")
    found = trace_backward(spark, recipe, [tuple(row)], key=key)
    assert ids(found) == list(range(7))
    assert "imports lineage_base, which is not what it was" in "; ".join(found.reasons)
