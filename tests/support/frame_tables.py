"""Two small tables, and a query over them for each kind of node."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lineage_core.recipe.document import File, Output, Recipe
from lineage_emitter.dataframes.plans import recipe_of

CITIES = ["Oslo", "Rome", "Oslo", None, "Lima", "Rome", "Oslo"]
ORDERS = pa.table(
    {
        "id": pa.array(range(7), pa.int64()),
        "city": CITIES,
        "amount": pa.array([Decimal(n) for n in ("1.50", "2.25", "3.00", "4.75", "5.10", "2.25", "9.99")],
                           pa.decimal128(7, 2)),
        "weight": [0.1, 0.2, 0.3, None, 0.5, 0.2, 0.7],
    }
)  # fmt: skip
PLACES = pa.table({"name": ["Oslo", "Rome", "Bonn", "Rome"], "land": ["NO", "IT", "DE", "IT"]})

QUERIES = {
    "filter": "select id, city from orders where amount > 2.5 and city like 'O%'",
    "values": "select * from (values (1, 'a'), (2, null)) t(a, b) where a > 1",
    "expressions": """select case when amount > 3 then upper(city) else 'small' end c,
        coalesce(city, '?') || ':' || id s, amount * 2 - 1 m, round(amount / 3, 2) r, id % 3 n,
        cast(weight as decimal(5, 2)) w, substring(city, 2, 2) t, city in ('Oslo', 'Rome') i from orders""",
    "inset": "select id from orders where id in (0, 1, 2, 3, 11, 12, 13, 14, 15, 16, 17, 18)",
    "join": "select id, land from orders join places on city = name",
    "outer": "select id, name, land from orders full join places on city = name and id < 3",
    "left": "select id, land from orders left join places on city = name",
    "semi": "select id from orders where exists (select 1 from places where name = city)",
    "anti": "select id from orders where city not in (select name from places)",
    "or exists": """select id from orders
        where city in (select name from places where land = 'NO') or id = 3""",
    "aggregate": """select city, sum(amount) s, avg(amount) a, avg(weight) w, count(distinct amount) d,
        max(id) filter (where amount < 3) m from orders group by city""",
    "collected": """select city, sort_array(collect_list(id)) a, sort_array(collect_set(city), false) s,
        sort_array(collect_list(city) filter (where id > 1)) f from orders group by city""",
    "two distincts": "select count(distinct city) c, count(distinct amount) a, sum(weight) from orders",
    "global": "select sum(amount) s, count(*) c, max(city) from orders where id > 1",
    "hidden key": "select sum(amount) s from orders group by city having count(*) > 1",
    "rollup": "select city, id % 2 odd, sum(amount) s from orders group by rollup(city, id % 2)",
    "distinct": "select distinct city from orders",
    "union": "select city from orders where id < 3 union all select name from places",
    "intersect": "select city from orders intersect select name from places",
    "except": "select city from orders except select name from places",
    "except all": "select city from orders except all select name from places",
    "scalar": "select id, amount - (select avg(amount) from orders where city = 'Rome') d from orders",
    "scalars alone": """select (select sum(amount) from orders where city = 'Rome') s,
        (select count(*) from orders where amount > 2) n""",
    "correlated": """select id from orders o
        where amount > (select avg(amount) from orders i where i.city = o.city)""",
    "window": """select id, sum(amount) over (partition by city) s,
        rank() over (partition by city order by amount desc) r,
        sum(weight) over (order by id) w from orders""",
    "sliding": "select id, sum(amount) over (order by id rows between 1 preceding and 1 following) s from orders",
    "lag": "select id, lag(amount, 1, 0) over (partition by city order by id) p from orders",
    "top of group": """select * from (select id, city,
        row_number() over (partition by city order by amount desc, id) n from orders) where n = 1""",
    "limit": "select id, amount from orders order by amount desc limit 2",
    "inner limit": "select sum(amount) s from (select amount from orders order by id limit 3)",
    "explode": "select id, x from orders lateral view explode(array(id, id * 10)) t as x where x > 3",
    "explode outer": "select id, x from orders lateral view outer explode(if(id > 4, array(id), null)) t as x",
    "lambda": "select id, transform(array(id, 2), v -> v + id)[0] x from orders",
    "twice": "select city, city, id as city from orders where id = 2",
    "self join": "select a.id, b.id from orders a join orders b on a.amount = b.amount and a.id < b.id",
    "two aggregates": """select * from (select city, sum(amount) s from orders group by city) a
        cross join (select count(*) n, sum(weight) w from orders) b where a.s > 5""",
    "joined with itself": """with t as (select city, sum(amount) s, rank() over (order by sum(amount)) r
        from orders group by city) select a.city, a.s, b.s p from t a join t b on a.r = b.r + 1""",
    "range": "select id * 2 x from range(3, 12, 4)",
    "quoting": r"select 'it\'s \\ \n\"q\"' || city s from orders where city is not null",
}


def written(frame: DataFrame, folder: Path, form: str = "parquet") -> Recipe:
    """Write a frame; its recipe as a reader elsewhere has it."""
    names = [f"c{n}" for n in range(len(frame.columns))]
    named = frame.toDF(*names)
    named.write.format(form).save(str(folder))
    files = tuple(
        File(f"file:{path}", path.stat().st_size, path.stat().st_mtime_ns // 1_000_000)
        for path in sorted(folder.glob("part-*"))
    )
    output = Output("files", path=f"file://{folder}", format=form, files=files)
    return Recipe.from_json(recipe_of(named, output).to_json())


def placed_rows(spark: SparkSession, folder: Path) -> list[Any]:
    """Rows of Parquet files, each with its file and its place there behind its values."""
    frame = spark.read.parquet(str(folder))
    return frame.selectExpr("*", "_metadata.file_path", "_metadata.row_index").collect()
