"""DataFrame queries traced by their recipes: each node kind, each format, what is refused."""

from __future__ import annotations

import os
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.frames_oracle import ParquetTables, check_rows, rebuild, recipe_of_frame, same_rows
from lineage_core.recipe.document import Output, Recipe
from lineage_dataframes.errors import ChangedSourceError, RefusedError, RowError
from lineage_dataframes.sources.file_changes import literal_path
from lineage_dataframes.sources.locations import locations
from lineage_dataframes.sources.unknown_value import UNKNOWN
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.forward import trace_forward
from lineage_emitter.dataframes.plans import recipe_of
from tests.oracle.budget import examples
from tests.support.drawn import drawn
from tests.support.frame_tables import ORDERS, QUERIES
from tests.support.versions import IN_35

pytestmark = pytest.mark.integration


def ids(witnesses: Witnesses, table: str) -> list[int]:
    """The rows of a table by their place in it: its first file holds four rows (places: two)."""
    first = {"orders": 4, "places": 2}[table]
    found = []
    for (_, uri), ordinals in witnesses.rows.items():
        if f"/{table}/" in uri:
            found += [row + first * uri.endswith("part-1.parquet") for row in ordinals.tolist()]
    return sorted(found)


@pytest.mark.parametrize("name", drawn(QUERIES, 8))
def test_the_witnesses_alone_give_each_row(
    name: str, spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    places = None if examples(1) > 1 else [0, -1]
    assert check_rows(spark, tables, QUERIES[name], tmp_path, places)


def traced(
    spark: SparkSession, tables: ParquetTables, query: str, row: tuple[object, ...]
) -> Witnesses:
    tables.views(spark)
    return trace_backward(spark, recipe_of_frame(spark.sql(query)), [row])


def test_just_the_rows_of_the_group(spark: SparkSession, tables: ParquetTables) -> None:
    found = traced(spark, tables, "select city, count(*) c from orders group by city", ("Oslo", 3))
    assert (ids(found, "orders"), found.exact, found.matched) == ([0, 2, 6], True, 1)
    found = traced(spark, tables, "select city, count(*) c from orders group by city", (None, 1))
    assert ids(found, "orders") == [3]


def test_what_a_group_collects_is_computed_anew_where_an_order_of_its_values_decides(
    spark: SparkSession, tables: ParquetTables
) -> None:
    query = "select element_at(sort_array({}), 1) v from orders where city > '' group by city"
    for collected, value in {"collect_list(id)": 1, "collect_set(city)": "Rome"}.items():
        found = traced(spark, tables, query.format(collected), (value,))
        assert (ids(found, "orders"), found.exact, found.matched) == ([1, 5], True, 1)
    # 0 and -0 are equal doubles, in whatever order.
    found = traced(spark, tables, query.format("collect_list(weight)"), (0.2,))
    assert (len(ids(found, "orders")), found.exact) == (6, False)


def test_a_semi_join_has_all_matches_and_an_anti_join_the_left_row_alone(
    spark: SparkSession, tables: ParquetTables
) -> None:
    found = traced(spark, tables, QUERIES["semi"], (1,))
    assert (ids(found, "orders"), ids(found, "places")) == ([1], [1, 3])
    found = traced(spark, tables, QUERIES["anti"], (4,))
    assert (ids(found, "orders"), ids(found, "places")) == ([4], [])
    # The row is there for another reason: the existence join's right side has no part in it.
    found = traced(spark, tables, QUERIES["or exists"], (3,))
    assert (ids(found, "orders"), ids(found, "places")) == ([3], [])


def test_a_running_window_has_the_rows_up_to_the_current_one(
    spark: SparkSession, tables: ParquetTables
) -> None:
    query = "select id, sum(amount) over (partition by city order by id) s from orders"
    found = traced(spark, tables, query, (2, Decimal("4.50")))
    assert (ids(found, "orders"), found.exact) == ([0, 2], True)
    found = traced(spark, tables, QUERIES["lag"], (2, Decimal("1.50")))
    assert (ids(found, "orders"), found.exact) == ([0, 2, 6], False)


def test_a_subquery_counts_for_the_rows_that_read_it(
    spark: SparkSession, tables: ParquetTables
) -> None:
    query = QUERIES["scalar"]
    tables.views(spark)
    row = next(row for row in spark.sql(query).collect() if row.id == 0)
    assert ids(traced(spark, tables, query, tuple(row)), "orders") == [0, 1, 5]


def test_a_subquery_that_takes_any_value_decides_on_nothing(
    spark: SparkSession, tables: ParquetTables
) -> None:
    any_value = "(select any_value(amount) from orders where id > 4)"
    query = f"select city, count(*) c from orders where coalesce(amount <> {any_value}, true) group by city"
    with pytest.raises(RefusedError, match="by a subquery that can't be computed anew"):
        traced(spark, tables, query, ("Lima", 1))
    query = f"select id, amount - {any_value} d from orders"
    found = traced(spark, tables, query, (1, None))
    assert (ids(found, "orders"), found.exact) == ([1, 5, 6], False)


def test_equal_output_rows_share_their_witnesses_and_it_is_said(
    spark: SparkSession, tables: ParquetTables
) -> None:
    found = traced(spark, tables, "select amount from orders", (Decimal("2.25"),))
    assert ids(found, "orders") == [1, 5]
    assert (found.matched, found.reasons) == (2, ("2 output rows have these values",))


def test_a_condition_names_output_rows(spark: SparkSession, tables: ParquetTables) -> None:
    tables.views(spark)
    recipe = recipe_of_frame(
        spark.sql("select city as `the city`, sum(amount) s from orders group by city")
    )
    found = trace_backward(spark, recipe, where="`the city` = 'Oslo' or s > 5")
    assert (ids(found, "orders"), found.matched, found.exact) == ([0, 2, 4, 6], 2, True)
    assert trace_backward(spark, recipe).count == 7


@pytest.mark.parametrize(
    "name",
    drawn(
        [
            "self join",
            "semi",
            "or exists",
            "aggregate",
            "rollup",
            "scalar",
            "scalars alone",
            "correlated",
            "window",
            "inner limit",
        ],
        8,
    ),
)
def test_forward_is_the_other_way_round(
    name: str, spark: SparkSession, tables: ParquetTables
) -> None:
    """An input row leads to just those output rows that lead back to it."""
    tables.views(spark)
    frame = spark.sql(QUERIES[name])
    recipe = recipe_of_frame(frame)
    output = [tuple(row) for row in frame.collect()]
    back = [trace_backward(spark, recipe, [row]).rows for row in output]
    assert len(output) == len(set(output))
    read = {(file.path, row) for one in recipe.sources for file in one.files for row in range(2)}
    for path, row in sorted(read):
        ahead = trace_forward(spark, recipe, {path: [row]})
        wanted = [
            one
            for one, found in zip(output, back, strict=True)
            if any(uri == path and row in rows.tolist() for (_, uri), rows in found.items())
        ]
        assert ahead.exact
        assert same_rows(ahead.rows, wanted), (path, row)


def test_forward_from_a_file_that_was_not_read(spark: SparkSession, tables: ParquetTables) -> None:
    tables.views(spark)
    with pytest.raises(RefusedError, match="the job read no file file:/no"):
        trace_forward(spark, recipe_of_frame(spark.sql("select id from orders")), {"file:/no": [1]})


def test_a_row_that_is_not_there(spark: SparkSession, tables: ParquetTables) -> None:
    with pytest.raises(RowError, match="no row of the output"):
        traced(spark, tables, "select id from orders", (99,))
    with pytest.raises(RowError, match="has 1 columns, not 2"):
        traced(spark, tables, "select id from orders", (1, 2))


def test_what_can_not_be_computed_anew_is_wider_or_refused(
    spark: SparkSession, tables: ParquetTables
) -> None:
    tables.views(spark)
    orders = spark.table("orders")
    shout = F.udf(lambda city: f"{city}!")
    shouted = orders.select("id", shout("city").alias("loud"), F.rand().alias("r"))
    row = next(row for row in shouted.collect() if row.id == 2)
    found = trace_backward(spark, recipe_of_frame(shouted), [row])
    assert (ids(found, "orders"), found.exact) == ([2], True)
    narrow = orders.select(shout("city").alias("loud"))
    found = trace_backward(spark, recipe_of_frame(narrow), [("Lima!",)])
    assert (found.count, found.matched, found.exact) == (7, 7, False)
    grouped = orders.groupBy(shout("city").alias("loud")).count()
    found = trace_backward(spark, recipe_of_frame(grouped), [("Lima!", 1)])
    assert (found.count, found.exact) == (7, False)
    with pytest.raises(RefusedError, match="can't be computed anew"):
        trace_backward(spark, recipe_of_frame(grouped.groupBy("count").count()), [(1, 1)])
    recipe = recipe_of_frame(orders.sample(0.9, seed=1).groupBy().count())
    with pytest.raises(RefusedError, match="sample"):
        trace_backward(spark, recipe)
    recipe = recipe_of_frame(spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "a int"))
    with pytest.raises(RefusedError, match="RDD"):
        trace_backward(spark, recipe, [(1,)])


