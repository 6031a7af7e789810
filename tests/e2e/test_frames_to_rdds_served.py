"""Traces from RDDs' records through the DataFrames whose rows they are: over HTTP, on the page, as files."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import Access, StoredAccess, open_access
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import NotComputedError
from lineage_emitter import LineageContext
from lineage_query.answers import Answer
from lineage_query.exports import Exported, ExportOptions
from lineage_query.trace_query import TraceQuery
from tests.support.api_server import readers, serving
from tests.support.job_runs import STORE
from tests.support.page import npm

pytestmark = [pytest.mark.e2e, pytest.mark.long]

LANDS = {"a": "NO", "b": "IT", "c": "IT"}
MOST = 3
"""Orders of a greater number are left out."""


def drawn_orders() -> list[tuple[str, int]]:
    draw = random.Random(7)
    some = [(draw.choice("abc"), draw.randrange(6)) for _ in range(14)]
    return [*some, some[0]]


ORDERS = drawn_orders()
"""Key and number of the lines of orders.csv, from 2 on, behind the header; some are equal."""


def orders_of(land: str) -> set[int]:
    """Lines of orders.csv, by brute force."""
    return {line for line, (key, n) in enumerate(ORDERS, 2) if n <= MOST and LANDS[key] == land}


def lands_of(land: str) -> set[int]:
    """Lines of lands.txt that orders of the land were joined with."""
    keys = {ORDERS[line - 2][0] for line in orders_of(land)}
    return {line for line, key in enumerate(LANDS, 1) if key in keys and LANDS[key] == land}


@pytest.fixture(scope="module")
def ran(spark_context: SparkContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A job, captured: orders as a DataFrame, whose rows are joined as records with lines of a text."""
    folder = tmp_path_factory.mktemp("served")
    lines = [f"{key},{n}" for key, n in ORDERS]
    (folder / "orders.csv").write_text("\n".join(["key,n", *lines]) + "\n")
    (folder / "lands.txt").write_text("".join(f"{key} {land}\n" for key, land in LANDS.items()))
    session = SparkSession(spark_context).newSession()
    session.conf.set("spark.sql.shuffle.partitions", "1")
    with LineageContext(spark_context, store=f"sqlite:///{folder / STORE}", link=True) as lc:
        orders = session.read.csv(
            str(folder / "orders.csv"), schema="key string, n int", header=True
        )
        lands: Any = lc.textFile(str(folder / "lands.txt"), 1).map(str.split)
        rows: Any = lc.rdd(orders.where(f"n <= {MOST}")).map(lambda row: (row.key, row.n))
        joined = rows.join(lands, 1).map(lambda one: (one[1][1], one[1][0]))
        sums = joined.groupByKey(1).mapValues(sum)
        sums.map(lambda one: f"{one[0]} {one[1]}").saveAsTextFile(str(folder / "out"))
        orders.groupBy("key").count().coalesce(1).write.parquet(str(folder / "counted"))
    return folder


@pytest.fixture(scope="module")
def served(ran: Path) -> Iterator[str]:
    """The address of a server in this process, which uses the Spark that runs in it."""
    url = f"sqlite:///{ran / STORE}"
    with serving(url, api_roots=str(ran), spark_master="local[1]", api_query_s=500) as address:
        yield address


@pytest.fixture
def client(served: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served, timeout=600) as client:
        yield client


@pytest.fixture
def local(ran: Path) -> Iterator[StoredAccess]:
    with open_access(f"sqlite:///{ran / STORE}") as found:
        assert isinstance(found, StoredAccess)
        yield found


def outputs(ran: Path) -> list[tuple[str, str]]:
    """The place of each output row, and its land."""
    texts = (ran / "out/part-00000").read_text().splitlines()
    return [(f"{ran}/out/part-00000:{line}", text[:2]) for line, text in enumerate(texts, 1)]


def lines_of(answer: Answer, name: str) -> set[int]:
    """The lines of a file in an answer."""
    places = [item.location or "" for group in answer.groups for item in group.items]
    return {int(one[1]) for one in (re.fullmatch(rf".*/{name}:(\d+)", at) for at in places) if one}


def ask(access: Access, place: str, **more: Any) -> Answer:
    return access.ask(TraceQuery(Direction.BACKWARD, (place,), **more))


