"""Whoever may write into the working directory of a command has nothing run by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.job_runs import CLI, run_program

pytestmark = pytest.mark.security
JOB = """
import sys
import beside
from lineage_dataframes.sandbox import policy

print("ran", beside.NAME, *sys.argv[1:])
print("own folder is a root:", any("programs" in one for one in policy.system_files()))
try:
    import elsewhere
except ModuleNotFoundError:
    print("not from the working directory")
"""


def test_a_captured_program_takes_no_module_from_the_working_directory(tmp_path: Path) -> None:
    here, programs = tmp_path / "here", tmp_path / "programs"
    here.mkdir()
    programs.mkdir()
    # What lineage, PySpark and the standard library import.
    for name in ("json", "shlex", "hashlib", "random", "elsewhere", "pyspark", "lineage_core"):
        (here / f"{name}.py").write_text("print('RUN FROM HERE')")
    (programs / "beside.py").write_text("NAME = 'beside'")
    (programs / "job.py").write_text(JOB)
    done = run_program(here, [CLI[0], "-P", *CLI[1:], "run", str(programs / "job.py"), "a b"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ran beside a b",
        "own folder is a root: False",
        "not from the working directory",
    ]
