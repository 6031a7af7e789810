"""A short draw of the hunt (`tests.hunt`): the same programs on each run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.hunt.put_back import FAULTS, Fault, put_back, seconds_until_found
from tests.support.job_runs import environment

pytestmark = pytest.mark.faults

ROOT = Path(__file__).resolve().parents[2]
SECONDS = "120"
"""Bounds a busy machine: the draw is over after so many programs."""


@pytest.mark.parametrize(
    ("kinds", "programs"),
    [
        pytest.param(("calm", "blocks"), "60", id="made-up", marks=pytest.mark.long),
        pytest.param(("plain",), "6", id="plain"),
    ],
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


@pytest.mark.parametrize("fault", FAULTS, ids=lambda one: one.name)
def test_faults_can_be_put_back(fault: Fault, tmp_path: Path) -> None:
    packages = put_back(fault, tmp_path)
    assert all(any(package.iterdir()) for package in packages)


def test_a_fault_that_is_put_back_is_found() -> None:
    fault = next(one for one in FAULTS if one.name == "attempts")
    assert "found after" in seconds_until_found(fault, "blocks", 1, float(SECONDS))
