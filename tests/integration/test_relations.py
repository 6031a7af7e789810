"""All rows of an output at once: the pairs say of each row what its own trace says."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables
from lineage_core.recipe.plan import Aggregate
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.rewrite import keys
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.trace import relations, results
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.pairs import ItemKind
from lineage_dataframes.trace.relations import Relations
from lineage_dataframes.trace.rows import output_of, values_at
from tests.support.drawn import drawn
from tests.support.frame_tables import QUERIES, placed_rows, written

pytestmark = pytest.mark.integration

Row = tuple[str, int]
Item = tuple[ItemKind, str, int]

CHOSEN = (
    "values", "outer", "or exists", "hidden key", "rollup", "except all", "correlated", "scalar", "window",
    "two aggregates", "joined with itself",
)  # fmt: skip


def sources_of(relations: Relations) -> dict[Row, set[tuple[str, int]]]:
    """For each output row the rows of sources that the pairs lead to."""
    made: defaultdict[Item, set[Item]] = defaultdict(set)
    for pairs in relations.pairs():
        for out, used in zip(pairs.outputs.tolist(), pairs.inputs.tolist(), strict=True):
            made[pairs.output_kind, pairs.output_file, out].add(
                (pairs.input_kind, pairs.input_file, used)
            )

    def ends(item: Item) -> set[tuple[str, int]]:
        if item[0].type in {"source", "plan"}:
            return {(item[1] or f"plan:{item[0].place}", item[2])}
        return set().union(*(ends(one) for one in made[item]))

    return {(item[1], item[2]): ends(item) for item in list(made) if item[0].type == "output"}


def rows_of(found: Witnesses) -> set[tuple[str, int]]:
    return {(path, row) for (_, path), rows in found.rows.items() for row in rows.tolist()}


@pytest.mark.parametrize("name", drawn(CHOSEN, 8))
def test_the_pairs_are_those_of_each_row_traced(
    name: str, spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    tables.views(spark)
    recipe = written(spark.sql(QUERIES[name]), tmp_path / "out")
    made = Relations(spark, recipe, tmp_path / "scratch")
    found = sources_of(made)
    rows = placed_rows(spark, tmp_path / "out")
    assert len(found) == len(rows)
    for *values, path, ordinal in (rows[0], rows[-1]):
        alone = trace_backward(spark, recipe, [values], is_in_output=True)
        if any(made.reasons.values()):
            assert found[path, ordinal] >= rows_of(alone)
        else:
            assert (found[path, ordinal], alone.exact) == (rows_of(alone), True)


KEPT = {
    "a row of a group": ("select city, first(id) i from orders group by city", True),
    "rows that its values don't tell": ("select city, first(amount) a from orders where city = 'Rome' group by city", False),
    "rows of groups, counted": ("select count(i) c from (select first(id) i from orders group by city)", False),
    "numbers of rows that an order ties": ("select id, row_number() over (partition by city order by city) n from orders", False),
}  # fmt: skip
"""Queries that keep one of several rows, and whether it is known which."""


@pytest.mark.parametrize("name", KEPT)
def test_where_one_of_several_rows_was_kept_it_is_said(
    name: str, spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    query, exact = KEPT[name]
    tables.views(spark)
    recipe = written(spark.sql(query), tmp_path / "out")
    made = Relations(spark, recipe, tmp_path / "scratch")
    found = sources_of(made)
    rows = placed_rows(spark, tmp_path / "out")
    assert len(found) == len(rows)
    assert any(made.reasons.values()) != exact
    for *values, path, ordinal in rows:
        alone = trace_backward(spark, recipe, [values], is_in_output=True)
        assert found[path, ordinal] >= rows_of(alone)
        assert not exact or (len(found[path, ordinal]), alone.exact) == (1, True)


DERIVED = {
    "made of the key": ("select upper(city) u, sum(amount) s from orders group by city", False),
    "made above": ("select lower(u) l, s from (select upper(city) u, sum(amount) s from orders group by city having s > 1)", False),
    "a part of the keys": ("select name, count(*) c from places group by name, lower(name)", False),
    "rolled up": ("select name, land, count(*) c from places group by rollup(name, land)", False),
    "rolled up over nulls": (QUERIES["rollup"], True),
    "shared by groups": ("select substring(city, 2, 0) e, sum(amount) s from orders group by city", True),
    "an aggregate of the key": ("select max(city) m, sum(amount) s from orders group by city", True),
    "partitions": ("select id, city, sum(amount) over (partition by city) s from orders", False),
}  # fmt: skip
"""Queries whose rows tell of their groups, and whether they are computed anew nevertheless."""


@pytest.mark.parametrize("name", drawn(DERIVED, 8))
def test_rows_that_tell_of_their_groups_are_not_computed_anew(
    name: str,
    spark: SparkSession,
    tables: ParquetTables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    query, anew = DERIVED[name]
    tables.views(spark)
    recipe = written(spark.sql(query), tmp_path / "out")
    computed, rows_of_output = list[str](), Relations._values_of_output

    def noted(self: Relations, *args: Any) -> Any:
        computed.append(name)
        return rows_of_output(self, *args)

    monkeypatch.setattr(Relations, "_values_of_output", noted)
    found = sources_of(Relations(spark, recipe, tmp_path / "scratch"))
    assert bool(computed) == anew
    rows = placed_rows(spark, tmp_path / "out")
    assert len(found) == len(rows)
    for *values, path, ordinal in rows:
        assert found[path, ordinal] == rows_of(trace_backward(spark, recipe, [values]))


ALIKE = [" a", "a", "b", "", None, "a\t"]
"""Texts of which CSV trims some, and some are one in files of text."""


@pytest.mark.parametrize(("form", "columns"), [("csv", "v, 1 AS n"), ("text", "v")])
def test_of_rows_that_stand_in_a_file_alike_all_are_named(
    form: str, columns: str, spark: SparkSession, tmp_path: Path
) -> None:
    source = tmp_path / "in.json"
    source.write_text("".join(json.dumps({"v": text}) + "\n" for text in ALIKE))
    frame = spark.read.schema("v string").json(str(source))
    recipe = written(frame.selectExpr(*columns.split(", ")), tmp_path / "out", form)
    made = Relations(spark, recipe, tmp_path / "scratch")
    found = sources_of(made)
    assert any(made.reasons.values())
    output = output_of(spark, recipe)
    (file,) = output.files
    for ordinal, text in enumerate(ALIKE):
        truth = {(f"file:{source}", ordinal)}
        row = values_at(spark, recipe, output, file, ordinal)
        alone = trace_backward(spark, recipe, [row], written=form)
        assert (
            alone.exact
            == (rows_of(alone) == truth)
            == (text == "b" or (form == "text" and bool(text)))
        )
        assert truth <= rows_of(alone)
        assert found[file.path, ordinal] == rows_of(alone)


@pytest.mark.parametrize("name", drawn(["outer", "rollup", "two aggregates", "values"], 4))
def test_pairs_are_the_same_where_there_are_many(
    name: str,
    spark: SparkSession,
    tables: ParquetTables,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tables.views(spark)
    recipe = written(spark.sql(QUERIES[name]), tmp_path / "out")
    few = sources_of(Relations(spark, recipe, tmp_path / "few"))
    monkeypatch.setattr(relations, "VALUES_MAX", 0)
    monkeypatch.setattr(keys, "VALUES_MAX", 0)
    monkeypatch.setattr(keys, "LITERAL_KEYS_MAX", 0)
    monkeypatch.setattr(results, "COLLECTED_BYTES_MAX", 0)
    assert sources_of(Relations(spark, recipe, tmp_path / "many")) == few
    assert all(path.is_dir() for path in (tmp_path / "many").iterdir())


def test_values_that_no_constant_stands_for(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql("select make_date(12000, 1, 1) d, 1 n union all select null, 2")
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))
    spark.read.parquet(str(tmp_path / "in")).createOrReplaceTempView("days")
    recipe = written(spark.sql("select d, n + 1 m from days"), tmp_path / "out")
    found = sources_of(Relations(spark, recipe, tmp_path / "scratch"))
    assert sorted(row for of in found.values() for _, row in of) == [0, 1]


@pytest.mark.parametrize("many", [3, pytest.param(60, marks=pytest.mark.long)])
def test_groups_by_times_of_no_zone(spark: SparkSession, tmp_path: Path, many: int) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    times = "timestampadd(HOUR, id % 50, timestamp_ntz'2024-01-01 10:00:00')"
    rows = session.range(many).selectExpr("id", f"{times} AS at")
    rows.coalesce(1).write.parquet(str(tmp_path / "in"))
    session.read.parquet(str(tmp_path / "in")).createOrReplaceTempView("times")
    recipe = written(session.sql("select at, count(*) c from times group by at"), tmp_path / "out")
    found = sources_of(Relations(session, recipe, tmp_path / "scratch"))
    assert sorted(row for of in found.values() for _, row in of) == list(range(many))


def test_what_is_there_twice_in_a_plan_is_asked_once(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    tables.views(spark)
    recipe = written(spark.sql(QUERIES["joined with itself"]), tmp_path / "out")
    assert len([node for node in recipe.plan if isinstance(node, Aggregate)]) == 2
    kinds = {pairs.output_kind for pairs in Relations(spark, recipe, tmp_path / "scratch").pairs()}
    assert len([one for one in kinds if isinstance(recipe.plan[one.place], Aggregate)]) == 1


def test_equal_rows_share_their_sources(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    tables.views(spark)
    recipe = written(spark.sql("select city from orders where city = 'Oslo'"), tmp_path / "out")
    made = Relations(spark, recipe, tmp_path / "scratch")
    assert {len(found) for found in sources_of(made).values()} == {3}
    assert made.reasons == {
        ItemKind("output"): ["rows of the output are equal and share their sources"]
    }


def test_groups_by_numbers_that_depend_on_the_order_are_refused(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    tables.views(spark)
    query = "select w, count(*) c from (select sum(weight) w from orders group by city) group by w"
    recipe = written(spark.sql(query), tmp_path / "out")
    with pytest.raises(RefusedError, match="come out differently each time"):
        Relations(spark, recipe, tmp_path / "scratch")


def test_an_output_that_was_written_since_is_refused(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    tables.views(spark)
    recipe = written(spark.sql("select id from orders"), tmp_path / "out")
    for path in (tmp_path / "out").glob("*.parquet"):
        os.utime(path, (1, 1))
    with pytest.raises(ChangedSourceError, match="was written since"):
        Relations(spark, recipe, tmp_path / "scratch")
