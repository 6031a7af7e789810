"""Rows of a DataFrame traced by the program that has it."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lineage_core.tracing.trace_result import TraceError
from lineage_dataframes.errors import RefusedError, RowError
from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_emitter import LineageContext, frame_lineage
from lineage_emitter.dataframes import in_program
from lineage_emitter.errors import TracingError
from lineage_query.minimising import PassingTestError

pytestmark = pytest.mark.integration


@pytest.fixture
def totals(tmp_path: Path, spark_context: SparkContext) -> DataFrame:
    (tmp_path / "in.csv").write_text("city,amount\nOslo,1\nRome,2\nOslo,3\n")
    (tmp_path / "lands.json").write_text(
        '{"city":"Oslo","land":"NO"}\n{"city":"Rome","land":"IT"}\n'
    )
    spark = SparkSession(spark_context).newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    rows = spark.read.csv(str(tmp_path / "in.csv"), header=True, inferSchema=True)
    lands = spark.read.json(str(tmp_path / "lands.json"))
    return rows.join(lands, "city").groupBy("city", "land").sum("amount")


def test_back_and_forward(
    totals: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lineage = frame_lineage(totals)
    oslo = next(row for row in totals.collect() if row.city == "Oslo")
    found = lineage.back(oslo)
    assert (found.count, found.exact, len(found.paths)) == (3, True, 2)
    paths = {path.rpartition("/")[2]: path for path in found.paths}
    rows = found.rows(paths["in.csv"]).collect()
    assert [tuple(row) for row in rows] == [("Oslo", 1), ("Oslo", 3)]
    with pytest.raises(TracingError, match="rows of which source"):
        found.rows()
    found.show()
    shown = capsys.readouterr().out
    assert f'{tmp_path / "in.csv"}:4: {{"city":"Oslo","amount":3}}' in shown
    assert f"{tmp_path / 'lands.json'}:1: " in shown
    assert "<table " in found._repr_html_()
    assert lineage.back(where="land = 'IT'").rows(paths["lands.json"]).count() == 1
    assert repr(found) == "<FrameRows: 3 rows of 2 sources, exact>"
    ahead = lineage.forward(f"{tmp_path / 'in.csv'}:4")
    assert (ahead.rows, ahead.count, ahead.exact) == ((tuple(oslo),), 1, True)
    assert repr(ahead) == "<OutputRows: 1 row, exact>"
    ahead.show()
    text = '{"city": "Oslo", "land": "NO", "sum(amount)": 4}'
    assert capsys.readouterr().out == f"1 row\n{text}\nexact\n"
    assert escape(text) in ahead._repr_html_()
    with pytest.raises(RowError, match="no row"):
        lineage.back(("Oslo", "NO", 5))
    with pytest.raises(RowError, match="was not read"):
        lineage.forward(f"{tmp_path / 'other.csv'}:4")


def test_rows_are_replayed(
    totals: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lineage = frame_lineage(totals)
    again = lineage.replay({"city": "Oslo"})
    assert again.reproduced
    assert [(row.before, row.after) for row in again.rows] == [(("Oslo", "NO", 4),) * 2]
    assert repr(again) == "<ReplayedRows: 1 same, 0 new>"
    less = lineage.replay(where="land = 'NO'", exclude=f"{tmp_path / 'in.csv'}:4")
    assert [(row.after, row.state) for row in less.rows] == [(("Oslo", "NO", 1), "changed")]
    less.show()
    assert capsys.readouterr().out == (
        "replayed without 1 of the 3 rows that the output is made from\n"
        'before: {"city": "Oslo", "land": "NO", "sum(amount)": 4}\n'
        'after: {"city": "Oslo", "land": "NO", "sum(amount)": 1}\n'
    )
    gone = lineage.replay(exclude=[f"{tmp_path / 'lands.json'}:1"])
    assert {row.before[0]: row.state for row in gone.rows} == {"Oslo": "gone", "Rome": "same"}
    with pytest.raises(RowError, match="no row"):
        lineage.replay(("Oslo", "NO", 5))


def test_the_smallest_rows_that_fail_a_test_are_those_of_brute_force(
    spark_context: SparkContext,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spark = SparkSession(spark_context).newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    amounts = [3, 40, 2, 60, 5, 1]
    lines = [f"{'ab'[n % 2]},{amount}" for n, amount in enumerate(amounts)]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    read = spark.read.schema("k string, n int").csv(str(tmp_path / "in.csv"))
    lineage = frame_lineage(read.groupBy("k").agg(F.sum("n").alias("total")))

    def is_small(row: Mapping[str, Any]) -> bool:
        return bool(row["total"] < 95)

    of_b = [n for n in range(len(amounts)) if n % 2]
    failing = [
        set(part)
        for size in range(len(of_b) + 1)
        for part in combinations(of_b, size)
        if sum(amounts[n] for n in part) >= 95
    ]
    (least,) = [part for part in failing if not any(other < part for other in failing)]
    for found in (lineage.sift(is_small), lineage.sift(is_small, ("b", 101))):
        assert set(found.places) == {f"{tmp_path / 'in.csv'}:{n + 1}" for n in least}
        assert (found.one_minimal, found.count, found.witnesses) == (True, 2, 3)
        assert found.outcome == ({"k": "b", "total": 100},)
        assert sorted(row.n for row in found.rows().collect()) == [40, 60]
    assert repr(found) == "<SmallestRows: 2 of 3, one-minimal>"
    found.show()
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == (
        "2 of the 3 rows that it is made from fail still, and none of them can be left out"
    )
    assert shown[1] == f'{tmp_path / "in.csv"}:2: {{"k":"b","n":40}}'
    stopped = lineage.sift(is_small, where="k = 'b'", runs_max=1)
    assert not stopped.one_minimal or stopped.count == 2
    assert set(stopped.places) >= set(found.places)
    with pytest.raises(PassingTestError, match="no row of the frame"):
        lineage.sift(lambda row: row["total"] < 1_000)
    with pytest.raises(TraceError, match="KeyError"):
        lineage.sift(lambda row: row["sum"] < 1_000)
    monkeypatch.setattr(in_program, "ROWS_TESTED_MAX", 1)
    with pytest.raises(RefusedError, match="more than 1 rows"):
        lineage.sift(is_small)


@pytest.mark.long
def test_rows_are_found_by_names(totals: DataFrame) -> None:
    lineage = frame_lineage(totals)
    assert lineage.back(Row(land="NO", city="Oslo")).count == 3
    assert lineage.back(totals.toPandas().set_index("city").reset_index().iloc[0]).exact
    # Turned about, the names still say which is which.
    turned = totals.selectExpr("city a", "land b", "'NO' c")
    with pytest.raises(RowError, match="no row"):
        frame_lineage(turned).back(Row(b="Oslo", a="NO"))
    with pytest.raises(RowError, match="there is no column 'town'; there are city, land, sum"):
        lineage.back(Row(town="Oslo"))


@pytest.mark.long
def test_values_that_can_not_be_computed_anew_are_unknown(
    totals: DataFrame, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loud = totals.select("city", F.udf(lambda land: f"{land}!")("land").alias("loud"))
    ahead = frame_lineage(loud).forward(f"{tmp_path / 'in.csv'}:3")
    assert (ahead.rows, ahead.exact) == ((("Rome", UNKNOWN),), True)
    ahead.show()
    shown = capsys.readouterr().out
    assert '{"city": "Rome", "loud": {"$unknown": true}}' in shown
    assert "warning: values are unknown, for they can't be computed anew: loud" in shown
    # A row that has all columns is taken for one of the frame's; else what was not compared is said.
    assert frame_lineage(loud).back(("Rome", "IT!")).exact
    assert frame_lineage(loud).back({"city": "Rome"}).exact
    assert frame_lineage(loud.withColumn("x", F.lit(1))).back(Row(city="Rome", loud="?")).reasons


def test_rows_of_the_program_are_shown(
    totals: DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    made = totals.sparkSession.range(2).selectExpr("id + 1 n")
    found = frame_lineage(made).back((2,))
    assert repr(found) == "<FrameRows: 1 row of 1 source, exact>"
    found.show()
    assert capsys.readouterr().out == '1 row of the program\nplan:0#1: {"id": 1}\nexact\n'


def test_a_frame_has_the_method_while_lineage_is_captured(
    totals: DataFrame, tmp_path: Path, spark_context: SparkContext
) -> None:
    with LineageContext(spark_context, store=f"sqlite:///{tmp_path / 'lineage.db'}"):
        assert totals.lineage().back(where="city = 'Rome'").count == 2  # type: ignore[operator]
        # A column of that name is found as before.
        named = totals.withColumnRenamed("land", "lineage")
        assert named.where(named.lineage == "NO").count() == 1