def test_a_limit_within_that_cuts_between_equals_is_refused(
    spark: SparkSession, tables: ParquetTables
) -> None:
    query = "select sum(amount) s from (select amount from orders order by city limit 3)"
    tables.views(spark)
    with pytest.raises(RefusedError, match="a limit within the plan"):
        trace_backward(spark, recipe_of_frame(spark.sql(query)))


@pytest.mark.long
def test_a_window_that_numbers_equals_may_have_used_any_of_them(
    spark: SparkSession, tables: ParquetTables
) -> None:
    query = "select id, row_number() over (order by city) n from orders"
    # NULL, Lima, three times Oslo, twice Rome.
    found = traced(spark, tables, query, (3, 1))
    assert (ids(found, "orders"), found.exact) == ([3], True)
    for place in (3, 4, 5):
        found = traced(spark, tables, query, (2, place))
        assert (ids(found, "orders"), found.exact) == ([0, 2, 3, 4, 6], False)
        assert found.reasons == ("a window numbers rows that its order does not tell apart",)
    with pytest.raises(RowError):
        traced(spark, tables, query, (2, 6))
    within = query.replace("order by", "partition by city is null order by")
    found = traced(spark, tables, f"select id from ({within}) where n < 4", (2,))
    assert (ids(found, "orders"), found.exact) == ([0, 2, 4, 6], False)
    query = "select id, sum(id) over (order by city rows unbounded preceding) n from orders"
    found = traced(spark, tables, query, (2, None))
    assert set(ids(found, "orders")) >= {2}
    assert not found.exact