def got(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def traced(client: httpx.Client, place: str, **more: Any) -> Any:
    body = {"direction": "backward", "start": {"places": [place]}, **more}
    return client.post("/v1/applications/latest/traces", json=body)


def test_a_server_answers_as_the_command_does(ran: Path, served: str, local: StoredAccess) -> None:
    for place, land in outputs(ran):
        with open_access(served) as remote:
            answer = ask(remote, place)
        assert lines_of(answer, "orders.csv") == orders_of(land)
        assert lines_of(answer, "lands.txt") == lands_of(land)
        assert answer == ask(local, place, limit=20)
        assert answer.exact
        assert not answer.warnings


def test_a_trace_has_the_rows_and_the_records_on_the_way(ran: Path, client: httpx.Client) -> None:
    place, land = outputs(ran)[0]
    made = got(traced(client, place))
    assert (made["computed"], made["through"], made["exact"]) == (False, True, True)
    by_what = {group["what"]: group for group in made["groups"]}
    assert set(by_what) == {"textFile", "DataFrame.rdd", "csv"}
    assert by_what["csv"]["count"] == len(orders_of(land))
    assert made["count"] == sum(group["count"] for group in made["groups"])
    passed = {one["node"]: one["count"] for one in made["passed"]}
    assert len(passed) == len(made["passed"])
    again = f"/v1/traces/{made['trace']}"
    assert got(client.get(again)) == made
    # Items of the DataFrame are the answer's; those on the way are looked up.
    read = by_what["csv"]["node"]
    first = got(client.get(f"{again}/nodes/{read}/items", params={"limit": 1}))
    rest = got(client.get(f"{again}/nodes/{read}/items", params={"cursor": first["next"]}))
    assert first["items"] + rest["items"] == by_what["csv"]["items"]
    records = got(client.get(f"{again}/nodes/df.rdd/items"))
    assert records["count"] == passed[records["node"]] == by_what["DataFrame.rdd"]["count"]
    assert records["items"][0]["address"].startswith("df.rdd#")
    (text,) = got(client.get(f"{again}/nodes/{made['start'][0]['node']}/items"))["items"]
    assert text["text"].startswith(land)
    lines = [json.loads(line) for line in client.get(f"{again}/items.ndjson").text.splitlines()]
    assert lines == [
        {"node": group["node"], **item} for group in made["groups"] for item in group["items"]
    ]


def test_a_part_of_the_way_ends_at_the_records(
    ran: Path, client: httpx.Client, local: StoredAccess
) -> None:
    (place, _), *_ = outputs(ran)
    for asked in ({"until": "df.rdd"}, {"steps": 9}):
        made = got(traced(client, place, **asked))
        assert not made["through"]
        assert "df.rdd" in {group["label"] for group in made["groups"]}
        assert "csv" not in {group["what"] for group in made["groups"]}
    answer = ask(local, place, until="df.rdd")
    assert {group.label for group in answer.groups} == {"df.rdd"}


@pytest.mark.parametrize("way", [False, True], ids=["ends", "way"])
@pytest.mark.parametrize("name", ["csv", "arrow", "parquet"])
def test_tables_have_all_of_it(
    name: str, way: bool, ran: Path, served: str, client: httpx.Client, tmp_path: Path
) -> None:
    place, land = outputs(ran)[0]
    told, content = exported(f"sqlite:///{ran / STORE}", place, name, tmp_path, way=way)
    assert (told.exact, told.warnings) == (True, ())
    assert exported(served, place, name, tmp_path, way=way) == (told, content)
    again = f"/v1/traces/{got(traced(client, place))['trace']}/export"
    assert client.get(again, params={"format": name, "way": way}).content == content
    rows = rows_in(name, content)
    found = [row for row in rows if row["role"] == "found"]
    assert len(found) == told.found
    assert {row["exact"] for row in found} <= {True, "true"}
    lines = {row["location"].rpartition(":")[2] for row in found if row["name"] == "csv"}
    assert lines == {str(line) for line in orders_of(land)}
    others = [row for row in rows if row["role"] != "found"]
    started = [row["location"] for row in others if row["role"] == "start"]
    assert started == ([place] if way else [])
    assert ("df.rdd" in {row["node"] for row in others}) == way


def test_derivations_are_those_of_records(ran: Path, served: str, tmp_path: Path) -> None:
    (place, _), *_ = outputs(ran)
    for url in (f"sqlite:///{ran / STORE}", served):
        told, content = exported(url, place, "prov", tmp_path)
        assert b"df.rdd@0#" in content
        assert "lineage back" in told.warnings[0]


def exported(
    url: str, place: str, name: str, folder: Path, *, way: bool = False
) -> tuple[Exported, bytes]:
    file = folder / "exported"
    question = TraceQuery(Direction.BACKWARD, (place,))
    with open_access(url) as access:
        told = access.export(question, name, lambda: file.open("wb"), ExportOptions(way))
    return told, file.read_bytes()


def rows_in(name: str, content: bytes) -> list[Any]:
    if name == "csv":
        return list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    if name == "parquet":
        return pq.read_table(pa.BufferReader(content)).to_pylist()
    return pa.ipc.open_stream(content).read_all().to_pylist()


def test_rows_are_for_who_may_read_them(ran: Path, tmp_path: Path) -> None:
    secrets, tokens = readers(tmp_path)
    given = {"api_roots": str(ran), "spark_master": "local[1]", "api_tokens": tokens}
    place, _ = outputs(ran)[0]
    with (
        serving(f"sqlite:///{ran / STORE}", api_query_s=500, **given) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):
        seen = {}
        for name in ("reads", "looks"):
            client.headers["Authorization"] = f"Bearer {secrets[name]}"
            made = got(traced(client, place))
            again = f"/v1/traces/{made['trace']}"
            (node,) = [group["node"] for group in made["groups"] if group["what"] == "csv"]
            question = {"direction": "backward", "places": [place]}
            seen[name] = [
                json.dumps(made),
                client.get(f"{again}/nodes/{node}/items").text,
                client.get(f"{again}/items.ndjson").text,
                client.get(f"{again}/export").text,
                client.post("/v1/answers", json=question).text,
                client.post("/v1/answers/file", json=question).text,
            ]
        assert ["key" in one for one in seen["reads"]] == [True] * 6
        assert ["key" in one for one in seen["looks"]] == [False] * 6
        assert all("orders.csv:" in one for one in seen["looks"])


def test_what_spark_says_of_values_is_not_told_beside_an_answer(
    ran: Path, client: httpx.Client, local: StoredAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise NotComputedError("Spark can't compute the plan anew: no number: 'a secret'")

    monkeypatch.setattr("lineage_dataframes.trace.crossing.trace_named", failing)
    (place, _), *_ = outputs(ran)
    question = {"direction": "backward", "places": [place]}
    told = got(client.post("/v1/answers", json=question))
    assert told["reasons"] == [
        "where the rows of df.rdd come from can't be traced: Spark can't compute the plan anew"
    ]
    assert {group["name"] for group in told["sources"]} == {"df.rdd", "read:lands"}
    # Rows are missing: what is named is not all.
    assert not told["complete"]
    (gap,) = told["not_asked"]
    assert gap["reason"] == "Spark can't compute the plan anew"
    # Who has the store has its rows.
    assert "a secret" in ask(local, place).reasons[0]


def test_without_a_spark_or_the_right_to_the_files_it_says_so(ran: Path, tmp_path: Path) -> None:
    (place, _), *_ = outputs(ran)
    url = f"sqlite:///{ran / STORE}"
    with serving(url, api_roots=str(ran)) as address, httpx.Client(base_url=address) as client:
        made = got(traced(client, place))
        assert not made["through"]
        assert "lineage back" in made["warnings"][0]
        assert "df.rdd" in {group["label"] for group in made["groups"]}
    given = {"api_roots": f"{ran}/out", "spark_master": "local[1]"}
    with serving(url, **given) as address, httpx.Client(base_url=address, timeout=99) as client:
        assert "not read by this server" in got(traced(client, place), 422)["detail"]


@pytest.mark.long
def test_the_page_asks_for_rows_and_shows_them(ran: Path, served: str) -> None:
    (parquet,) = (ran / "counted").glob("*.parquet")
    keys: list[Any] = pq.read_table(parquet)["key"].to_pylist()
    first, second, _ = keys

    def places(lines: set[int]) -> list[str]:
        return [f"{ran}/orders.csv:{line}" for line in sorted(lines)]

    def keyed(wanted: str) -> list[str]:
        return places({line for line, (key, _) in enumerate(ORDERS, 2) if key == wanted})

    told = {
        "output": "counted",
        "column": "key",
        "value": second,
        "valued": keyed(second),
        "place": f"{parquet}#0",
        "placed": keyed(first),
        "records": "/out",
        "through": places(orders_of(outputs(ran)[0][1])),
    }
    npm("e2e:only", environment={"LINEAGE_URL": served, "LINEAGE_E2E_FRAMES": json.dumps(told)})
