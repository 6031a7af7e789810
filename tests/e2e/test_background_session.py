"""Commands that ask about rows of DataFrames share a Spark in the background, which answers as one of their own does."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lineage import background_process as process
from lineage.access import StoredAccess
from lineage.background_process import BackgroundServer, StartedSpark, _gone
from lineage_core.tracing.trace_result import Direction
from lineage_dataframes.errors import RowError
from lineage_dataframes.spark.pyspark_parts import SPARK_ERRORS
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from lineage_store.sqlite.store import SqliteStore
from tests.support import jvm
from tests.support.job_runs import CLI, run_captured, run_program, stored, write_job

pytestmark = pytest.mark.e2e

JOB = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
rows = spark.read.csv("in.csv", header=True, schema="city string, amount double")
rows.groupBy("city").sum("amount").toDF("city", "total").orderBy("city").coalesce(1).write.parquet("out")
"""
IN = "city,amount\nOslo,1.5\nRome,2.5\n\nOslo,3.5\n"


def test_queries_end_where_whoever_asked_is_gone(spark_context: SparkContext) -> None:
    class Here(StartedSpark):
        def __init__(self) -> None:
            pass

        def session(self) -> SparkSession:
            return SparkSession(spark_context)

    here, there = socket.socketpair()
    with here, BackgroundServer("sqlite:///none", 60, Here())._watched(_gone(there)) as spark:
        here.close()
        with pytest.raises(SPARK_ERRORS, match="cancelled"):
            spark.range(10**15).selectExpr("sum(id % 7)").collect()
    there.close()


def test_what_a_session_warms_up_by_ends_where_it_is_asked(
    spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended = threading.Event(), threading.Event()

    class Here(StartedSpark):
        def __init__(self) -> None:
            pass

        def load(self) -> None:
            pass

        def session(self) -> SparkSession:
            return SparkSession(spark_context)

    class Long(StoredAccess):
        def trace(self, question: TraceQuery) -> Answer:
            assert self._spark is not None
            with self._spark() as spark:
                begun.set()
                try:
                    spark.range(10**15).selectExpr("sum(id % 7)").collect()
                finally:
                    ended.set()
            raise AssertionError("it came to its end")

    monkeypatch.setattr(process, "StoredAccess", Long)
    question = TraceQuery(Direction.BACKWARD, ("out#0",))
    monkeypatch.setattr(process, "likely", lambda _: iter([question]))
    SqliteStore(tmp_path / "lineage.db").close()
    server = BackgroundServer(f"sqlite:///{tmp_path / 'lineage.db'}", 0, Here())
    server.warm_up()
    assert begun.wait(60)
    assert not ended.is_set()
    with socket.socket(socket.AF_UNIX) as nobody:
        assert server.serve(nobody) == "no query for 0 s"
    assert ended.wait(60)


@pytest.mark.long
def test_questions_share_a_session_that_ends_by_itself(
    tmp_path: Path, spark_context: SparkContext
) -> None:
    (tmp_path / "in.csv").write_text(IN)
    write_job(tmp_path, JOB)
    done = run_captured(tmp_path, "job.py")
    assert done.returncode == 0, done.stderr
    (output,) = (tmp_path / "out").glob("part-*")
    row, line = f"out/{output.name}#0", "in.csv:3"
    settings = {"LINEAGE_SESSION_S": "600", "XDG_STATE_HOME": str(tmp_path / "state")}
    # It writes no archive of classes, which takes long.
    settings["SPARK_SUBMIT_OPTS"] = f"{jvm.quick()['SPARK_SUBMIT_OPTS']} -Xshare:auto"

    def command(*words: str) -> tuple[int, Any, str]:
        done = run_program(tmp_path, [*CLI, *words, "--json"], settings)
        return done.returncode, json.loads(done.stdout), done.stderr

    def sessions() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = command("session", "status")[1]["sessions"]
        return found

    with stored(tmp_path) as own:
        back = own.ask(TraceQuery(Direction.BACKWARD, (str(output) + "#0",))).to_json()
        forward = own.ask(TraceQuery(Direction.FORWARD, (str(tmp_path / line),))).to_json()
        with pytest.raises(RowError) as refused:
            own.ask(TraceQuery(Direction.BACKWARD, (f"{output}#9",)))
    assert command("back", row) == (0, {**back, "from": [row]}, "")
    (session,) = sessions()
    java = psutil.Process(session["pid"]).children(recursive=True)
    assert java
    # From another folder, where the path means the same file.
    assert command("forward", line) == (0, {**forward, "from": [line]}, "")
    said = {"type": "RowError", "message": str(refused.value)}
    assert command("back", f"out/{output.name}#9")[:2] == (2, {"error": said})
    code, found, _ = command("back", "out", "--where", "total > 2")
    assert (code, found["start"][0]["count"]) == (0, 2)
    assert sessions() == [session]
    log = Path(session["log"]).read_text()
    assert log.count(" answered within ") == 3
    assert log.count(" refused within ") == 1
    assert "Oslo" not in log

    os.kill(session["pid"], signal.SIGKILL)
    assert psutil.wait_procs(java, 60)[1] == []
    assert sessions() == []

    # The next command starts another one; this one waits for a short time.
    settings["LINEAGE_SESSION_S"] = "0.1"
    assert command("back", row) == (0, {**back, "from": [row]}, "")
    for left in sessions():
        psutil.Process(left["pid"]).wait(120)
    assert sessions() == []
    logs = [file.read_text() for file in (tmp_path / "state/lineage/sessions").glob("*.log")]
    assert sum("ends: no query for 0.1 s" in one for one in logs) == 1


@pytest.mark.long
def test_a_run_leaves_a_session_that_is_warm_when_it_is_asked(
    tmp_path: Path, spark_context: SparkContext
) -> None:
    (tmp_path / "in.csv").write_text(IN)
    write_job(tmp_path, JOB)
    settings = {"LINEAGE_SESSION_S": "600", "XDG_STATE_HOME": str(tmp_path / "state")}
    settings["SPARK_SUBMIT_OPTS"] = f"{jvm.quick()['SPARK_SUBMIT_OPTS']} -Xshare:auto"

    def command(*words: str) -> str:
        done = run_program(tmp_path, [*CLI, *words], settings)
        assert done.returncode == 0, done.stderr
        return done.stdout or done.stderr

    assert "waits for queries; it ends after 600 s" in command("run", "--session", "job.py")
    (log,) = (tmp_path / "state/lineage/sessions").glob("*.log")
    (session,) = json.loads(command("session", "status", "--json"))["sessions"]
    assert command("session", "start") == "a session is there\n"
    running, due = psutil.Process(session["pid"]), time.monotonic() + 120
    while " is warm after " not in log.read_text():
        assert running.is_running(), log.read_text()
        assert time.monotonic() < due, log.read_text()
        time.sleep(0.1)
    assert "Oslo" not in log.read_text()
    (output,) = (tmp_path / "out").glob("part-*")
    with stored(tmp_path) as own:
        back = own.ask(TraceQuery(Direction.BACKWARD, (f"{output}#0",))).to_json()
    assert (
        json.loads(command("back", f"out/{output.name}#0", "--json"))["sources"] == back["sources"]
    )
    assert log.read_text().count(" answered within ") == 1
    assert command("session", "stop") == "ended 1 session\n"
    # It listens once it is said to have been started, so that it is found.
    assert command("session", "start") == "a session starts\n"
    assert command("session", "stop") == "ended 1 session\n"
