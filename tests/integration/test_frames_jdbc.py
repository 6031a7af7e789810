"""Rows of databases, named by their keys: a database within the JVM (Apache Derby)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.frames_oracle import rebuild, recipe_of_frame, same_rows, same_value
from lineage_core.recipe.document import Recipe
from lineage_dataframes.errors import ChangedSourceError, RefusedError
from lineage_dataframes.sources.jdbc import check_tables
from lineage_dataframes.sources.locations import locations
from lineage_dataframes.sources.witnesses import Witnesses
from lineage_dataframes.trace.backward import trace_backward
from lineage_dataframes.trace.forward import trace_forward
from lineage_dataframes.trace.rows import rows_with_values, texts_at
from lineage_emitter.dataframes.jdbc import address
from tests.support.drawn import drawn

pytestmark = pytest.mark.integration

PLACE = "jdbc:derby:memory:shop"
URL = f"{PLACE};create=true"
LOGIN = {"user": "reader", "password": "not to be noted"}
ORDERS = f"{PLACE}/orders"

TABLES = """
CREATE TABLE orders (id INT PRIMARY KEY, city VARCHAR(20), amount DECIMAL(7, 2), weight DOUBLE, day DATE)
INSERT INTO orders VALUES (1, 'Oslo', 1.50, 0.1, '2024-01-02'), (2, 'Rome', 2.25, 0.2, '2024-01-03'),
  (3, 'Oslo', 3.00, NULL, NULL), (4, NULL, 4.75, 0.5, '2024-01-02'), (5, 'Lima', 5.10, 0.5, '2024-02-29')
