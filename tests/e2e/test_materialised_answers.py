"""After ``lineage materialise`` the more exact answer wins: without Spark where flows are exact, by a query where they are not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from lineage import frame_traces
from lineage.access import StoredAccess
from lineage.materialising import materialise
from lineage.served import ServedAccess
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_dataframes.errors import RowError
from lineage_emitter import LineageContext
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from lineage_query_api.spark_session_holder import SparkSessionHolder
from lineage_store.copying import copy_application
from lineage_store.url import open_store
from tests.support.api_server import serving
from tests.support.job_runs import STORE, part_files
from tests.support.servers import Neo4jUnderTest
from tests.support.stores import empty_neo4j

pytestmark = pytest.mark.e2e
LINES = ["id,city,amount", "1,Oslo,1.5", "2,Rome,2.5", "3,Oslo,3.5", "4,Lima,9.0", "5,Oslo,0.5"]


class Ran:
    """A folder, its store, and the application of each job in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / STORE}"
        self.apps: dict[str, str] = {}

    def copied(self, folder: Path) -> Ran:
        """The same store in another folder; the files stay where they are."""
        shutil.copytree(self.folder / ".lineage", folder / ".lineage")
        found = Ran(self.folder)
        found.url, found.apps = f"sqlite:///{folder / STORE}", self.apps
        return found

    @contextmanager
    def access(self) -> Iterator[StoredAccess]:
        with open_store(self.url) as store:
            yield StoredAccess(store, self.url)

    def back(self, place: str, **more: Any) -> Answer:
        with self.access() as access:
            return access.ask(TraceQuery(Direction.BACKWARD, (place,), **more))

    def forward(self, place: str, **more: Any) -> Answer:
        with self.access() as access:
            return access.ask(TraceQuery(Direction.FORWARD, (place,), **more))

    def file(self, output: str) -> Path:
        (found,) = part_files(self.folder / output)
        return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Ran:
    """Two jobs: all of the outputs of one are materialised and exact, the other has running totals, and a count."""
    ran = Ran(tmp_path_factory.mktemp("answers"))
    source, sums = ran.folder / "in.csv", ran.folder / "sums.csv"
    source.write_text("\n".join(LINES) + "\n")
    sums.write_text("\n".join(LINES) + "\n")

    def read(path: Path) -> Any:
        return spark.read.option("header", True).option("inferSchema", True).csv(str(path))

    def write(frame: Any, form: str, name: str, **options: Any) -> None:
        frame.coalesce(1).write.options(**options).format(form).save(str(ran.folder / name))

    with LineageContext(spark.sparkContext, store=ran.url, link=True) as lc:
        assert lc.session is not None
        ran.apps["exact"] = lc.session.app
        rows = read(source)
        write(
            rows.groupBy("city").sum("amount").toDF("city", "total").orderBy("city"),
            "parquet",
            "totals",
        )
        write(rows.where("amount > 1"), "csv", "big", header=True)
        write(rows.selectExpr("id", "upper(city) AS city"), "json", "upper")
        write(rows.selectExpr("id", "amount * 2 AS twice", "city"), "orc", "twice")
    with LineageContext(spark.sparkContext, store=ran.url, link=True) as lc:
        assert lc.session is not None
        ran.apps["running"] = lc.session.app
        rows = read(sums)
        over = "sum(amount) OVER (PARTITION BY city ORDER BY id) AS sofar"
        write(rows.selectExpr("id", "city", over).orderBy("id"), "parquet", "running")
        assert rows.count() == 5
    with ran.access() as access:
        for app in ran.apps.values():
            made = materialise(access.store, ran.url, app)
            assert not made.refused
    return ran


@pytest.fixture
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Iterator[None]:
        raise TraceError("Spark is asked for")

    monkeypatch.setattr(frame_traces, "spark_session", refuse)
    monkeypatch.setattr(SparkSessionHolder, "run", refuse)


def locations(answer: Answer) -> list[tuple[str, str]]:
    """Places found, with the node."""
    return sorted(
        (group.node, item.location or "") for group in answer.groups for item in group.items
    )


