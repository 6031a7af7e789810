"""Rows of DataFrames' outputs and sources listed page by page, held against what other readers find in the files."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.support.api_server import readers, serving
from tests.support.job_runs import CLI, STORE, run_captured, write_job

pytestmark = pytest.mark.e2e

JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.read.schema("id int, name string").json("in.json")
# Some of the files have no row.
some = rows.where("id % 4 > 0").repartition(4, "id")
some.write.parquet("parquet")
some.write.orc("orc")
some.write.json("json")
some.write.option("header", True).csv("csv")
some.write.partitionBy("name").parquet("folders")
rows.where("id > 99").write.parquet("empty")
rows.where("id < 3").coalesce(1).write.parquet("changed")
rows.collect()
"""
ROWS = [{"id": n, "name": None if n % 3 == 0 else f'n{n % 5} "é"'} for n in range(23)]
Reader = Callable[[Path], list[dict[str, Any]]]


def parquet_rows(file: Path) -> list[dict[str, Any]]:
    return pq.read_table(file, partitioning=None).to_pylist()


def orc_rows(file: Path) -> list[dict[str, Any]]:
    return orc.read_table(file).to_pylist()


def json_rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def csv_rows(file: Path) -> list[dict[str, Any]]:
    with file.open(newline="") as lines:
        found = list(csv.DictReader(lines, escapechar="\\", doublequote=False))
    return [{"id": int(row["id"]), "name": row["name"] or None} for row in found]


def named_by_folder(file: Path) -> list[dict[str, Any]]:
    name = unquote(file.parent.name.removeprefix("name="))
    value = None if name.startswith("__HIVE") else name
    return [{**row, "name": value} for row in parquet_rows(file)]


