"""The smallest set of rows on which the plan of a failed action still fails: what brute force finds, or a refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lineage.failed_frames import sought
from lineage_core.recipe.document import Failure, Output, Recipe
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.trace.failing import FailingPlan, FailingRows
from lineage_emitter.dataframes.plans import recipe_of
from lineage_query.minimising import PassingTestError
from tests.oracle.budget import examples

pytestmark = pytest.mark.integration

Rows = Sequence[tuple[int, str]]
"""Rows of the file: key and text."""
LARGEST = 9223372036854775807


@dataclass(frozen=True)
class Program:
    """What a job makes of a table, the error it may end with, and whether it does on some rows, in plain Python."""

    name: str
    make: Callable[[DataFrame], DataFrame]
    error: str
    fails: Callable[[Rows], bool]
    action: str = "DataFrameWriter.parquet"


def _is_bad(text: str) -> bool:
    return not text.lstrip("-").isdigit()


def _number(text: str) -> int:
    return 0 if _is_bad(text) else int(text)


def _overflows(rows: Rows) -> bool:
    """Numbers are not below 0, so that no order of a sum matters."""
    sums: dict[int, int] = {}
    for key, text in rows:
        sums[key] = sums.get(key, 0) + abs(_number(text))
    return any(total > LARGEST for total in sums.values())


NUMBER = "abs(coalesce(try_cast(t AS bigint), 0))"
PROGRAMS = [
    Program(
        "cast",
        lambda table: table.groupBy("k").agg(F.sum(F.col("t").cast("bigint"))),
        "CAST_INVALID_INPUT",
        lambda rows: any(_is_bad(text) for _, text in rows),
    ),
    Program(
        "division",
        lambda table: table.select("k", (100 / F.expr("try_cast(t AS int)")).alias("d")),
        "ArithmeticException",
        lambda rows: any(not _is_bad(text) and int(text) == 0 for _, text in rows),
    ),
    Program(
        "sum",
        lambda table: table.groupBy("k").agg(F.sum(F.expr(NUMBER)).alias("s")),
        "ARITHMETIC_OVERFLOW",
        _overflows,
    ),
    Program(
        "assertion",
        lambda table: table.select(
            "k", F.when(F.col("k") > 3, F.raise_error(F.lit("key too large"))).otherwise(F.col("t"))
        ),
        "key too large",
        lambda rows: any(key > 3 for key, _ in rows),
    ),
    Program(
        "filter",
        lambda table: table.where(F.col("t").cast("bigint") >= 0),
        "CAST_INVALID_INPUT",
        lambda rows: any(_is_bad(text) for _, text in rows),
        "DataFrame.count",
    ),
    Program(
        "subquery",
        lambda table: table.sparkSession.sql(
            "SELECT k, (SELECT t FROM {other} WHERE k = 1) AS one FROM {table}",
            table=table,
            other=table,
        ),
        "SCALAR_SUBQUERY_TOO_MANY_ROWS",
        lambda rows: sum(key == 1 for key, _ in rows) > 1,
    ),
    Program(
        "join",
        lambda table: (
            table.alias("a")
            .join(table.alias("b"), F.expr("a.k = b.k + 1"))
            .select(F.expr("a.k"), F.expr("100 / (length(a.t) - length(b.t)) AS d"))
        ),
        "DIVIDE_BY_ZERO",
        lambda rows: any(a == b + 1 and len(s) == len(t) for a, s in rows for b, t in rows),
    ),
]
BY_NAME = {program.name: program for program in PROGRAMS}


def recipe_of_failure(frame: DataFrame, action: str = "DataFrameWriter.parquet") -> Recipe:
    output = Output(action=action, failure=Failure("SomeError"))
    return Recipe.from_json(recipe_of(frame, output).to_json())


def written(spark: SparkSession, folder: Path, rows: Rows) -> DataFrame:
    folder.mkdir(exist_ok=True)
    (folder / "in.csv").write_text("".join(f"{key},{text}\n" for key, text in rows))
    return spark.read.schema("k int, t string").csv(str(folder / "in.csv"))


def found_in(
    spark: SparkSession, table: DataFrame, program: Program, **options: Any
) -> FailingRows:
    recipe = recipe_of_failure(program.make(table), program.action)
    return FailingPlan(spark, recipe, sought(program.error)).search(**options)


def check_smallest(rows: Rows, program: Program, found: FailingRows) -> None:
    chosen = [rows[ordinal] for _, ordinal in found.places]
    assert found.found.one_minimal
    assert program.fails(chosen), chosen
    fewer = combinations(chosen, len(chosen) - 1)
    assert not any(program.fails(some) for some in fewer), chosen
    assert program.error in found.error or sought(program.error)(Exception(found.error))
    assert found.searched == len(rows)


@pytest.mark.parametrize(
    "name",
    [name if name == "filter" else pytest.param(name, marks=pytest.mark.long) for name in BY_NAME],
)
def test_the_set_is_one_minimal(spark: SparkSession, tmp_path: Path, name: str) -> None:
    huge = str(LARGEST - 5)
    rows = [(1, "4"), (2, huge), (1, "0"), (5, "two"), (2, "3"), (2, "9"), (3, "17"), (1, huge)]
    program = BY_NAME[name]
    check_smallest(rows, program, found_in(spark, written(spark, tmp_path, rows), program))


@pytest.mark.parametrize(
    ("make", "action", "reason"),
    [
        (lambda table: table.limit(3), "DataFrame.collect", "limit"),
        (lambda table: table, "DataFrame.foreach", "no part of its plan"),
        (lambda table: table.select(F.rand()), "DataFrame.collect", "can't be computed anew"),
        (lambda table: table.sparkSession.range(3).toDF("k"), "DataFrame.collect", "no rows"),
    ],
)
def test_what_rows_do_not_decide_is_refused(
    spark: SparkSession,
    tmp_path: Path,
    make: Callable[[DataFrame], DataFrame],
    action: str,
    reason: str,
) -> None:
    table = written(spark, tmp_path, [(1, "4")])
    with pytest.raises(RefusedError, match=reason):
        FailingPlan(spark, recipe_of_failure(make(table), action), sought("x"))


def test_an_error_that_does_not_come_again_is_not_searched(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = written(spark, tmp_path, [(1, "4"), (2, "two")])
    program = replace(BY_NAME["cast"], error="DIVIDE_BY_ZERO")
    with pytest.raises(PassingTestError, match=r"CAST_INVALID_INPUT.* does not come again"):
        found_in(spark, table, program)


@pytest.mark.long
def test_an_error_that_depends_on_the_order_of_rows_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    # In the order of the file the sum overflows on its way, from the end it does not; fewer than three rows give none.
    half = LARGEST // 2 + 1
    table = written(spark, tmp_path, [(1, str(half)), (1, str(half)), (1, str(-half))])
    frame = spark.sql(
        "SELECT k, sum(CAST(t AS bigint)) AS s FROM {table} WHERE (SELECT count(*) FROM {other}) > 2 GROUP BY k",
        table=table,
        other=table,
    )
    program = Program("sum", lambda _: frame, "ARITHMETIC_OVERFLOW", _overflows)
    with pytest.raises(RefusedError, match="order of the rows"):
        found_in(spark, table, program)


@pytest.mark.long
@settings(
    max_examples=examples(60),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    name=st.sampled_from(sorted(BY_NAME)),
    rows=st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["0", "1", "22", "two", "x", "-5", str(LARGEST), str(LARGEST // 2)]),
        ),
        max_size=9,
    ),
)
def test_sets_of_drawn_rows_are_smallest(
    spark: SparkSession, tmp_path: Path, name: str, rows: list[tuple[int, str]]
) -> None:
    program = BY_NAME[name]
    table = written(spark, tmp_path, rows)
    event(f"{name}: {'fails' if program.fails(rows) else 'passes'}")
    if not program.fails(rows):
        with pytest.raises(PassingTestError):
            found_in(spark, table, program)
        return
    check_smallest(rows, program, found_in(spark, table, program))