def lines(ran: Ran, *numbers: int, name: str = "in.csv") -> list[tuple[str, str]]:
    return [("0.0", f"{ran.folder / name}:{number}") for number in numbers]


BACK = {
    "totals#1": (2, 4, 6),
    "totals#city=Oslo": (2, 4, 6),
    "totals#total=5.5": (2, 4, 6),
    "totals#city=Oslo,total=5.5": (2, 4, 6),
    "big:3": (3,),
    "big#city=Oslo": (2, 4),
    "big#id=4": (5,),
    "upper:1": (2,),
    "upper#city=OSLO": (2, 4, 6),
    "twice#2": (4,),
    "twice#twice=7": (4,),
    "twice#city=Lima": (5,),
}
"""Rows of outputs, and the lines that they were made of."""
FORWARD = {
    "in.csv:4": {"totals#1", "big:4", "upper:3", "twice#2"},
    "in.csv#id=3": {"totals#1", "big:4", "upper:3", "twice#2"},
    "in.csv#city=Lima": {"totals#0", "big:5", "upper:4", "twice#3"},
    "in.csv:6": {"totals#1", "upper:5", "twice#4"},
}


def place_in(ran: Ran, text: str) -> str:
    """A place with the file of an output, where a row stands."""
    name, sign, rest = text.partition("#") if "#" in text else text.partition(":")
    if name == "in.csv" or not rest.isdecimal():
        return f"{ran.folder / name}{sign}{rest}"
    return f"{ran.file(name)}{sign}{rest}"


@pytest.mark.long
def test_by_place_and_by_value_no_spark_is_started(
    whole: Ran, no_spark: None, neo4j: Neo4jUnderTest
) -> None:
    with empty_neo4j(neo4j) as graph, whole.access() as access:
        for app in access.store.application_ids()[::-1]:
            copy_application(access.store, graph, app)
        accesses: list[Any] = [access, StoredAccess(graph, whole.url)]
        with serving(whole.url, api_roots=str(whole.folder)) as address:
            accesses.append(ServedAccess(address))
            for asked in accesses:
                for place, numbers in BACK.items():
                    question = TraceQuery(Direction.BACKWARD, (place_in(whole, place),))
                    answer = asked.ask(question)
                    assert [one for _, one in locations(answer)] == [
                        one for _, one in lines(whole, *numbers)
                    ], (place, type(asked))
                    assert (answer.exact, answer.complete, answer.warnings) == (True, True, ())
                    assert answer.start[0].count >= 1
                for place, reached in FORWARD.items():
                    answer = asked.ask(TraceQuery(Direction.FORWARD, (place_in(whole, place),)))
                    assert {one for _, one in locations(answer)} == {
                        place_in(whole, one) for one in reached
                    }, place
                    assert (answer.exact, answer.complete) == (True, True)


