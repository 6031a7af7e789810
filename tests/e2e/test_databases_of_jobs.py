"""Traces through chains of jobs over tables of a database (Apache Derby): who may have written rows, and who may have read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import SparkRuntimeException
from pyspark.sql import DataFrame, SparkSession

from lineage.access import StoredAccess
from lineage_core.contract.times import parse_time
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.jobs import DatasetRun
from lineage_query.trace_query import TraceQuery
from tests.support.job_runs import Begin, answered, app_of, part_files

pytestmark = pytest.mark.e2e
URL = "jdbc:derby:memory:chains"
LOGIN = {"user": "shop", "password": "not to be recorded"}


@pytest.fixture(scope="module")
def database(spark_context: Any) -> Iterator[Any]:
    connection = spark_context._jvm.java.sql.DriverManager.getConnection(
        f"{URL};create=true", *LOGIN.values()
    )
    for statement in (
        "CREATE TABLE orders (city VARCHAR(9), n INT)",
        "CREATE TABLE others (city VARCHAR(9), n INT)",
        "CREATE TABLE firsts (city VARCHAR(9), n INT)",
        "CREATE TABLE seconds (city VARCHAR(9), n INT)",
        "CREATE TABLE halves (city VARCHAR(9), n INT)",
    ):
        connection.createStatement().execute(statement)
    yield connection
    connection.close()


def table(spark: SparkSession, name: str, **options: str) -> DataFrame:
    return (
        spark.read.format("jdbc").options(url=URL, **({"dbtable": name} | LOGIN | options)).load()
    )


@pytest.fixture(scope="module")
def apps(folder: Path, begin: Begin, spark_context: Any, database: Any) -> dict[str, str]:
    """Two jobs that append to a table, one to another, two that read the first; one that writes when these have read."""
    spark = SparkSession(spark_context).newSession()
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    names = {}
    (folder / "in.csv").write_text("Oslo,1\nRome,2\n")
    rows = spark.read.schema("city string, n int").csv(str(folder / "in.csv"))

    def captured(name: str) -> Any:
        lc = begin()
        names[name] = app_of(lc)
        return lc

    with captured("writer"):
        rows.where("n = 1").write.jdbc(URL, "SHOP.Orders", mode="append", properties=LOGIN)
    with captured("saver"):
        write = rows.where("n = 2").write.format("jdbc").mode("append")
        write.options(url=URL, dbtable="orders", **LOGIN).save()
    with captured("elsewhere"):
        rows.write.jdbc(URL, "others", mode="append", properties=LOGIN)
    with captured("reader"):
        table(spark, "orders").coalesce(1).write.csv(str(folder / "read"))
    with captured("chooser"):
        chosen = spark.read.jdbc(URL, "orders", predicates=["n = 1"], properties=LOGIN)
        chosen.write.csv(str(folder / "chosen"))
    with captured("asker"):
        table(spark, "(SELECT city FROM orders) q").coalesce(1).write.csv(str(folder / "asked"))
    with captured("later"):
        rows.write.mode("append").jdbc(URL, '"SHOP".orders', properties=LOGIN)
    with captured("twice"):
        writer = rows.write.mode("append")
        writer.csv(str(folder / "twice"))
        writer.format("jdbc").options(url=URL, dbtable="firsts", **LOGIN).save()
        writer.jdbc(URL, "seconds", properties=LOGIN)
        writer.option("dbtable", "firsts").save()
    failing = rows.repartitionByRange(2, "n").selectExpr(
        "city", "coalesce(assert_true(n < 2), n) AS n"
    )
    with captured("failed"), pytest.raises(SparkRuntimeException, match="is not true"):
        failing.write.jdbc(URL, "halves", mode="append", properties=LOGIN)
    with captured("halfreader"):
        table(spark, "halves").coalesce(1).write.csv(str(folder / "half"))
    return names


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_JDBC_URL", URL)
    monkeypatch.setenv("LINEAGE_JDBC_USER", LOGIN["user"])
    monkeypatch.setenv("LINEAGE_JDBC_PASSWORD", LOGIN["password"])


def asked(access: StoredAccess, direction: Direction, place: str) -> Answer:
    return access.ask(TraceQuery(direction, (place,), all_jobs=True))


def gaps(answer: Answer, apps: dict[str, str]) -> dict[str, list[str]]:
    names = {app: name for name, app in apps.items()}
    found: dict[str, list[str]] = {}
    for gap in answer.not_queried:
        found.setdefault(names[gap.app], []).append(gap.reason)
    return found


@pytest.mark.long
def test_back_at_a_table_the_jobs_that_wrote_to_it_before_are_named(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    (part,) = part_files(folder / "read")
    answer = asked(access, Direction.BACKWARD, f"{part}:1")
    (group,) = answer.groups
    assert [item.location for item in group.items] == [f"{URL}/orders#CITY=Oslo,N=1"]
    assert not answer.complete
    found = gaps(answer, apps)
    # Under other names of the table, too; not who wrote later, or to another table.
    assert found.keys() == {"reader", "writer", "saver"}
    assert "whether another application wrote its rows is not known" in found["reader"][0]
    for name in ("writer", "saver"):
        assert "it wrote to" in found[name][0]
        assert f"{apps['reader']} read" in found[name][0]
        assert "not known" in found[name][0]


@pytest.mark.long
def test_back_at_a_query_of_a_database_no_job_is_known(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    (part,) = part_files(folder / "asked")
    answer = asked(access, Direction.BACKWARD, f"{part}:1")
    assert not answer.complete
    assert gaps(answer, apps).keys() == {"asker"}


def test_a_write_that_failed_may_have_left_rows(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    # Tasks commit one by one: what the first one wrote stays.
    (part,) = part_files(folder / "half")
    assert part.read_text() == "Oslo,1\n"
    answer = asked(access, Direction.BACKWARD, f"{part}:1")
    assert not answer.complete
    assert gaps(answer, apps).keys() == {"halfreader", "failed"}
    assert "may be there" in str(access.verdict(apps["failed"]).reasons)


def test_forward_from_rows_that_went_to_a_table_the_jobs_that_read_it_since_are_named(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    answer = asked(access, Direction.FORWARD, f"{folder}/in.csv:1")
    assert not answer.complete
    found = gaps(answer, apps)
    # A query may have read the table, too: that is what the reason of each writer says.
    assert found.keys() == {"writer", "elsewhere", "later", "twice", "reader", "chooser"}
    for name in ("writer", "elsewhere", "later", "twice"):
        assert any("whether another application read its rows" in text for text in found[name])
    for name in ("reader", "chooser"):
        (reason,) = found[name]
        assert "it read" in reason
        assert f"{apps['writer']} wrote to" in reason


def test_who_used_a_table_and_when_is_listed(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    names = {app: name for name, app in apps.items()}

    def uses(name: str, times: int = 1) -> list[tuple[str, bool]]:
        runs: tuple[DatasetRun, ...] = access.dataset_runs("derby:memory:chains", name).items
        for run in runs:
            for version in run.use.table_versions:
                assert run.started_at <= parse_time(version) + 0.001
            assert (run.use.files, run.use.versions) == (0, times)
        return [(names[run.app], run.wrote) for run in runs]

    assert uses("orders") == [("chooser", False), ("reader", False), ("saver", True)]
    assert uses("shop.orders") == [("later", True), ("writer", True)]
    assert uses("others") == [("elsewhere", True)]
    # One writer wrote a file, then to both.
    assert (uses("firsts", 2), uses("seconds")) == ([("twice", True)], [("twice", True)])
    shown = answered(folder, "datasets", "derby:memory:chains/orders")
    assert shown.exit_code == 0, shown.output
    assert "table version" in shown.stdout
    (graph_line,) = [
        line for line in answered(folder, "graph", "--jobs").stdout.splitlines() if "others" in line
    ]
    assert "derby:memory:chains/others" in graph_line


def test_nothing_secret_is_recorded(folder: Path, apps: dict[str, str]) -> None:
    assert apps
    store = (folder / ".lineage/lineage.db").read_bytes()
    assert b"not to be recorded" not in store
