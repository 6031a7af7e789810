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


@pytest.mark.parametrize(
    ("kinds", "programs"),
    [(("calm", "blocks"), "80"), (("plain",), "12")],
    ids=["made-up", "plain"],
)
def test_programs_nobody_wrote(kinds: tuple[str, ...], programs: str, tmp_path: Path) -> None:
    log = tmp_path / "hunt.jsonl"
    bounds = ("--seed", "1", "--seconds", SECONDS, "--programs", programs, "--log", str(log))
    done = subprocess.run(
        [sys.executable, "-m", "tests.hunt", *bounds, "--only", *kinds],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    assert log.read_text()
    assert "hunted: " in done.stdout
    assert done.stdout.endswith("; 0 found\n")
