"""Rows are found by the names of their columns, however a program gives them: each form of each row finds that row alone."""

from __future__ import annotations

import datetime as dt
from collections import namedtuple
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lineage_dataframes.errors import RowError
from lineage_emitter import frame_lineage

pytestmark = pytest.mark.integration

COLUMNS = (
    "a string, b string, whole int, big bigint, tiny tinyint, ok boolean, x double, f float, d decimal(10,2), "
    "day date, at timestamp, wall timestamp_ntz, raw binary, s struct<a: string, b: string, n: struct<i: int>>, l array<int>"
)
NONE = (*(None,) * 3, 0, *(None,) * 11)
"""Whole numbers as large as those of ``big`` are told apart by pandas where none is missing."""
FULL = (
    "x", "y", 1, 1 << 60, 7, True, 0.1, 0.1, Decimal("1.50"), dt.date(2020, 1, 2), dt.datetime(2020, 1, 2, 3, 4, 5, 6),  # noqa: DTZ001
    dt.datetime(2020, 1, 2), b"\0a", ("p", "q", (1,)), [1],  # noqa: DTZ001
)  # fmt: skip
OTHERS: dict[str, Any] = {
    "a": "y", "b": "x", "whole": 2, "big": (1 << 60) + 1, "tiny": -7, "ok": False, "x": float("nan"), "f": float("inf"),
    "d": Decimal("1.51"), "day": dt.date(1960, 1, 2), "at": dt.datetime(1960, 1, 2), "wall": dt.datetime(2020, 1, 2, 1),  # noqa: DTZ001
    "raw": b"", "s": ("q", "p", (1,)),
}  # fmt: skip
"""A row for each: it has this value where the first has another, so a column that is left out finds both."""


@pytest.fixture(scope="module")
def spark(spark_context: SparkContext) -> SparkSession:
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    # Another than Python's: what pandas shows are clocks of this zone.
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    return session


@pytest.fixture(scope="module")
def rows(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    """Rows that differ in one column each, in files, numbered by ``id`` in the order in which they stand here."""
    names = [one.split()[0] for one in COLUMNS.split(", ")[:13]] + ["s", "l"]
    first = dict(zip(names, FULL, strict=True))
    every: list[tuple[Any, ...]] = [FULL, NONE, (*NONE[:13], (None, None, (None,)), None)]
    every += [tuple((first | {name: value}).values()) for name, value in OTHERS.items()]
    given = [(n, *row) for n, row in enumerate(every)]
    folder = str(tmp_path_factory.mktemp("given") / "rows")
    spark.createDataFrame(given, f"id int, {COLUMNS}").coalesce(1).write.parquet(folder)
    return spark.read.parquet(folder)


def forms(row: Row, of_pandas: pd.Series[Any]) -> Iterator[tuple[str, Any]]:
    """A row as programs give it."""
    named = row.asDict()
    turned = dict(reversed(named.items()))
    yield "row", row
    yield "tuple", tuple(row)
    yield "list", list(row)
    yield "turned", Row(**turned)
    yield "dictionary", turned
    yield "deep", row.asDict(recursive=True)
    yield "pandas", of_pandas
    yield "pandas turned", of_pandas[::-1]
    yield "pandas dictionary", of_pandas.to_dict()
    yield "named tuple", namedtuple("Given", turned)(**turned)


def found_ids(frame: DataFrame, *given: Any) -> tuple[list[int], bool]:
    found = frame_lineage(frame).back(*given)
    return sorted(row.id for row in found.rows().collect()), found.exact


@pytest.mark.long
def test_each_form_of_each_row_finds_it_alone(rows: DataFrame) -> None:
    bare = rows.drop("id")
    whole, output = bare.toPandas(), bare.collect()
    for n, row in enumerate(output):
        every = list(forms(row, whole.iloc[n]))
        # Those that differ most are tried in all forms, others in some, each in others.
        chosen = every if n < 3 else [every[n % len(every)], every[(n + 4) % len(every)]]
        for name, given in chosen:
            found = frame_lineage(bare).back(given)
            (ordinals,) = found.found.rows.values()
            assert (ordinals.tolist(), found.exact) == ([n], True), (name, given)


def test_some_columns_find_all_rows_that_have_their_values(rows: DataFrame) -> None:
    everything = {row.id for row in rows.collect()}
    assert found_ids(rows, {"id": 3}) == ([3], True)
    assert found_ids(rows, Row(b="x", a="x")) == ([4], True)
    assert found_ids(rows, Row(a="x", b="x")) == ([4], True)
    assert found_ids(rows, Row(s=Row(b="p"))) == ([16], True)
    assert found_ids(rows, {"s": {"n": {"i": None}, "a": None}}) == ([2], True)
    assert found_ids(rows, {"s": None}) == ([1], True)
    ids, exact = found_ids(rows, {"A": "x", "b": "y"})
    assert (set(ids), exact) == (everything - {1, 2, 3, 4}, False)
    # One of several rows that has several matches does not stand for one that has none.
    assert not found_ids(rows, {"id": 5}, {"a": None})[1]
    with pytest.raises(RowError, match="has these values: 'nowhere'"):
        found_ids(rows, {"a": "x"}, {"a": "nowhere"})
    assert found_ids(rows, {"id": 5}, {"id": 5}) == ([5], True)
    assert found_ids(rows, {"id": 5}, {"tiny": -7}) == ([5, 7], True)
    # NaN of pandas is NULL, too; that of Spark is not.
    assert found_ids(rows, Row(x=float("nan"))) == ([9], True)
    assert set(found_ids(rows, {"x": float("nan")})[0]) == {1, 2, 9}
    assert found_ids(rows, {"whole": float("nan"), "s": None}) == ([1], True)
    assert found_ids(rows, {"whole": pd.NA, "s": None, "at": pd.NaT}) == ([1], True)
    # What can't be compared is said where the row has not all columns.
    found = frame_lineage(rows).back({"id": 3, "l": [9]})
    assert (found.count, found.exact) == (1, False)
    assert "not compared: l" in found.reasons[0]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"c": 1}, "there is no column 'c'; there are id, a, b, whole"),
        ({}, "the row has no columns; there are id"),
        ({"a": "x", "A": "x"}, "the row has column 'a' twice"),
        (("x", "y"), "the output has 16 columns, not 2"),
        ("x", "str is no row: a row is"),
        (pd.DataFrame({"a": ["x"]}), "DataFrame is no row"),
        (pd.Series(["x", "y"]), "there is no column 0; there are"),
        ({"s": {"c": 1}}, "there is no column 'c'; there are a, b, n"),
        ({"s": ("p",)}, "s has 3 columns, not 1"),
        ({"s": Row(n=Row(i="x"))}, "'x' is no value of s.n.i, which is int"),
        ({"tiny": 300}, "300 is no value of tiny, which is tinyint"),
        ({"whole": True}, "True is no value of whole"),
        ({"whole": 1.5}, "1.5 is no value of whole"),
        ({"whole": "abc"}, "'abc' is no value of whole"),
        ({"big": 1 << 63}, "is no value of big"),
        ({"big": 1e19}, "is no value of big"),
        ({"ok": 1}, "1 is no value of ok"),
        ({"d": Decimal("1.505")}, "is no value of d"),
        ({"d": Decimal("1e9")}, "is no value of d"),
        ({"a": 1}, "1 is no value of a, which is string"),
        ({"day": dt.datetime(2020, 1, 2, 1)}, "is no value of day"),  # noqa: DTZ001
        ({"at": dt.date(2020, 1, 2)}, "is no value of at"),
        ({"at": np.datetime64("2020-01-02T03:04:05.000006001")}, "is no time that Spark"),
        ({"wall": dt.datetime(2020, 1, 2, tzinfo=dt.UTC)}, "is no value of wall"),
        ({"x": object()}, "is no value of x"),
    ],
)  # fmt: skip
def test_what_is_no_row_is_refused(given: Any, says: str, rows: DataFrame) -> None:
    with pytest.raises(RowError, match=says):
        frame_lineage(rows).back(given)


