"""How Spark is started for traces where it is not to be confined: as without a sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from lineage_dataframes.errors import NoSparkError
from lineage_dataframes.spark.class_archive import JAVA_OPTION_VARIABLES, OPTIONS, archive_file
from lineage_dataframes.spark.own_spark import start_spark

pytestmark = pytest.mark.unit

OF_PYSPARK = ("_PYSPARK_DRIVER_CONN_INFO_PATH", "SPARK_CONNECT_MODE")
"""Variables that PySpark itself sets at each start."""


@pytest.mark.parametrize("off", ["off", "OFF"])
def test_where_the_sandbox_is_off_java_is_started_as_without_one(
    off: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    for name in (*JAVA_OPTION_VARIABLES, OPTIONS, "LINEAGE_TRACING_SANDBOX", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {
        "JAVA_HOME": str(home),
        "SPARK_HOME": "/spark",
        "LINEAGE_CACHE": str(tmp_path / "cache"),
        "LM_SECRET": "a secret",
        # Of no effect.
        "LINEAGE_TRACING_NETWORK": "perhaps",
        "LINEAGE_TRACING_ROOTS": "/elsewhere",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LINEAGE_TRACING_SANDBOX", off)
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    started: list[tuple[list[str], dict[str, str]]] = []

    def popen(command: list[str], *, env: dict[str, str], **_: Any) -> None:
        started.append((command, env))
        raise OSError("no such program")

    monkeypatch.setattr(java_gateway, "Popen", popen)
    before = dict(os.environ)
    with pytest.raises(NoSparkError) as refused:
        start_spark("local[2]", tmp_path / "folder", archived=True)
    [(command, env)] = started
    words = [
        "spark.app.name=lineage trace",
        "spark.master=local[2]",
        "spark.log.level=ERROR",
        "spark.ui.enabled=false",
        "spark.ui.showConsoleProgress=false",
        f"spark.sql.warehouse.dir={tmp_path / 'folder'}",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.driver.host=127.0.0.1",
        "spark.authenticate=true",
        "spark.task.maxDirectResultSize=2047m",
        "spark.rpc.message.maxSize=2047",
        "spark.python.worker.reuse=false",
    ]
    assert command[0] == "/spark/./bin/spark-submit"
    assert command[-1] == "pyspark-shell"
    assert command[1:-1:2] == ["--conf"] * len(words)
    assert sorted(command[2:-1:2]) == sorted(words)
    file = archive_file()
    assert file is not None
    options = (
        f"-XX:ArchiveClassesAtExit={file}.{os.getpid()} -Xlog:disable -XX:+DisplayVMOutputToStderr"
    )
    own = {name: env[name] for name in OF_PYSPARK if name in env}
    assert env == {**before, **own, OPTIONS: options}
    assert str(refused.value) == "no such program"
    assert {**os.environ, **own} == {**before, **own}
