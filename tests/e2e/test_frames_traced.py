"""Rows of DataFrames traced as a person asks: by place, by condition, both ways."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import StoredAccess
from lineage.served import ServedAccess, ServerError
from lineage_core.recipe.document import Recipe
from lineage_core.recipe.plan import Aggregate, Call, Literal
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_dataframes.errors import ChangedSourceError, RefusedError, RowError
from lineage_dataframes.trace.allowed import check_recipe_allowed
from lineage_query.answers import Answer, Group
from lineage_query.conditions import ConditionError
from lineage_query.exports import ExportError, ExportOptions
from lineage_query.finding import NotFoundError
from lineage_query.recipe_rows import RecipePlace, RecipeRowError
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query_api import trace_ids
from lineage_query_api.errors import ProblemError
from lineage_query_api.models import TraceRequest
from lineage_query_api.recipe_traces import RecipeTraces
from lineage_query_api.settings import read_settings
from lineage_query_api.spark_session_holder import SparkSessionHolder
from tests.support.api_server import readers, serving
from tests.support.job_runs import CLI, STORE, lineage, run_captured, run_program, stored, write_job

pytestmark = pytest.mark.e2e

JOB = """
from datetime import timedelta

from pyspark.sql import SparkSession, functions as F

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
rows = spark.read.option("header", True).option("inferSchema", True).csv("in.csv")
rows.groupBy("city").sum("amount").toDF("city", "total").orderBy("city").coalesce(1).write.parquet("out")
rows.where("amount > 2").coalesce(1).write.option("header", True).csv("big")
rows.write.partitionBy("amount").json("parts")
print(rows.where("amount > 5").count())
# CSV trims texts: no row of the files is just what Spark gave.
rows.selectExpr("concat(' ', city) AS city", "amount").coalesce(1).write.csv("trimmed")
# Intervals that a program makes are in no plan, and are not kept beside it.
took = spark.createDataFrame([("a", timedelta(1))], "value string, took interval day to second")
spark.read.text("other.txt").join(took, "value").coalesce(1).write.parquet("joined")
few = spark.createDataFrame([{"value": "a", "n": 1}, {"value": "b", "n": 2}])
spark.read.text("other.txt").join(few, "value").where("n = 2").coalesce(1).write.parquet("counted")
third = spark.read.option("header", True).option("inferSchema", True).csv("third.csv")
third.groupBy("city").pivot("kind", ["a", "b"]).sum("n").coalesce(1).write.parquet("pivoted")
loud = third.select("city", F.udf(lambda kind: kind + "!")("kind").alias("loud"))
loud.coalesce(1).write.json("loud")
loud.collect()
"""
IN = "city,amount\nOslo,1.5\nRome,2.5\n\nOslo,3.5\nLima,9.0\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traced")
    (folder / "in.csv").write_text(IN)
    (folder / "other.txt").write_text("a\nb\n")
    (folder / "third.csv").write_text("city,kind,n\nOslo,a,1\nOslo,b,2\nRome,a,3\n")
    write_job(folder, JOB)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def access(ran: Path, spark_context: SparkContext) -> StoredAccess:
    """Asks in this process, on the Spark that runs in it."""
    SparkSession(spark_context).sql("select 1").collect()
    return stored(ran)


def file_of(ran: Path, folder: str, like: str = "part-*") -> str:
    (found,) = (ran / folder).glob(like)
    return str(found)


def back(access: StoredAccess, place: str) -> Answer:
    return access.ask(TraceQuery(Direction.BACKWARD, (place,)))


def forward(access: StoredAccess, place: str) -> Answer:
    return access.ask(TraceQuery(Direction.FORWARD, (place,)))


def places(ran: Path, groups: tuple[Group, ...]) -> list[str | None]:
    """Where items stand, below the folder."""
    found = [item.location for group in groups for item in group.items]
    return [one and one.removeprefix(f"{ran}/") for one in found]


def test_back_from_a_row_of_parquet(ran: Path, access: StoredAccess) -> None:
    answer = back(access, f"{file_of(ran, 'out')}#1")
    assert json.loads(answer.start[0].items[0].text or "") == {"city": "Oslo", "total": 5.0}
    assert (places(ran, answer.groups), answer.exact) == (["in.csv:2", "in.csv:5"], True)
    assert [item.text for item in answer.groups[0].items] == [
        '{"city":"Oslo","amount":1.5}',
        '{"city":"Oslo","amount":3.5}',
    ]
    assert answer.groups[0].node == "0.0"


def test_back_from_a_line_of_a_file_with_a_header(ran: Path, access: StoredAccess) -> None:
    answer = back(access, f"{file_of(ran, 'big')}:3")
    assert (places(ran, answer.groups), answer.exact) == (["in.csv:5"], True)
    with pytest.raises(RowError, match="no row"):
        back(access, f"{file_of(ran, 'big')}:1")
    with pytest.raises(RowError, match="PATH:LINE"):
        back(access, f"{file_of(ran, 'big')}#0")


def test_back_from_a_file_whose_folder_is_a_column(ran: Path, access: StoredAccess) -> None:
    answer = back(access, f"{file_of(ran, 'parts', 'amount=2.5/part-*')}:1")
    assert places(ran, answer.groups) == ["in.csv:3"]


@pytest.mark.long
def test_forward_into_all_that_read_the_row(ran: Path, access: StoredAccess) -> None:
    answer = forward(access, str(ran / "in.csv") + ":5")
    out, big, *_ = (Path(file_of(ran, name)).name for name in ("out", "big"))
    found = places(ran, answer.groups)
    assert found[:2] == [f"out/{out}#1", f"big/{big}:3"]
    assert answer.exact
    # The count is the program's: it has no file, and 3.5 is not above 5. The last are shown as the files hold them.
    assert len(answer.groups) == 4
    assert found[-1] == f"trimmed/{Path(file_of(ran, 'trimmed')).name}:3"
    assert answer.groups[-1].items[0].text == '{"city":"Oslo","amount":3.5}'
    assert not any("identified by their values" in warning for warning in answer.warnings)
    answer = forward(access, str(ran / "in.csv") + ":6")
    (counted,) = (one for one in answer.groups if one.what == "DataFrame.count")
    assert [item.location for item in counted.items] == [None]


@pytest.mark.long
def test_forward_shows_what_the_files_hold_or_that_it_is_unknown(
    ran: Path, access: StoredAccess
) -> None:
    pivoted, loud = (Path(file_of(ran, name)).name for name in ("pivoted", "loud"))
    answer = forward(access, f"{ran}/third.csv:4")
    assert places(ran, answer.groups)[:2] == [f"pivoted/{pivoted}#1", f"loud/{loud}:3"]
    assert answer.exact
    texts = [json.loads(item.text or "") for one in answer.groups for item in one.items]
    # What `collect` gave is in no file.
    unknown = {"city": "Rome", "loud": {"$unknown": True}}
    assert texts == [{"city": "Rome", "a": 3}, {"city": "Rome", "loud": "a!"}, unknown]
    assert "values are unknown, for they can't be computed anew: loud" in answer.warnings
    # Of two rows that are equal in all but what is unknown neither is named alone.
    answer = forward(access, f"{ran}/third.csv:2")
    assert places(ran, answer.groups)[:3] == [
        f"pivoted/{pivoted}#0", f"loud/{loud}:1", f"loud/{loud}:2"
    ]  # fmt: skip
    texts = [json.loads(item.text or "") for one in answer.groups[:2] for item in one.items]
    assert texts[0] == {"city": "Oslo", "a": 1, "b": 2}
    assert [text["loud"] for text in texts[1:]] == ["a!", "b!"]
    assert not answer.exact
    assert "equal in all that can be computed anew" in answer.reasons[0]


def test_by_condition(ran: Path, access: StoredAccess) -> None:
    question = TraceQuery(Direction.BACKWARD, (str(ran / "out"),))
    answer = access.ask(replace(question, where="total > 4"))
    assert (answer.start[0].count, len(answer.groups[0].items)) == (2, 3)
    assert (answer.exact, answer.groups[0].count) == (True, 3)
    with pytest.raises(RowError, match="fulfils"):
        access.ask(replace(question, where="total > 400"))
    with pytest.raises(RefusedError, match="nonsense"):
        access.ask(replace(question, where="nonsense > 4"))
    with pytest.raises(NotFoundError, match="no DataFrame's output"):
        access.ask(replace(TraceQuery(Direction.BACKWARD, ("elsewhere",)), where="true"))


@pytest.mark.parametrize("name", ["csv", "parquet", "arrow"])
def test_exported(name: str, ran: Path, access: StoredAccess, tmp_path: Path) -> None:
    question = TraceQuery(Direction.BACKWARD, (f"{file_of(ran, 'out')}#1",))
    file = tmp_path / "rows"
    told = access.export(question, name, lambda: file.open("wb"), ExportOptions(in_between=True))
    if name == "csv":
        with file.open(newline="") as stream:
            rows: list[Any] = list(csv.DictReader(stream))
    else:
        table = (
            pq.read_table(file)
            if name == "parquet"
            else pa.ipc.open_stream(file.read_bytes()).read_all()
        )
        assert table.schema.metadata[b"lineage.exact"] == b"true"
        rows = table.to_pylist()
    shown = [(row["role"], row["name"], Path(row["location"]).name) for row in rows]
    read = [("found", "csv", "in.csv:2"), ("found", "csv", "in.csv:5")]
    assert shown[:2] == read
    assert [row["role"] for row in rows[2:]] == ["start"]
    assert (told.found, told.exact, told.format) == (2, True, name)


def test_exports_of_derivations_are_refused(
    ran: Path, access: StoredAccess, tmp_path: Path
) -> None:
    question = TraceQuery(Direction.BACKWARD, (f"{ran / 'out'}#city=Oslo",))
    with pytest.raises(ExportError, match="give one of csv, arrow, parquet"):
        access.export(question, "prov", lambda: (tmp_path / "rows").open("wb"), ExportOptions())


def test_by_values(ran: Path, access: StoredAccess) -> None:
    out = str(ran / "out")
    answer = back(access, f"{out}#city=Oslo,total=5.0")
    assert (places(ran, answer.groups), answer.exact) == (["in.csv:2", "in.csv:5"], True)
    assert answer.start[0].count == 1
    # A node will do, a name in other letters, and what the column's type makes of the text.
    assert places(ran, back(access, "0#CITY=Rome,total=2.50e0").groups) == ["in.csv:3"]
    injected = "Oslo' OR '1'='1"
    for value, said in (
        ("city=", "no row of the output has these values"),
        (f'city="{injected}"', "no row of the output has these values"),
        ("total=1 OR true", "is no value of total, which is double"),
        ("town=Oslo", "there is no column 'town'; there are city, total"),
    ):
        with pytest.raises(RowError, match=said):
            back(access, f"{out}#{value}")
    with pytest.raises(NotFoundError, match="no such file"):
        back(access, f"{ran}/elsewhere#city=Oslo")


@pytest.mark.long
def test_forward_by_values(ran: Path, access: StoredAccess) -> None:
    answer = forward(access, f"{ran}/in.csv#city=Oslo")
    assert places(ran, answer.start) == ["in.csv:2", "in.csv:5"]
    found = [(group.node, group.count) for group in answer.groups]
    # Oslo's total; of the rows above 2 one; both parts; both that were trimmed.
    assert found == [("0", 1), ("1", 1), ("2", 2), ("4", 2)]
    with pytest.raises(RowError, match="no row of the source has these values"):
        forward(access, f"{ran}/in.csv#city=Bonn")


def test_ends_and_steps(ran: Path, access: StoredAccess) -> None:
    answer = back(access, str(ran / "in.csv") + ":2")
    assert not answer.groups
    assert "nothing lies before it" in answer.warnings[0]
    answer = forward(access, f"{file_of(ran, 'out')}#1")
    assert "nothing lies after it" in answer.warnings[0]
    row = TraceQuery(Direction.BACKWARD, (f"{file_of(ran, 'out')}#1",))
    whole = access.ask(row)
    assert whole.groups
    # The sources are next to the output.
    assert access.ask(replace(row, steps=1)).groups == whole.groups
    assert access.ask(replace(row, until=whole.groups[0].node)).groups == whole.groups
    with pytest.raises(TraceError, match="does not lie before"):
        access.ask(replace(row, until=whole.start[0].node))
    with pytest.raises(RowError, match="has no row 9"):
        back(access, f"{file_of(ran, 'out')}#9")


def test_rows_that_the_program_made(ran: Path, access: StoredAccess) -> None:
    answer = back(access, f"{file_of(ran, 'counted')}#0")
    read, made = answer.groups
    assert (places(ran, (read,)), answer.exact) == (["other.txt:2"], True)
    assert [item.text for item in made.items] == ['{"n": 2, "value": "b"}']


def test_what_has_no_lineage_says_so(ran: Path, access: StoredAccess) -> None:
    with pytest.raises(RecipeRowError, match="it has no lineage"):
        back(access, f"{file_of(ran, 'joined')}#0")
    answer = forward(access, str(ran / "other.txt") + ":1")
    assert not answer.exact
    assert "is not known" in answer.reasons[0]


@pytest.fixture
def served(ran: Path, access: StoredAccess) -> Iterator[httpx.Client]:
    """Asks a server in this process, which uses the Spark that runs in it."""
    url = f"sqlite:///{ran / STORE}"
    with (
        serving(url, api_roots=str(ran), spark_master="local[1]", api_query_s=500) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):
        yield client


def asked(client: httpx.Client, node: str, values: dict[str, str | None], **more: Any) -> Any:
    listed = [{"column": column, "value": value} for column, value in values.items()]
    body = {"direction": "backward", "start": {"node": node, "values": listed}, **more}
    return client.post("/v1/applications/latest/traces", json=body)


def got(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def test_over_http(ran: Path, served: httpx.Client) -> None:
    columns = got(served.get("/v1/applications/latest/nodes/0/columns"))
    assert columns["columns"] == [
        {"name": "city", "type": "string"}, {"name": "total", "type": "double"}
    ]  # fmt: skip
    assert columns["traced"]
    made = got(asked(served, "0", {"city": "Oslo", "total": "5"}))
    (group,) = made["groups"]
    assert [item["location"] for item in group["items"]] == [f"{ran}/in.csv:2", f"{ran}/in.csv:5"]
    for part in ({"steps": 1}, {"until": group["node"]}):
        assert got(asked(served, "0", {"city": "Oslo", "total": "5"}, **part))["groups"] == [group]
    assert group["items"][0]["text"] == '{"city":"Oslo","amount":1.5}'
    assert (made["exact"], made["computed"], made["count"]) == (True, True, 2)
    assert made["request"]["start"]["places"] == ["0#city=Oslo,total=5"]
    # Kept: the very same answer, its pages, and files of it.
    again = f"/v1/traces/{made['trace']}"
    assert got(served.get(again)) == made
    first = got(served.get(f"{again}/nodes/0.0/items", params={"limit": 1}))
    second = got(
        served.get(f"{again}/nodes/0.0/items", params={"limit": 1, "cursor": first["next"]})
    )
    assert (first["items"] + second["items"], second["next"]) == (group["items"], None)
    got(served.get(f"{again}/nodes/0.0/items", params={"cursor": "9"}), 422)
    lines = served.get(f"{again}/items.ndjson").text.splitlines()
    assert [json.loads(line) for line in lines] == [
        {"node": "0.0", **one} for one in group["items"]
    ]
    table = csv.DictReader(io.StringIO(served.get(f"{again}/export").text, newline=""))
    assert [row["location"] for row in table] == [item["location"] for item in group["items"]]
    got(served.get(f"{again}/export", params={"format": "prov"}), 422)
    compared = got(
        served.post(
            "/v1/applications/latest/diff",
            json={"left": made["request"]} | {"right": made["request"]},
        ),
        422,
    )
    assert "not compared" in compared["detail"]
    # What the command line asks of a server: places as people type them.
    question = {"direction": "backward", "places": [f"{file_of(ran, 'out')}#1"]}
    told = got(served.post("/v1/answers", json=question))
    assert [item["location"] for item in told["sources"][0]["items"]] == [
        item["location"] for item in group["items"]
    ]
    file = served.post("/v1/answers/file", json=question | {"format": "csv"}).text
    first, _, rest = file.partition("\n")
    assert (json.loads(first)["found"], json.loads(first)["bytes"]) == (2, len(rest))
    assert rest == served.get(f"{again}/export").text


def test_by_condition_over_http(ran: Path, access: StoredAccess, served: httpx.Client) -> None:
    question = TraceQuery(Direction.BACKWARD, (str(ran / "out"),), where="total > 4")
    with ServedAccess(str(served.base_url)) as over_http:
        assert over_http.ask(question) == access.ask(question)
        table = io.BytesIO()
        told = over_http.export(question, "csv", lambda: nullcontext(table), ExportOptions())
        assert told.found == 3
        local = io.BytesIO()
        assert access.export(question, "csv", lambda: nullcontext(local), ExportOptions()) == told
        assert table.getvalue() == local.getvalue()
        for where, why in (
            ("java_method('java.lang.System', 'exit', 1) = 1", "is not taken here"),
            ("total > (SELECT 1)", "is not taken here"),
            ("cities = 'Oslo'", "no column 'cities'"),
            ("total > 400", "no row of the output fulfils"),
        ):
            with pytest.raises(ServerError, match=why):
                over_http.ask(replace(question, where=where))
        with pytest.raises(ServerError, match="traced back"):
            over_http.ask(replace(question, direction=Direction.FORWARD))
    # Nothing but what was understood comes to Spark, whoever hands it on.
    traces = RecipeTraces(access.store, RowReader(), read_settings(spark_master="local[1]"))
    place = RecipePlace(access.find("latest"), ("0",), "out")
    with pytest.raises(ConditionError):
        traces.trace_rows(replace(question, where="rand() < 2"), place, rows=True)
    with pytest.raises(ProblemError, match="text of rows"):
        traces.trace_rows(question, place, rows=False)
    traces.close()


def test_what_is_refused_over_http(served: httpx.Client) -> None:
    assert "no value of total" in got(asked(served, "0", {"total": "1 OR true"}), 422)["detail"]
    assert "no column" in got(asked(served, "0", {"town": "Oslo"}), 422)["detail"]
    other = asked(served, "0", {"city": "Oslo"}, until="0")
    assert "does not lie before" in got(other, 422)["detail"]
    got(asked(served, "99", {"city": "Oslo"}), 404)
    start = {"node": "0", "contains": "Oslo", "values": [{"column": "city", "value": None}]}
    both = {"direction": "backward", "start": start}
    got(served.post("/v1/applications/latest/traces", json=both), 422)


def test_rows_over_http_are_for_who_may_read_them(
    ran: Path, access: StoredAccess, tmp_path: Path
) -> None:
    secrets, tokens = readers(tmp_path)
    given = {"api_roots": str(ran), "spark_master": "local[1]", "api_tokens": tokens}
    with (
        serving(f"sqlite:///{ran / STORE}", api_query_s=500, **given) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):

        def by(name: str) -> dict[str, str]:
            return {"Authorization": f"Bearer {secrets[name]}"}

        place = f"{file_of(ran, 'out')}#1"
        question = {"direction": "backward", "start": {"places": [place]}}
        path = "/v1/applications/latest/traces"
        made = got(client.post(path, json=question, headers=by("looks")))
        (group,) = made["groups"]
        assert [item["text"] for item in group["items"]] == [None, None]
        assert group["items"][0]["location"] == f"{ran}/in.csv:2"
        # What is kept is the same for both, and each sees what they may.
        again = f"/v1/traces/{made['trace']}"
        (group,) = got(client.get(again, headers=by("reads")))["groups"]
        assert group["items"][0]["text"] == '{"city":"Oslo","amount":1.5}'
        for end in ("/nodes/0.0/items", "/items.ndjson", "/export"):
            assert "Oslo" in client.get(again + end, headers=by("reads")).text
            assert "Oslo" not in client.get(again + end, headers=by("looks")).text
        # To ask by values is to read them, also by the id of a trace that somebody made up.
        valued = {"direction": "backward", "start": {"places": ["0#city=Oslo"]}}
        assert (
            "text of rows"
            in got(client.post(path, json=valued, headers=by("looks")), 403)["detail"]
        )
        made_up = trace_ids.pack(made["app"], TraceRequest.model_validate(valued))
        got(client.get(f"/v1/traces/{made_up}", headers=by("looks")), 403)
        got(client.get(f"/v1/traces/{made_up}", headers=by("reads")))
        got(client.get(f"/v1/traces/{made_up}", headers=by("looks")), 403)
        fulfil = {"direction": "backward", "places": [str(ran / "out")], "where": "total > 4"}
        for route in ("/v1/answers", "/v1/answers/file"):
            got(client.post(route, json=fulfil, headers=by("looks")), 403)
            assert client.post(route, json=fulfil, headers=by("reads")).status_code == 200


def test_files_outside_of_the_roots_are_not_traced(
    ran: Path, access: StoredAccess, tmp_path: Path
) -> None:
    url = f"sqlite:///{ran / STORE}"
    with (
        serving(url, api_roots=str(tmp_path), spark_master="local[1]") as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):
        assert "not read by this server" in got(asked(client, "0", {"city": "Oslo"}), 422)["detail"]
    with serving(url, api_roots=str(ran)) as address, httpx.Client(base_url=address) as client:
        told = got(asked(client, "0", {"city": "Oslo"}), 422)["detail"]
        assert "LINEAGE_SPARK_MASTER is not set" in told
        assert "node 0" in told


def test_a_query_over_its_time_is_cancelled(access: StoredAccess) -> None:
    spark = SparkSessionHolder(read_settings(spark_master="local[1]", api_query_s=1))
    with pytest.raises(ProblemError) as refused:
        spark.run(lambda session: session.range(10**15).selectExpr("sum(id % 7)").collect())
    assert refused.value.status == 504
    with pytest.raises(RuntimeError, match="tried to end the process"):
        spark.run(lambda _: sys.exit())
    # It waits for the query's thread, which would run for days.
    spark.close()


def test_a_recipe_that_does_more_than_compute_is_refused(ran: Path, access: StoredAccess) -> None:
    graph = access.store.graph(access.find("latest"))
    text = graph.recipe("0")
    assert text is not None
    recipe = Recipe.from_json(text)
    check_recipe_allowed(recipe, RowReader())
    reach = Call("reflect", (Literal("java.lang.Runtime", "string"),))
    source = recipe.sources[0]
    aggregate = next(one for one in recipe.plan if isinstance(one, Aggregate))
    place = recipe.plan.index(aggregate)
    for wrong in (
        replace(aggregate, keys=(reach,)),
        replace(aggregate, keys=(Call("f(x) FROM y --", ()),)),
        replace(aggregate, keys=(Literal("1) OR (1=1", "int"),)),
        replace(aggregate, keys=(Call("cast", (), "int) AS a, concat(c1, c2"),)),
    ):
        plan = (*recipe.plan[:place], wrong, *recipe.plan[place + 1 :])
        with pytest.raises(RefusedError, match="the recipe"):
            check_recipe_allowed(replace(recipe, plan=plan), RowReader())
    several = replace(source, files=(replace(source.files[0], path=f"{ran}/{{in,../out}}.csv"),))
    class_of = replace(source, options={"fs.file.impl": "Evil"})
    for one in (several, class_of):
        with pytest.raises(RefusedError):
            check_recipe_allowed(replace(recipe, sources=(one,)), RowReader())


@pytest.mark.long
def test_from_the_command_line(ran: Path) -> None:
    place = f"{file_of(ran, 'out')}#0"
    told = json.loads(lineage(ran, "back", place, "--json").stdout)
    assert [one["items"][0]["location"] for one in told["sources"]] == [f"{ran}/in.csv:6"]
    shown = run_program(ran, [*CLI, "back", "out", "--where", "city = 'Rome'"])
    assert shown.returncode == 0, shown.stderr
    # What Spark says of itself is not shown.
    assert [line[:31] for line in shown.stderr.splitlines()] == ["lineage: the lineage of local-1"]
    assert "in.csv:3" in shown.stdout


def test_a_source_that_was_written_since(ran: Path, access: StoredAccess) -> None:
    source = ran / "in.csv"
    before = source.read_text()
    state = source.stat()
    source.write_text(before + "Bonn,1\n")
    try:
        with pytest.raises(ChangedSourceError, match=r"in\.csv was written since"):
            back(access, f"{file_of(ran, 'out')}#1")
    finally:
        source.write_text(before)
        os.utime(source, ns=(state.st_atime_ns, state.st_mtime_ns))
