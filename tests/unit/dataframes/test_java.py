"""The Java and PySpark of this machine: which are taken for traces, and what is said where one is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lineage import serving
from lineage_core.environment import extras
from lineage_dataframes.spark import java
from lineage_dataframes.spark.java import find_java, missing_for_spark

pytestmark = pytest.mark.unit


def make_java(folder: Path, version: str, modules: str = java.VECTOR) -> str:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f"case $1 in -version) echo 'openjdk version \"{version}\"' >&2;; *) echo '{modules}';; esac\n"
    )
    program.chmod(0o755)
    return str(folder)


@pytest.fixture(autouse=True)
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any; the folder where others are installed."""
    installed = tmp_path / "jvm"
    installed.mkdir()
    monkeypatch.setattr(java, "INSTALLED", installed)
    monkeypatch.setattr(java, "spark_version", lambda: "4.1.4")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    return installed


def test_the_first_that_fits_is_taken(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_java("4.1").problem == "no java on the PATH"
    old = make_java(no_java / "a", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", old)
    found = find_java("4.1")
    assert (found.home, "is Java 11" in found.problem) == (old, True)
    make_java(no_java / "b", "21.0.1", "java.base")
    fits = make_java(no_java / "c", "17.0.9")
    assert (find_java("4.1").home, find_java("4.1").problem) == (fits, "")
    # Of 3.5 the one that is set fits.
    assert find_java("3.5.5").home == old


def test_what_is_missing_is_said_with_what_brings_it(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = missing_for_spark("it")
    assert "no java on the PATH" in said
    assert "install Java 17" in said
    monkeypatch.setenv("JAVA_HOME", make_java(no_java / "a", "17.0.9"))
    assert missing_for_spark("it") == ""

    def find(name: str, *_: Any) -> object | None:
        return None if name == "pyspark" else object()

    monkeypatch.setattr(extras, "find_spec", find)
    assert "the extra [spark]" in missing_for_spark("it")


def test_the_page_of_a_machine_has_a_spark_of_its_own(
    no_java: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LINEAGE_SPARK_MASTER", "LINEAGE_API_QUERY_S"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("JAVA_HOME", make_java(no_java / "a", "11"))
    fits = make_java(no_java / "b", "17.0.9")
    assert serving._spark() == {"spark_master": "local[*]", "api_query_s": serving.QUERY_LONG_S}
    assert os.environ["JAVA_HOME"] == fits
    # What the user has set stays.
    monkeypatch.setenv("LINEAGE_SPARK_MASTER", "sc://there")
    monkeypatch.setenv("LINEAGE_API_QUERY_S", "5")
    assert serving._spark() == {}
