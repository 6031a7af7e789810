"""Everyday idioms of DataFrames over two small tables whose rows carry their place as ``id``.

Each says of an output row which rows it was made from, and how traces of its rows come out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.window import WindowSpec

SALES = [
    # id, city, kind, n, price, name, day, at, data, tags
    (0, "Oslo", "a", 3, 1.5, "Ann Lee", "2024-01-31", "2024-01-31 10:02:00", '{"x": 1, "y": "p"}', ["r", "g"]),
    (1, "Rome", "b", 5, 2.5, "Bob Ray", "2024-02-29", "2024-01-31 10:07:00", '{"x": 2}', ["r"]),
    (2, "Oslo", "b", 3, 0.5, "Cy Poe", "2024-02-01", "2024-01-31 10:12:00", "no json", []),
    (3, None, "a", None, 4.0, None, None, None, None, None),
    (4, "Rome", "b", 5, 2.5, "Bob Ray", "2024-02-29", "2024-01-31 10:07:00", '{"x": 2}', ["r"]),
    (5, "Lima", "a", 7, None, "Di Fox", "2023-12-31", "2024-01-31 10:58:00", '{"x": 1, "y": null}', ["b", "b"]),
    (6, "Oslo", "a", 9, 8.0, "Ed Orr", "2024-01-01", "2024-01-31 10:03:00", '{"y": "q"}', ["g", "b"]),
]  # fmt: skip
NAMES = ["id", "city", "kind", "n", "price", "name", "day", "at", "data", "tags"]
PLACES = [(0, "Oslo", "NO"), (1, "Rome", "IT"), (2, "Bonn", "DE"), (3, "Rome", "EU")]

Truth = set[tuple[str, int]]
EXACT, SUPERSET, REFUSED = "exact", "superset", "refused"


@dataclass(frozen=True)
class Given:
    """What an idiom works on: the session, and the two tables."""

    spark: SparkSession
    sales: DataFrame
    places: DataFrame


@dataclass(frozen=True)
class Idiom:
    """``truth``: the rows that an output row was made from. ``classes``: how its rows' traces may come out."""

    name: str
    frame: Callable[[Given], DataFrame]
    truth: Callable[[Row], Truth]
    classes: tuple[str, ...]


IDIOMS: list[Idiom] = []


def idiom(
    frame: Callable[[Given], DataFrame], truth: Callable[[Row], Truth], *classes: str, name: str
) -> None:
    IDIOMS.append(Idiom(name, frame, truth, classes or (EXACT,)))


def sales(*ids: int | None) -> Truth:
    return {("sales", one) for one in ids if one is not None}


def places(*ids: int | None) -> Truth:
    return {("places", one) for one in ids if one is not None}


def where(condition: Callable[[Any], bool]) -> Truth:
    """The sales that fulfil a condition."""
    return sales(*(row[0] for row in SALES if condition(Row(**dict(zip(NAMES, row, strict=True))))))


def own(row: Row) -> Truth:
    """The row of sales that an output row of its own is of."""
    return sales(row.id)


def listed(row: Row) -> Truth:
    """The rows that an aggregate of the idiom lists beside its others."""
    return sales(*row.ids)


def of_city(row: Row) -> Truth:
    return where(lambda one: one.city == row.city)


def joined(row: Row) -> Truth:
    return sales(row.id) | places(row.place)


def said_loud(column: str) -> Column:
    return F.udf(lambda text: None if text is None else f"{text}!", "string")(column)


def doubled(values: pd.Series) -> pd.Series:
    return values * 2


def said_doubled(column: str) -> Column:
    functions: Any = F
    made: Column = functions.pandas_udf(doubled, "long")(column)
    return made


def ids() -> Column:
    return F.sort_array(F.collect_set("id")).alias("ids")


def by_sql(query: str) -> Callable[[Given], DataFrame]:
    def frame(given: Given) -> DataFrame:
        given.sales.createOrReplaceTempView("sales")
        given.places.createOrReplaceTempView("places")
        return given.spark.sql(query)

    return frame


def by_city() -> WindowSpec:
    return Window.partitionBy("city")


def latest() -> WindowSpec:
    return by_city().orderBy(F.col("n").desc(), "id")


def tied() -> WindowSpec:
    return by_city().orderBy("n")


def rank_of(number: int) -> int:
    """The rank of a sale in its city by ``n``, NULL first."""
    row = SALES[number]
    return 1 + sum(
        one[1] == row[1] and one[3] is not None and row[3] is not None and one[3] < row[3]
        for one in SALES
    )


# fmt: off

