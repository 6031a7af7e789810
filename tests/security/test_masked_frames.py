"""Masked columns of DataFrames: their values are in no answer of a server that traces rows by Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_emitter import LineageContext
from lineage_query_api.app import create_app
from lineage_query_api.auth import new_token
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from tests.support.job_runs import STORE

pytestmark = pytest.mark.security
HOST = "http://127.0.0.1:8484"
VALUES = ("1515150077", "1616160077")
GRANTS = """
[[grant]]
callers = ["token:all", "token:masked", "token:hid"]
applications = ["*"]
rows = true

[[hide]]
callers = ["token:hid"]
datasets = ["*/cities.json"]

[[mask]]
unless = ["token:all"]
datasets = ["*/people.csv", "*/notes.txt"]
columns = ["Salary"]
"""


class Served:
    """A server over one job, and the job's folder."""

    client: TestClient

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        made = {one: new_token(one, "admin", rows=True) for one in ("all", "masked", "hid")}
        self.tokens = {name: token for name, (token, _) in made.items()}
        (folder / "tokens.toml").write_text("".join(lines for _, lines in made.values()))
        (folder / "grants.toml").write_text(GRANTS)
        (self.part,) = (folder / "out").glob("*.parquet")

    def ask(self, caller: str, place: str, direction: str = "backward", **more: Any) -> Any:
        headers = {"Authorization": f"Bearer {self.tokens[caller]}"}
        body = {"direction": direction, "start": {"places": [place]}, **more}
        return self.client.post("/v1/applications/latest/traces", json=body, headers=headers)


@pytest.fixture(scope="module")
def served(
    spark_context: SparkContext, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("masked")
    (folder / "people.csv").write_text(f"name,salary\nann,{VALUES[0]}\nbob,\ncid,{VALUES[1]}\n")
    (folder / "notes.txt").write_text(f"ann has {VALUES[0]}\ncid has {VALUES[1]}\n")
    (folder / "cities.json").write_text(
        '{"who":"ann","city":"Oslo"}\n{"who":"bob","city":"Rome"}\n'
    )
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    url = f"sqlite:///{folder / STORE}"
    with LineageContext(spark_context, store=url, link=True):
        people = session.read.csv(
            str(folder / "people.csv"), schema="name string, salary int", header=True
        )
        cities = session.read.schema("who string, city string").json(str(folder / "cities.json"))
        notes = session.read.text(str(folder / "notes.txt"))
        joined = people.join(cities, people.name == cities.who)
        noted = joined.join(notes, notes.value.startswith(joined.name), "left")
        chosen = noted.select("name", "salary", "city").orderBy("name").coalesce(1)
        chosen.write.parquet(str(folder / "out"))
        # An application may say that it made this of them, and any column may have the values by any name.
        people.selectExpr("salary AS name", "'plain' AS kind").collect()
    server = Served(folder)
    settings = read_settings(
        store=url,
        api_tokens=folder / "tokens.toml",
        api_grants=folder / "grants.toml",
        api_roots=str(folder),
        api_rate="100000/minute",
        spark_master="local[1]",
        api_query_s=500,
    )
    with open_store(url) as store, TestClient(create_app(store, settings), base_url=HOST) as client:
        server.client = client
        yield server


def texts(answer: Any) -> dict[str, list[Any]]:
    """Rows by the name of their file."""
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["exact"], found["complete"]) == (True, True)
    return {
        (group["path"] or "").rpartition("/")[2]: [item["text"] for item in group["items"]]
        for group in (*found["start"], *found["groups"])
    }


def test_a_trace_back_has_all_rows_and_no_masked_value(served: Served) -> None:
    place = f"{served.part}#0"
    whole = served.ask("all", place)
    assert VALUES[0] in whole.text
    masked = served.ask("masked", place)
    assert not any(value in masked.text for value in VALUES)
    found = texts(masked)
    assert [json.loads(one) for one in found["people.csv"]] == [{"name": "ann", "Salary": "***"}]
    assert [json.loads(one) for one in found["cities.json"]] == [{"who": "ann", "city": "Oslo"}]
    # A line has no columns.
    assert found["notes.txt"] == ["***"]
    # The same name in what the job made of it.
    assert json.loads(found["out"][0]) == {"name": "ann", "salary": "***", "city": "Oslo"}
    assert texts(whole).keys() == found.keys()
    assert whole.json()["count"] == masked.json()["count"]


