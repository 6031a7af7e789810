"""The smallest set of input rows that still fails a test, found by command and held against brute force."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage_dataframes.trace import allowed
from lineage_dataframes.trace.requested_recipes import requested_recipe
from lineage_query.rows.reader import RowReader
from lineage_store.url import index_folder, open_store
from tests.support.job_runs import STORE, answered, part_files, run_captured, write_job

pytestmark = pytest.mark.e2e

JOB = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
orders = spark.read.option("header", True).schema("city string, amount decimal(9, 2)").csv("orders.csv")
places = spark.read.option("header", True).schema("name string, land string").csv("places.csv")
rows = orders.join(F.broadcast(places), orders.city == places.name)
by_land = rows.groupBy("land").agg(F.sum("amount").alias("total"), F.count("*").alias("n"))
by_land = by_land.withColumn("counts", F.array("n").cast("array<double>"))
by_land.orderBy("land").coalesce(1).write.parquet("out")
"""
ORDERS = "city,amount\nOslo,4\nRome,2.5\nOslo,90\nLima,9\nBergen,60\nOslo,1\nBergen,55\n"
PLACES = "name,land\nOslo,NO\nBergen,NO\nRome,IT\nLima,PE\n"
TESTS = """
import os
import signal


def small(row):
    assert row["total"] < 100, row


def few(row):
    return row["n"] < 3


def interrupted(row, seen=[]):
    seen.append(row)
    if len(seen) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return row["n"] < 3


def unsteady(row, seen=[]):
    seen.append(row)
    return len(seen) % 2 == 0


def broken(row):
    raise RuntimeError("broken")
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sifted")
    (folder / "orders.csv").write_text(ORDERS)
    (folder / "places.csv").write_text(PLACES)
    write_job(folder, JOB)
    write_job(folder, TESTS, "checks.py")
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def session(spark_context: SparkContext) -> None:
    """Commands sift on the Spark that runs in this process."""
    SparkSession(spark_context).sql("select 1").collect()


def total(orders: Mapping[int, tuple[str, Decimal]], places: Mapping[int, tuple[str, str]]) -> Any:
    """What the job makes of rows for NO: the total and the number, or nothing."""
    amounts = [
        amount
        for city, amount in orders.values()
        for name, land in places.values()
        if (name, land) == (city, "NO")
    ]
    return (sum(amounts), len(amounts)) if amounts else None


def read(text: str, kind: Any) -> dict[int, tuple[str, Any]]:
    lines = text.splitlines()
    rows = {n: lines[n - 1].split(",") for n in range(2, len(lines) + 1)}
    return {n: (first, kind(second)) for n, (first, second) in rows.items()}


def fails(chosen: set[tuple[str, int]], test: str) -> bool:
    """Whether the job fails a test on some rows, by plain Python."""
    orders, places = read(ORDERS, Decimal), read(PLACES, str)
    found = total(
        {n: orders[n] for name, n in chosen if name == "orders.csv"},
        {n: places[n] for name, n in chosen if name == "places.csv"},
    )
    if found is None:
        return False
    return bool(found[0] >= 100) if test == "small" else bool(found[1] >= 3)


def sifted(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    result = answered(folder, "sift", *arguments, "--json")
    assert result.exit_code == code, result.output
    outcome: dict[str, Any] = json.loads(result.stdout)
    return outcome


def chosen_rows(outcome: Mapping[str, Any]) -> set[tuple[str, int]]:
    places = [row["location"].rpartition(":") for row in outcome["rows"]]
    return {(Path(path).name, int(line)) for path, _, line in places}


@pytest.mark.parametrize("test", [pytest.param("small", marks=pytest.mark.long), "few"])
def test_the_set_is_one_minimal(ran: Path, test: str) -> None:
    path = list(sys.path)
    outcome = sifted(ran, f"{ran}/out", "--test", f"{ran}/checks.py:{test}")
    assert sys.path == path
    (part,) = part_files(ran / "out")
    assert outcome["failing"] == [f"{part}#1"]
    rows = chosen_rows(outcome)
    assert outcome["one_minimal"]
    assert fails(rows, test)
    assert not any(fails(set(fewer), test) for fewer in combinations(rows, len(rows) - 1))
    # Nothing of other lands was searched.
    assert outcome["witnesses"] == 7
    # What the array of numbers would be has no closed form.
    assert outcome["pushed_down"] == 0
    assert outcome["runs"] <= 60


@pytest.mark.long
def test_a_row_by_its_values_and_what_people_see(ran: Path) -> None:
    place = f"{ran}/out#land=NO"
    result = answered(ran, "sift", place, "--test", f"{ran}/checks.py:small")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].endswith(
        "of the 7 rows that it is made from fail still, and none of them can be left out"
    )
    assert any(line.startswith("alone they give {") for line in lines)


def test_a_search_that_is_stopped_has_the_best_so_far(ran: Path) -> None:
    arguments = (f"{ran}/out", "--test", f"{ran}/checks.py:few", "--runs", "2")
    outcome = sifted(ran, *arguments, code=1)
    assert (outcome["one_minimal"], outcome["stopped"], outcome["runs"]) == (False, "2 runs", 2)
    assert fails(chosen_rows(outcome), "few")


@pytest.mark.long
def test_a_search_that_is_interrupted_has_the_best_so_far(ran: Path) -> None:
    arguments = (f"{ran}/out#land=NO", "--test", f"{ran}/checks.py:interrupted")
    outcome = sifted(ran, *arguments, code=1)
    assert (outcome["one_minimal"], outcome["stopped"]) == (False, "interrupted")
    assert fails(chosen_rows(outcome), "few")


WORDS = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
documents = spark.read.schema("name string, text string").csv("documents.csv")
words = documents.select("name", F.explode(F.split("text", " ")).alias("word")).groupBy("word")
words.agg(F.sort_array(F.collect_set("name")).alias("names")).coalesce(1).write.parquet("words")
"""


