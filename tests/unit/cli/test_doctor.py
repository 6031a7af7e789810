"""`lineage doctor`: what it finds of this machine, of servers that are away, and of programs."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineage import doctor
from lineage.doctor import Finding, examine, has_problem
from lineage.main import app
from lineage.program_check import SHARES, ProgramError, check_program
from tests.support.stored_lineage import store_run
from tests.unit.emitter.test_operators_page import claims

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("LINEAGE_")]:
        monkeypatch.delenv(name)
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def java(folder: Path, version: str, modules: str = "java.base\njdk.incubator.vector") -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'case $1 in -version) echo \'openjdk version "{version}"\' >&2;; *) echo "{modules}";; esac\n'
    )
    program.chmod(0o755)
    return folder


def of(findings: list[Finding], part: str) -> list[Finding]:
    return [one for one in findings if one.part == part]


def only(findings: list[Finding], part: str) -> Finding:
    (found,) = of(findings, part)
    return found


def test_a_machine_that_fits_has_no_problem(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(home / "jdk", "17.0.15")))
    findings = examine("sqlite:///.lineage/lineage.db")
    assert not has_problem(findings)
    assert "not there yet" in only(findings, "store").detail
    assert {only(findings, part).state for part in ("kafka", "redis")} == {"not used"}
    assert not (home / ".lineage").exists()


@pytest.mark.parametrize(
    ("version", "modules", "said"),
    [
        ("1.8.0_402", "", "is Java 8, Spark"),
        ("25", "jdk.incubator.vector", "is Java 25, Spark"),
        ("21.0.1", "java.base", "has no module jdk.incubator.vector"),
    ],
)
def test_a_java_that_does_not_fit_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, version: str, modules: str, said: str
) -> None:
    monkeypatch.setattr(doctor, "_installed", lambda _: "4.1.4")
    monkeypatch.setenv("JAVA_HOME", str(java(home / "jdk", version, modules)))
    found = only(examine("sqlite:///x.db"), "java")
    assert (found.state, said in found.detail) == ("problem", True)
    assert "JAVA_HOME" in found.hint


def test_no_java_and_a_python_of_another_version_are_problems(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = home / "python"
    other.write_text("#!/bin/sh\necho 3.8\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    monkeypatch.setenv("PYSPARK_DRIVER_PYTHON", str(home / "none"))
    monkeypatch.setenv("JAVA_HOME", str(home / "none"))
    findings = examine("sqlite:///x.db")
    assert [one.state for one in of(findings, "python")] == ["ok", "problem", "problem"]
    assert "does not run" in of(findings, "python")[1].detail
    assert "is Python 3.8" in of(findings, "python")[2].detail
    assert only(findings, "java").state == "problem"


def test_a_store_with_what_waits_for_it(home: Path) -> None:
    url = f"sqlite:///{home}/lineage.db"
    store_run(url, home)
    (home / "spool" / "app-2").mkdir(parents=True)
    findings = examine(url)
    assert only(findings, "store").detail.endswith("1 applications")
    assert (only(findings, "spool").state, "1 applications" in only(findings, "spool").detail) == (
        "warning",
        True,
    )


def test_an_application_of_the_future_tells_of_a_clock(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{home}/lineage.db"
    store_run(url, home, started_at=5_000.0)
    monkeypatch.setattr("lineage.doctor.time.time", lambda: 4_000.0)
    assert "1,000 s from now" in only(examine(url), "clock").detail


def test_what_is_no_store_and_servers_that_are_away_are_problems(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "text.db").write_text("no database" * 100)
    monkeypatch.setattr(doctor, "ANSWER_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        away = taken.getsockname()[1]
    monkeypatch.setenv("LINEAGE_KAFKA", f"127.0.0.1:{away}")
    monkeypatch.setenv("LINEAGE_REDIS", f"redis://127.0.0.1:{away}")
    findings = examine(f"sqlite:///{home}/text.db")
    for part in ("store", "kafka", "redis"):
        assert only(findings, part).state == "problem", part
    assert "LINEAGE_KAFKA" in only(findings, "kafka").detail


def test_a_setting_that_can_not_be_used_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LINEAGE_MEMORY_MB", "much")
    assert "memory_mb" in only(examine("sqlite:///x.db"), "settings").detail


PROGRAM = """
import csv
from pyspark.ml.feature import Tokenizer
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
lines = spark.sparkContext.textFile("in").mapPartitions(lambda it: csv.reader(it))
(
    spark.read.option("header", True)
    .csv("a.csv")
    .write.parquet("out")
)
spark.readStream.format("kafka").load()
table = {}
table.json = csv.json
"""


def test_a_program_is_looked_at_and_not_run(home: Path) -> None:
    job = home / "job.py"
    job.write_text(PROGRAM + "open('touched', 'w')\n")
    found = {one.name: one for one in check_program(job)}
    assert {name: one.share for name, one in found.items()} == {
        "textFile": "captured",
        "csv": "recorded",
        "parquet": "recorded",
        "mapPartitions": "superset",
        "pyspark.ml": "not captured",
        "readStream": "recorded",
    }
    assert found["csv"].lines == (9,)
    assert found["readStream"].words().startswith("readStream (line 12): batch by batch")
    assert not (home / "touched").exists()


@pytest.mark.parametrize("text", [b"def f(:", b"\x00", b"x = " + b"(" * 5_000])
def test_what_is_no_program_is_said_to_be_none(home: Path, text: bytes) -> None:
    job = home / "job.py"
    job.write_bytes(text)
    with pytest.raises(ProgramError, match=r"job\.py"):
        check_program(job)
    with pytest.raises(ProgramError, match="can't read"):
        check_program(home / "none.py")


def test_the_command_tells_by_its_exit_code(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(home / "jdk", "17.0.15")))
    job = home / "job.py"
    job.write_text(PROGRAM)
    told = CliRunner().invoke(app, ["doctor", str(job)])
    assert (told.exit_code, "0 problems, 2 warnings" in told.output) == (0, True), told.output
    monkeypatch.setenv("JAVA_HOME", str(home / "none"))
    told = CliRunner().invoke(app, ["doctor", "--json"])
    assert (told.exit_code, json.loads(told.output)["ok"]) == (1, False)


def test_what_is_said_of_rdds_is_what_the_reference_says() -> None:
    """Of methods whose names both know: RDDs' and contexts', but for ``rdd`` and ``toDF`` of DataFrames and methods of streams."""
    said = claims("RDD") | claims("SparkContext")
    exact, superset = (
        {name for name in SHARES[of] if name in said} for of in ("captured", "superset")
    )
    assert {said[name] for name in exact} == {"exact"}
    assert superset == {name for name in said if said[name] == "superset"}
    of_streams = {"textFileStream", "queueStream", "saveAsTextFiles", "foreachRDD"}
    assert SHARES["captured"] - exact == {"rdd", *of_streams}
