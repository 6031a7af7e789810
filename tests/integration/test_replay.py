"""Rows of DataFrames replayed: on what they were made from, and without some of it."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables, recipe_of_frame
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import RefusedError, RowError
from lineage_dataframes.rewrite.locality import nonlocal_reasons
from lineage_dataframes.trace.replay import Replayer, RequestedOutput
from lineage_dataframes.trace.source_rows import source_rows_at
from tests.support.drawn import drawn
from tests.support.frame_tables import QUERIES, written

pytestmark = pytest.mark.integration

LOCAL = {
    "filter", "values", "expressions", "inset", "join", "semi", "aggregate", "global", "hidden key", "rollup", "distinct",
    "union", "correlated", "except all", "intersect", "two distincts", "collected", "explode", "explode outer", "lambda", "twice", "self join", "two aggregates", "range", "quoting",
}  # fmt: skip
"""Queries whose rows depend on their witnesses alone."""


def recipe_for(spark: SparkSession, tables: ParquetTables, query: str) -> Recipe:
    tables.views(spark)
    return recipe_of_frame(spark.sql(query))


@pytest.mark.parametrize("name", drawn(sorted(LOCAL), 5))
def test_rows_of_local_plans_come_out_as_they_were(
    name: str, spark: SparkSession, tables: ParquetTables
) -> None:
    recipe = recipe_for(spark, tables, QUERIES[name])
    assert nonlocal_reasons(recipe) == ()
    outcome = Replayer(spark, recipe, RequestedOutput()).replay({})
    assert {row.state for row in outcome.rows} <= {"same", "nearly the same"}
    assert outcome.new == ()


@pytest.mark.parametrize("name", sorted(set(QUERIES) - LOCAL))
def test_why_rows_may_depend_on_others_is_known(
    name: str, spark: SparkSession, tables: ParquetTables
) -> None:
    assert nonlocal_reasons(recipe_for(spark, tables, QUERIES[name]))


def test_a_group_without_a_row(spark: SparkSession, tables: ParquetTables) -> None:
    recipe = recipe_for(spark, tables, "select city, sum(amount) s from orders group by city")
    replayer = Replayer(spark, recipe, RequestedOutput(values=(("city", "Oslo"),)))
    left_out = source_rows_at(
        spark, recipe, ["orders#id=6".replace("orders", recipe.sources[0].paths[0])]
    )
    outcome = replayer.replay(left_out)
    ((row,),) = (outcome.rows,)
    assert (row.before, row.after) == (("Oslo", Decimal("14.49")), ("Oslo", Decimal("4.50")))
    assert (row.state, outcome.reads_all_rows, outcome.new) == ("changed", False, ())
    assert (outcome.witnesses, outcome.left_out, outcome.unused) == (3, 1, 0)


def test_a_row_that_made_nothing_of_it_is_said_to(
    spark: SparkSession, tables: ParquetTables
) -> None:
    recipe = recipe_for(spark, tables, "select city, count(*) n from orders group by city")
    replayer = Replayer(spark, recipe, RequestedOutput(values=(("city", "Oslo"),)))
    left_out = source_rows_at(spark, recipe, [f"{recipe.sources[0].paths[0]}#id=1"])
    outcome = replayer.replay(left_out)
    assert ([row.state for row in outcome.rows], outcome.unused) == (["same"], 1)


def test_a_row_is_left_out_of_every_reading_of_its_file(
    spark: SparkSession, tables: ParquetTables
) -> None:
    part = tables.folder / "orders" / "part-0.parquet"
    query = f"""select a.city, a.n, b.s from (select city, count(*) n from orders group by city) a
        join (select city, sum(amount) s from parquet.`{part}` group by city) b on a.city = b.city"""
    recipe = recipe_for(spark, tables, query)
    assert len(recipe.sources) > 1
    replayer = Replayer(spark, recipe, RequestedOutput(values=(("city", "Oslo"),)))
    outcome = replayer.replay(source_rows_at(spark, recipe, [f"{part}#0"]))
    assert [row.after for row in outcome.rows] == [("Oslo", 2, Decimal("3.00"))]


def test_what_a_row_kept_out_comes_in_when_it_is_gone(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    recipe = recipe_for(spark, tables, QUERIES["limit"])
    replayer = Replayer(spark, recipe, RequestedOutput(values=(("id", "6"),)))
    left_out = source_rows_at(spark, recipe, [f"{recipe.sources[0].paths[0]}#id=6"])
    outcome = replayer.replay(left_out, tmp_path / "again")
    assert [row.state for row in outcome.rows] == ["gone"]
    assert outcome.new == ((3, Decimal("4.75")),)
    assert outcome.reads_all_rows
    rows = spark.read.parquet(str(tmp_path / "again")).collect()
    assert sorted(map(tuple, rows)) == [(3, Decimal("4.75")), (4, Decimal("5.10"))]


def test_a_new_row_may_equal_one_that_came_out_as_it_was(
    spark: SparkSession, tables: ParquetTables
) -> None:
    recipe = recipe_for(spark, tables, "select city from orders order by id limit 2")
    replayer = Replayer(spark, recipe, RequestedOutput(values=(("city", "Oslo"),)))
    left_out = source_rows_at(spark, recipe, [f"{recipe.sources[0].paths[0]}#id=1"])
    outcome = replayer.replay(left_out)
    assert [(row.after, row.state) for row in outcome.rows] == [(("Oslo",), "same")]
    assert outcome.new == (("Oslo",),)


def test_groups_by_values_that_others_change_are_computed_over_all_rows(
    spark: SparkSession, tables: ParquetTables
) -> None:
    query = "select n, count(*) cities from (select city, count(*) n from orders group by city) group by n"
    recipe = recipe_for(spark, tables, query)
    replayer = Replayer(spark, recipe, RequestedOutput(values=(("n", "1"),)))
    # Rome then has one order, too, which is none of those that made the requested row.
    left_out = source_rows_at(spark, recipe, [f"{recipe.sources[0].paths[0]}#id=1"])
    outcome = replayer.replay(left_out)
    assert [(row.before, row.after) for row in outcome.rows] == [((1, 2), (1, 3))]
    assert outcome.reads_all_rows


def test_what_cant_be_computed_anew_is_refused_by_name(
    spark: SparkSession, tables: ParquetTables
) -> None:
    for query, reason in [
        ("select id, rand(7) chance from orders", "values of chance can't be computed anew"),
        (
            "select city, first(id) f from orders group by city",
            "values of f can't be computed anew",
        ),
        ("select sum(amount) from orders tablesample (50 percent) repeatable (3)", "sample"),
    ]:
        with pytest.raises(RefusedError, match=reason):
            Replayer(spark, recipe_for(spark, tables, query), RequestedOutput())


def test_rows_are_compared_as_their_files_have_them(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    tables.views(spark)
    frame = spark.sql("select ' ' || city || ' ' c, sum(amount) s from orders group by city")
    recipe = written(frame.coalesce(1), tmp_path / "out", "csv")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    requested = RequestedOutput(places=tuple((recipe.output.files[0], n) for n in range(4)))
    outcome = Replayer(spark, recipe, requested).replay({}, tmp_path / "again")
    assert outcome.reproduced
    assert len(outcome.rows) == 4
    lines = [(tmp_path / name).glob("part-*") for name in ("out", "again")]
    job, again = ("".join(file.read_text() for file in files).splitlines() for files in lines)
    assert sorted(job) == sorted(again)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}


def test_sums_of_doubles_are_the_same_but_for_their_last_digits(
    spark: SparkSession, tables: ParquetTables
) -> None:
    recipe = recipe_for(spark, tables, "select city, sum(weight) w from orders group by city")
    replayer = Replayer(spark, recipe, RequestedOutput())
    assert any("order of the rows" in reason for reason in replayer.uncertain)
    assert not any(row.after is None for row in replayer.replay({}).rows)


def test_a_row_that_is_none_is_refused(spark: SparkSession, tables: ParquetTables) -> None:
    recipe = recipe_for(spark, tables, "select id from orders")
    with pytest.raises(RowError, match="is one of these"):
        Replayer(spark, recipe, RequestedOutput(values=(("id", "77"),)))
    with pytest.raises(RowError, match="was not read"):
        source_rows_at(spark, recipe, ["elsewhere.csv:2"])
    replayer = Replayer(spark, recipe, RequestedOutput(values=(("id", "6"),)))
    left_out = source_rows_at(spark, recipe, [f"{recipe.sources[0].files[0].path}#77"])
    with pytest.raises(RowError, match="1 of the rows that are left out are not there"):
        replayer.replay(left_out)


def test_witnesses_held_in_memory_give_the_same(spark: SparkSession, tables: ParquetTables) -> None:
    recipe = recipe_for(spark, tables, "select city, count(*) n from orders group by city")
    replayer = Replayer(spark, recipe, RequestedOutput(values=(("city", "Oslo"),)))
    before = [row.values for row in replayer.outcome(replayer.witnesses)]
    with replayer.holding_witnesses():
        assert (
            [row.values for row in replayer.outcome(replayer.witnesses)] == before == [("Oslo", 3)]
        )
        ((place, ordinals), *_) = replayer.witnesses.items()
        (row,) = replayer.outcome({place: ordinals[:1]})
        assert row.values == ("Oslo", 1)
        assert replayer.outcome({place: np.array([], np.uint64)}) == []
    assert [row.values for row in replayer.outcome(replayer.witnesses)] == before