@pytest.mark.long
def test_values_of_other_types_that_say_the_same(rows: DataFrame) -> None:
    same: list[dict[str, Any]] = [
        {"whole": np.int64(2)}, {"whole": Decimal(2)}, {"whole": 2.0}, {"whole": "2"}, {"tiny": np.int8(-7)},
        {"ok": np.False_}, {"f": np.float32("inf")}, {"d": 1.51}, {"d": "1.51"}, {"day": "1960-01-02"},
        {"day": np.datetime64("1960-01-02")}, {"day": pd.Timestamp("1960-01-02")}, {"wall": np.datetime64("2020-01-02T01")},
        {"wall": "2020-01-02 01:00:00"}, {"raw": bytearray()}, {"a": np.str_("y")},
        {"at": dt.datetime(1960, 1, 2).astimezone(dt.UTC)},
        {"at": pd.Timestamp(dt.datetime(1960, 1, 2).astimezone(dt.UTC))},
    ]  # fmt: skip
    for given in same:
        (name,) = given
        place = 3 + list(OTHERS).index(name)
        assert found_ids(rows, given) == ([place], True), given
    assert found_ids(rows, {"id": 0, "f": 0.1, "x": 0.1}) == ([0], True)
    assert found_ids(rows, {"id": 0, "x": np.float64(0.1)}) == ([0], True)
    # A double stands for all whole numbers that it is the nearest to.
    assert found_ids(rows, {"id": 6, "big": float(1 << 60)}) == ([6], True)
    ids, exact = found_ids(
        rows, {"big": float(1 << 60), "a": "x", "b": "y", "s": FULL[13], "ok": True, "whole": 1.0}
    )
    assert ({0, 6} <= set(ids), exact) == (True, False)


def test_columns_of_one_name_are_told_apart_by_order_alone(rows: DataFrame) -> None:
    twice = rows.select("id", "a", F.col("b").alias("a"))
    row = next(one for one in twice.collect() if one.id == 3)
    for given in (row, tuple(row), twice.toPandas().iloc[3]):
        found = frame_lineage(twice).back(given)
        assert (found.count, found.exact) == (1, True)
    assert frame_lineage(twice).back({"id": 3}).count == 1
    with pytest.raises(RowError, match="several columns are called 'a'"):
        frame_lineage(twice).back({"id": 3, "a": "y"})


@pytest.mark.long
def test_a_clock_that_is_put_back_shows_two_times(spark: SparkSession, tmp_path: Path) -> None:
    hours = spark.range(5, 8).selectExpr(
        "id", "timestamp_seconds(unix_timestamp(timestamp'2020-11-01 00:00:00 UTC') + id * 3600) at"
    )
    hours.write.parquet(str(tmp_path / "hours"))
    read = spark.read.parquet(str(tmp_path / "hours"))
    whole = read.toPandas()
    for row in read.collect():
        shown = whole[whole["id"] == row.id].iloc[0]
        assert found_ids(read, row) == ([row.id], True)
        assert found_ids(read, shown) == ([row.id], True)
        ids, exact = found_ids(read, {"at": shown["at"]})
        assert row.id in ids
        assert exact == (len(ids) == 1)
    assert found_ids(read, {"at": pd.Timestamp("2020-11-01 01:00")}) == ([5, 6], False)
