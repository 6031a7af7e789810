"""``lineage triples back --engine spark``: tables of triples, what is refused, and faults while Spark reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyspark import SparkContext
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from lineage.main import app
from lineage_core.tracing.budget import TooMuchError
from lineage_dataframes.errors import FramesError, NoSparkError
from lineage_dataframes.sandbox.names import SANDBOX
from lineage_dataframes.sandbox.starting import check_unconfined
from lineage_dataframes.spark.table_files import spark_address
from lineage_dataframes.triples import tracing
from lineage_dataframes.triples.tables import coarse
from lineage_dataframes.triples.tracing import SparkTrace, trace_to_table
from lineage_store.errors import StoreError
from lineage_store.triples.data_sets import TripleStore
from lineage_store.triples.tracing import Reading

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def session(spark_context: SparkContext) -> SparkSession:
    return SparkSession.builder.getOrCreate()


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: SparkSession) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LINEAGE_STORE", f"lake:{tmp_path}/lake")
    Path("a.csv").write_text("src,dst,op\n-1,b,x\nb,c,y\nb,b,z\nq,r,x\n")
    assert triples("import", "a.csv", "--as", "set").exit_code == 0


def triples(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["triples", *arguments])


def by_spark(*arguments: str) -> Result:
    return triples(*arguments, "--engine", "spark", "--to", "out")


def written() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table("out").to_pylist()
    return sorted(rows, key=lambda row: sorted(row.items()))


@pytest.mark.long
def test_a_file_of_items_becomes_a_table() -> None:
    Path("items.csv").write_text("note,item\n1,c\n2,r\n3,c\n")
    result = by_spark("back", "set", "--items", "items.csv", "--driver-triples", "0", "--json")
    assert json.loads(result.stdout) == {
        "folder": "out", "asked": 2, "items": 3, "triples": 4, "method": "csprov", "read": 4, "steps": 3,
        "reason": "as the question or its answer has not at most 0 triples",
    }  # fmt: skip
    here = json.loads(triples("back", "set", "--items", "items.csv", "--json").stdout)
    assert written() == sorted(here["triples"], key=lambda row: sorted(row.items()))
    assert (here["asked"], here["items"]) == (["c", "r"], ["-1", "b", "q"])
    assert "out is there already" in by_spark("back", "set", "c").stderr


def test_a_table_may_be_empty() -> None:
    said = by_spark("forward", "set", "r").stdout
    assert said.startswith("into 0 items, by 0 triples, written to out (rq: ")
    assert pq.read_table("out").schema.types == [pa.string()] * 3
    assert pq.read_table("out").column_names == ["src", "dst", "op"]


def test_a_table_of_few_triples_takes_no_job_of_spark(session: SparkSession) -> None:
    scheduler = session.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.numTotalJobs()
    result = by_spark("back", "set", "c", "--method", "csprov", "--json")
    assert scheduler.numTotalJobs() == before
    counts = json.loads(result.stdout)
    assert (counts["items"], counts["triples"], counts["steps"]) == (2, 3, 0)
    assert Path("out/_SUCCESS").exists()
    # As Spark reads it, too.
    rows = session.read.parquet(f"{Path.cwd()}/out").collect()
    assert sorted(tuple(row) for row in rows) == [
        ("-1", "b", "x"), ("b", "b", "z"), ("b", "c", "y")
    ]  # fmt: skip


def test_a_folder_that_is_made_meanwhile_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    named = tracing._Tracer._named_here

    def late(self: Any, *arguments: Any) -> Any:
        Path("out").mkdir()
        return named(self, *arguments)

    monkeypatch.setattr(tracing._Tracer, "_named_here", late)
    assert "out is there already" in by_spark("back", "set", "c").stderr
    assert not list(Path("out").iterdir())


def test_what_is_refused_writes_nothing() -> None:
    assert "has no item 'x'" in by_spark("back", "set", "c", "x").stderr
    assert triples("back", "set", "c", "--engine", "spark").exit_code == 2
    assert by_spark("back", "set", "c", "--limit", "2").exit_code == 2
    assert (
        "wait"
        in (triples("import", "a.csv", "--as", "more", "--later"), by_spark("back", "more", "c"))[
            1
        ].stderr
    )
    assert not Path("out").exists()


def _asked() -> pa.Array[Any]:
    return pa.array(["c"], pa.string())


def _joined(session: SparkSession, store: TripleStore) -> SparkTrace:
    """A trace by joins, which reads all that it needs by Spark."""
    return trace_to_table(
        session, store, "set", _asked(), f"{Path.cwd()}/out", is_back=True, driver_triples=0
    )


def test_a_question_is_bounded(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "MOST_ASKED", 0)
    with pytest.raises(TooMuchError, match="has 1 items, more than 0: trace some of them"):
        _joined(session, TripleStore(f"lake:{Path.cwd()}/lake"))


def test_a_file_that_is_gone_is_an_error_whatever_the_session_ignores(
    session: SparkSession,
) -> None:
    store = TripleStore(f"lake:{Path.cwd()}/lake")
    reading = Reading(store, "set")
    items = next(file for file in reading.files if file.part == "ops")
    Path("lake.triples", items.file.path).unlink()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        with pytest.raises(FramesError, match="Spark can't trace set"):
            _joined(session, store)
    finally:
        session.conf.unset("spark.sql.files.ignoreMissingFiles")
    assert not Path("out").exists()


def test_files_that_an_index_replaces_meanwhile_are_read_anew(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TripleStore(f"lake:{Path.cwd()}/lake")
    joined = tracing._Tracer._named
    replaced: list[bool] = []

    def named(self: Any, *arguments: Any) -> Any:
        if not replaced:
            replaced.append(True)
            Path("b.csv").write_text("src,dst,op\na,-1,x\n")
            other = TripleStore(f"lake:{Path.cwd()}/lake")
            other.add("set", [Path("b.csv")])
            other.index("set", is_whole=True)
        return joined(self, *arguments)

    monkeypatch.setattr(tracing._Tracer, "_named", named)
    counts = _joined(session, store)
    # As the newest version has it, and nothing of the one before.
    assert (counts.items, counts.triples) == (3, 4)
    assert {row["src"] for row in written()} == {"a", "-1", "b"}


def test_an_index_without_some_items_is_damaged(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TripleStore(f"lake:{Path.cwd()}/lake")
    # An item that is no end of a triple stands for one that has lost its name.
    searched = tracing._Tracer._searched

    def more(self: Any, start: Any, rows: Any) -> Any:
        return searched(self, np.append(start, 99), rows)

    monkeypatch.setattr(tracing._Tracer, "_searched", more)
    monkeypatch.setattr(tracing, "LOOKED_UP", 0)
    monkeypatch.setattr(tracing, "NAMED_HERE", 0)
    with pytest.raises(StoreError, match="items are missing"):
        trace_to_table(session, store, "set", _asked(), f"{Path.cwd()}/out", is_back=True)
    assert not Path("out").exists()


def test_a_spark_that_is_not_confined_is_refused_where_it_has_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(SANDBOX, "required")
    with pytest.raises(NoSparkError, match="a Spark that writes tables is not confined"):
        check_unconfined()


def test_coarse_ranges_hold_all_of_the_others() -> None:
    firsts, lasts = np.array([0, 10, 12, 30, 100]), np.array([5, 10, 20, 40, 100])
    for most in range(1, 7):
        low, high = coarse(firsts, lasts, most)
        assert len(low) == len(high) <= most
        assert all(
            any(a <= first and last <= b for a, b in zip(low, high, strict=True))
            for first, last in zip(firsts, lasts, strict=True)
        )
    assert [*zip(*coarse(firsts, lasts, 2), strict=True)] == [(0, 40), (100, 100)]
    assert [*coarse(firsts, lasts, 9)[0]] == [*firsts]


def test_places_as_spark_names_them() -> None:
    assert spark_address("/data/a b") == "file:///data/a b"
    assert spark_address("s3://bucket/a") == "s3a://bucket/a"
    assert spark_address("hdfs://host/a") == "hdfs://host/a"
