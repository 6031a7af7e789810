"""Rows of DataFrames traced by a server of Spark Connect, a process of its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyspark
import pytest

from lineage.stack.ports import free_ports
from lineage_dataframes.errors import NoSparkError
from lineage_dataframes.spark.connected import connect_to_server
from tests.support.job_runs import CLI, STORE, process, run_captured, run_program, write_job
from tests.support.linker_worker import until
from tests.support.probing import asked

pytestmark = [pytest.mark.e2e, pytest.mark.long]

JOB = """
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.read.option("header", True).csv("in.csv", schema="city string, amount double")
lands = spark.read.schema("city string, land string").json("lands.json")
# Nothing stands for text in braces, on the server neither.
lands = lands.where(F.length(F.concat(F.lit("${land}"), "land")) == 9)
joined = rows.join(lands, "city").groupBy("land").agg(F.sum("amount").alias("total"))
joined.orderBy("land").coalesce(1).write.parquet("out")
again = spark.read.parquet("out").where("total > 2")
again.coalesce(1).write.csv("big")
loud = F.udf(lambda city: city.upper(), "string")
rows.select(loud("city").alias("city")).where("city = 'ROME'").coalesce(1).write.parquet("loud")
"""
IN = "city,amount\nOslo,1.5\nRome,2.5\n\nBergen,3.5\nLima,9.0\n"
LANDS = {"Oslo": "NO", "Bergen": "NO", "Rome": "IT"}
NORTH = {"in.csv:2", "in.csv:5", "lands.json:1", "lands.json:2"}
"""What the row of NO in out is made of."""
CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"
ENDLESS = """
import sys
from lineage_query_api.errors import ProblemError
from lineage_query_api.spark_session_holder import SparkSessionHolder
from lineage_query_api.settings import read_settings

spark = SparkSessionHolder(read_settings(spark_master=sys.argv[1], api_query_s=2))
try:
    spark.run(lambda session: session.range(10**15).selectExpr("sum(id % 7)").collect())
except ProblemError as refused:
    print(refused.status)
spark.close()
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("connect")
    (folder / "in.csv").write_text(IN)
    lands = [json.dumps({"city": city, "land": land}) for city, land in LANDS.items()]
    (folder / "lands.json").write_text("\n".join(lands) + "\n")
    write_job(folder, JOB)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server."""
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("server")
    home = Path(pyspark.__file__).parent
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    command = [
        str(home / "bin" / "spark-submit"), "--master", "local[2]", *given, "--class", CLASS, "spark-internal",
    ]  # fmt: skip
    # spark-class runs the JVM in its own place: what is stopped is the server.
    with process(command, folder / "server.log", {"SPARK_HOME": str(home)}):
        address = f"sc://127.0.0.1:{port}"
        until(
            lambda: "Spark Connect server started" in (folder / "server.log").read_text(),
            lambda: (folder / "server.log").read_text()[-2000:],
        )
        yield address


def told(ran: Path, master: str, *arguments: str) -> Any:
    env = {"LINEAGE_SPARK_MASTER": master}
    done = run_program(ran, [*CLI, *arguments, "--json"], env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def file_of(ran: Path, folder: str) -> str:
    (found,) = (ran / folder).glob("part-*")
    return str(found)


def places(ran: Path, answer: dict[str, Any], side: str) -> set[str]:
    found = {item["location"] for group in answer[side] for item in group["items"]}
    # What is told by its values has no place.
    return {one.removeprefix(f"{ran}/") for one in found if one}


def test_back_and_forward(ran: Path, master: str) -> None:
    north = told(ran, master, "back", f"{file_of(ran, 'out')}#1")
    assert places(ran, north, "sources") == NORTH
    assert north["exact"]
    south = told(ran, master, "back", "big", "--where", "land = 'IT'")
    assert places(ran, south, "sources") == {f"out/{Path(file_of(ran, 'out')).name}#0"}
    onward = told(ran, master, "forward", f"{ran}/in.csv:3")
    assert f"out/{Path(file_of(ran, 'out')).name}#0" in places(ran, onward, "sinks")


def test_no_java_is_started_here(ran: Path, master: str) -> None:
    env = {"LINEAGE_SPARK_MASTER": master, "JAVA_HOME": "/nowhere"}
    done = run_program(ran, [*CLI, "back", f"{file_of(ran, 'out')}#0"], env)
    assert done.returncode == 0, done.stderr
    assert "in.csv:3" in done.stdout


def test_code_is_not_run(ran: Path, master: str) -> None:
    env = {"LINEAGE_SPARK_MASTER": master}
    done = run_program(ran, [*CLI, "back", f"{file_of(ran, 'loud')}#0"], env)
    assert done.returncode == 0, done.stderr
    # Any row may have been the function's.
    assert "from 4 rows" in done.stdout
    assert "not exact" in done.stdout


@pytest.mark.long
def test_materialised(ran: Path, master: str) -> None:
    made = told(ran, master, "materialise", "latest", "--node", "0")
    assert made["refused"] == {}
    # Without any Spark.
    found = told(ran, "none", "back", f"{file_of(ran, 'out')}#1", "--app", made["app"])
    assert places(ran, found, "sources") == NORTH
    dropped = run_program(ran, [*CLI, "rm", made["app"]])
    assert dropped.returncode == 0, dropped.stderr


@pytest.mark.long
def test_over_http(ran: Path, master: str) -> None:
    (port,) = free_ports(1)
    env = {
        "LINEAGE_STORE": f"sqlite:///{ran / STORE}",
        "LINEAGE_SPARK_MASTER": master,
        "LINEAGE_API_PORT": str(port),
        "LINEAGE_API_OPEN": "true",
        "LINEAGE_API_ROOTS": str(ran),
    }
    command = [sys.executable, "-m", "lineage_query_api"]
    log, url = ran / "api.log", f"http://127.0.0.1:{port}"
    with process(command, log, env), httpx.Client(base_url=url, timeout=300) as client:
        until(lambda: asked(port, "/healthz")[0] == 200, lambda: log.read_text()[-2000:])
        values = [{"column": "land", "value": "NO"}]
        answer = client.post(
            "/v1/applications/latest/traces",
            json={"direction": "backward", "start": {"node": "0", "values": values}},
        )
        assert answer.status_code == 200, answer.text
        found = {item["location"] for group in answer.json()["groups"] for item in group["items"]}
        assert found == {f"{ran}/{one}" for one in NORTH}


def test_a_query_over_its_time_is_cancelled(master: str, tmp_path: Path) -> None:
    (tmp_path / "endless.py").write_text(ENDLESS)
    # It ends when the query's thread does, which would run for days.
    done = run_program(tmp_path, [sys.executable, "endless.py", master])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "504"


def test_a_server_that_is_not_there(ran: Path) -> None:
    (port,) = free_ports(1)
    secret = os.urandom(8).hex()
    address = f"sc://127.0.0.1:{port}/;token={secret}"
    done = run_program(
        ran, [*CLI, "back", f"{file_of(ran, 'out')}#1"], {"LINEAGE_SPARK_MASTER": address}
    )
    assert done.returncode != 0
    assert f"sc://127.0.0.1:{port}" in done.stderr
    assert secret not in done.stderr
    with pytest.raises(NoSparkError, match="refused"):
        connect_to_server(address)


@pytest.mark.parametrize("address", ["sc://127.0.0.1:none", "sc://127.0.0.1:70000/;token=a"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(NoSparkError):
        connect_to_server(address)
