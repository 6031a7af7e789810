"""Which rows of sources were joined with each other, held against brute force over the rows themselves."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import StoredAccess
from lineage_core.tracing.joined_items import OF_GROUPS, TOO_MANY
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.trace import joined_rows
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from tests.support.api_server import readers, serving
from tests.support.drawn import drawn
from tests.support.job_runs import STORE, lineage, run_captured, stored, write_job

pytestmark = pytest.mark.e2e

JOB = """
from pyspark.sql import SparkSession, functions as F

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
flights = spark.read.schema("f int, hour int, carrier string, delay int").json("flights.json")
weather = spark.read.schema("w int, hour int, wind int").json("weather.json")
carriers = spark.read.schema("c int, carrier string").json("carriers.json")

def kept(frame, name):
    frame.coalesce(1).write.parquet(name)

both = flights.join(weather, "hour")
kept(both.groupBy("carrier").agg(F.count("*").alias("n"), F.sum("wind").alias("wind")), "grouped")
kept(both.select("f", "w"), "joined")
kept(both.join(carriers, "carrier", "left").groupBy("hour").agg(F.sum("delay").alias("late")), "three")
kept(flights.join(weather, "hour", "left").select("f", "w"), "outer")
kept(flights.join(weather, "hour", "left_semi").select("f", "hour"), "semi")
kept(flights.join(weather, "hour", "left_anti").select("f", "hour"), "anti")
other = flights.select(F.col("f").alias("other"), F.col("hour").alias("then"))
kept(flights.join(other, (F.col("hour") == F.col("then")) & (F.col("f") < F.col("other"))).select("f", "other"), "self")
windy = weather.groupBy("hour").agg(F.max("wind").alias("most"))
kept(flights.join(windy, "hour").select("f", "most"), "sided")
kept(flights.select("f").union(weather.select("w")), "union")
kept(flights.where("delay > 3").select("f", "delay"), "filtered")
"""
SEED = 27
Row: TypeAlias = dict[str, Any]
Together: TypeAlias = tuple[str, ...]


def drawn_rows() -> dict[str, list[Row]]:
    draw = random.Random(SEED)
    carriers = ["AA", "UA", "B6"]
    return {
        "flights": [
            {"f": n, "hour": draw.randrange(6), "carrier": draw.choice(carriers), "delay": draw.randrange(9)}
            for n in range(24)
        ],
        "weather": [
            {"w": 100 + n, "hour": draw.randrange(7), "wind": draw.randrange(40)} for n in range(9)
        ],
        "carriers": [{"c": 200 + n, "carrier": carrier} for n, carrier in enumerate(carriers[:2])],
    }  # fmt: skip


ROWS = drawn_rows()
FLIGHTS, WEATHER, CARRIERS = ROWS["flights"], ROWS["weather"], ROWS["carriers"]
JOINED = [(f, w) for f in FLIGHTS for w in WEATHER if f["hour"] == w["hour"]]


def named(*rows: Row | None) -> Together:
    """Rows by their files and lines."""
    found = []
    for row in rows:
        if row is not None:
            (file,) = [name for name, listed in ROWS.items() if any(row is one for one in listed)]
            found.append(f"{file}.json:{ROWS[file].index(row) + 1}")
    return tuple(found)


def with_carrier(f: Row, w: Row) -> Together:
    return named(f, w, next((c for c in CARRIERS if c["carrier"] == f["carrier"]), None))


Expected: TypeAlias = Callable[[Row], Iterable[Together]]
OUTPUTS: dict[str, Expected] = {
    "grouped": lambda row: [named(f, w) for f, w in JOINED if f["carrier"] == row["carrier"]],
    "joined": lambda row: [named(f, w) for f, w in JOINED if (f["f"], w["w"]) == (row["f"], row["w"])],
    "three": lambda row: [with_carrier(f, w) for f, w in JOINED if f["hour"] == row["hour"]],
    "outer": lambda row: [named(f, w) for f, w in JOINED if (f["f"], w["w"]) == (row["f"], row.get("w"))],
    "anti": lambda _: [],
    "self": lambda row: [named(FLIGHTS[row["f"]], FLIGHTS[row["other"]])],
    "union": lambda _: [],
    "filtered": lambda _: [],
}  # fmt: skip
"""What is joined with what to make a row: all of it, as its query names row by row."""
SUBSETS: dict[str, Expected] = {
    "semi": lambda row: [named(f, w) for f, w in JOINED if f["f"] == row["f"]],
    "sided": lambda row: [named(f, w) for f, w in JOINED if f["f"] == row["f"]],
}
"""The same, where the answer says what it does not know."""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("joined")
    for name, rows in ROWS.items():
        (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    write_job(folder, JOB)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def access(ran: Path, spark_context: SparkContext) -> StoredAccess:
    SparkSession(spark_context).sql("select 1").collect()
    return stored(ran)


def places(ran: Path, name: str) -> list[str]:
    (file,) = (ran / name).glob("*.parquet")
    return [f"{file}#{n}" for n in range(pq.read_metadata(file).num_rows)]


def asked(access: StoredAccess, place: str) -> tuple[Answer, Row]:
    answer = access.ask(TraceQuery(Direction.BACKWARD, (place,)))
    return answer, json.loads(answer.start[0].items[0].text or "")


def pairs_of(ran: Path, answer: Answer) -> list[Together]:
    assert answer.pairs is not None
    listed = {item.location for group in answer.groups for item in group.items}
    assert all(row.location in listed for rows in answer.pairs.rows for row in rows)
    return sorted(
        tuple(str(row.location).removeprefix(f"{ran}/") for row in together)
        for together in answer.pairs.rows
    )


@pytest.mark.parametrize("name", drawn(OUTPUTS, 2))
def test_rows_that_were_joined_are_those_of_brute_force(
    ran: Path, access: StoredAccess, name: str
) -> None:
    for place in random.Random(SEED).sample(every := places(ran, name), min(len(every), 4)):
        answer, row = asked(access, place)
        assert answer.pairs is not None
        assert (answer.exact, answer.pairs.unknown) == (True, ())
        # A combination has no order of its own.
        found, wanted = pairs_of(ran, answer), OUTPUTS[name](row)
        assert sorted(map(sorted, found)) == sorted(map(sorted, wanted))


@pytest.mark.parametrize("name", drawn(SUBSETS, 2))
def test_no_rows_are_listed_that_were_not_joined(
    ran: Path, access: StoredAccess, name: str
) -> None:
    for place in places(ran, name)[:3]:
        answer, row = asked(access, place)
        assert answer.pairs is not None
        joined = {frozenset(one) for one in SUBSETS[name](row)}
        found = {frozenset(one) for one in pairs_of(ran, answer)}
        assert found <= joined
        assert found == joined or answer.pairs.unknown


@pytest.mark.long
def test_what_is_not_known_is_said(
    ran: Path, access: StoredAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place, *_) = places(ran, "sided")
    answer, _ = asked(access, place)
    assert answer.pairs is not None
    assert answer.pairs.unknown == (OF_GROUPS,)
    monkeypatch.setattr(joined_rows, "JOINED_MAX", 1)
    (place, *_) = places(ran, "grouped")
    answer, _ = asked(access, place)
    assert answer.pairs is not None
    assert (answer.pairs.rows, answer.pairs.unknown) == ((), (TOO_MANY,))
    assert access.ask(TraceQuery(Direction.FORWARD, (f"{ran}/flights.json:1",))).pairs is None


def grouped_without(carrier: str, left_out: Row | None) -> Row | None:
    """A row of the output, computed by hand without a row of the sources."""
    joined = [
        w["wind"]
        for f, w in JOINED
        if f["carrier"] == carrier and left_out is not f and left_out is not w
    ]
    return {"carrier": carrier, "n": len(joined), "wind": sum(joined)} if joined else None


def test_influence_and_suspects_over_http_are_those_of_brute_force(
    ran: Path, access: StoredAccess, tmp_path: Path
) -> None:
    secrets, tokens = readers(tmp_path)
    with (
        serving(
            f"sqlite:///{ran / STORE}",
            api_roots=str(ran),
            spark_master="local[1]",
            api_query_s=500,
            api_tokens=tokens,
        ) as address,
        httpx.Client(base_url=f"{address}/v1/answers", timeout=600) as client,
    ):

        def influence(reader: str, **body: Any) -> httpx.Response:
            headers = {"Authorization": f"Bearer {secrets[reader]}"}
            return client.post("/influence", json=body, headers=headers)

        (place, *_) = places(ran, "grouped")
        found = influence("reads", place=place, app="latest", limit=1_000).json()
        before = json.loads(found["before"])
        carrier = before["carrier"]
        assert before == grouped_without(carrier, None)
        rows = {named(row)[0]: row for rows in ROWS.values() for row in rows}
        wanted = {
            name: after
            for name, row in rows.items()
            if (after := grouped_without(carrier, row)) != before
        }
        outcomes = {
            row["location"].removeprefix(f"{ran}/"): row["after"] and json.loads(row["after"])
            for row in found["rows"]
        }
        assert {name: after for name, after in outcomes.items() if after != before} == wanted
        assert found["witnesses"] == len(found["rows"]) == len(outcomes)
        for row in found["rows"]:
            after = row["after"] and json.loads(row["after"])
            assert row["changed"] == [
                name for name in before if after and after[name] != before[name]
            ]
            assert json.loads(row["text"])["hour"] in range(7)
        few = influence("reads", place=place, limit=1).json()
        assert (few["rows"], few["witnesses"]) == (found["rows"][:1], found["witnesses"])
        by_values = f"{ran}/grouped#carrier={carrier}"
        assert influence("reads", place=by_values).json()["rows"] == found["rows"][:50]

        # As the page asks for suspects of rows of DataFrames.
        made_from = [
            {name for together in OUTPUTS["grouped"](asked(access, each)[1]) for name in together}
            for each in places(ran, "grouped")[:2]
        ]
        body = {"places": [place], "good": places(ran, "grouped")[1:2], "app": "latest"}
        headers = {"Authorization": f"Bearer {secrets['reads']}"}
        ranked = client.post("/suspects", json=body | {"limit": 500}, headers=headers).json()
        counts = {
            item["location"].removeprefix(f"{ran}/"): (item["outputs"], item["good_outputs"])
            for item in ranked["items"]
        }
        assert counts == dict.fromkeys(made_from[0] - made_from[1], (1, 0))
        assert ranked["total"] == len(made_from[0])

        assert influence("looks", place=place).status_code == 403
        for refused, reason in (
            (places(ran, "joined")[0], "has no closed form here"),
            (f"{ran}/flights.json:1", "is a row of a source"),
            (f"{ran}/grouped#carrier=none", "no row of the output"),
        ):
            answer = influence("reads", place=refused)
            assert answer.status_code in {400, 404, 409, 422}, answer.text
            assert reason in answer.text


@pytest.mark.long
def test_pairs_over_http_and_by_command(ran: Path, access: StoredAccess) -> None:
    (place, *_) = places(ran, "joined")
    answer, row = asked(access, place)
    assert answer.pairs is not None
    wanted = answer.pairs.to_json()
    with (
        serving(f"sqlite:///{ran / STORE}", api_roots=str(ran), spark_master="local[1]", api_query_s=500) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):  # fmt: skip
        body = {"direction": "backward", "start": {"places": [place]}}
        made = client.post("/v1/applications/latest/traces", json=body).json()
        assert made["pairs"] == wanted
        assert client.get(f"/v1/traces/{made['trace']}").json()["pairs"] == wanted
        question = {"direction": "backward", "places": [place]}
        assert client.post("/v1/answers", json=question).json()["pairs"] == wanted
    done = lineage(ran, "back", place, "--pairs")
    assert done.returncode == 0, done.stderr
    ((flight, weather),) = OUTPUTS["joined"](row)
    assert "rows that were joined with each other: 1\n" in done.stdout
    assert f"{ran}/{flight} + {ran}/{weather}" in done.stdout
    assert "joined with each other" not in lineage(ran, "back", place).stdout
    assert Answer.from_json(answer.to_json()) == answer
