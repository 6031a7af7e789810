"""Columns that a plan computes from masked ones, held against what Spark gives where these hold a mark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from benchmarks.frames_oracle import ParquetTables, recipe_of_frame
from lineage_core.recipe.document import Recipe
from lineage_query_api.copied_columns import copied_columns

pytestmark = pytest.mark.security

MARK = "MARKED"
QUERIES = {
    "SELECT name, city FROM people": set(),
    "SELECT pay AS name, city AS pay FROM people": {"name"},
    "SELECT name FROM people WHERE pay LIKE '%1'": set(),
    "SELECT concat(name, pay) a, upper(pay) b, length(name) c FROM people": {"a", "b"},
    "SELECT coalesce(NULL, CASE WHEN city = 'Oslo' THEN pay ELSE name END) a FROM people": {"a"},
    "SELECT city, max(pay) a, count(*) n, collect_list(name) l FROM people GROUP BY city": {"a"},
    "SELECT pay, count(*) n FROM people GROUP BY pay": {"pay"},
    "SELECT city, max(name) FILTER (WHERE pay LIKE '%1') a FROM people GROUP BY city": {"a"},
    "SELECT name, lag(pay) OVER (ORDER BY name) a FROM people": {"a"},
    "SELECT name, piece FROM people LATERAL VIEW explode(split(pay, '-')) AS piece": {"piece"},
    "SELECT name, (SELECT max(pay) FROM people) a FROM people": {"a"},
    "SELECT city a FROM people UNION ALL SELECT pay FROM people": {"a"},
    "SELECT DISTINCT pay a, name FROM people": {"a"},
    "SELECT l.name, r.pay a FROM people l JOIN people r ON l.name = r.name": {"a"},
    "SELECT l.name, r.name a FROM people l JOIN people r ON l.pay = r.pay": set(),
    "SELECT named_struct('x', pay, 'y', name) s, array(name, city) t FROM people": {"s"},
    "SELECT name, pay, grouping_id() g FROM people GROUP BY ROLLUP (name, pay)": {"pay"},
    "SELECT count(DISTINCT pay) d, count(DISTINCT name) e, max(pay) a FROM people": {"d", "a"},
    "SELECT transform(array(name), x -> concat(x, pay)) a, name FROM people ORDER BY pay LIMIT 2": {"a"},
    "SELECT * FROM people PIVOT (max(pay) FOR city IN ('Oslo', 'Rome'))": {"Oslo", "Rome"},
    "WITH p AS (SELECT name, pay x FROM people) SELECT name, first(x) OVER (PARTITION BY name) a FROM p": {"a"},
}  # fmt: skip
"""Queries, and which of their columns hold values of the column ``pay`` or what was computed from them."""


@pytest.fixture(scope="module")
def session(spark_context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    rows = {
        "name": ["ann", "bob", "cid"],
        "city": ["Oslo", "Rome", "Oslo"],
        "pay": [f"{MARK}-{n}" for n in range(3)],
    }
    folder: Path = tmp_path_factory.mktemp("copied")
    made = SparkSession(spark_context).newSession()
    made.conf.set("spark.sql.shuffle.partitions", "1")
    ParquetTables.written(folder, {"people": pa.table(rows)}, files=1).views(made)
    return made


@pytest.mark.parametrize("query", QUERIES)
def test_whatever_holds_a_masked_value_is_a_copy(session: SparkSession, query: str) -> None:
    frame = session.sql(query)
    recipe: Recipe = recipe_of_frame(frame)
    copied = set(copied_columns(recipe, lambda _, column: column == "pay"))
    marked = {
        name
        for row in frame.collect()
        for name, value in row.asDict(recursive=True).items()
        if MARK in str(value).upper()
    }
    assert marked <= copied
    # It may be more than that, which would mask what need not be.
    assert copied >= QUERIES[query]
    if "OVER" not in query and "LATERAL" not in query:
        assert copied == QUERIES[query]


def test_all_columns_of_a_source_may_be_chosen(session: SparkSession) -> None:
    recipe = recipe_of_frame(session.sql("SELECT name, city, 1 one FROM people"))
    assert set(copied_columns(recipe, lambda *_: True)) == {"name", "city"}
    assert copied_columns(recipe, lambda *_: False) == ()
