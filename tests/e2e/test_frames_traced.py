"""Rows of DataFrames traced as a person asks: by place, by condition, both ways."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage.access import StoredAccess, open_access
from lineage_core.trace_result import Direction, TraceError
from lineage_frames.errors import ChangedSourceError, RefusedError, RowError
from lineage_store.answers import Answer, Group
from lineage_store.asking import Question
from lineage_store.finding import NotFoundError
from lineage_store.noted import NotedRowError
from tests.job_runs import CLI, STORE, lineage, run_captured, run_program, write_job

pytestmark = pytest.mark.e2e

JOB = """
from pyspark.sql import SparkSession

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
# Rows that a program makes are in no plan.
made = spark.createDataFrame([("a",)], "value string")
spark.read.text("other.txt").join(made, "value").coalesce(1).write.parquet("joined")
"""
IN = "city,amount\nOslo,1.5\nRome,2.5\n\nOslo,3.5\nLima,9.0\n"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traced")
    (folder / "in.csv").write_text(IN)
    (folder / "other.txt").write_text("a\nb\n")
    write_job(folder, JOB)
    done = run_captured(folder, "job.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def access(ran: Path, spark_context: SparkContext) -> StoredAccess:
    """Asks in this process, on the Spark that runs in it."""
    SparkSession(spark_context).sql("select 1").collect()
    found = open_access(f"sqlite:///{ran / STORE}")
    assert isinstance(found, StoredAccess)
    return found


def file_of(ran: Path, folder: str, like: str = "part-*") -> str:
    (found,) = (ran / folder).glob(like)
    return str(found)


def back(access: StoredAccess, place: str) -> Answer:
    return access.ask(Question(Direction.BACKWARD, (place,)))


def forward(access: StoredAccess, place: str) -> Answer:
    return access.ask(Question(Direction.FORWARD, (place,)))


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


def test_forward_into_all_that_read_the_row(ran: Path, access: StoredAccess) -> None:
    answer = forward(access, str(ran / "in.csv") + ":5")
    out, big, *_ = (Path(file_of(ran, name)).name for name in ("out", "big"))
    found = places(ran, answer.groups)
    assert found[:2] == [f"out/{out}#1", f"big/{big}:3"]
    assert answer.exact
    # The count is the program's: it has no file, and 3.5 is not above 5. The last are told by their values.
    assert len(answer.groups) == 4
    assert found[-1] is None
    assert answer.groups[-1].items[0].text == '{"city": " Oslo", "amount": 3.5}'
    otherwise = "the files hold them otherwise than Spark gave them"
    assert f"rows are told by their values: {otherwise}" in answer.warnings
    answer = forward(access, str(ran / "in.csv") + ":6")
    (counted,) = (one for one in answer.groups if one.what == "DataFrame.count")
    assert [item.location for item in counted.items] == [None]


def test_by_condition(ran: Path, access: StoredAccess) -> None:
    question = Question(Direction.BACKWARD, (str(ran / "out"),))
    answer = access.ask_where(question, "total > 4")
    assert (answer.start[0].count, len(answer.groups[0].items)) == (2, 3)
    assert (answer.exact, answer.groups[0].count) == (True, 3)
    with pytest.raises(RowError, match="fulfils"):
        access.ask_where(question, "total > 400")
    with pytest.raises(RefusedError, match="nonsense"):
        access.ask_where(question, "nonsense > 4")
    with pytest.raises(NotFoundError, match="no DataFrame's output"):
        access.ask_where(Question(Direction.BACKWARD, ("elsewhere",)), "true")


def test_ends_and_steps(ran: Path, access: StoredAccess) -> None:
    answer = back(access, str(ran / "in.csv") + ":2")
    assert not answer.groups
    assert "nothing lies before it" in answer.warnings[0]
    answer = forward(access, f"{file_of(ran, 'out')}#1")
    assert "nothing lies after it" in answer.warnings[0]
    with pytest.raises(TraceError, match="--step"):
        access.ask(Question(Direction.BACKWARD, (f"{file_of(ran, 'out')}#1",), steps=1))
    with pytest.raises(RowError, match="has no row 9"):
        back(access, f"{file_of(ran, 'out')}#9")


def test_what_has_no_lineage_says_so(ran: Path, access: StoredAccess) -> None:
    with pytest.raises(NotedRowError, match="it has no lineage"):
        back(access, f"{file_of(ran, 'joined')}#0")
    answer = forward(access, str(ran / "other.txt") + ":1")
    assert not answer.exact
    assert "is not known" in answer.reasons[0]


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
