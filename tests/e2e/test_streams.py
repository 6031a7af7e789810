"""Streaming queries under capture: a recipe a micro-batch, traces of rows that they wrote, and what is named instead."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest

from lineage_core.errors import LineageError
from lineage_core.recipe.document import Output, Recipe
from lineage_core.tracing.trace_result import Direction
from lineage_emitter.dataframes.streams import OTHER_RUN
from lineage_store.url import open_store
from tests.support.api_server import serving
from tests.support.job_runs import (
    STORE,
    ask,
    graph,
    run_captured,
    run_plain,
    verify,
    write_job,
)

pytestmark = pytest.mark.e2e

BEGIN = """
import os, signal
from pyspark.sql import SparkSession, functions as F

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
# Logs hold what earlier ones hold in every second batch.
builder = builder.config("spark.sql.streaming.fileSink.log.compactInterval", "2")
builder = builder.config("spark.sql.streaming.fileSource.log.compactInterval", "2")
spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
read = spark.readStream.schema("city string, amount double").option("header", True)
orders = read.option("maxFilesPerTrigger", 1).csv("in")


def run(writer, name):
    writer = writer.option("checkpointLocation", f"checkpoints/{name}")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query
"""
TRACED = (
    BEGIN
    + """
large = orders.where("amount > 2").selectExpr("upper(city) AS city", "amount").coalesce(1)
print(run(large.writeStream.format("parquet").option("path", "large"), "large").id)
places = spark.read.option("header", True).schema("city string, country string").csv("places.csv")
joined = orders.join(places, "city").select("country", "amount", F.current_timestamp().alias("at"))
lines = joined.writeStream.format("csv").option("header", True)
run(lines.partitionBy("country").option("path", "joined"), "joined")


def each(frame, number):
    frame.where("amount > 3").coalesce(1).write.mode("append").json("each")
    frame.groupBy("city").sum("amount").coalesce(1).write.mode("append").json("sums")


run(orders.writeStream.foreachBatch(each), "each")
"""
)
"""All of it can be traced."""
NAMED = (
    BEGIN
    + """
import dataclasses, json
import lineage
from lineage_emitter.attaching import attach

running = orders.writeStream.format("json").option("path", "running")
running = running.option("checkpointLocation", "checkpoints/running").start()
running.processAllAvailable()
attach(spark, store="sqlite:///.lineage/lineage.db")
counts = orders.dropDuplicates(["city", "amount"]).groupBy("city").count()
counts = counts.writeStream.format("memory").queryName("counts")
run(counts.outputMode("complete"), "counts")
run(orders.limit(2).writeStream.format("json").option("path", "first"), "first")
rates = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
run(rates.writeStream.format("json").option("path", "rates"), "rates")


def save(frame, number):
    frame._jdf.write().mode("append").json("unseen")


run(orders.writeStream.foreachBatch(save), "unseen")
try:
    bad = orders.select(F.udf(lambda _: 1 / 0)("city").alias("city"))
    run(bad.writeStream.format("json").option("path", "bad"), "bad")
except Exception as problem:
    print(type(problem).__name__)
with open("d.csv", "w") as file:
    file.write("city,amount\\nLima,7.0\\n")
os.rename("d.csv", "in/d.csv")
running.processAllAvailable()


def rolled():
    # Until the batch is known of.
    while True:
        runs = {run.query: run for run in lineage.verify().verdict.streams}
        if runs[running.id].committed == 3:
            return runs[running.id]


print(json.dumps(dataclasses.asdict(rolled())))
spark.stop()
"""
)
"""What is named in the verdict, of an application that begins while a query runs."""
KILLED = (
    BEGIN
    + """
