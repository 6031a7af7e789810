"""The Java that Spark runs on: which one is here, and whether it fits. Needs no PySpark."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from lineage_core.environment.extras import require
from lineage_core.errors import MissingExtraError
from lineage_dataframes.sandbox.policy import java_home

JAVA = {"3.5": (8, 11, 17), "4": (17, 21)}
"""Versions of Java that versions of Spark run on."""
VECTOR = "jdk.incubator.vector"
"""A module of Java that Spark 4 starts with."""
ANSWER_S = 10.0
"""How long a Java may take to say its version."""
INSTALLED = Path("/usr/lib/jvm")
"""Where Linux distributions install Javas."""
HINT = "install Java 17 (Debian: openjdk-17-jre-headless), or point JAVA_HOME at one"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was examined. ``problem``: why Spark can't run on it; empty: it can."""

    home: str
    major: int
    problem: str

    @property
    def program(self) -> str:
        """The program ``java``."""
        return str(Path(self.home) / "bin" / "java")


def examine_java(home: str, spark: str) -> Java:
    """The Java of a folder (empty: there is none), for a version of Spark."""
    if not home:
        return Java("", 0, "no java on the PATH")
    program = str(Path(home) / "bin" / "java")
    output = output_of([program, "-version"])
    if output is None:
        return Java(home, 0, f"{program} does not run")
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    major = int(match[1]) if match else 0
    is_old = spark.startswith("3.")
    fits = JAVA["3.5"] if is_old else JAVA["4"]
    problem = ""
    if major not in fits:
        supported = " or ".join(map(str, fits))
        problem = f"{program} is Java {major or '?'}, Spark {spark} needs {supported}"
    elif not is_old and VECTOR not in (output_of([program, "--list-modules"]) or ""):
        problem = f"{program} has no module {VECTOR}, which Spark {spark} starts with"
    return Java(home, major, problem)


def find_java(spark: str) -> Java:
    """The first Java that fits of JAVA_HOME or the PATH and those of the system; else the one that Spark would take."""
    examined = None
    for home in _homes():
        java = examine_java(home, spark)
        if not java.problem:
            return java
        examined = examined or java
    return examined or examine_java("", spark)


def spark_version() -> str:
    """The version of the PySpark that is installed; empty: there is none."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


def missing_for_spark(feature: str) -> str:
    """What a Spark of this machine lacks to start, with what brings it; empty: nothing that is known.

    ``feature``: what needs it, in words.
    """
    try:
        require("pyspark", feature)
    except MissingExtraError as error:
        return str(error)
    if find_spec("py4j") is None:
        return "the package py4j, which PySpark needs, is not installed"
    problem = examine_java(java_home(), spark_version() or "4").problem
    return f"{problem}: {HINT}" if problem else ""


def _homes() -> Iterator[str]:
    if java_home():
        yield java_home()
    if INSTALLED.is_dir():
        yield from map(str, sorted(INSTALLED.iterdir()))


def output_of(command: list[str]) -> str | None:
    """The output of a program, on both streams; None: it fails, or takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_S,
            check=True,
            text=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout
