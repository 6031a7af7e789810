"""The wheel in other Pythons, and beside the oldest and newest NumPy, pandas and PyArrow that go with a Spark."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.wheels import JOB, ROOT, Installed, uv

pytestmark = pytest.mark.e2e

FRAMES = """
import sys
import pandas as pd
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").getOrCreate()
spark.createDataFrame(pd.DataFrame({"n": [1, 2, 3], "k": ["a", "b", "a"]})).write.parquet("rows")
spark.read.parquet("rows").groupBy("k").sum("n").coalesce(1).write.csv("sums", header=True)
assert sorted(spark.read.csv("sums", header=True).toPandas().k) == ["a", "b"]
spark.stop()
"""
FAILING = """
from pyspark import SparkContext

with SparkContext("local[1]", "fails") as sc:
    sc.textFile("in.txt").map(lambda line: 1 // (int(line[1:]) - 2)).collect()
"""


def oldest() -> list[str]:
    """The oldest versions that the wheel asks for, with the oldest pandas that goes with them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    bounds = [re.match(r"([a-z-]+)>=([\d.]+)", wanted) for wanted in project["dependencies"]]
    pinned = {bound[1]: f"{bound[1]}=={bound[2]}" for bound in bounds if bound}
    assert len(pinned) == len(project["dependencies"])
    return [*pinned.values(), "pandas==1.5.3"]


# PySpark 3.5 asks for NumPy before 2.
ENVIRONMENTS = [
    pytest.param("3.10", "3.5.9", oldest(), id="3.10 oldest"),
    pytest.param("3.13", "4.3.0", ["pandas<3"], id="3.13 newest"),
    pytest.param("3.14", "4.3.0", ["pandas<3"], id="3.14 newest"),
]


def interpreter(version: str) -> str:
    """A Python of this machine; where there is none, the test is not run and says so."""
    found = subprocess.run(
        [uv(), "python", "find", "--no-python-downloads", version],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    if found.returncode and not kept:
        pytest.skip(f"not run: this machine has no Python {version}")
    return str(kept[-1]) if kept else found.stdout.strip()


@pytest.mark.parametrize(("python", "spark", "packages"), ENVIRONMENTS)
def test_records_rows_and_failures_are_traced(
    tmp_path: Path, python: str, spark: str, packages: list[str]
) -> None:
    installed = Installed(
        tmp_path, "", interpreter(python), [f"pyspark=={spark}", *packages], locked=False
    )
    for name, program in {"job": JOB, "frames": FRAMES, "failing": FAILING}.items():
        (installed.home / f"{name}.py").write_text(program, encoding="utf-8")
    (installed.home / "in.txt").write_text("a1\nb2\na3\n", encoding="utf-8")
    ran = installed.run("lineage", "run", "job.py", "in.txt", "out")
    assert ran.returncode == 0, ran.stderr
    assert "complete, answerable" in ran.stderr
    rows = (installed.home / "out" / "part-00000").read_text(encoding="utf-8").splitlines()
    place = f"out/part-00000:{rows.index(repr(('a', 4))) + 1}"
    assert locations(installed, place) == ["in.txt:1", "in.txt:3"]

    ran = installed.run("lineage", "run", "frames.py")
    assert ran.returncode == 0, ran.stderr
    assert "complete, answerable" in ran.stderr
    back = installed.run("lineage", "back", "sums#k=a", "--json")
    assert back.returncode == 0, back.stderr
    texts = [item["text"] for item in json.loads(back.stdout)["sources"][0]["items"]]
    assert [json.loads(text) for text in texts] == [{"n": 1, "k": "a"}, {"n": 3, "k": "a"}]

    ran = installed.run("lineage", "run", "failing.py")
    assert ran.returncode == 1
    assert "a task died while working on in.txt:2: b2" in ran.stderr


def locations(installed: Installed, place: str) -> list[str]:
    """Where the rows lie that a row was made from."""
    back = installed.run("lineage", "back", place, "--json")
    assert back.returncode == 0, back.stderr
    answer = json.loads(back.stdout)
    assert answer["exact"], answer
    (group,) = answer["sources"]
    return [os.path.basename(item["location"]) for item in group["items"]]