CREATE TABLE places (land CHAR(2), name VARCHAR(20), size INT, PRIMARY KEY (name, land))
INSERT INTO places VALUES ('NO', 'Oslo', 3), ('IT', 'Rome', 4), ('US', 'Rome', 1), ('DE', 'Bonn', 2)
CREATE TABLE log (city VARCHAR(20), n INT)
INSERT INTO log VALUES ('Oslo', 1), ('Oslo', 1), ('Rome', NULL), (NULL, NULL), (NULL, 3)
"""


class Database:
    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark._jvm
        self._connection = jvm.java.sql.DriverManager.getConnection(URL, *LOGIN.values())

    def run(self, *statements: str) -> None:
        for one in statements:
            self._connection.createStatement().execute(one)

    def close(self) -> None:
        for name in ("orders", "places", "log"):
            self.run(f"DROP TABLE {name}")
        self._connection.close()


@pytest.fixture
def database(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Database]:
    made = Database(spark)
    made.run(*TABLES.replace("\n  ", " ").strip().splitlines())
    monkeypatch.setenv("LINEAGE_JDBC_URL", URL)
    # To Derby a user has a schema of the same name.
    monkeypatch.setenv("LINEAGE_JDBC_USER", LOGIN["user"])
    (tmp_path / "password").write_text(f"{LOGIN['password']}\n")
    monkeypatch.setenv("LINEAGE_JDBC_PASSWORD_FILE", str(tmp_path / "password"))
    for name in ("orders", "places", "log"):
        table(spark, name).createOrReplaceTempView(name)
    yield made
    made.close()


def table(spark: SparkSession, name: str, **options: str) -> DataFrame:
    said = {"url": URL, "dbtable": name, **LOGIN, **options}
    return spark.read.format("jdbc").options(**said).load()


def named(spark: SparkSession, recipe: Recipe, found: Witnesses) -> list[str]:
    return sorted(one.removeprefix(f"{PLACE}/") for one in locations(spark, recipe, found))


QUERIES = {
    "filter": "SELECT id, amount FROM orders WHERE amount > 2 AND city LIKE 'O%'",
    "groups": "SELECT city, sum(amount) s, count(*) n FROM orders GROUP BY city",
    "join": "SELECT id, land FROM orders JOIN places ON city = name WHERE size > 2",
    "semi": "SELECT id FROM orders WHERE city IN (SELECT name FROM places WHERE land <> 'IT')",
    "dates": "SELECT id FROM orders WHERE day = DATE'2024-01-02' OR day > DATE'2024-02-01'",
}


@pytest.mark.parametrize("name", drawn(QUERIES, 5))
def test_the_rows_that_are_named_give_each_row(
    name: str, database: Database, spark: SparkSession
) -> None:
    """The database is left with just these, and the query run again."""
    output = spark.sql(QUERIES[name]).collect()
    assert output
    recipe = recipe_of_frame(spark.sql(QUERIES[name]))
    assert same_rows(output, rebuild(spark, recipe))
    for row in output[:2]:
        found = trace_backward(spark, recipe, [tuple(row)])
        assert found.exact
        assert found.warnings
        kept: dict[str, list[str]] = {"orders": ["false"], "places": ["false"]}
        for one in named(spark, recipe, found):
            of, _, key = one.partition("#")
            terms = [term.split("=") for term in key.split(",")]
            kept[of].append(" AND ".join(f"{column} = '{value}'" for column, value in terms))
        views = {of: " OR ".join(terms) for of, terms in kept.items()}
        for of, condition in views.items():
            table(spark, of).cache().where(condition).createOrReplaceTempView(of)
        again = spark.sql(QUERIES[name]).collect()
        assert any(same_value(tuple(row), tuple(one)) for one in again), (row, again)
        for of in views:
            table(spark, of).createOrReplaceTempView(of)


def test_rows_are_named_by_the_primary_key(database: Database, spark: SparkSession) -> None:
    recipe = recipe_of_frame(spark.sql(QUERIES["groups"]))
    found = trace_backward(spark, recipe, [("Oslo", 4.5, 2)])
    assert named(spark, recipe, found) == ["orders#ID=1", "orders#ID=3"]
    (source,) = recipe.sources
    ((_, path), ordinals) = next(iter(found.rows.items()))
    texts = texts_at(spark, recipe, source, path, ordinals)
    assert sorted(texts)[0].startswith('{"ID":1,"CITY":"Oslo","AMOUNT":1.50')
    assert found.warnings == (f"rows of {ORDERS} are as they are now",)
    recipe = recipe_of_frame(spark.sql("SELECT size FROM places"))
    found = trace_backward(spark, recipe, [(1,)])
    assert named(spark, recipe, found) == ["places#NAME=Rome,LAND=US"]


def test_rows_without_a_key_go_by_all_of_their_values(
    database: Database, spark: SparkSession
) -> None:
    recipe = recipe_of_frame(spark.table("log"))
    found = trace_backward(spark, recipe, [("Oslo", 1)])
    assert named(spark, recipe, found) == ["log#CITY=Oslo,N=1"]
    assert "has no key: equal rows go by one name" in found.reasons[-1]
    found = trace_backward(spark, recipe, [(None, None)])
    assert named(spark, recipe, found) == ["log#CITY=,N="]
    recipe = recipe_of_frame(table(spark, "(SELECT city, amount FROM orders) q"))
    with pytest.raises(RefusedError, match="no query of a recipe"):
        check_tables(recipe)
    check_tables(recipe_of_frame(table(spark, '"READER".orders')))
    found = trace_backward(spark, recipe, [("Lima", 5.1)])
    assert named(spark, recipe, found) == [
        "(SELECT city, amount FROM orders) q#CITY=Lima,AMOUNT=5.10"
    ]


def test_a_table_read_in_parts_is_one(database: Database, spark: SparkSession) -> None:
    parts = {"partitionColumn": "id", "lowerBound": "1", "upperBound": "4", "numPartitions": "2"}
    recipe = recipe_of_frame(table(spark, "orders", **parts).groupBy().count())
    assert trace_backward(spark, recipe, [(5,)]).count == 5


def test_rows_that_changed_are_said(database: Database, spark: SparkSession) -> None:
    recipe = recipe_of_frame(spark.sql(QUERIES["groups"]))
    database.run("UPDATE orders SET amount = 9 WHERE id = 3")
    with pytest.raises(ChangedSourceError, match="changed since: what it has now does not give"):
        trace_backward(spark, recipe, [("Oslo", 4.5, 2)])
    with pytest.raises(ChangedSourceError, match="changed since"):
        trace_backward(spark, recipe, [("Oslo", 4.5, 2)], is_in_output=True)
    assert trace_backward(spark, recipe, [("Rome", 2.25, 1)]).exact
    found = trace_backward(spark, recipe, where="city = 'Oslo'")
    assert found.reasons == (
        f"rows of {ORDERS} are as they are now, and not compared with what the job gave",
    )
    database.run("ALTER TABLE orders ADD COLUMN more INT")
    with pytest.raises(ChangedSourceError, match="other columns"):
        trace_backward(spark, recipe, [("Rome", 2.25, 1)])


def test_rows_are_traced_forward_by_their_key(database: Database, spark: SparkSession) -> None:
    recipe = recipe_of_frame(spark.sql(QUERIES["groups"]))
    rows = rows_with_values(spark, recipe, recipe.sources[0], [("id", "3")])
    outcome = trace_forward(spark, recipe, {path: one.tolist() for path, one in rows.items()})
    assert [row[0] for row in outcome.rows] == ["Oslo"]
    assert not outcome.exact


def test_a_database_that_compares_otherwise_is_refused(
    database: Database, spark: SparkSession
) -> None:
    """Derby takes texts that differ in blanks at their end for the same."""
    database.run("INSERT INTO orders VALUES (6, 'Oslo ', 7, 7, NULL)")
    frame = spark.sql("SELECT id FROM orders WHERE city = 'Oslo'")
    assert len(frame.collect()) == 3
    with pytest.raises(RefusedError, match="chooses other rows than Spark"):
        trace_backward(spark, recipe_of_frame(frame), [(1,)])


def test_nothing_secret_is_noted(database: Database, spark: SparkSession) -> None:
    text = recipe_of_frame(spark.table("orders")).to_json()
    assert not any(one in text for one in ("not to be noted", "reader", "create=true"))
    for url, noted in URLS.items():
        assert address(url) == noted


URLS = {
    "jdbc:mysql://me:pass@host:3306/shop?user=a&password=b": "jdbc:mysql://host:3306/shop",
    "jdbc:oracle:thin:scott/tiger@//host:1521/x": "jdbc:oracle:thin://host:1521/x",
    "jdbc:sqlserver://host:1433;user=a;password=b": "jdbc:sqlserver://host:1433",
    # What may be a part of a password is not noted.
    "jdbc:mysql://me:pa?ss@host:3306/shop": "jdbc:mysql",
    "jdbc:postgresql://host/shop?user=a@b&password=c@d": "jdbc:postgresql",
}


def test_the_environment_names_the_database(
    database: Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recipe sends no password anywhere."""
    recipe = recipe_of_frame(spark.sql(QUERIES["groups"]))
    monkeypatch.setenv("LINEAGE_JDBC_URL", "jdbc:derby:memory:other")
    with pytest.raises(RefusedError, match="of another database"):
        trace_backward(spark, recipe, [("Rome", 2.25, 1)])
    monkeypatch.delenv("LINEAGE_JDBC_URL")
    with pytest.raises(RefusedError, match="LINEAGE_JDBC_URL names it"):
        trace_backward(spark, recipe, [("Rome", 2.25, 1)])


def test_rows_that_the_program_chose_by_sql_are_refused(
    database: Database, spark: SparkSession
) -> None:
    frame = spark.read.jdbc(URL, "orders", predicates=["id < 3", "id < 2"], properties=LOGIN)
    recipe = recipe_of_frame(frame)
    with pytest.raises(RefusedError, match="the program's own predicates"):
        trace_backward(spark, recipe, where="id = 1")