@pytest.mark.long
def test_lookups_say_what_queries_say(whole: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    app = whole.apps["exact"]
    for place, numbers in BACK.items():
        queried = whole.back(place_in(whole, place), app=app)
        assert (queried.app, queried.exact) == (app, True)
        assert [one for _, one in locations(queried)] == [one for _, one in lines(whole, *numbers)]
        looked_up = whole.back(place_in(whole, place), app=f"{app}.rows")
        assert locations(looked_up) == locations(queried)
    # What no file tells is asked of Spark, and so is what is not there.
    with pytest.raises(RowError, match="no row of the output has these values"):
        whole.back(f"{whole.folder / 'totals'}#city=Bonn")
    with pytest.raises(RowError, match="is no value of total"):
        whole.back(f"{whole.folder / 'totals'}#total=many")
    with pytest.raises(TraceError, match=f"query {app} instead"):
        whole.back(f"{whole.folder / 'totals'}#city=Bonn", app=f"{app}.rows")


@pytest.mark.long
def test_a_query_answers_where_flows_are_not_exact(
    whole: Ran, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    place = f"{whole.file('running')}#2"
    by_value = f"{whole.folder / 'running'}#id=3"
    for asked in (place, by_value):
        answer = whole.back(asked)
        assert [one for _, one in locations(answer)] == [
            one for _, one in lines(whole, 2, 4, name="sums.csv")
        ]
        assert (answer.exact, answer.complete) == (True, True)
        assert answer.app == whole.apps["running"]
    request.getfixturevalue("no_spark")
    for asked in (place, by_value):
        answer = whole.back(asked)
        assert [one for _, one in locations(answer)] == [
            one for _, one in lines(whole, 2, 4, 6, name="sums.csv")
        ]
        assert (answer.exact, answer.complete) == (False, True)
        assert "failed: Spark is asked for" in answer.warnings[-1]
        body: dict[str, Any] = {"direction": "backward", "places": [asked]}
        with (
            serving(whole.url, api_roots=str(whole.folder)) as address,
            httpx.Client(base_url=address, timeout=60) as client,
        ):
            told = client.post("/v1/answers", json=body).json()
            assert (told["exact"], len(told["sources"][0]["items"])) == (False, 3)
            start = {"places": [place]}
            app = whole.apps["running"]
            made = client.post(
                f"/v1/applications/{app}/traces", json={"direction": "backward", "start": start}
            ).json()
            assert (made["app"], made["exact"], made["count"]) == (app, False, 3)
            # The flows by themselves, by value, and once more.
            values = [{"column": "id", "value": "3"}]
            body = {"direction": "backward", "start": {"node": "0", "values": values}}
            made = client.post(f"/v1/applications/{app}.rows/traces", json=body).json()
            assert (made["app"], made["exact"], made["count"]) == (f"{app}.rows", False, 3)
            assert client.get(f"/v1/traces/{made['trace']}").json() == made


@pytest.mark.long
def test_outputs_that_are_not_materialised_are_not_left_out(
    whole: Ran, request: pytest.FixtureRequest
) -> None:
    place = f"{whole.folder / 'sums.csv'}:6"
    asked = whole.forward(place)
    assert len(asked.groups) == 2
    request.getfixturevalue("no_spark")
    answer = whole.forward(place)
    assert (answer.exact, answer.complete) == (False, False)
    assert any("is not materialised" in one for one in answer.reasons)


def test_flows_answer_whatever_became_of_the_files(
    whole: Ran, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    ran = whole
    source, out = ran.folder / "in.csv", ran.file("totals")
    content, state = source.read_bytes(), source.stat()
    request.getfixturevalue("no_spark")
    try:
        os.utime(source, (1.0, 1.0))
        assert ran.back(f"{out}#1").exact
        assert len(locations(ran.forward(f"{source}#id=3"))) == 4
        source.write_bytes(content.replace(b"1,Oslo", b"0,Bonn\n1,Oslo"))
        for place in (f"{out}#1", f"{ran.folder / 'totals'}#city=Oslo"):
            answer = ran.back(place)
            assert [one for _, one in locations(answer)] == [one for _, one in lines(ran, 2, 4, 6)]
            assert (answer.exact, answer.changed) == (True, True)
            assert {item.binding for item in answer.groups[0].items} == {"now"}
        # Which rows of the source had these values then, nobody can tell any more.
        with pytest.raises(Exception, match="was written since"):
            ran.forward(f"{source}#id=3")
        source.unlink()
        gone = ran.back(f"{out}#1")
        assert (gone.exact, gone.groups[0].gone, gone.groups[0].count) == (True, True, 3)
    finally:
        source.write_bytes(content)
        os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
    moved = tmp_path / out.name
    shutil.move(out, moved)
    try:
        answer = ran.back(f"{out}#1")
        assert (answer.exact, len(locations(answer))) == (True, 3)
        with pytest.raises(TraceError, match="Spark is asked for"):
            ran.back(f"{ran.folder / 'totals'}#city=Oslo")
    finally:
        shutil.move(moved, out)


def test_the_latest_application_is_one_that_ran(whole: Ran) -> None:
    with whole.access() as access:
        ids = access.store.application_ids()
        assert ids[0].endswith(".rows")
        assert access.find("latest") == whole.apps["running"]
        assert access.find(whole.apps["exact"]) == whole.apps["exact"]
        assert access.find(ids[0]) == ids[0]
        told = json.dumps([one.app for one in access.applications()])
        assert ids[0] in told
