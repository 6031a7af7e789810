"""Clean environments with the wheel that users install."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "requirements.lock"
JOB = """
import sys
from pyspark import SparkContext
from pyspark.sql import SparkSession

with SparkContext("local[1]", "totals") as sc:
    pairs = sc.textFile(sys.argv[1]).map(lambda line: (line[0], int(line[1:])))
    pairs.reduceByKey(lambda a, b: a + b).map(str).coalesce(1).saveAsTextFile(sys.argv[2])
"""


class Installed:
    """An environment that holds the wheel with some extras, and a folder to work in.

    ``python``: its interpreter, this one by default. ``packages``: what it holds besides. ``locked``: with the lock's versions.
    """

    def __init__(
        self,
        folder: Path,
        extras: str,
        python: str = sys.executable,
        packages: Sequence[str] = (),
        *,
        locked: bool = True,
    ) -> None:
        self.home = folder / "work"
        self.home.mkdir(parents=True)
        self.bin = folder / "venv" / "bin"
        (wheel,) = (ROOT / "build" / "wheels").glob("*.whl")
        self._uv("venv", "--python", python, str(folder / "venv"))
        self._uv(
            *("pip", "install", "--python", str(self.bin / "python")),
            *(("--constraint", str(LOCK)) if locked else ()),
            *("--build-constraints", str(LOCK)),
            *(f"{wheel}{extras}", *packages),
        )
        kept = ("HOME", "JAVA_HOME", "LANG", "TMPDIR")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.environment["PATH"] = f"{self.bin}:{os.environ['PATH']}"
        # A session in the background would outlive its test.
        self.environment["LINEAGE_SESSION_S"] = "0"

    def run(self, program: str, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the folder."""
        return subprocess.run(
            [self.bin / program, *words],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    def _uv(self, *words: str) -> None:
        done = subprocess.run(
            [uv(), "--quiet", *words], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def uv() -> str:
    """The program that installs packages."""
    return str(ROOT / ".tools" / "bin" / "uv")
