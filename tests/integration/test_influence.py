"""What a row would be without each row that it was made from: in closed form as the plan gives it when it runs again."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables, recipe_of_frame
from lineage_dataframes.errors import RefusedError
from lineage_dataframes.trace import influence
from lineage_dataframes.trace.combined_groups import NoClosedFormError
from lineage_dataframes.trace.influence import Influences, influences
from lineage_dataframes.trace.replay import Replayer, RequestedOutput
from tests.oracle.budget import examples
from tests.support.drawn import drawn

pytestmark = pytest.mark.integration

CLOSED = {
    "sum": "select city, sum(amount) s from orders group by city",
    "all": "select city, sum(amount) s, count(*) n, count(amount) m, avg(amount) a, min(amount) lo, max(amount) hi from orders group by city",
    "doubles": "select city, sum(double(amount)) s, avg(double(amount)) a from orders group by city",
    "longs": "select city, sum(id) s, avg(id) a, max(city) c, min(id) filter (where id > 2) f from orders group by city",
    "global": "select sum(id) s, count(*) n from orders",
    "self join": "select a.city, count(*) n, sum(b.id) s from orders a join orders b on a.city = b.city group by a.city",
    "order": "select city, count(*) n from orders group by city order by n",
}
RUN = {
    "computed": "select city, round(avg(amount), 1) r from orders group by city",
    "distinct": "select city, count(distinct amount) n, sum(id) s from orders group by city",
    "having": "select city, count(*) n from orders group by city having n > 0",
}


def of_rows(spark: SparkSession, tables: ParquetTables, query: str) -> list[Replayer]:
    """A replayer of each row of a query."""
    tables.views(spark)
    frame = spark.sql(query)
    recipe = recipe_of_frame(frame)
    return [Replayer(spark, recipe, RequestedOutput(rows=(tuple(row),))) for row in frame.collect()]


def run_again(replayer: Replayer, monkeypatch: pytest.MonkeyPatch) -> Influences:
    """The same by running the plan without each row."""

    def refuse(*_: object) -> None:
        raise NoClosedFormError("a test")

    with monkeypatch.context() as patch:
        patch.setattr(influence, "_in_closed_form", refuse)
        return influences(replayer, 1_000)


def check_same(closed: Influences, again: Influences) -> None:
    assert [row.witness for row in closed.rows] == [row.witness for row in again.rows]
    for one, other in zip(closed.rows, again.rows, strict=True):
        assert (one.values is None) == (other.values is None), (one, other)
        for value, expected, sure in zip(
            one.values or (), other.values or (), one.sure, strict=False
        ):
            if sure:
                assert (value, type(value)) == (expected, type(expected)), (one, other)
            else:
                assert math.isclose(value, expected, rel_tol=1e-9), (one, other)


@pytest.mark.parametrize("name", drawn(CLOSED, 4))
def test_the_closed_form_is_the_plan_run_again(
    name: str, spark: SparkSession, tables: ParquetTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    for replayer in of_rows(spark, tables, CLOSED[name])[:2]:
        closed = influences(replayer, 0)
        assert (closed.how, closed.why) == ("closed form", "")
        assert len(closed.rows) == closed.witnesses > 0
        check_same(closed, run_again(replayer, monkeypatch))


@pytest.mark.parametrize("name", drawn(RUN, 2))
def test_other_rows_are_run_again(name: str, spark: SparkSession, tables: ParquetTables) -> None:
    replayer = of_rows(spark, tables, RUN[name])[0]
    found = influences(replayer, 2)
    assert found.how == "re-execution"
    assert found.why
    assert len(found.rows) == min(2, found.witnesses)


def test_several_rows_have_no_one_influence(spark: SparkSession, tables: ParquetTables) -> None:
    tables.views(spark)
    recipe = recipe_of_frame(spark.sql(CLOSED["sum"]))
    with pytest.raises(RefusedError, match="the influence on one row"):
        influences(Replayer(spark, recipe, RequestedOutput()), 1)


amounts = st.none() | st.integers(-999_999, 999_999)


@pytest.mark.long
def test_drawn_groups_are_as_the_plan_run_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @settings(max_examples=examples(3), suppress_health_check=list(HealthCheck), deadline=None)
    @given(st.lists(st.tuples(st.integers(0, 1), amounts, amounts), min_size=1, max_size=5))
    def check(rows: list[tuple[int, int | None, int | None]]) -> None:
        folder = tmp_path / f"{abs(hash(tuple(rows)))}"
        frame = spark.createDataFrame(rows, "k int, x int, y int")
        frame = frame.selectExpr("k", "x", "cast(y / 100 as decimal(7,2)) y").coalesce(1)
        frame.write.mode("overwrite").parquet(str(folder))
        read = spark.read.parquet(str(folder)).groupBy("k")
        query = read.agg({"x": "sum", "y": "avg", "*": "count"})
        recipe = recipe_of_frame(query)
        for row in query.collect():
            replayer = Replayer(spark, recipe, RequestedOutput(rows=(tuple(row),)))
            closed = influences(replayer, 0)
            assert closed.how == "closed form"
            check_same(closed, run_again(replayer, monkeypatch))

    check()
