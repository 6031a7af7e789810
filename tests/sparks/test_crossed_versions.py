"""Two Sparks side by side: these run in another version than 4.1, and start 4.1 (`.venv`) in processes of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lineage_dataframes.spark.versions import differing_functions
from tests.support.job_runs import CLI, run_program, write_job
from tests.support.versions import IN_35, VERSION

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
OTHER = str(ROOT / ".venv" / "bin" / "python")
JOB = """
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.conf.set("spark.sql.shuffle.partitions", "1")
typed = "id int, city string, at timestamp, amount decimal(7,2)"
csv = spark.read.schema(typed).option("header", True).csv("in.csv")
json = spark.read.schema(typed).json("in.json")
parquet = spark.read.parquet("in.parquet")
both = csv.union(json).where("amount > 1 and at > '2024-01-01'").join(parquet, "city")
totals = both.groupBy("country").agg(F.sum("amount").alias("total"), F.count("*").alias("n"))
totals.write.option("header", True).csv("totals")
both.orderBy("id", "country").coalesce(1).write.parquet("joined")
json.select("id", F.array_distinct(F.array("id")).alias("one")).coalesce(1).write.json("distinct")
parsed = F.from_json(F.concat(F.lit('{"a":'), F.col("id").cast("string"), F.lit("}")), "a int")
json.select("id", parsed.alias("one")).coalesce(1).write.json("parsed")
"""
ROWS = (
    (1, "Oslo", "2024-03-31T02:30:00.000+02:00", "1.50"),
    (2, "Rome", "2023-12-31T23:30:00.000Z", "20.00"),
    (3, "Oslo", "2024-06-01T00:00:00.000Z", "3.25"),
    (4, "Bonn", "2024-06-02T12:00:00.000Z", "0.75"),
    (5, "Rome", "2024-06-03T12:00:00.000Z", "7.00"),
)


def test_functions_mean_the_same(tmp_path: Path) -> None:
    ours, theirs = (values_by(python, tmp_path / "values") for python in (sys.executable, OTHER))
    differ = {text for text in ours if ours[text] != theirs[text]}
    assert ours.keys() == theirs.keys()
    known = differing_functions(VERSION, "4.1")
    assert {text for text in differ if not any(f"{name}(" in text for name in known)} == set()
    if IN_35:
        assert differ


def values_by(python: str, file: Path) -> dict[str, list[str]]:
    """What the Spark of a Python makes of every function, in a process of its own."""
    done = run_program(ROOT, [python, "-m", "tests.sparks.values", str(file)])
    assert done.returncode == 0, done.stderr
    values: dict[str, list[str]] = json.loads(file.read_text())
    return values


@pytest.mark.parametrize("made_here", [True, False], ids=["here", "in 4.1"])
def test_a_recipe_of_one_is_traced_in_the_other(made_here: bool, tmp_path: Path) -> None:
    lines = [f"{id},{city},{at},{amount}" for id, city, at, amount in ROWS]
    (tmp_path / "in.csv").write_text("\n".join(["id,city,at,amount", *lines]) + "\n")
    texts = [
        json.dumps({"id": id + 10, "city": city, "at": at, "amount": float(amount)})
        for id, city, at, amount in ROWS
    ]
    (tmp_path / "in.json").write_text("\n".join(texts) + "\n")
    countries = {"city": ["Oslo", "Rome", "Bonn"], "country": ["NO", "IT", "DE"]}
    pq.write_table(pa.table(countries), tmp_path / "in.parquet")
    write_job(tmp_path, JOB)
    own, other = CLI, [OTHER, *CLI[1:]]
    here, there = (own, other) if made_here else (other, own)
    done = run_program(tmp_path, [*here, "run", "job.py"])
    assert done.returncode == 0, done.stderr
    assert ": complete, answerable, 4 recipes" in done.stderr
    for question, place in (
        (["back", "totals#country=NO"], "in.json:3"),
        (["back", "joined", "--where", "id = 15"], "in.json:5"),
        (["forward", "in.csv:4"], "joined/part-"),
    ):
        answers = [run_program(tmp_path, [*cli, *question]) for cli in (here, there)]
        assert [one.returncode for one in answers] == [0, 0], answers[1].stderr
        assert answers[0].stdout == answers[1].stdout
        assert place in answers[0].stdout
    refusals = {"parsed": "from_json"}
    refusals |= {"distinct": "array_distinct"} if IN_35 else {}
    for output, name in refusals.items():
        refused = run_program(tmp_path, [*there, "back", output, "--where", "id = 15"])
        assert refused.returncode == 2
        assert f"{name} may give other values" in refused.stderr
