"""DataFrame work under ``lineage run`` and a LineageContext: every action is noted, once, by a recipe."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from lineage_core.contract.message import Unknown
from lineage_core.recipe.document import Recipe
from lineage_emitter import LineageContext
from lineage_emitter.dataframes import plans
from lineage_emitter.errors import CaptureFailedError
from lineage_query.recipe_rows import RecipeRowError
from lineage_store.url import open_store
from tests.support.job_runs import (
    STORE,
    applications,
    graph,
    judged,
    lineage,
    run_captured,
    run_plain,
    traced_items,
    verify,
    write_job,
)
from tests.support.versions import IN_35

pytestmark = pytest.mark.e2e

Capture = Callable[..., LineageContext]
BEGIN = """
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
"""
GIVES = ("toPandas",) if IN_35 else ("toPandas", "toArrow")
JOB = (
    BEGIN
    + """
lines = spark.read.text("in.txt")
print(lines.count())
lines.write.parquet("out")
lines.filter("value > 'a'").write.mode("append").parquet("out")
lines.write.format("csv").option("header", True).save("with header")
rows = spark.read.parquet("out")
print(sorted(map(tuple, rows.collect())), len(rows.take(2)), rows.first() is None, rows.isEmpty())
print(GIVEN, len(rows.tail(1)), len(rows.head(2)))
rows.orderBy("value").show(1)
print(len(list(rows.toLocalIterator())))
rows.foreach(lambda row: None)
rows.foreachPartition(lambda rows: None)
rows.createOrReplaceTempView("seen")
rows.write.saveAsTable("t")
rows.limit(1).write.insertInto("t")
spark.sql("INSERT INTO t SELECT value FROM seen LIMIT 1")
spark.sql("CREATE TABLE u USING json AS SELECT upper(value) AS value FROM t")
spark.sql("SHOW TABLES"), spark.sql("SET spark.sql.shuffle.partitions=3")
spark.sql("INSERT OVERWRITE DIRECTORY 'exported' USING csv SELECT * FROM u")
rows.writeTo("w").using("orc").create()
rows.groupBy("value").count().write.partitionBy("value").json("parts")
""".replace("GIVEN", ", ".join(f"len(rows.{name}())" for name in GIVES))
)
WRITTEN = ("out", "with header", "exported", "parts")


def recipes(folder: Path, app: str) -> dict[str, Recipe]:
    """By node."""
    with open_store(f"sqlite:///{folder / STORE}") as store:
        graph = store.graph(app)
        found = {node.node: graph.recipe(node.node) for node in graph.nodes()}
    return {node: Recipe.from_json(text) for node, text in found.items() if text is not None}


def prepared(folder: Path, source: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "in.txt").write_text("a\nb\nc\n")
    write_job(folder, source)
    return folder


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job, run under ``lineage run``."""
    folder = prepared(tmp_path_factory.mktemp("frames"), JOB)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    (folder / "stdout").write_text(done.stdout)
    return folder


@pytest.mark.long
def test_the_program_does_what_it_does_alone(ran: Path, tmp_path: Path) -> None:
    plain = run_plain(prepared(tmp_path, JOB), "job.py")
    assert plain.returncode == 0, plain.stderr
    assert (ran / "stdout").read_text() == plain.stdout


@pytest.mark.long
def test_every_action_is_noted_once(ran: Path) -> None:
    verdict = verify(ran)
    assert verdict["complete"], verdict["reasons"]
    shown = graph(ran)
    outputs = [node for node in shown["nodes"] if node["kind"] == "frame"]
    assert [node["op"].rpartition(".")[2] for node in outputs] == [
        *("count", "parquet", "parquet", "save", "collect", "take", "first", "isEmpty"),
        *(*GIVES, "tail", "head", "show", "toLocalIterator", "foreach"),
        *("foreachPartition", "saveAsTable", "insertInto", "sql", "sql", "sql"),
        *("create", "json"),
    ]
    assert verdict["recipes"] == {"expected": len(outputs), "received": len(outputs)}
    sources = {node["node"] for node in shown["nodes"] if node["kind"] == "frame-source"}
    reads: dict[str, list[str]] = {output["node"]: [] for output in outputs}
    for link in shown["links"]:
        assert link["src"] in sources
        reads[link["dest"]].append(link["src"])
    assert all(len(reads[output["node"]]) == 1 for output in outputs)
    # in.txt, out, t as it was twice, u and nothing else: equal sources are one node.
    assert len(sources) == 4
    lines = (ran / "job.py").read_text().splitlines()
    for output in outputs:
        name, _, number = output["call_site"].partition(":")
        assert name == "job.py"
        assert output["op"].rpartition(".")[2] in lines[int(number) - 1]
    assert "recipe" in lineage(ran, "graph").stdout
    assert f"{len(outputs)} of {len(outputs)}" in lineage(ran, "verify").stdout
    assert applications(ran)[0]["recipes"] == len(outputs)