@pytest.mark.parametrize("direction", ["backward", "forward"])
def test_files_as_they_are_now_are_not_read_for_callers_with_rules(
    served: Served, direction: str
) -> None:
    """They may be others than those that the application recorded."""
    place = f"{served.part}#0" if direction == "backward" else f"{served.folder}/people.csv:2"
    assert served.ask("all", place, direction, as_now=True).status_code == 200
    assert served.ask("masked", place, direction, as_now=True).status_code == 403


def test_null_is_masked_as_any_value(served: Served) -> None:
    masked = texts(served.ask("masked", f"{served.part}#1"))
    assert [json.loads(one) for one in masked["people.csv"]] == [{"name": "bob", "Salary": "***"}]


def test_a_trace_forward_has_no_masked_value(served: Served) -> None:
    place = f"{served.folder}/people.csv:2"
    assert VALUES[0] in served.ask("all", place, "forward").text
    masked = served.ask("masked", place, "forward")
    assert not any(value in masked.text for value in VALUES)
    assert "Oslo" in masked.text
    assert [json.loads(one) for one in texts(masked)[""]] == [{"kind": "plain", "name": "***"}]


def items(served: Served, caller: str, name: str) -> Any:
    """The listed rows of a node, by the end of its path."""
    headers = {"Authorization": f"Bearer {served.tokens['all']}"}
    path = "/v1/applications/latest"
    nodes = served.client.get(f"{path}/graph", headers=headers).json()["nodes"]
    (node,) = [one["node"] for one in nodes if (one["path"] or "").endswith(name)]
    headers = {"Authorization": f"Bearer {served.tokens[caller]}"}
    return served.client.get(f"{path}/nodes/{node}/items", headers=headers)


@pytest.mark.parametrize("name", ["out", "people.csv", "notes.txt"])
def test_listed_rows_have_no_masked_value(served: Served, name: str) -> None:
    whole = items(served, "all", name)
    # The output has a row of those alone who are in both inputs.
    assert all(value in whole.text for value in VALUES[: 1 if name == "out" else None])
    masked = items(served, "masked", name)
    assert masked.status_code == 200
    assert not any(value in masked.text for value in VALUES)
    assert [item["location"] for item in masked.json()["items"]] == [
        item["location"] for item in whole.json()["items"]
    ]


def test_listed_rows_name_what_is_not_masked(served: Served) -> None:
    rows = [json.loads(one["text"]) for one in items(served, "masked", "out").json()["items"]]
    # The same name in what the job made of it; what is masked there by a rule of its own has no NULL either.
    assert rows[0] == {"name": "ann", "salary": "***", "city": "Oslo"}
    people = items(served, "masked", "people.csv").json()["items"]
    assert [json.loads(one["text"]) for one in people] == [
        {"name": name, "Salary": "***"} for name in ("ann", "bob", "cid")
    ]


def test_rows_over_a_hidden_dataset_are_not_listed(served: Served) -> None:
    answer = items(served, "hid", "out")
    assert answer.status_code == 403
    assert not any(one in answer.text for one in (*VALUES, "cities", "Oslo"))


@pytest.mark.parametrize("caller", ["masked", "hid"])
def test_values_are_not_asked_for(served: Served, caller: str) -> None:
    told = []
    for value in (VALUES[0], "99999", "no number"):
        for of in (f"{served.folder}/out#salary", f"{served.folder}/people.csv#salary"):
            for way in ("backward", "forward"):
                answer = served.ask(caller, f"{of}={value}", way)
                body = answer.json()
                body.pop("request_id")
                told.append((answer.status_code, json.dumps(body)))
    assert len(set(told)) == 1
    assert told[0][0] == 403


def test_dataframes_over_a_hidden_dataset_are_not_traced(served: Served) -> None:
    answer = served.ask("hid", f"{served.part}#0")
    assert answer.status_code == 403
    assert not any(one in answer.text for one in (*VALUES, "cities", "Oslo"))