run(orders.coalesce(1).writeStream.format("json").option("path", "out"), "killed")
if not os.path.exists("in/d.csv"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
)
KILLED_STATE = (
    BEGIN
    + """
distinct = orders.dropDuplicates(["city"]).coalesce(1)
run(distinct.writeStream.format("json").option("path", "distinct"), "distinct")
others = read.option("maxFilesPerTrigger", 1).csv("in").selectExpr("city AS name", "amount AS much")
pairs = orders.join(others, F.expr("city = name")).coalesce(1)
run(pairs.writeStream.format("json").option("path", "pairs"), "pairs")
if not os.path.exists("in/d.csv"):
    os.kill(os.getpid(), signal.SIGKILL)
"""
)
RESTARTED = (
    BEGIN
    + """
large = 2 if os.path.exists("other") else 1
rows = orders.where(f"amount >= {large}").coalesce(1)
run(rows.writeStream.format("json").option("path", "out"), "rows")
others = read.option("maxFilesPerTrigger", 1).csv("in").selectExpr("city AS name", "amount AS much")
pairs = orders.join(others, F.expr("city = name")).coalesce(1)
run(pairs.writeStream.format("json").option("path", "pairs"), "pairs")


def save(frame, number):
    frame.coalesce(1).write.mode("overwrite").json(f"counts/{number}")


counts = orders.where(f"amount > {large - 2}").groupBy("city").count()
run(counts.writeStream.outputMode("update").foreachBatch(save), "counts")
"""
)
"""A program that runs again, the same or with another condition, and goes on from its checkpoints."""
TWO_INTO_ONE = (
    BEGIN
    + """
def write(folder):
    rows = read.option("maxFilesPerTrigger", 1).csv(folder).coalesce(1)
    writer = rows.writeStream.format("json").option("path", "out")
    return writer.option("checkpointLocation", f"checkpoints/{folder}")


os.mkdir("slow")
os.link("in/a.csv", "slow/a.csv")
slow = write("slow").start()
slow.processAllAvailable()
write("in").trigger(availableNow=True).start().awaitTermination()
os.link("in/b.csv", "slow/b.csv")
slow.processAllAvailable()
slow.stop()
"""
)
"""The sink takes a batch for written that has the number of one that the other query wrote."""
WINDOWS = (
    BEGIN
    + """
times = orders.withColumn("at", F.expr("timestamp_seconds(amount * 60)")).withWatermark("at", "1 minute")
for name, window in {"apart": F.window("at", "2 minutes"), "sliding": F.window("at", "4 minutes", "2 minutes")}.items():
    groups = times.groupBy(window, "city").count().selectExpr("city", "unix_seconds(window.end) / 60 AS end", "count")
    run(groups.coalesce(1).writeStream.format("json").option("path", name), name)
# What stands between keeps the name of the column, and not its times.
moved = times.withColumn("at", F.expr("at - INTERVAL 30 MINUTES")).groupBy("at", "city").count()
run(moved.coalesce(1).writeStream.format("json").option("path", "moved"), "moved")
"""
)
"""Groups of windows over files of ever later times."""
OVER_TIME = 8
"""Files, each of which has a row of a minute after the last of the one before, and one of the first minute."""
FILES = {
    "a.csv": "city,amount\nOslo,1.5\nRome,2.5\n",
    "b.csv": "city,amount\nRome,2.5\nOslo,3.5\nOslo,4.5\n",
    "c.csv": "city,amount\nRome,1.0\n",
}


def prepared(folder: Path, program: str) -> Path:
    (folder / "in").mkdir(parents=True)
    for number, (name, text) in enumerate(FILES.items()):
        (folder / "in" / name).write_text(text)
        # Streams take older files first.
        os.utime(folder / "in" / name, (1_700_000_000 + number,) * 2)
    (folder / "places.csv").write_text("city,country\nOslo,NO\nRome,IT\n")
    write_job(folder, program)
    return folder