# One row of one row
idiom(lambda g: g.sales.select("id", "city"), own, name="select")
idiom(lambda g: g.sales.withColumn("m", F.col("n") * 2 + 1).select("id", "m"), own, name="withColumn")
idiom(lambda g: g.sales.selectExpr("id", "upper(city) up"), own, name="selectExpr")
idiom(lambda g: g.sales.drop("data", "tags", "at").withColumnRenamed("n", "count"), own, name="drop and rename")
idiom(lambda g: g.sales.filter("n > 3").select("id", "n"), own, name="filter")
idiom(lambda g: g.sales.where(F.col("city").isin("Oslo", "Lima")).select("id"), own, name="isin")
idiom(lambda g: g.sales.where(F.col("city").like("%o%") & F.col("price").between(1, 9)).select("id"), own, name="like and between")
idiom(lambda g: g.sales.select("id", F.when(F.col("n") > 5, "many").when(F.col("n") > 3, "some").otherwise("few").alias("w")), own, name="when")
idiom(lambda g: g.sales.select("id", F.coalesce("city", F.lit("?")).alias("c"), F.col("price").cast("int")), own, name="coalesce and cast")
idiom(lambda g: g.sales.select("id", F.split("name", " ")[1].alias("last")), own, name="split")
idiom(lambda g: g.sales.select("id", F.regexp_replace("name", "[aeiou]", "_").alias("r"), F.regexp_extract("name", r"(\w+) ", 1).alias("e")), own, name="regular expressions")
idiom(lambda g: g.sales.select("id", F.concat_ws("-", "city", "kind").alias("c"), F.length("name").alias("l")), own, name="concat_ws")
idiom(lambda g: g.sales.select("id", F.to_date("day").alias("d"), F.year(F.to_date("day")).alias("y"), F.date_format(F.to_date("day"), "yyyy-MM").alias("m")), own, name="dates")
idiom(lambda g: g.sales.select("id", F.date_add(F.to_date("day"), 1).alias("next"), F.datediff(F.lit("2024-03-01"), "day").alias("ago")), own, name="date arithmetic")
idiom(lambda g: g.sales.select("id", F.to_timestamp("at").alias("t"), F.hour("at").alias("h")), own, name="timestamps")
idiom(lambda g: g.sales.select("id", F.get_json_object("data", "$.x").alias("x")), own, name="get_json_object")
idiom(lambda g: g.sales.select("id", F.from_json("data", "x int, y string").alias("d")).select("id", "d.x", "d.y"), own, name="from_json")
idiom(lambda g: g.sales.select("id", F.to_json(F.struct("city", "n")).alias("j")), own, name="to_json")
idiom(lambda g: g.sales.select("id", F.size("tags").alias("many"), F.array_contains("tags", "r").alias("red")), own, name="arrays")
idiom(lambda g: g.sales.select("id", F.transform("tags", F.upper).alias("u")), own, name="higher-order functions")
idiom(lambda g: g.sales.select("id", F.struct("city", "n").alias("s")).select("id", "s.city"), own, name="structs")
idiom(lambda g: g.sales.select("id", F.create_map("city", "n").alias("m")).where("id <> 3"), own, name="maps")
idiom(lambda g: g.sales.select("id", F.explode("tags").alias("tag")).dropDuplicates(), own, name="explode")
idiom(lambda g: g.sales.select("id", F.explode_outer("tags").alias("tag")).distinct(), own, name="explode_outer")
idiom(lambda g: g.sales.select("id", F.posexplode("tags").alias("at", "tag")), own, name="posexplode")
idiom(lambda g: g.sales.select("id", F.explode(F.split("name", " ")).alias("word")), own, name="explode of split")
idiom(lambda g: g.sales.selectExpr("id", "stack(2, 'n', n, 'p', cast(price as bigint)) as (what, much)"), own, name="stack")
idiom(lambda g: g.sales.select("id", "n", "price").fillna(0), own, name="fillna")
idiom(lambda g: g.sales.select("id", "city", "price").dropna(), own, name="dropna")
idiom(lambda g: g.sales.select("id", "city", "n", "price").dropna(how="all", subset=["city", "n"]), own, name="dropna all")
idiom(lambda g: g.sales.select("id", "city", "n", "price").dropna(thresh=3), own, name="dropna thresh")
idiom(lambda g: g.sales.select("id", "city").replace({"Oslo": "OSL"}, subset=["city"]), own, name="replace")
idiom(lambda g: g.sales.select("id", "n").orderBy(F.desc("n"), "id").limit(3), own, name="sort and limit")
idiom(lambda g: g.sales.select("id", "n").sample(0.7, seed=3), own, name="sample")
idiom(lambda g: g.sales.select("id", said_loud("city").alias("c")), own, name="udf")
idiom(lambda g: g.sales.select("id", said_doubled("n").alias("m")), own, name="pandas udf")
idiom(lambda g: g.sales.select("id", F.lit("${city}").alias("c")).where("c = '${' || 'city}'"), own, name="text in braces")
idiom(lambda g: g.sales.select("id", "city").cache(), own, name="cache")
idiom(lambda g: g.sales.select("id", "city").repartition(3, "city"), own, name="repartition")
idiom(lambda g: g.sales.select("id", F.monotonically_increasing_id().alias("m")), own, name="monotonically_increasing_id")
idiom(lambda g: g.sales.select("id", "city").union(g.sales.select("id", "kind").where("n > 5")), own, name="union")
idiom(lambda g: g.sales.select("id", "city").unionByName(g.sales.select("kind", "id").where("n > 5"), allowMissingColumns=True), own, name="unionByName")
idiom(lambda g: g.sales.select("id", "n", "price").unpivot("id", ["n"], "what", "much"), own, name="unpivot")

