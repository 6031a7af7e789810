"""Rows that a program makes a DataFrame of stand in its recipe, as Spark has them."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import IntegerType

from benchmarks.frames_oracle import rebuild, recipe_of_frame, same_rows
from lineage_core.recipe.plan import OpaqueNode
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.trace.backward import trace_backward
from lineage_emitter.dataframes import local_rows

pytestmark = pytest.mark.integration

KINDS = (
    "a tinyint, b bigint, c double, d float, e boolean, f string, g date, h decimal(9, 3), i timestamp, "
    "j timestamp_ntz"
)
NOON = datetime.datetime.fromisoformat("2024-02-29 12:00:00.250001")
FULL = (
    -1, 2**63 - 1, 0.1, 0.1, True, "it's \\ \"ø\"\n", datetime.date(1, 1, 1), Decimal("-1.5"), NOON, NOON,
)  # fmt: skip


def kept(spark: SparkSession, data: list[Any], schema: Any = None) -> Any:
    frame = spark.createDataFrame(data, schema)
    local_rows.store_rows(frame, data, schema)
    return frame


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        ([FULL, (None,) * len(FULL)], KINDS),
        ([(0, 0, float("nan"), float("-inf"), False, "", *FULL[6:])], KINDS),
        ([{"b": 1, "a": "x"}, {"a": "y"}], None),
        ([Row(n=1, m="x"), Row(n=2, m=None)], ["p", "q"]),
        ([3, 4], IntegerType()),
        ([], "a int"),
    ],
)
def test_the_rows_are_those_of_the_frame(spark: SparkSession, data: list[Any], schema: Any) -> None:
    frame = kept(spark, data, schema)
    assert same_rows(frame.collect(), rebuild(spark, recipe_of_frame(frame)))


def test_a_trace_names_them_by_their_place(spark: SparkSession) -> None:
    frame = kept(
        spark, [("Rome", "IT"), ("Oslo", "NO"), ("Bari", "IT")], "city string, land string"
    )
    joined = frame.alias("a").join(frame.alias("b"), "land").groupBy("land").count()
    found = trace_backward(spark, recipe_of_frame(joined), [("IT", 4)])
    assert [rows.tolist() for rows in found.rows.values()] == [[0, 2], [0, 2]]
    assert found.exact


@pytest.mark.parametrize(
    ("data", "schema"),
    [
        ([(n,) for n in range(local_rows.ROWS_MAX + 1)], "a int"),
        ([([1, 2],)], "a array<int>"),
    ],
)
def test_many_rows_and_nested_ones_are_not_kept(
    spark: SparkSession, data: list[Any], schema: Any
) -> None:
    recipe = recipe_of_frame(kept(spark, data, schema))
    assert isinstance(recipe.plan[-1], OpaqueNode)
    with pytest.raises(RefusedError, match="rows of an RDD"):
        trace_backward(spark, recipe)


@pytest.mark.parametrize(("value", "kind"), [(1, "double"), (2**31, "int"), (-(2**31), "int")])
def test_values_that_spark_would_make_something_else_of_are_not_kept(
    spark: SparkSession, value: int, kind: str
) -> None:
    """An int in a column of doubles becomes NULL where types are not checked."""
    frame = spark.createDataFrame([(value,)], f"a {kind}", verifySchema=False)
    local_rows.store_rows(frame, [(value,)], frame.schema)
    assert isinstance(recipe_of_frame(frame).plan[-1], OpaqueNode)


def test_the_oldest_are_given_up_first(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_rows, "STORED_ROWS_MAX", 3)
    first, second = kept(spark, [(1,), (2,)], "a int"), kept(spark, [(3,), (4,)], "a int")
    assert isinstance(recipe_of_frame(first).plan[-1], OpaqueNode)
    assert not isinstance(recipe_of_frame(second).plan[-1], OpaqueNode)


def test_a_frame_of_pandas(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    stock = SparkSession._create_dataframe
    monkeypatch.setattr(
        SparkSession, "_create_dataframe", local_rows.hooked_create_dataframe(stock)
    )
    table = pd.DataFrame({"a": [1.5, None], "b": ["x", "y"]})
    frame = spark.createDataFrame(table)
    assert same_rows(frame.collect(), rebuild(spark, recipe_of_frame(frame)))