@pytest.mark.long
def test_recipes_say_what_was_written(ran: Path) -> None:
    app = applications(ran)[0]["app"]
    outputs = [recipe.output for recipe in recipes(ran, app).values()]
    written = [one for one in outputs if one.kind != "driver"]
    by_path: dict[str, list[str]] = {}
    for output in written:
        assert output.files, output
        for file in output.files:
            path = Path(file.path.removeprefix("file:"))
            state = path.stat()
            assert (file.size, file.mtime) == (state.st_size, state.st_mtime_ns // 1_000_000)
            by_path.setdefault(str(output.path), []).append(file.path)
    for paths in by_path.values():
        # Two writes to one folder have no file in common, and leave none out.
        assert len(paths) == len(set(paths))
    for folder in WRITTEN:
        there = {f"file:{p}" for p in (ran / folder).rglob("part-*") if not p.name.startswith(".")}
        assert set(by_path[f"file:{ran / folder}"]) == there
    assert [(one.format, one.kind) for one in written] == [
        *([("parquet", "files")] * 2),
        ("csv", "files"),
        *([("parquet", "table")] * 3),
        ("json", "table"),
        ("csv", "files"),
        ("orc", "table"),
        ("json", "files"),
    ]
    (header,) = [one for one in written if one.path == f"file:{ran / 'with header'}"]
    assert header.options == {"header": "true"}
    limits = {one.action.rpartition(".")[2]: one.limit for one in outputs if one.limit is not None}
    assert limits == {"take": 2, "first": 1, "isEmpty": 1, "tail": 1, "head": 2, "show": 1}


def test_rows_of_frames_are_never_answered_by_looking_up(ran: Path) -> None:
    app = applications(ran)[0]["app"]
    part = next((ran / "out").glob("*.parquet"))
    csv = next((ran / "with header").glob("*.csv"))
    for place, forward in (
        (f"{part}#0", False),
        (f"{csv}:2", False),
        (f"{ran / 'in.txt'}:1", True),
        ("collect#0#0", False),
    ):
        with pytest.raises(
            RecipeRowError, match="traced by a query over the recorded recipe"
        ) as refused:
            traced_items(ran, app, place, forward=forward)
        assert (refused.value.app, refused.value.place) == (app, place)
        assert set(refused.value.nodes) <= {node["node"] for node in graph(ran)["nodes"]}


# -- what can't be noted ---------------------------------------------------------------------------


def test_what_has_no_recipe_is_named(tmp_path: Path) -> None:
    source = (
        BEGIN
        + """
import datetime
lines = spark.read.text("in.txt")
print(lines.stat.freqItems(["value"]).columns)  # freqItems
try:
    lines.selectExpr("raise_error(value)").collect()  # failing
except Exception as problem:
    print(type(problem).__name__)
many = [(datetime.timedelta(n),) for n in range(1001)]
spark.createDataFrame(many, "took interval day to second").collect()  # many rows
spark.range(3).write.saveAsTable("t")
spark.sql("TRUNCATE TABLE t")  # truncated
print(lines.count())
"""
    )
    done = run_captured(prepared(tmp_path, source), "job.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "3"
    verdict = verify(tmp_path)
    lines = (tmp_path / "job.py").read_text().splitlines()
    for line, what in (
        ("freqItems", "DataFrame.freqItems"),
        ("failing", "the action failed: "),
        ("many rows", "its rows can't be traced through"),
        ("truncated", "TruncateTableCommand"),
    ):
        (number,) = (n for n, text in enumerate(lines, 1) if text.endswith(f"# {line}"))
        (reason,) = [one for one in verdict["reasons"] if f"at job.py:{number}:" in one]
        assert what in reason
    assert len(verdict["reasons"]) == 4
    # The count, the table, the rows that no trace can go through, and what failed.
    assert verdict["recipes"] == {"expected": 4, "received": 4}


def test_a_driver_that_is_killed_leaves_what_was_noted(tmp_path: Path) -> None:
    source = (
        BEGIN
        + """
import glob, os, signal, time

print(spark.read.text("in.txt").count(), flush=True)
until = time.monotonic() + 120
while not any('"recipe"' in open(name).read() for name in glob.glob(".lineage/spool/*/*.jsonl")):
    assert time.monotonic() < until
    time.sleep(0.02)
os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    done = run_captured(prepared(tmp_path, source), "job.py")
    assert (done.returncode, done.stdout) == (128 + signal.SIGKILL, "3\n")
    assert lineage(tmp_path, "link").returncode == 0
    app = applications(tmp_path)[0]["app"]
    verdict = verify(tmp_path, app)
    assert not verdict["complete"]
    assert verdict["recipes"] == {"expected": 1, "received": 1}
    assert [recipe.output.action for recipe in recipes(tmp_path, app).values()] == [
        "DataFrame.count"
    ]


# -- in the program --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark(spark_context: SparkContext) -> SparkSession:
    return SparkSession(spark_context)


def test_a_lineage_context_notes_frames_beside_rdds(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    with capture() as lc:
        assert spark.range(10).filter("id > 6").count() == 3
        assert lc.parallelize(range(5), 2).map(str).collect() == list("01234")
        assert [row.id for row in spark.range(2).collect()] == [0, 1]
        app = lc.app
    spark.range(3).count()  # after the end nobody listens
    verdict = judged(tmp_path, app)
    assert verdict.complete, verdict.reasons
    assert (verdict.recipes_expected, verdict.recipes_received, verdict.flows) == (2, 2, 2)
    actions = [recipe.output.action for recipe in recipes(tmp_path, app).values()]
    assert actions == ["DataFrame.count", "DataFrame.collect"]


def test_noting_never_breaks_the_program(
    capture: Capture, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(frame: DataFrame, *more: object, **named: object) -> Recipe:
        raise RuntimeError("no plan today")

    monkeypatch.setattr(plans, "recipe_of", broken)
    with capture() as lc:
        assert spark.range(3).count() == 3
        app = lc.app
    verdict = judged(tmp_path, app)
    assert any(
        "could not be recorded: RuntimeError: no plan today" in one for one in verdict.reasons
    )
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        (unknown,) = store.messages(app, "unknown")
    assert isinstance(unknown, Unknown)
    assert unknown.what == "DataFrame.count"
    assert unknown.call_site.startswith(os.path.basename(__file__))


def test_capture_that_fails_may_fail_the_program(
    capture: Capture, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lc = capture(on_error="fail")
    assert lc.session is not None

    def refused(node: str, recipe: str) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(lc.session.api, "recipe", refused)
    # Held: else the very action that is noted may already find that it failed.
    with lc.session.frames.pause():
        assert spark.range(3).count() == 3
    lc.session.frames.wait_until_recorded()
    with pytest.raises(CaptureFailedError, match="no space left"):
        spark.range(3).count()
    lc.close()


def test_settings_are_those_of_the_action(
    capture: Capture, spark: SparkSession, tmp_path: Path
) -> None:
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    assert before is not None
    try:
        with capture() as lc:
            assert lc.session is not None
            with lc.session.frames.pause():
                spark.conf.set(zone, "Asia/Tokyo")
                spark.range(1).count()
                spark.conf.set(zone, "America/Lima")
            app = lc.app
    finally:
        spark.conf.set(zone, before)
    (recipe,) = recipes(tmp_path, app).values()
    assert recipe.settings[zone] == "Asia/Tokyo"
    # Those that nobody has set are noted, too: another Spark may have other defaults.
    had = {name for name in plans.SETTINGS if spark.conf.get(name, None) is not None}
    assert set(recipe.settings) >= had
    assert recipe.settings["spark.sql.caseSensitive"] == "false"
