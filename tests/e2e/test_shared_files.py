"""Files that several applications use: who reads a source is asked forward, who wrote an output is asked back."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lineage.access import StoredAccess
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import RefusedError, RowError
from lineage_query.answers import Answer
from lineage_query.exports import ExportError, ExportOptions
from lineage_query.trace_query import TraceQuery
from lineage_store.copying import copy_application
from tests.support.api_server import serving
from tests.support.job_runs import STORE, Begin, app_of, part_files
from tests.support.servers import Neo4jUnderTest
from tests.support.stores import empty_neo4j

pytestmark = pytest.mark.e2e
SCHEMA = "id int, city string"
IN = "1,Oslo\n2,Rome\n3,Oslo\n4,Lima\n"


@pytest.fixture(scope="module")
def apps(folder: Path, begin: Begin, spark: SparkSession) -> dict[str, str]:
    """Applications over one source: two of DataFrames, one of RDDs, one of both, one that can't be traced."""
    source = str(folder / "box" / "in.csv")
    (folder / "box").mkdir()
    Path(source).write_text(IN)
    found: dict[str, str] = {}
    with begin() as lc:
        found["filters"] = app_of(lc)
        frame = spark.read.schema(SCHEMA).csv(source)
        frame.where("id > 1").coalesce(1).write.csv(str(folder / "filtered"))
        frame.groupBy("city").count().coalesce(1).write.csv(str(folder / "counted"))
        # The same file, as a part of another source.
        every = spark.read.schema(SCHEMA).csv(str(folder / "box"))
        every.where("id = 2").coalesce(1).write.csv(str(folder / "boxed"))
    with begin() as lc:
        found["rdds"] = app_of(lc)
        lc.textFile(source, 1).filter(lambda line: "Oslo" not in line).saveAsTextFile(
            str(folder / "records")
        )
    with begin() as lc:
        found["both"] = app_of(lc)
        lc.textFile(source, 1).map(str.upper).saveAsTextFile(str(folder / "upper"))
        frame = spark.read.schema(SCHEMA).csv(source)
        frame.where("id = 2").coalesce(1).write.csv(str(folder / "second"))
    with begin() as lc:
        found["last"] = app_of(lc)
        frame = spark.read.schema(SCHEMA).csv(source)
        frame.where("id > 3").coalesce(1).write.csv(str(folder / "late"))
    return found


def sinks(folder: Path, answer: Answer) -> set[tuple[str, str]]:
    """Output rows by application."""
    named = [
        (group.app or answer.app, f"{Path(item.location or '').parent.name}: {item.text}")
        for group in answer.groups
        for item in group.items
    ]
    assert len(set(named)) == len(named)
    return set(named)


def forward(folder: Path, place: str, **more: Any) -> TraceQuery:
    return TraceQuery(Direction.FORWARD, (f"{folder / place}",), **more)


def back(folder: Path, place: str, **more: Any) -> TraceQuery:
    return TraceQuery(Direction.BACKWARD, (f"{folder / place}",), **more)


def of_rome(apps: dict[str, str]) -> set[tuple[str, str]]:
    return {
        (apps["filters"], 'filtered: {"id":2,"city":"Rome"}'),
        (apps["filters"], 'counted: {"city":"Rome","count":1}'),
        (apps["filters"], 'boxed: {"id":2,"city":"Rome"}'),
        (apps["rdds"], "records: 2,Rome"),
        (apps["both"], "upper: 2,ROME"),
        (apps["both"], 'second: {"id":2,"city":"Rome"}'),
    }


