"""Rows of a DataFrame traced by the program that has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from lineage_emitter import LineageContext, frame_lineage
from lineage_emitter.errors import TracingError
from lineage_frames.errors import RowError

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
    assert "<table>" in found._repr_html_()
    assert lineage.back(where="land = 'IT'").rows(paths["lands.json"]).count() == 1
    assert lineage.forward(f"{tmp_path / 'in.csv'}:4").rows == (tuple(oslo),)
    with pytest.raises(RowError, match="no row"):
        lineage.back(("Oslo", "NO", 5))
    with pytest.raises(RowError, match="was not read"):
        lineage.forward(f"{tmp_path / 'other.csv'}:4")


def test_a_frame_has_the_method_while_lineage_is_captured(
    totals: DataFrame, tmp_path: Path, spark_context: SparkContext
) -> None:
    with LineageContext(spark_context, store=f"sqlite:///{tmp_path / 'lineage.db'}"):
        assert totals.lineage().back(where="city = 'Rome'").count == 2  # type: ignore[operator]
        # A column of that name is found as before.
        named = totals.withColumnRenamed("land", "lineage")
        assert named.where(named.lineage == "NO").count() == 1