@pytest.mark.long
@pytest.mark.parametrize("where", [(), ("--where", "exists(names, name -> name like 'x%')")])
def test_the_row_that_failing_rows_share_is_tried_first(
    tmp_path: Path, where: tuple[str, ...]
) -> None:
    names = [f"{'x' if n == 37 else 'd'}{n:02}" for n in range(60)]
    lines = [f"{name},w{n % 4} v{n // 4 % 4} u{n // 16}\n" for n, name in enumerate(names)]
    (tmp_path / "documents.csv").write_text("".join(lines))
    write_job(tmp_path, WORDS, "words.py")
    write_job(tmp_path, "def known(row):\n    return 'x37' not in row['names']\n", "known.py")
    done = run_captured(tmp_path, "words.py")
    assert done.returncode == 0, done.stderr
    test = f"{tmp_path}/known.py:known"
    outcome = sifted(tmp_path, f"{tmp_path}/words", "--test", test, *where)
    assert chosen_rows(outcome) == {("documents.csv", 38)}
    assert ([row["failing"] for row in outcome["rows"]], outcome["failing_traced"]) == ([3], 3)
    assert (outcome["one_minimal"], outcome["pushed_down"], outcome["runs"]) == (True, 0, 4)
    assert len(outcome["failing"]) == (0 if where else 3)
    shown = answered(tmp_path, "sift", f"{tmp_path}/words", "--test", test, *where).stdout
    line = f"of 3 failing rows that were traced: made 3 from {tmp_path}/documents.csv:38"
    assert line in shown.splitlines()


@pytest.mark.long
@pytest.mark.parametrize(
    ("place", "test", "reason"),
    [
        ("out", "checks.py:nothing", "has no function nothing"),
        ("out", "elsewhere.py:small", "is no file"),
        ("out", "checks.py", "takes FILE.py:function"),
        ("out#land=IT", "checks.py:small", "passes on all rows"),
        ("out#land=IT", "checks.py:few", "passes on all rows"),
        ("in.txt", "checks.py:small", "no DataFrame's output"),
        ("out#land=NO", "checks.py:unsteady", "another verdict on the same rows"),
        ("out", "checks.py:broken", "RuntimeError: broken"),
    ],
)
def test_what_cant_be_sifted_is_refused(ran: Path, place: str, test: str, reason: str) -> None:
    result = answered(ran, "sift", f"{ran}/{place}", "--test", f"{ran}/{test}")
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr


def test_what_is_to_be_sifted_is_looked_up_before_spark_runs(
    ran: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parse(_: str) -> None:
        raise AssertionError("no Spark")

    monkeypatch.setattr(allowed, "_parse_datatype_string", parse)
    allowed._check_type.cache_clear()
    url = f"sqlite:///{ran / STORE}"
    with open_store(url) as store:
        requested = requested_recipe(
            store, RowReader(index_folder(url)), [str(ran / "out")], None, "true"
        )
    assert [column.type for column in requested.recipe.columns][-1] == "array<double>"