@pytest.mark.long
def test_forward_by_place_asks_all_that_read_the_file(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    answer = access.ask(forward(folder, "box/in.csv:2"))
    assert sinks(folder, answer) == of_rome(apps)
    assert (answer.exact, answer.complete, answer.warnings) == (True, True, ())
    assert answer.apps == tuple(apps[name] for name in ("last", "both", "rdds", "filters"))
    told = answer.to_json()
    assert {one["app"] for one in told["sinks"]} == {apps["filters"], apps["rdds"], apps["both"]}
    assert Answer.from_json(told).to_json() == told
    # The latest alone knows nothing of the row; one is asked by name.
    last = access.ask(forward(folder, "box/in.csv:2", app=apps["last"]))
    assert (last.groups, last.complete) == ((), True)
    both = access.ask(forward(folder, "box/in.csv:2", app=apps["both"]))
    assert sinks(folder, both) == {one for one in of_rome(apps) if one[0] == apps["both"]}
    assert (both.exact, both.complete) == (True, True)
    with pytest.raises(RowError, match="no row"):
        access.ask(forward(folder, "box/in.csv:9", app=apps["last"]))
    (late,) = part_files(folder / "late")
    assert access.ask(back(folder, f"late/{late.name}:1", app="latest")).app == apps["last"]


@pytest.mark.long
def test_forward_by_value_asks_all_and_names_the_others(
    folder: Path, apps: dict[str, str], access: StoredAccess
) -> None:
    answer = access.ask(forward(folder, "box/in.csv#id=2"))
    by_columns = {"filtered", "counted", "second"}
    assert sinks(folder, answer) == {
        one for one in of_rome(apps) if one[1].partition(":")[0] in by_columns
    }
    # Records have no columns, and a source of another name was not asked for.
    assert not answer.complete
    assert {one.app for one in answer.not_queried} == {apps["filters"], apps["rdds"], apps["both"]}
    assert all("name a row by its location" in one.reason for one in answer.not_queried)
    assert {one.warning() for one in answer.not_queried} <= set(answer.warnings)


@pytest.mark.long
def test_a_touched_source_is_the_same_and_a_changed_one_another(
    folder: Path, apps: dict[str, str], access: StoredAccess, begin: Begin, spark: SparkSession
) -> None:
    source = folder / "box" / "in.csv"
    before = source.stat()
    os.utime(source, (1.0, 1.0))
    try:
        answer = access.ask(forward(folder, "box/in.csv:2"))
        assert sinks(folder, answer) == of_rome(apps)
        assert answer.complete
    finally:
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    other = folder / "other"
    for content in ("1,Oslo\n2,Rome\n", "1,Lima\n2,Pisa\n3,Bari\n"):
        (folder / "again.csv").write_text(content)
        with begin():
            frame = spark.read.schema(SCHEMA).csv(str(folder / "again.csv"))
            frame.coalesce(1).write.mode("append").csv(str(other))
    answer = access.ask(forward(folder, "again.csv:2"))
    assert [item.text for group in answer.groups for item in group.items] == [
        '{"id":2,"city":"Pisa"}'
    ]
    assert (answer.complete, answer.to_json()["apps"]) == (True, [answer.app])


def test_who_can_not_be_asked_is_named(
    folder: Path, access: StoredAccess, begin: Begin, spark: SparkSession
) -> None:
    source = str(folder / "shared.csv")
    Path(source).write_text(IN)
    with begin() as lc:
        plain = app_of(lc)
        frame = spark.read.schema(SCHEMA).csv(source)
        frame.coalesce(1).write.mode("append").csv(str(folder / "joint"))
    with begin() as lc:
        blind = app_of(lc)
        frame = spark.read.schema(SCHEMA).csv(source)
        some = (
            frame.where(F.udf(lambda number: number % 2 == 1, "boolean")("id"))
            .groupBy("city")
            .count()
        )
        some.selectExpr("int(count) AS id", "city").coalesce(1).write.mode("append").csv(
            str(folder / "joint")
        )
    answer = access.ask(forward(folder, "shared.csv:2"))
    assert {app for app, _ in sinks(folder, answer)} == {plain}
    assert [(one.app, bool(one.reason)) for one in answer.not_queried] == [(blind, True)]
    assert not answer.complete
    # Back: the other write may have such rows.
    answer = access.ask(back(folder, "joint#city=Rome"))
    assert [item.location for item in answer.groups[0].items] == [f"{source}:2"]
    assert ([one.app for one in answer.not_queried], answer.complete) == ([blind], False)
    answer = access.ask(back(folder, "joint#city=Pisa"))
    assert (answer.groups, answer.complete) == ((), False)
    assert [one.app for one in answer.not_queried] == [blind]
    with pytest.raises(RefusedError):
        access.ask(back(folder, "joint#city=Pisa", app=blind))
    with pytest.raises(RowError, match="no row of the output has these values"):
        access.ask(back(folder, "joint#city=Pisa", app=plain))


@pytest.fixture(scope="module")
def appended(folder: Path, begin: Begin, spark: SparkSession) -> dict[str, str]:
    """An output that was appended to by two applications, one of them twice."""
    found = {}
    for name, parts in (("first", ["1,Oslo\n2,Rome\n"]), ("twice", ["3,Oslo\n", "4,Lima\n"])):
        with begin() as lc:
            found[name] = app_of(lc)
            for at, text in enumerate(parts):
                source = folder / f"{name}{at}.csv"
                source.write_text(text)
                frame = spark.read.schema(SCHEMA).csv(str(source))
                frame.coalesce(1).write.mode("append").parquet(str(folder / "daily"))
    return found


def sources(answer: Answer) -> list[str]:
    found = [item.location or "" for group in answer.groups for item in group.items]
    return sorted(f"{Path(one).name}" for one in found)


@pytest.mark.long
def test_all_writes_are_one_output(
    folder: Path, appended: dict[str, str], access: StoredAccess
) -> None:
    for number, source in ((1, "first0.csv:1"), (2, "first0.csv:2"), (3, "twice0.csv:1"), (4, "twice1.csv:1")):  # fmt: skip
        answer = access.ask(back(folder, f"daily#id={number}"))
        assert sources(answer) == [source]
        assert (answer.exact, answer.complete, answer.warnings) == (True, True, ())
    answer = access.ask(back(folder, "daily#city=Oslo"))
    assert sources(answer) == ["first0.csv:1", "twice0.csv:1"]
    assert {(group.app, group.count) for group in answer.start} == {
        (appended["first"], 1), (appended["twice"], 1)
    }  # fmt: skip
    answer = access.ask(replace(back(folder, "daily"), where="id > 1"))
    assert sources(answer) == ["first0.csv:2", "twice0.csv:1", "twice1.csv:1"]
    assert (answer.exact, answer.complete) == (True, True)
    with pytest.raises(RowError, match="no row of the output has these values"):
        access.ask(back(folder, "daily#id=9"))
    with pytest.raises(RowError, match="no row of the output fulfils"):
        access.ask(replace(back(folder, "daily"), where="id > 9"))
    assert sources(access.ask(back(folder, "daily#id=3", app=appended["twice"]))) == [
        "twice0.csv:1"
    ]
    with pytest.raises(RowError):
        access.ask(back(folder, "daily#id=1", app=appended["twice"]))


@pytest.mark.long
def test_a_table_has_the_rows_of_all_applications(
    folder: Path, appended: dict[str, str], apps: dict[str, str], access: StoredAccess
) -> None:
    written = folder / "table.csv"
    with written.open("wb") as stream:
        question = back(folder, "daily#city=Oslo")
        told = access.export(question, "csv", lambda: stream, ExportOptions())
    rows = written.read_text().splitlines()
    assert (told.found, told.exact, told.complete, len(rows)) == (2, True, True, 3)
    assert rows[0].endswith(",app")
    assert {row.rpartition(",")[2] for row in rows[1:]} == set(appended.values())
    with (folder / "none").open("wb") as stream, pytest.raises(ExportError, match="--app"):
        access.export(forward(folder, "box/in.csv:2"), "prov", lambda: stream, ExportOptions())


@pytest.mark.long
def test_the_same_from_neo4j_and_over_http(
    folder: Path,
    apps: dict[str, str],
    appended: dict[str, str],
    access: StoredAccess,
    neo4j: Neo4jUnderTest,
) -> None:
    questions = [
        forward(folder, "box/in.csv:2"),
        forward(folder, "box/in.csv#id=2"),
        back(folder, "daily#city=Oslo"),
    ]
    expected = [access.ask(one).to_json() for one in questions]
    with empty_neo4j(neo4j) as store:
        for app in [*apps.values(), *appended.values()]:
            copy_application(access.store, store, app)
        inside = StoredAccess(store, neo4j.uri)
        assert [inside.ask(one).to_json() for one in questions] == expected
    url = f"sqlite:///{folder / STORE}"
    with (
        serving(url, api_roots=str(folder), spark_master="local[1]", api_query_s=500) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):
        for question, told in zip(questions, expected, strict=True):
            body = {
                "direction": question.direction.value,
                "places": list(question.places),
                "limit": None,
            }
            answer = client.post("/v1/answers", json=body)
            assert answer.json() == told, answer.text
        # One application's page names the others.
        start = {"places": [f"{folder}/box/in.csv:2"]}
        wanted = {"direction": "forward", "start": start}
        told = client.post(f"/v1/applications/{apps['last']}/traces", json=wanted).json()
        assert any(apps["rdds"] in one and "also read it" in one for one in told["warnings"])


def test_what_was_overwritten_is_not_asked(
    folder: Path, access: StoredAccess, begin: Begin, spark: SparkSession
) -> None:
    out, source = folder / "rerun", folder / "rerun.csv"
    old = folder / "old.csv"
    old.write_text("1,Oslo\n2,Rome\n")
    source.write_text("2,Pisa\n5,Bari\n")
    with begin():
        spark.read.schema(SCHEMA).csv(str(old)).coalesce(1).write.parquet(str(out))
    with begin() as lc:
        later = app_of(lc)
        frame = spark.read.schema(SCHEMA).csv(str(source)).coalesce(1)
        frame.write.mode("overwrite").parquet(str(out))
        frame.where("id = 5").write.mode("append").parquet(str(out))
    answer = access.ask(back(folder, "rerun#id=2"))
    assert (answer.app, answer.exact) == (later, True)
    assert (sources(answer), answer.apps, answer.complete) == (["rerun.csv:1"], (), True)
    answer = access.ask(back(folder, "rerun#id=5"))
    assert (sources(answer), answer.start[0].count) == (["rerun.csv:2"], 1)
    assert [group.count for group in answer.start] == [1, 1]
    with pytest.raises(RowError, match="no row of the output has these values"):
        access.ask(back(folder, "rerun#id=1"))
    # A file of the write is gone: what it held is not known.
    (first, second) = sorted(out.glob("part-*"), key=lambda one: one.stat().st_mtime_ns)
    kept = first.read_bytes()
    second.unlink()
    answer = access.ask(back(folder, "rerun#id=5"))
    assert (len(answer.start), answer.exact, answer.complete) == (1, True, True)
    # Somebody else writes into it.
    shutil.copy(first, out / "part-9.parquet")
    answer = access.ask(back(folder, "rerun#id=2"))
    assert (answer.complete, sources(answer)) == (False, ["rerun.csv:1"])
    assert any(
        "part-9.parquet was not written by any known DataFrame" in one for one in answer.warnings
    )
    answer = access.ask(back(folder, "rerun#id=1"))
    assert (answer.groups, answer.complete) == ((), False)
    (out / "part-9.parquet").unlink()
    first.write_bytes(kept + b" ")
    answer = access.ask(back(folder, "rerun#id=2"))
    assert (answer.complete, answer.changed) == (False, True)
    first.unlink()
    answer = access.ask(back(folder, "rerun#id=5"))
    assert any("no file is unchanged since it was written" in one for one in answer.warnings)
    assert (answer.changed, answer.complete) == (True, False)


def test_a_write_of_which_a_part_is_gone_is_said_to_be_one(
    folder: Path, access: StoredAccess, begin: Begin, spark: SparkSession
) -> None:
    source, out = folder / "parts.csv", folder / "parts"
    source.write_text(IN)
    with begin():
        frame = spark.read.schema(SCHEMA).csv(str(source))
        frame.write.partitionBy("city").parquet(str(out))
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with begin():
            source = folder / "more.csv"
            source.write_text("9,Oslo\n")
            frame = spark.read.schema(SCHEMA).csv(str(source))
            frame.write.mode("overwrite").partitionBy("city").parquet(str(out))
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    answer = access.ask(back(folder, "parts#city=Oslo"))
    assert not answer.exact
    assert any("some of its rows may be gone" in one for one in answer.reasons)
    assert (answer.changed, answer.complete) == (True, True)
    assert part_files(out / "city=Oslo")
    assert json.dumps(answer.to_json())
