"""The versions of Spark stand in several places: locks, make's targets, what capture takes and what may cross."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest

from lineage_dataframes.spark.versions import COMPARED_VERSIONS
from lineage_emitter.spark_versions import SUPPORTED
from scripts.lock import OTHER_SPARKS, SPARK

pytestmark = pytest.mark.unit

ROOT = Path(__file__).resolve().parents[3]
PINNED = re.compile(r"^pyspark==(\S+)", re.MULTILINE)
LOCKS = {
    SPARK: ROOT / "requirements.lock",
    **{other: ROOT / f"requirements-spark{other}.lock" for other in OTHER_SPARKS},
}


def metadata() -> dict[str, list[str]]:
    """What versions of PySpark require, as the locks are made by."""
    uv = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]
    return {one["version"]: one["requires-dist"] for one in uv["dependency-metadata"]}


def test_the_same_versions_stand_everywhere() -> None:
    (in_make,) = re.findall(r"^SPARKS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert tuple(in_make.split()) == OTHER_SPARKS
    assert set(SUPPORTED) == {SPARK, *OTHER_SPARKS} == COMPARED_VERSIONS
    assert {lock.name for lock in ROOT.glob("requirements*.lock")} == {
        lock.name for lock in LOCKS.values()
    }


@pytest.mark.parametrize("spark", LOCKS)
def test_a_lock_pins_its_version_and_what_that_requires_is_written_down(spark: str) -> None:
    (pinned,) = PINNED.findall(LOCKS[spark].read_text())
    assert pinned.startswith(f"{spark}.")
    assert pinned in metadata()


def test_what_is_written_down_is_what_the_version_requires() -> None:
    required = [one for one in requires("pyspark") or () if ";" not in one]
    ((name, bounds),) = [re.split(r"(?=[<>=!])", one, maxsplit=1) for one in required]
    (written,) = metadata()[version("pyspark")]
    assert written.removeprefix(name).split(",") == sorted(bounds.split(","), reverse=True)