@pytest.mark.long
def test_a_window_that_numbers_equals_is_refused_where_the_number_decides_on_others(
    spark: SparkSession, tables: ParquetTables
) -> None:
    numbered = "select *, row_number() over (partition by city order by amount) n from orders"
    query = f"select sum(id) s from ({numbered}) where n = 1"
    with pytest.raises(RefusedError, match="its order does not tell apart"):
        traced(spark, tables, query, (8,))
    # Rows that are equal in all that is read of them give the same, whichever is the first.
    equal = (
        "select city, amount, row_number() over (partition by city order by amount) n from orders"
    )
    query = f"select count(*) c, sum(amount) a from ({equal}) where n = 1"
    found = traced(spark, tables, query, (4, Decimal("13.60")))
    assert (ids(found, "orders"), found.exact) == ([0, 1, 3, 4, 5], False)


@pytest.mark.long
def test_one_row_of_a_group_is_kept(spark: SparkSession, tables: ParquetTables) -> None:
    tables.views(spark)
    orders = spark.table("orders")
    kept = orders.select("id", "city").dropDuplicates(["city"])
    row = next(row for row in kept.collect() if row.city == "Oslo")
    found = trace_backward(spark, recipe_of_frame(kept), [tuple(row)])
    assert (ids(found, "orders"), found.exact) == ([row.id], True)
    (path,) = {
        file.path
        for file in recipe_of_frame(kept).sources[0].files
        if file.path.endswith("part-0.parquet")
    }
    ahead = trace_forward(spark, recipe_of_frame(kept), {path: [2]})
    assert (ahead.rows, ahead.exact) == (((UNKNOWN, "Oslo"),), False)
    # By a condition it isn't known whether a row is in the output.
    found = trace_backward(spark, recipe_of_frame(kept), where="id = 2")
    assert (ids(found, "orders"), found.exact) == ([2], False)
    counted = kept.agg(F.count("id"))
    found = trace_backward(spark, recipe_of_frame(counted), [(4,)])
    assert (ids(found, "orders"), found.exact) == ([0, 1, 2, 3, 4, 5, 6], False)
    alone = orders.where("id in (3, 4)").dropDuplicates(["city"]).agg(F.count("id"))
    found = trace_backward(spark, recipe_of_frame(alone), [(2,)])
    assert (ids(found, "orders"), found.exact) == ([3, 4], True)
    equal = orders.select("city", "amount").dropDuplicates(["city"])
    found = trace_backward(spark, recipe_of_frame(equal), [("Rome", Decimal("2.25"))])
    assert (ids(found, "orders"), found.exact) == ([1, 5], False)
    anything = orders.agg(F.first("id").alias("id"))
    (row,) = anything.collect()
    found = trace_backward(spark, recipe_of_frame(anything), [tuple(row)])
    assert (ids(found, "orders"), found.exact) == ([row.id], True)
    nothing = orders.where("id > 99").agg(F.first("id").alias("id"))
    assert trace_backward(spark, recipe_of_frame(nothing), [(None,)]).count == 0


