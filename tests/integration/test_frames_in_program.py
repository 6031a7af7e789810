"""Rows of a DataFrame traced by the program that has it."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lineage_dataframes.errors import RowError
from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_emitter import LineageContext, frame_lineage
from lineage_emitter.errors import TracingError

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
