"""``lineage replay --all-jobs``: rows of a chain of jobs replayed, against the jobs run plainly without the rows."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.support.job_runs import Begin, answered, contents, part_files

pytestmark = pytest.mark.e2e

RAW = """city,amount
oslo,10
oslo,20
rome,5
rome,5
lima,7
bonn,
oslo,30
"""
CITIES = "OSLO,Norway\nROME,Italy\nLIMA,Peru\n"


def clean(spark: SparkSession, folder: Path) -> None:
    """Row by row."""
    raw = spark.read.option("header", True).schema("city string, amount int").csv(f"{folder}/raw")
    kept = raw.where("amount IS NOT NULL").select(F.upper("city").alias("city"), "amount")
    kept.coalesce(1).write.parquet(f"{folder}/staged")


def total(spark: SparkSession, folder: Path) -> None:
    """Groups, as text with a header."""
    by_city = spark.read.parquet(f"{folder}/staged").groupBy("city")
    totals = by_city.agg(F.sum("amount").alias("total"), F.avg("amount").alias("mean"))
    totals.coalesce(1).write.option("header", True).csv(f"{folder}/totals")


def report(spark: SparkSession, folder: Path) -> None:
    """Joins what another program saved; and a part of the whole."""
    totals = spark.read.option("header", True).schema("city string, total long, mean double")
    cities = spark.read.schema("city string, country string").csv(f"{folder}/cities")
    joined = totals.csv(f"{folder}/totals").join(cities, "city")
    joined.coalesce(1).write.json(f"{folder}/report")


def top(spark: SparkSession, folder: Path) -> None:
    """The first of an order, whatever else there is."""
    staged = spark.read.parquet(f"{folder}/staged")
    staged.orderBy(F.desc("amount")).limit(2).coalesce(1).write.parquet(f"{folder}/top")


def shares(spark: SparkSession, folder: Path) -> None:
    """Reads the same twice."""
    top = spark.read.parquet(f"{folder}/top")
    of_all = top.groupBy().agg(F.sum("amount").alias("all"))
    top.join(of_all).coalesce(1).write.json(f"{folder}/shares")


JOBS = (clean, total, report, top, shares)


@pytest.fixture(scope="module")
def ran(folder: Path, begin: Begin, spark: SparkSession) -> Path:
    (folder / "raw").mkdir()
    (folder / "raw/in.csv").write_text(RAW)
    with begin() as lc:
        lc.parallelize(CITIES.splitlines(), 1).saveAsTextFile(f"{folder}/cities")
    for job in JOBS:
        with begin():
            job(spark, folder)
    return folder


def plain(spark: SparkSession, ran: Path, folder: Path, without: tuple[int, ...]) -> Path:
    """The jobs run anew, without some lines of the raw file."""
    lines = RAW.splitlines(keepends=True)
    (folder / "raw").mkdir()
    (folder / "raw/in.csv").write_text(
        "".join(line for number, line in enumerate(lines, 1) if number not in without)
    )
    (folder / "cities").symlink_to(ran / "cities")
    for job in JOBS:
        job(spark, folder)
    return folder


def rows(folder: Path) -> Counter[str]:
    """The rows of an output of JSON."""
    lines = (line for part in part_files(folder) for line in part.read_text().splitlines())
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in lines)


def replayed(folder: Path, *arguments: str, code: int = 0) -> dict[str, Any]:
    result = answered(folder, "replay", *arguments, "--all-jobs", "--json")
    assert result.exit_code == code, result.output
    outcome: dict[str, Any] = json.loads(result.stdout)
    return outcome


@pytest.mark.parametrize(
    ("output", "without"),
    [
        ("report", (2,)),
        pytest.param("shares", (8,), marks=pytest.mark.long),
        pytest.param("report", (4, 8), marks=pytest.mark.long),
        pytest.param("shares", (3, 6, 8), marks=pytest.mark.long),
    ],
)
def test_without_rows_of_the_first_job_the_last_one_gives_what_plain_spark_gives(
    ran: Path, spark: SparkSession, tmp_path: Path, output: str, without: tuple[int, ...]
) -> None:
    before, again = contents(ran / output), tmp_path / "again"
    excluded = [word for line in without for word in ("--exclude", f"{ran}/raw/in.csv:{line}")]
    row = f"{ran}/{output}#city=OSLO,{'total=60' if output == 'report' else 'amount=30'}"
    outcome = replayed(ran, row, *excluded, "--to", str(again))
    anew = plain(spark, ran, tmp_path, without)
    assert rows(again) == rows(anew / output), outcome
    assert outcome["read"] == "all other rows"
    names = [Path(job["output"]).name for job in outcome["jobs"]]
    assert names == ["staged", "totals" if output == "report" else "top"]
    given = [row["after"] for row in outcome["rows"] if row["after"] is not None] + outcome["new"]
    assert given, outcome
    assert contents(ran / output) == before


def test_rows_that_are_gone_leave_the_plan_their_witnesses(ran: Path) -> None:
    row = (f"{ran}/report#city=LIMA,total=7", "--exclude", f"{ran}/raw/in.csv:6")
    outcome = replayed(ran, *row)
    assert [(one["after"], one["state"]) for one in outcome["rows"]] == [(None, "gone")]
    counts = [(job["changed"], job["gone"], job["new"]) for job in outcome["jobs"]]
    assert (counts, outcome["read"]) == ([(0, 1, 0), (0, 1, 0)], "witnesses")
    # What a program of RDDs wrote stays what it was.
    (taken,) = (text for text in outcome["uncertain"] if "are taken as they are" in text)
    assert f"{ran}/cities" in taken
    shown = answered(ran, "replay", *row, "--all-jobs").stdout
    assert "staged: without these rows 0 rows otherwise, 1 row not at all, 0 new" in shown
    assert "after   no row" in shown
    # Of two equal rows one is gone; nobody knows which.
    outcome = replayed(ran, f"{ran}/report#city=ROME", "--exclude", f"{ran}/raw/in.csv:4")
    assert [one["after"]["total"] for one in outcome["rows"]] == [5]
    assert any("of equal rows it is not known which" in text for text in outcome["uncertain"])


def test_a_row_that_no_job_used_changes_nothing(ran: Path) -> None:
    row = (f"{ran}/report#city=OSLO", "--exclude", f"{ran}/raw/in.csv:7")
    outcome = replayed(ran, *row)
    assert [one["state"] for one in outcome["rows"]] == ["same"]
    assert (outcome["jobs"], outcome["new"]) == ([], [])
    shown = answered(ran, "replay", *row, "--all-jobs").stdout
    assert shown.splitlines()[0] == "what the job read is the same without these rows"


def test_each_job_gives_the_rows_that_the_next_one_read(ran: Path) -> None:
    outcome = replayed(ran, f"{ran}/report#city=OSLO")
    assert outcome["reproduced"] is True
    jobs = [(Path(job["output"]).name, job["rows"], job["witnesses"]) for job in outcome["jobs"]]
    assert jobs == [("totals", 1, 3), ("staged", 3, 3)]
    assert all(job["reproduced"] for job in outcome["jobs"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("{ran}/report#city=OSLO", "--exclude", "{ran}/elsewhere.csv:2"), "or by a job before it"),
        (("{ran}/report#city=OSLO", "--exclude", "{ran}/raw/in.csv:99"), "is no row"),
        (("{ran}/report#city=BONN",), "no row of the output"),
        (("{ran}/report#city=OSLO", "--program", "job.py"), "are of DataFrames"),
        (("--quarantined", "--with", "a.py:f", "--to", "x"), "and no rows"),
    ],
)
def test_what_cant_be_replayed_is_refused(
    ran: Path, arguments: tuple[str, ...], reason: str
) -> None:
    named = (argument.format(ran=ran) for argument in arguments)
    result = answered(ran, "replay", *named, "--all-jobs")
    assert result.exit_code == 2, result.output
    assert reason in " ".join(result.output.split())


def test_rows_are_written_to_nothing_that_a_job_before_read(ran: Path) -> None:
    row = (f"{ran}/report#city=LIMA", "--exclude", f"{ran}/raw/in.csv:6")
    before = contents(ran / "raw")
    result = answered(ran, "replay", *row, "--all-jobs", "--to", f"{ran}/raw/again")
    assert result.exit_code == 2, result.output
    assert "which the job read or wrote" in result.output
    assert contents(ran / "raw") == before