def recipes(folder: Path) -> list[Recipe]:
    """Those of the last application, in the order of their nodes."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        read = store.graph(graph(folder)["app"])
        texts = [read.recipe(node.node) for node in read.nodes()]
    return [Recipe.from_json(text) for text in texts if text is not None]


def items(folder: Path, direction: Direction, place: str) -> tuple[list[str], bool]:
    """Where the items of an answer stand, below the folder, and whether it is exact."""
    answer = ask(folder, direction, place)
    found = [str(item.location) for group in answer.groups for item in group.items]
    return sorted(location.removeprefix(f"{folder}/") for location in found), answer.exact


def rows_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".json":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return pq.read_table(path).to_pylist()


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = prepared(tmp_path_factory.mktemp("streams"), TRACED)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    (folder / "query").write_text(done.stdout.split()[0])
    return folder


def test_all_batches_are_recorded(ran: Path) -> None:
    verdict = verify(ran)
    assert (verdict["complete"], verdict["answerable"]) == (True, True), verdict
    found = [recipe.batch for recipe in recipes(ran) if recipe.batch is not None]
    assert len(found) == len(recipes(ran)) == 4 * len(FILES)
    by_query: dict[str, list[int]] = {}
    for batch in found:
        by_query.setdefault(batch.query, []).append(batch.number)
    assert list(by_query.values()) == [[0, 1, 2], [0, 1, 2], [0, 0, 1, 1, 2, 2]]
    assert (ran / "query").read_text() in by_query
    progress = {run["query"]: (run["state"], run["complete_to"]) for run in verdict["streams"]}
    large, joined, each = by_query
    assert progress == {
        large: ("over", len(FILES) - 1),
        joined: ("over", len(FILES) - 1),
        each: ("over", None),
    }
    shown = [node for node in graph(ran)["nodes"] if node["kind"] == "frame"]
    assert shown[0]["description"].startswith(f"batch 0 of the streaming query {found[0].query}")


def test_a_batch_has_just_its_own_files(ran: Path) -> None:
    written = [file.path for recipe in recipes(ran) for file in recipe.output.files]
    assert len(written) == len(set(written))
    for recipe in recipes(ran):
        assert recipe.batch is not None
        (name,) = [Path(file.path).name for file in recipe.sources[0].files]
        assert name == list(FILES)[recipe.batch.number]


def test_a_plan_is_made_once_where_only_files_differ(ran: Path) -> None:
    plans: dict[str, set[str]] = {}
    for recipe in recipes(ran):
        text = replace(recipe, sources=(), output=Output(), batch=None).to_json()
        plans.setdefault(Path(str(recipe.output.path)).name, set()).add(text)
    # A plan that is made anew has other numbers for its columns. The file that one joins may change from batch to batch.
    assert {name: len(plans[name]) for name in ("large", "joined")} == {"large": 1, "joined": 3}


@pytest.mark.parametrize("folder", ["large", "each"])
def test_rows_go_back_to_the_rows_of_their_batch(ran: Path, folder: str) -> None:
    seen = set()
    for path in sorted((ran / folder).glob("part-*")):
        for number, row in enumerate(rows_of(path)):
            mark = f"#{number}" if path.suffix == ".parquet" else f":{number + 1}"
            (place,), exact = items(ran, Direction.BACKWARD, f"{path}{mark}")
            name, _, line = place.partition(":")
            city, amount = (ran / name).read_text().splitlines()[int(line) - 1].split(",")
            assert (row["city"].lower(), row["amount"], exact) == (
                city.lower(),
                float(amount),
                True,
            )
            seen.add(place)
    expected = {"in/a.csv:3", "in/b.csv:2", "in/b.csv:3", "in/b.csv:4"}
    assert seen == (expected if folder == "large" else {"in/b.csv:3", "in/b.csv:4"})


def test_a_static_side_is_traced_too(ran: Path) -> None:
    (path,) = [p for p in (ran / "joined").glob("country=NO/part-*") if "3.5" in p.read_text()]
    line = (
        path.read_text()
        .splitlines()
        .index(next(t for t in path.read_text().splitlines() if "3.5" in t))
        + 1
    )
    found, exact = items(ran, Direction.BACKWARD, f"{path}:{line}")
    assert (found, exact) == (["in/b.csv:3", "places.csv:2"], True)


def test_what_a_function_computes_is_traced_to_its_batch(ran: Path) -> None:
    for path in (ran / "sums").glob("part-*"):
        for number, row in enumerate(rows_of(path), start=1):
            if row == {"city": "Oslo", "sum(amount)": 8.0}:
                assert items(ran, Direction.BACKWARD, f"{path}:{number}") == (
                    ["in/b.csv:3", "in/b.csv:4"],
                    True,
                )
                return
    raise AssertionError("no such row")


def test_rows_go_forward_into_all_that_their_batch_wrote(ran: Path) -> None:
    found, exact = items(ran, Direction.FORWARD, f"{ran / 'in/b.csv'}:4")
    assert exact
    assert sorted(place.partition("/")[0] for place in found) == ["each", "joined", "large", "sums"]
    assert items(ran, Direction.FORWARD, f"{ran / 'in/c.csv'}:2")[0][0].startswith(
        "joined/country=IT"
    )


def test_rows_are_followed_over_http(ran: Path) -> None:
    given = {"api_roots": str(ran), "spark_master": "local[1]", "api_query_s": 500}
    with (
        serving(f"sqlite:///{ran / STORE}", **given) as address,
        httpx.Client(base_url=address, timeout=600) as client,
    ):
        text = client.get("/v1/follow", params={"place": f"{ran / 'in/b.csv'}:4"}).text
        nobody = client.get("/v1/follow", params={"place": f"{ran / 'x.csv'}:4", "wait_s": 0}).text
        asked = {"place": str(ran / "in"), "where": "city = 'Rome' AND amount > 2"}
        conditional = client.get("/v1/follow", params={**asked, "wait_s": 0}).text
        asked["where"] = "upper(city) = 'ROME'"
        refused = client.get("/v1/follow", params=asked)
    of_rows = [event for event in _events(conditional) if event["event"] == "row"]
    # Rome of two batches; `each` and `sums` are of what is over 3, and of all.
    counts = Counter(
        (Path(row["place"]).relative_to(ran).parts[0], row["batch"]) for row in of_rows
    )
    assert counts == {(name, batch): 1 for name in ("large", "joined", "sums") for batch in (0, 1)}
    (end,) = [event for event in _events(conditional) if event["event"] == "end"]
    assert (end["complete"], end["done"]) == (True, False)
    assert {reason.partition(" (")[0] for reason in end["open"].values()} == {
        "more such rows may come"
    }
    assert refused.status_code == HTTPStatus.UNPROCESSABLE_ENTITY, refused.text
    events = _events(text)
    assert [event["id"] for event in events] == [str(n + 1) for n in range(len(events))]
    rows = [event for event in events if event["event"] == "row"]
    folders = {Path(row["place"]).relative_to(ran).parts[0] for row in rows if row["place"]}
    assert folders == {"each", "joined", "large", "sums"}, events
    assert {row["batch"] for row in rows} == {1}
    (end,) = [event for event in events if event["event"] == "end"]
    assert (events[-1], end["complete"], end["time_up"]) == (end, True, False)
    assert "event: problem" in nobody
    assert "no streaming query that may read" in nobody


def _events(text: str) -> list[dict[str, Any]]:
    parts = [dict(_fields(part)) for part in text.strip().split("\n\n")]
    return [json.loads(part["data"]) | {"id": part["id"]} for part in parts if "data" in part]


def _fields(part: str) -> Iterator[tuple[str, str]]:
    for line in part.splitlines():
        name, _, value = line.partition(": ")
        yield name, value


@pytest.mark.long
def test_what_is_not_traced_is_named(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "named", NAMED)
    done = run_plain(folder, "job.py")
    assert done.returncode == 0, done.stderr
    problem, rolled = done.stdout.splitlines()
    assert problem == "StreamingQueryException"
    verdict = verify(folder)
    assert not verdict["complete"]
    running = json.loads(rolled)
    assert (running["state"], running["complete_to"]) == ("running", 3)
    streams = {run["query"]: run for run in verdict["streams"]}
    assert len(streams) == len(verdict["streams"]) == 6
    ended = streams[running["query"]]
    assert (ended["state"], ended["complete_to"]) == ("lost", 3)
    # Batches of a limit are traced.
    assert {run["complete_to"] for run in streams.values() if run is not ended} == {-1, 2, None}
    reasons = json.dumps(verdict)
    for expected in (
        "Aggregate: it may hold rows of earlier batches as its state",
        "RatePerMicroBatchStream: a stream of other than files",
        "a write to file:",
        "was running when capture ended: batches up to 3 recorded",
    ):
        assert expected in reasons, (expected, verdict["reasons"])
    kinds = {
        recipe.output.table or Path(recipe.output.path or "").name: recipe
        for recipe in recipes(folder)
    }
    assert list(kinds) == ["MemorySink", "first", "rates", "running"]
    # What such a batch read is known all the same.
    assert [Path(file.path).name for file in kinds["first"].sources[0].files] == ["c.csv"]
    assert kinds["rates"].sources[0].format == "RatePerMicroBatchStream"
    # Of the query that ran before, what it has committed since.
    (path,) = [path for path in (folder / "running").glob("part-*") if "7.0" in path.read_text()]
    assert items(folder, Direction.BACKWARD, f"{path}:1") == (["in/d.csv:2"], True)
    assert kinds["running"].batch is not None
    assert kinds["running"].batch.number == 3
    # A limit lets rows through that are of its batch.
    (path,) = [path for path in (folder / "first").glob("part-*") if "Oslo" in path.read_text()]
    line = path.read_text().splitlines().index('{"city":"Oslo","amount":1.5}') + 1
    assert items(folder, Direction.BACKWARD, f"{path}:{line}") == (["in/a.csv:2"], True)


def without_last_commit(folder: Path, query: str) -> None:
    """As if it had been killed between the commits of the sink and of the query."""
    for name in ("2", ".2.crc"):
        (folder / "checkpoints" / query / "commits" / name).unlink()


@pytest.mark.long
def test_a_batch_that_an_unknown_run_wrote_is_named(tmp_path: Path) -> None:
    """The sink leaves the batch alone when it runs again; the run before was not captured."""
    folder = prepared(tmp_path / "killed", KILLED)
    assert run_plain(folder, "job.py").returncode != 0
    without_last_commit(folder, "killed")
    query = json.loads((folder / "checkpoints/killed/metadata").read_text())["id"]
    (folder / "in/d.csv").write_text("city,amount\nLima,7.0\n")
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    again, new = recipes(folder)
    assert again.batch is not None
    assert new.batch is not None
    assert [(b.query, b.number) for b in (again.batch, new.batch)] == [(query, 2), (query, 3)]
    assert again.batch.run == new.batch.run
    # This run did not write the files, and does not know what did.
    assert again.opaque() == [f"Batch: {OTHER_RUN}"]
    assert [Path(file.path).name for file in again.sources[0].files] == ["c.csv"]
    (path,) = [Path(file.path.removeprefix("file:")) for file in again.output.files]
    assert path.read_text() == '{"city":"Rome","amount":1.0}\n'
    with pytest.raises(LineageError, match="earlier run"):
        items(folder, Direction.BACKWARD, f"{path}:1")
    (path,) = [Path(file.path.removeprefix("file:")) for file in new.output.files]
    assert items(folder, Direction.BACKWARD, f"{path}:1") == (["in/d.csv:2"], True)


@pytest.mark.long
@pytest.mark.parametrize("case", ["recorded", "not recorded", "of another program"])
def test_runs_of_one_plan_are_one_for_traces(tmp_path: Path, case: str) -> None:
    """A batch is run again, and state is gone on with, that an earlier run under capture has made."""
    folder = prepared(tmp_path / "restarted", RESTARTED)
    assert run_captured(folder, "job.py").returncode == 0
    for query in ("rows", "pairs"):
        without_last_commit(folder, query)
    for path in (folder / ".lineage/queries").glob("*.json"):
        noted = json.loads(path.read_text())
        assert (noted["first"], noted["last"]) == (0, 2)
        if case == "not recorded":
            path.write_text(json.dumps(noted | {"last": 1}))
    if case == "of another program":
        (folder / "other").touch()
    (folder / "in/d.csv").write_text("city,amount\nRome,9.0\nLima,7.0\n")
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    (rows,) = [
        recipe
        for recipe in recipes(folder)
        if recipe.batch and recipe.batch.number == 2 and recipe.output.path == f"file:{folder}/out"
    ]
    (path,) = [Path(file.path.removeprefix("file:")) for file in rows.output.files]
    if case == "of another program":
        assert rows.opaque() == [f"Batch: {OTHER_RUN}"]
    else:
        found, exact = items(folder, Direction.BACKWARD, f"{path}:1")
        assert (found, exact) == (["in/c.csv:2"], case == "recorded")
    # By the same plan in each case.
    (path,) = [path for path in (folder / "pairs").glob("part-*") if "9.0" in path.read_text()]
    place = next(
        f"{path}:{at + 1}"
        for at, row in enumerate(rows_of(path))
        if {1.0, 9.0} == {row["amount"], row["much"]}
    )
    found, exact = items(folder, Direction.BACKWARD, place)
    assert (found, exact) == (["in/c.csv:2", "in/d.csv:2"], case != "not recorded")
    (path,) = (folder / "counts/3").glob("part-*")
    place = next(f"{path}:{at}" for at, row in enumerate(rows_of(path), 1) if row["count"] == 4)
    if case == "of another program":
        with pytest.raises(LineageError, match="an earlier run of the query made"):
            items(folder, Direction.BACKWARD, place)
        return
    found, exact = items(folder, Direction.BACKWARD, place)
    rome = ["in/a.csv:3", "in/b.csv:2", "in/c.csv:2", "in/d.csv:2"]
    assert (found, exact) == (rome, case == "recorded")


@pytest.mark.long
def test_what_a_sink_has_of_another_query_is_of_that_one(tmp_path: Path) -> None:
    folder = prepared(tmp_path / "two", TWO_INTO_ONE)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    spared = [f"Batch: {OTHER_RUN}"]
    found = {
        (str(Path(recipe.sources[0].paths[0]).relative_to(f"file:{folder}"))): recipe.opaque()
        for recipe in recipes(folder)
    }
    assert found == {
        "slow/a.csv": [], "in/a.csv": spared, "in/b.csv": [], "in/c.csv": [], "slow/b.csv": spared
    }  # fmt: skip
    (path,) = [path for path in (folder / "out").glob("part-*") if "3.5" in path.read_text()]
    assert items(folder, Direction.BACKWARD, f"{path}:2") == (["in/b.csv:3"], True)


@pytest.mark.long
def test_rows_of_a_state_that_an_earlier_run_has_made(tmp_path: Path) -> None:
    """A deduplicated row is of its batch, whoever made the state; of a pair the other record came in by a plan that is not known."""
    folder = prepared(tmp_path / "state", KILLED_STATE)
    assert run_plain(folder, "job.py").returncode != 0
    for query in ("distinct", "pairs"):
        without_last_commit(folder, query)
    (folder / "in/d.csv").write_text("city,amount\nRome,9.0\nLima,7.0\n")
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    (path,) = [path for path in (folder / "distinct").glob("part-*") if "7.0" in path.read_text()]
    # Its key was in the state.
    assert "9.0" not in path.read_text()
    assert items(folder, Direction.BACKWARD, f"{path}:1") == (["in/d.csv:3"], True)
    (path,) = [path for path in (folder / "pairs").glob("part-*") if "7.0" in path.read_text()]
    with pytest.raises(LineageError, match="an earlier run of the query made"):
        items(folder, Direction.BACKWARD, f"{path}:1")


@pytest.mark.long
def test_windows_name_the_files_that_they_may_be_made_of(tmp_path: Path) -> None:
    """Of an older file just the batch that it came in, and those before its windows were given."""
    folder = prepared(tmp_path / "windows", WINDOWS)
    for name in FILES:
        (folder / "in" / name).unlink()
    minutes = [number * 3 for number in range(OVER_TIME)]
    for number, minute in enumerate(minutes):
        path = folder / f"in/{number}.csv"
        path.write_text(f"city,amount\nOslo,{minute}.5\nOslo,{minute + 1}.5\nRome,{number}.0\n")
        os.utime(path, (1_700_000_000 + number,) * 2)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    verdict = verify(folder)
    named: dict[str, list[int]] = {}
    for recipe in recipes(folder):
        of = named.setdefault(Path(str(recipe.output.path)).name, [])
        of.append(sum(len(source.files) for source in recipe.sources))
    assert verdict["complete"], verdict["reasons"]
    assert max(named["apart"]) <= 3, named
    assert max(named["sliding"]) <= 4, named
    assert max(named["apart"]) > 1, named
    assert (folder / "moved").exists()
    assert max(named["moved"], default=0) in {0, OVER_TIME}, named
    lines = {
        f"in/{path.name}:{at}": line.split(",")
        for path in (folder / "in").iterdir()
        for at, line in enumerate(path.read_text().splitlines()[1:], start=2)
    }
    checked = 0
    for name, length in {"apart": 2, "sliding": 4}.items():
        for path in (folder / name).glob("part-*"):
            for at, row in enumerate(rows_of(path), start=1):
                found, exact = items(folder, Direction.BACKWARD, f"{path}:{at}")
                within = {
                    place
                    for place, (city, minute) in lines.items()
                    if city == row["city"] and row["end"] - length <= float(minute) < row["end"]
                }
                # Rows that came late are in none.
                assert exact
                assert len(found) == row["count"]
                assert set(found) <= within
                assert set(found) == within or row["city"] == "Rome"
                checked += 1
    assert checked > OVER_TIME