def test_groups_by_numbers_that_hardly_differ_are_told_as_too_many(
    spark: SparkSession, tables: ParquetTables
) -> None:
    near = "select weight + if(id = 0, 1e-12, 0) w, count(*) c from orders where weight < 0.3 group by 1"
    twice = "select w * 2 w, c from (select weight + id * 1e-13 w, count(*) c from orders group by 1) where w < 0.25"
    found = traced(spark, tables, near, (0.1 + 1e-12, 1))
    assert (ids(found, "orders"), found.exact) == ([0], True)
    found = traced(spark, tables, twice, (0.4, 1))
    assert (ids(found, "orders"), found.matched, found.exact) == ([1, 5], 2, False)
    keyed = "select weight + id * 1e-13 w, max(id) m from orders group by 1"
    found = traced(spark, tables, keyed, (0.2 + 5e-13, 5))
    assert (ids(found, "orders"), found.matched) == ([1, 5], 1)
    assert found.reasons == ("groups whose keys differ by less than 1e-09 of their value",)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_functions_that_forgive_are_told_from_plain_ones(
    spark: SparkSession, tables: ParquetTables, ansi: str
) -> None:
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    lenient = """
        select try_add(int(id), 2147483643) a, try_cast(city as int) c, sum(try_subtract(id, 1)) over (partition by id) s,
            try_divide(id, id - 5) d from orders"""
    found = traced(spark, tables, lenient, (None, None, 4, None))
    assert (ids(found, "orders"), found.exact) == ([5], True)
    nothing = "try_divide(1, 0)" if IN_35 else "try_mod(count(*), 0)"
    sums = (
        f"select try_sum(id + 2147483642L) s, try_avg(id) a, {nothing} m from orders where id < 2"
    )
    found = traced(spark, tables, sums, (4294967285, 0.5, None))
    assert (ids(found, "orders"), found.exact) == ([0, 1], True)


def test_cached_frames_are_traced_to_what_they_were_made_from(
    spark: SparkSession, tables: ParquetTables
) -> None:
    tables.views(spark)
    cached = spark.sql("select city, sum(amount) s from orders group by city").cache()
    try:
        both = cached.alias("a").join(cached.alias("b"), F.expr("a.s < b.s and a.city = 'Rome'"))
        frame = both.select("a.city", F.col("b.city").alias("more"))
        found = trace_backward(spark, recipe_of_frame(frame), [("Rome", "Lima")])
        assert ids(found, "orders") == [1, 4, 5]
    finally:
        cached.unpersist()


FORMATS = {
    "csv": {"header": "true"},
    "json": {},
    "orc": {},
    "parquet": {},
}