# Joins
PLACED = ["s.id", "p.id as place", "land"]
idiom(lambda g: g.sales.alias("s").join(g.places.alias("p"), F.expr("s.city = p.town")).selectExpr(*PLACED), joined, name="join")
idiom(lambda g: g.sales.alias("s").join(g.places.alias("p"), F.expr("s.city = p.town"), "left").selectExpr(*PLACED), joined, name="left join")
idiom(lambda g: g.sales.alias("s").join(g.places.alias("p"), F.expr("s.city = p.town"), "right").selectExpr(*PLACED), joined, name="right join")
idiom(lambda g: g.sales.alias("s").join(g.places.alias("p"), F.expr("s.city = p.town"), "full").selectExpr(*PLACED), joined, name="full join")
idiom(lambda g: g.sales.alias("s").join(F.broadcast(g.places.alias("p")), F.expr("s.city = p.town and s.n > 3")).selectExpr(*PLACED), joined, name="broadcast join")
idiom(lambda g: g.sales.alias("s").where("id < 2").crossJoin(g.places.alias("p")).selectExpr(*PLACED), joined, name="crossJoin")
idiom(lambda g: g.sales.join(g.places.withColumnRenamed("town", "city").drop("id"), "city", "left_semi").select("id", "city"),
      lambda row: own(row) | places(*(p[0] for p in PLACES if p[1] == row.city)), name="semi join")
idiom(lambda g: g.sales.join(g.places.withColumnRenamed("town", "city").drop("id"), "city", "left_anti").select("id"), own, name="anti join")
idiom(lambda g: g.sales.alias("a").join(g.sales.alias("b"), F.expr("a.city = b.city and a.id < b.id")).selectExpr("a.id", "b.id other"),
      lambda row: sales(row.id, row.other), name="self join")
idiom(by_sql("select id from sales where city in (select town from places where land = 'NO')"),
      lambda row: own(row) | places(0), name="IN subquery")
idiom(by_sql("select id, n - (select avg(n) from sales where kind = 'b') d from sales"),
      lambda row: own(row) | where(lambda one: one.kind == "b"), name="scalar subquery")
idiom(by_sql("select id from sales s where n >= (select max(n) from sales i where i.city = s.city)"),
      lambda row: where(lambda one: one.city == SALES[row.id][1]), name="correlated subquery")
idiom(by_sql("with big as (select * from sales where n > 3) select b.id, p.id place, land from big b join places p on b.city = p.town"),
      joined, name="SQL with a CTE")

# Groups
idiom(lambda g: g.sales.groupBy("city").agg(F.count("*").alias("c"), F.sum("n"), ids()), listed, name="groupBy count and sum")
idiom(lambda g: g.sales.groupBy("city", "kind").agg(F.avg("price"), F.min("n"), F.max("n"), F.stddev("n"), ids()), listed, name="groupBy avg, min, max")
idiom(lambda g: g.sales.groupBy("city").agg(F.countDistinct("kind"), F.collect_list("n"), ids()), listed, name="countDistinct and collect_list")
idiom(lambda g: g.sales.groupBy("city").count(), of_city, name="count")
idiom(lambda g: g.sales.groupBy("city").agg(F.max_by("name", "price").alias("m")), of_city, name="max_by")
idiom(lambda g: g.sales.groupBy("city").agg(F.sum("n").alias("s")).where("s > 8"), of_city, name="having")
idiom(lambda g: g.sales.groupBy(F.upper("city").alias("u")).agg(ids()), listed, name="groupBy an expression")
idiom(lambda g: g.sales.agg(F.sum("n"), ids()), listed, name="agg of all")
idiom(lambda g: g.sales.groupBy("city").pivot("kind", ["a", "b"]).sum("n"), of_city, name="pivot")
idiom(lambda g: g.sales.where("city is not null").rollup("city", "kind").agg(F.sum("n"), ids()), listed, name="rollup")
idiom(lambda g: g.sales.where("city is not null").cube("city", "kind").agg(F.count("*"), ids()), listed, name="cube")
idiom(lambda g: g.sales.select("city").distinct(), of_city, name="distinct")
idiom(lambda g: g.sales.groupBy(said_loud("city").alias("c")).agg(ids()), listed, SUPERSET, name="groupBy a udf")
idiom(lambda g: g.sales.withColumn("c", said_loud("city")).groupBy("c", "kind").agg(F.count("*"), ids()), listed, SUPERSET, name="groupBy a udf and a column")
idiom(lambda g: g.sales.groupBy(F.from_json("data", "x int").x.alias("x")).agg(ids()), listed, name="groupBy from_json")
idiom(lambda g: g.sales.groupBy(F.window(F.to_timestamp("at"), "10 minutes")).agg(F.sum("n"), ids()), listed, name="groupBy window()")
idiom(lambda g: g.sales.groupBy(F.window(F.to_timestamp("at"), "20 minutes", "10 minutes")).agg(ids()), listed, name="groupBy sliding window()")
idiom(lambda g: g.sales.describe("n", "price"), lambda row: sales(*range(7)), name="describe")
idiom(lambda g: g.sales.select("n").summary("count", "min", "max"), lambda row: sales(*range(7)), name="summary")
idiom(lambda g: g.sales.select("city").intersect(g.places.select("town")),
      lambda row: of_city(row) | places(*(p[0] for p in PLACES if p[1] == row.city)), name="intersect")
