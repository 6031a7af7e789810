"""A short draw of the hunt (`tests.hunt`): the same programs on each run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.job_runs import environment

pytestmark = pytest.mark.faults

ROOT = Path(__file__).resolve().parents[2]
SECONDS = "120"
"""Bounds a busy machine: the draw is over after so many programs."""


@pytest.mark.parametrize(("kind", "programs"), [("blocks", "100"), ("plain", "12")])
def test_programs_nobody_wrote(kind: str, programs: str, tmp_path: Path) -> None:
    log = tmp_path / "hunt.jsonl"
    bounds = ("--seed", "1", "--seconds", SECONDS, "--programs", programs, "--log", str(log))
    done = subprocess.run(
        [sys.executable, "-m", "tests.hunt", *bounds, "--only", kind],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert log.read_text()
