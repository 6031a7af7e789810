"""Rows of DataFrames materialised: traces of them are looked up, and say what the queries said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import StoredAccess
from lineage.materialising import Materialised, materialise
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from lineage_query.verdicts import verdict_of
from tests.support.job_runs import CLI, STORE, lineage, run_captured, run_program, stored, write_job

pytestmark = pytest.mark.e2e

JOB = """
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.read.option("header", True).option("inferSchema", True).csv("in.csv")
rows.createOrReplaceTempView("t")
rows.groupBy("city").sum("amount").toDF("city", "total").orderBy("city").coalesce(1).write.parquet("out")
rows.where("amount > 2").coalesce(1).write.option("header", True).csv("big")
rows.write.partitionBy("amount").json("parts")
most = "select max(amount) from t"
spark.sql(f"select city, amount, amount = ({most}) as most from t where city <> 'Rome'").coalesce(1).write.orc("most")
rows.where("rand() < 0.9999 and amount > 1").groupBy("city").count().write.parquet("random")
print(rows.count())
"""
SMALL = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.read.option("header", True).csv("in.csv")
rows.where("city = 'Oslo'").groupBy("city").count().coalesce(1).write.parquet("out")
rows.write.parquet("all")
"""
IN = "city,amount\nOslo,1.5\nRome,2.5\n\nOslo,3.5\nLima,9.0\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("materialised")
    (folder / "in.csv").write_text(IN)
    write_job(folder, JOB)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def access(ran: Path, spark_context: SparkContext) -> StoredAccess:
    """Asks in this process, on the Spark that runs in it."""
    SparkSession(spark_context).sql("select 1").collect()
    return stored(ran)


@pytest.fixture(scope="module")
def made(ran: Path, access: StoredAccess) -> Materialised:
    (app,) = access.store.application_ids()
    return materialise(access.store, f"sqlite:///{ran / STORE}", app)


def job_of(made: Materialised) -> str:
    return made.app.removesuffix(".rows")


def told(answer: Answer) -> list[tuple[str | None, str | None]]:
    return [(item.location, item.text) for group in answer.groups for item in group.items]


def rows_of(ran: Path) -> list[str]:
    """A row of each output."""
    (out,), (most,) = (ran / "out").glob("*.parquet"), (ran / "most").glob("*.orc")
    (big,) = (ran / "big").glob("*.csv")
    part = min((ran / "parts").glob("*/*.json"))
    return [f"{out}#1", f"{most}#2", f"{big}:3", f"{part}:1"]


def test_each_row_has_the_sources_that_the_query_finds(
    ran: Path, access: StoredAccess, made: Materialised
) -> None:
    assert verdict_of(access.store, made.app).complete
    for place in rows_of(ran):
        looked_up = access.ask(TraceQuery(Direction.BACKWARD, (place,)))
        queried = access.ask(TraceQuery(Direction.BACKWARD, (place,), app=job_of(made)))
        assert (looked_up.app, queried.app) == (made.app, job_of(made))
        lines = [(where, None) for where, _ in told(queried)]
        assert [(where, None) for where, _ in told(looked_up)] == lines, place
        assert (looked_up.exact, queried.exact, looked_up.complete) == (True, True, True)


@pytest.mark.long
def test_forward_reaches_all_outputs(ran: Path, access: StoredAccess, made: Materialised) -> None:
    for line in (3, 5):
        place = f"{ran / 'in.csv'}:{line}"
        looked_up = access.ask(TraceQuery(Direction.FORWARD, (place,)))
        queried = access.ask(TraceQuery(Direction.FORWARD, (place,), app=job_of(made)))
        assert any(
            "made of it can't be traced: rows are chosen by Rand" in one for one in queried.reasons
        )
        known = {group.node for group in looked_up.groups}
        kept = [group for group in queried.groups if group.node in known]
        assert [item.location for group in looked_up.groups for item in group.items] == [
            item.location for group in kept for item in group.items
        ]


def test_rows_of_parquet_are_shown(ran: Path, access: StoredAccess, made: Materialised) -> None:
    (out,) = (ran / "out").glob("*.parquet")
    (group,) = access.ask(TraceQuery(Direction.BACKWARD, (f"{out}#1",))).start
    assert [json.loads(item.text or "") for item in group.items] == [
        pq.read_table(out).to_pylist()[1]
    ]


def test_what_is_refused_is_named_and_the_rest_is_done(made: Materialised) -> None:
    (reason,) = made.refused.values()
    assert "rows are chosen by Rand" in reason
    assert len(made.nodes) == 4


def test_it_is_done_once_and_again_when_asked(
    ran: Path, access: StoredAccess, made: Materialised
) -> None:
    url = f"sqlite:///{ran / STORE}"
    with pytest.raises(TraceError, match="--again"):
        materialise(access.store, url, job_of(made))
    (out,) = (ran / "out").glob("*.parquet")
    once = materialise(access.store, url, job_of(made), [f"{ran / 'out'}"], again=True)
    assert (once.app, once.nodes, once.refused) == (made.app, ["0"], {})
    assert verdict_of(access.store, made.app).complete
    assert len(told(access.ask(TraceQuery(Direction.BACKWARD, (f"{out}#1",))))) == 2
    with pytest.raises(TraceError, match="no DataFrame's output called elsewhere"):
        materialise(access.store, url, job_of(made), ["elsewhere"], again=True)
    assert made.app in access.store.application_ids()


def test_the_command(ran: Path, made: Materialised) -> None:
    failed = lineage(ran, "materialise", job_of(made))
    assert (failed.returncode, "is materialised" in failed.stderr) == (2, True)


@pytest.mark.long
def test_after_a_run(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(IN)
    write_job(tmp_path, SMALL)
    words = [*CLI, "run", "--materialise", "*/out", "--materialise", "nothing", "job.py"]
    done = run_program(tmp_path, words)
    assert done.returncode == 0, done.stderr
    assert ".rows: 1 output, 3 associations in 2 flows" in done.stderr
    (out,) = (tmp_path / "out").glob("*.parquet")
    found = json.loads(lineage(tmp_path, "back", f"{out}#0", "--json").stdout)
    assert [item["location"] for item in found["sources"][0]["items"]] == [
        f"{tmp_path / 'in.csv'}:{line}" for line in (2, 5)
    ]


@pytest.mark.long
def test_on_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(IN)
    write_job(tmp_path, SMALL)
    done = run_captured(tmp_path, "job.py")
    assert done.returncode == 0, done.stderr
    (out,) = (tmp_path / "out").glob("part-*")
    cluster = {"LINEAGE_SPARK_MASTER": "local-cluster[1,1,1024]"}

    def run(*command: str) -> Any:
        ran = run_program(tmp_path, [*CLI, *command, "--json"], cluster)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def lines() -> list[str]:
        (source,) = run("back", f"{out}#0")["sources"]
        return [item["location"] for item in source["items"]]

    asked = lines()
    assert asked == [f"{tmp_path / 'in.csv'}:{line}" for line in (2, 5)]
    assert run("materialise", "--node", "*/out")["associations"] == 3
    assert lines() == asked