idiom(lambda g: g.sales.select("city").subtract(g.places.select("town")), of_city, name="subtract")

# One of several
idiom(lambda g: g.sales.dropDuplicates(["city"]).select("id", "city", "n"), own, name="dropDuplicates")
idiom(lambda g: g.sales.orderBy("n").dropDuplicates(["city"]).select("id", "city"), own, name="dropDuplicates after a sort")
idiom(lambda g: g.sales.withColumn("loud", said_loud("name")).dropDuplicates(["city"]).select("id", "city", "loud"), own, name="dropDuplicates after a udf")
idiom(lambda g: g.sales.select("city", "kind", "n").dropDuplicates(["city"]),
      lambda row: set(), EXACT, SUPERSET, name="dropDuplicates without an id")
idiom(lambda g: g.sales.groupBy("city").agg(F.first("id").alias("id"), F.first("n")), own, name="first")
idiom(lambda g: g.sales.groupBy("city").agg(F.last("id").alias("id")), own, name="last")
idiom(lambda g: g.sales.dropDuplicates(["city"]).join(g.places.select("town", F.col("id").alias("place")), F.expr("city = town")).select("id", "place"),
      joined, name="dropDuplicates and join")
idiom(lambda g: g.sales.dropDuplicates(["city"]).agg(F.count("id")), lambda row: set(), SUPERSET, name="dropDuplicates and count of a column")
idiom(lambda g: g.sales.dropDuplicates(["city"]).groupBy().count(), lambda row: sales(*range(7)), name="dropDuplicates and count, as distinct")
idiom(lambda g: g.sales.withColumn("r", F.row_number().over(latest())).where("r = 1").select("id", "city"), own, name="row_number = 1")
idiom(lambda g: g.sales.withColumn("r", F.row_number().over(tied())).where("r = 1").drop("r").select("id", "city"),
      own, EXACT, SUPERSET, name="row_number = 1 with ties")
idiom(lambda g: g.sales.select("city", "n", "name", F.row_number().over(tied()).alias("r")).where("r = 1 and city = 'Rome'").drop("r"),
      lambda row: set(), SUPERSET, name="row_number = 1 of equal rows")
idiom(lambda g: g.sales.select("id", F.rank().over(tied()).alias("r")).where("r = 1"), lambda row: where(lambda o: o.city == SALES[row.id][1] and rank_of(o.id) == 1), name="rank = 1")

# Windows
idiom(lambda g: g.sales.select("id", F.lag("n").over(latest()).alias("p")), own, SUPERSET, name="lag")
idiom(lambda g: g.sales.select("id", F.sum("n").over(by_city().orderBy("id")).alias("s")),
      lambda row: where(lambda o: o.city == SALES[row.id][1] and o.id <= row.id), name="running sum")
idiom(lambda g: g.sales.select("id", (F.col("n") / F.sum("n").over(by_city())).alias("part")), lambda row: where(lambda o: o.city == SALES[row.id][1]), name="share of a partition")
idiom(lambda g: g.sales.select("id", F.avg("n").over(by_city().orderBy("id").rowsBetween(-1, 0)).alias("m")), own, SUPERSET, name="sliding window")
idiom(lambda g: g.sales.mapInPandas(lambda parts: parts, g.sales.schema).select("id"), own, SUPERSET, name="mapInPandas")