@pytest.mark.parametrize("kind", drawn(FORMATS, 3))
def test_formats(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    rows = [(n, f"city {n % 3}") for n in range(10)]
    made = spark.createDataFrame(rows, "id int, city string").repartition(2)
    made.write.options(**FORMATS[kind]).format(kind).save(str(tmp_path / "t"))
    read = spark.read.options(**FORMATS[kind]).schema("id int, city string").format(kind)
    frame = read.load(str(tmp_path / "t")).groupBy("city").agg(F.sum("id").alias("s"))
    recipe = recipe_of_frame(frame)
    assert same_rows(frame.collect(), rebuild(spark, recipe))
    found = trace_backward(spark, recipe, [("city 1", 12)])
    assert (found.count, found.exact) == (3, True)
    names = list(locations(spark, recipe, found))
    if kind in {"csv", "json"}:
        texts = [line_at(name) for name in names]
        assert len(texts) == 3
        assert all("city 1" in text for text in texts)
    else:
        assert {row_at(name, kind) for name in names} == {(n, "city 1") for n in (1, 4, 7)}


def line_at(name: str) -> str:
    path, _, line = name.rpartition(":")
    return Path(path).read_text(encoding="utf-8").split("\n")[int(line) - 1]


def row_at(name: str, kind: str) -> tuple[object, ...]:
    path, _, row = name.rpartition("#")
    table = orc.read_table(path) if kind == "orc" else pq.read_table(path)
    return tuple(table.slice(int(row), 1).to_pylist()[0].values())


@pytest.mark.parametrize(
    ("kind", "options", "text", "wanted"),
    [
        ("csv", {"comment": "#"}, "# said\n1,a\n\n  \n2,b\n# more\n3,a\n", [2, 7]),
        ("csv", {"header": "true"}, "\nid,name\n1,a\n\n2,b\n3,a\n", [3, 6]),
        ("json", {}, '{"id":1,"name":"a"}\n\n{"id":2}\n \n{"id":3,"name":"a"}\n', [1, 5]),
        ("text", {}, "a\n\nb\na\n", [1, 4]),
    ],
)
def test_lines_are_those_of_the_file(
    kind: str,
    options: dict[str, str],
    text: str,
    wanted: list[int],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    path = tmp_path / "in.txt"
    path.write_text(text, encoding="utf-8")
    reader = spark.read.options(**options).format(kind)
    if kind != "text":
        reader = reader.schema("id int, name string")
    frame = reader.load(str(path))
    name = frame.columns[-1]
    recipe = recipe_of_frame(frame.where(F.col(name) == "a").groupBy(name).count())
    found = trace_backward(spark, recipe, [("a", 2)])
    assert list(locations(spark, recipe, found)) == [f"{path}:{line}" for line in wanted]


def test_folders_whose_names_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(n, "ab"[n % 2]) for n in range(6)]
    made = spark.createDataFrame(rows, "id int, kind string")
    made.coalesce(1).write.partitionBy("kind").parquet(str(tmp_path / "t"))
    frame = spark.read.parquet(str(tmp_path / "t")).groupBy("kind").agg(F.max("id").alias("m"))
    found = trace_backward(spark, recipe_of_frame(frame), [("b", 5)])
    assert found.count == 3
    assert all("kind=b" in path for _, path in found.rows)


def test_files_whose_names_have_odd_signs(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a b%20é+[1]{x}"
    folder.mkdir()
    (folder / "i n.csv").write_text("x,y\n1,2\n3,4\n")
    frame = spark.read.csv(literal_path(str(folder / "i n.csv")), header=True).where("x > 2")
    recipe = recipe_of_frame(frame)
    found = trace_backward(spark, recipe, [("3", "4")])
    assert list(locations(spark, recipe, found)) == [f"{folder / 'i n.csv'}:3"]
    assert trace_forward(spark, recipe, {f"file:{folder / 'i n.csv'}": [1]}).rows == (("3", "4"),)


def test_the_current_time_of_an_action_that_plans_anew(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(ORDERS, tmp_path / "orders.parquet")
    orders = spark.read.parquet(str(tmp_path / "orders.parquet"))
    output = Output("files", action="DataFrameWriter.parquet")
    loaded = orders.where("id = 2").withColumn("at", F.current_timestamp()).selectExpr("id", "at")
    recipe = Recipe.from_json(recipe_of(loaded.selectExpr("*", "date(at) day"), output).to_json())
    (row,) = loaded.selectExpr("*", "date(at) day").collect()
    later = (row[0], row[1] + timedelta(days=3), row[2] + timedelta(days=3))
    assert trace_backward(spark, recipe, [later]).count == 1
    with pytest.raises(ValueError, match="the time at which it ran decides on rows"):
        recipe_of(
            orders.where("current_date() > date '2020-01-01'").groupBy("city").count(), output
        )
    # What is collected runs the frame's own plan.
    assert recipe_of(loaded, Output(action="DataFrame.collect")).opaque() == []


def test_a_changed_source_is_said(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("1\n2\n", encoding="utf-8")
    recipe = recipe_of_frame(spark.read.schema("id int").csv(str(path)))
    assert trace_backward(spark, recipe, [(2,)]).count == 1
    os.utime(path, ns=(1, 1))
    with pytest.raises(ChangedSourceError, match="was written since the job ran"):
        trace_backward(spark, recipe, [(2,)])
    path.unlink()
    with pytest.raises(ChangedSourceError, match="is gone"):
        trace_backward(spark, recipe, [(2,)])


def test_a_recipe_is_enough_for_another_session(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    tables.views(spark)
    text = recipe_of_frame(spark.sql(QUERIES["aggregate"])).to_json()
    other = SparkSession(spark.sparkContext).newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    other.conf.set("spark.sql.ansi.enabled", "false")
    from lineage_core.recipe.document import Recipe

    recipe = Recipe.from_json(text)
    rows: list[DataFrame] = rebuild(other, recipe)
    assert same_rows(rows, spark.sql(QUERIES["aggregate"]).collect())


SUMS_IN_ORDER = {
    # 0.1 + 0.2 + 0.3 is the next double after 0.3 + 0.2 + 0.1: which of them a run gets is its own affair.
    "limit": "select sum(s) from (select sum(v) s, k from near group by k order by s, k limit {n})",
    "window": "select k, row_number() over (order by s, k) n from (select k, sum(v) s from near group by k)",
    "rank": "select sum(r) from (select rank() over (order by s) r from (select k, sum(v) s from near group by k))",
}


@pytest.mark.long
def test_an_order_by_sums_that_hardly_differ_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [
        ("a", 0.1),
        ("b", 0.3),
        ("a", 0.2),
        ("b", 0.2),
        ("a", 0.3),
        ("b", 0.1),
        ("c", 2.0),
        ("d", 2.0),
    ]
    near = pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]})
    tables = ParquetTables.written(tmp_path, {"near": near}, files=1)
    assert check_rows(spark, tables, SUMS_IN_ORDER["limit"].format(n=2), tmp_path / "two")
    refused = {"limit": "a limit within", "window": "sums of doubles", "rank": "sums of doubles"}
    tables.views(spark)
    for name, reason in refused.items():
        recipe = recipe_of_frame(spark.sql(SUMS_IN_ORDER[name].format(n=1)))
        with pytest.raises(RefusedError, match=reason):
            trace_backward(spark, recipe)
    # Groups that are equal have one rank; stored numbers are the same in every run.
    apart = "select k, rank() over (order by s) r from (select k, sum(v) s from near where k > 'b' group by k)"
    assert check_rows(spark, tables, apart, tmp_path / "apart")
    stored = (
        "select sum(v) from (select v from near where v < 0.25 or k > 'c' order by v desc limit 1)"
    )
    assert check_rows(spark, tables, stored, tmp_path / "stored")


def test_patterns_with_an_escape(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    query = """select id from orders
        where city like 'L_m%' or concat(city, '_') like '%s_o/_' escape '/'"""
    assert check_rows(spark, tables, query, tmp_path)


def test_made_rows_beside_columns_that_nothing_reads(
    spark: SparkSession, tables: ParquetTables, tmp_path: Path
) -> None:
    query = "select id, explode(array(amount, weight)) from orders"
    assert check_rows(spark, tables, query, tmp_path, rows=[0, 3])


def test_a_percentile_from_the_end_is_not_noted_as_one_from_the_front(
    spark: SparkSession, tables: ParquetTables
) -> None:
    tables.views(spark)
    recipe = recipe_of_frame(
        spark.sql("select percentile_cont(0.3) within group (order by id desc) from orders")
    )
    assert recipe.opaque() == ["Percentile: not known to recipes in descending order"]


@pytest.mark.long
def test_numbers_that_parquet_statistics_leave_out_are_found(
    spark: SparkSession, tmp_path: Path
) -> None:
    """NaN is not among a file's least and greatest values, by which Spark leaves files out."""
    nan = float("nan")
    numbers = pa.table({"id": [0, 1, 2, 3], "d": [nan, 1.0, -0.0, 0.0]})
    tables = ParquetTables.written(tmp_path, {"numbers": numbers})
    for query in (
        "select d, id from numbers",
        "select d, sum(id) s from numbers group by d",
        "select id from numbers n where exists (select 1 from numbers m where m.d = n.d and m.id <> n.id + 5)",
    ):
        assert check_rows(spark, tables, query, tmp_path / str(len(query)))