READERS: dict[str, tuple[Reader, str]] = {
    "parquet": (parquet_rows, "#"),
    "orc": (orc_rows, "#"),
    "json": (json_rows, ":"),
    "csv": (csv_rows, ":"),
    "folders": (named_by_folder, "#"),
    "empty": (parquet_rows, "#"),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("listed")
    (folder / "in.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    write_job(folder, JOB)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path]:
    return readers(tmp_path_factory.mktemp("tokens"))


@pytest.fixture(scope="module")
def client(
    ran: Path, secrets: tuple[dict[str, str], Path], spark_context: SparkContext
) -> Iterator[httpx.Client]:
    """Asks a server in this process, which uses the Spark that runs in it."""
    SparkSession(spark_context).sql("select 1").collect()
    given = {"api_roots": str(ran), "spark_master": "local[1]", "api_tokens": secrets[1]}
    with (
        serving(f"sqlite:///{ran / STORE}", api_query_s=500, api_rate="1000/second", **given) as at,
        httpx.Client(base_url=f"{at}/v1/applications/latest", timeout=600) as client,
    ):
        client.headers["Authorization"] = f"Bearer {secrets[0]['reads']}"
        yield client


def got(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def node_of(client: httpx.Client, name: str) -> str:
    nodes = got(client.get("/graph"))["nodes"]
    (node,) = [one for one in nodes if (one["path"] or "").rstrip("/").endswith(f"/{name}")]
    return str(node["node"])


def pages(client: httpx.Client, node: str, limit: int) -> list[dict[str, Any]]:
    """All items, page by page."""
    found, cursor = [], None
    while True:
        params = {"limit": limit} | ({} if cursor is None else {"cursor": cursor})
        page = got(client.get(f"/nodes/{node}/items", params=params))
        assert len(page["items"]) <= limit
        assert (page["count"], page["changed"]) == (None, False)
        found += page["items"]
        cursor = page["next"]
        if cursor is None:
            return found


def row_at(place: str, kind: str) -> dict[str, Any]:
    """The row that stands at a place, as another reader finds it."""
    read, sign = READERS[kind]
    path, _, number = place.rpartition(sign)
    headed = 2 if kind == "csv" else 1 if sign == ":" else 0
    return read(Path(path))[int(number) - headed]


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("limit", [3, 1000])
def test_all_rows_are_listed_where_they_stand(
    ran: Path, client: httpx.Client, kind: str, limit: int
) -> None:
    items = pages(client, node_of(client, kind), limit)
    shown = [{"name": None} | json.loads(item["text"]) for item in items]
    assert shown == [{"name": None} | row_at(item["location"], kind) for item in items]
    wanted = [] if kind == "empty" else [row for row in ROWS if int(str(row["id"])) % 4]
    assert sorted(shown, key=lambda row: row["id"]) == wanted
    assert len({item["location"] for item in items}) == len(wanted)


def test_a_listed_row_is_traced(ran: Path, client: httpx.Client) -> None:
    for item in pages(client, node_of(client, "csv"), 100)[:2]:
        body = {"direction": "backward", "start": {"places": [item["location"]]}}
        made = got(client.post("/traces", json=body))
        (witness,) = made["groups"][0]["items"]
        row = json.loads(item["text"])
        assert (made["exact"], witness["location"]) == (True, f"{ran}/in.json:{row['id'] + 1}")


def test_rows_of_a_source_are_listed(ran: Path, client: httpx.Client) -> None:
    nodes = got(client.get("/graph"))["nodes"]
    node = next(one["node"] for one in nodes if one["kind"] == "frame-source")
    items = pages(client, node, 10)
    assert [item["location"] for item in items] == [
        f"{ran}/in.json:{line}" for line in range(1, len(ROWS) + 1)
    ]
    assert [{"name": None} | json.loads(item["text"]) for item in items] == ROWS


def test_what_is_not_listed_says_why(ran: Path, client: httpx.Client) -> None:
    node = node_of(client, "parquet")
    for params in ({"search": "n"}, {"partition": 0}, {"cursor": "99.0"}, {"cursor": "0"}):
        got(client.get(f"/nodes/{node}/items", params=params), 422)
    nodes = got(client.get("/graph"))["nodes"]
    (collected,) = [one for one in nodes if one["kind"] == "frame" and one["path"] is None]
    told = got(client.get(f"/nodes/{collected['node']}/items"), 422)
    assert "kept no file" in told["detail"]
    (file,) = (ran / "changed").glob("part-*.parquet")
    pq.write_table(pq.read_table(file).slice(0, 1), file)
    told = got(client.get(f"/nodes/{node_of(client, 'changed')}/items"), 422)
    assert file.name in told["detail"]


def test_rows_are_for_callers_who_may_read_them(
    client: httpx.Client, secrets: tuple[dict[str, str], Path]
) -> None:
    headers = {"Authorization": f"Bearer {secrets[0]['looks']}"}
    answer = client.get(f"/nodes/{node_of(client, 'json')}/items", headers=headers)
    assert "text of rows" in got(answer, 403)["detail"]


@pytest.mark.long
def test_lineage_ui_alone_lists_and_traces(ran: Path, tmp_path: Path) -> None:
    """Who typed nothing but `lineage ui` after the job: a Spark starts with the first question."""
    store = f"sqlite:///{ran / STORE}"
    ui = subprocess.Popen(
        [*CLI, "--store", store, "ui", "--no-browser", "--port", "0"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "LINEAGE_SPARK_MASTER"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert ui.stdout is not None
        said = next(line for line in iter(ui.stdout.readline, "") if "http://" in line)
        address, _, token = said.partition("http://")[2].partition(" ")[0].partition("/?token=")
        headers = {"Authorization": f"Bearer {token}"}
        base = f"http://{address}/v1"
        with httpx.Client(base_url=base, headers=headers, timeout=600) as client:
            assert got(client.get("/spark"))["state"] == "idle"
            application = httpx.Client(
                base_url=f"{base}/applications/latest", headers=headers, timeout=600
            )
            with application:
                node = node_of(application, "csv")
                assert got(application.get(f"/nodes/{node}/columns"))["missing"] == ""
                item, *_ = pages(application, node, 100)
                body = {"direction": "backward", "start": {"places": [item["location"]]}}
                made = got(application.post("/traces", json=body))
            assert (made["exact"], made["count"]) == (True, 1)
            assert got(client.get("/spark"))["state"] == "ready"
    finally:
        ui.send_signal(signal.SIGINT)
        ui.communicate(timeout=120)


def test_files_elsewhere_and_servers_without_spark_are_refused(ran: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{ran / STORE}"
    for given, why in (
        ({"api_roots": str(tmp_path), "spark_master": "local[1]"}, "not read by this server"),
        ({"api_roots": str(ran)}, "LINEAGE_SPARK_MASTER is not set"),
    ):
        with (
            serving(url, **given) as address,
            httpx.Client(base_url=f"{address}/v1/applications/latest", timeout=600) as client,
        ):
            node = node_of(client, "json")
            assert why in got(client.get(f"/nodes/{node}/items"), 422)["detail"]
            columns = got(client.get(f"/nodes/{node}/columns"))
            assert columns["traced"] == ("spark_master" in given)
            assert bool(columns["missing"]) != columns["traced"]
            state = got(httpx.get(f"{address}/v1/spark"))["state"]
            assert state == ("ready" if "spark_master" in given else "off")
