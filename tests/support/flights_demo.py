"""The demo of the flights, as a person runs it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from tests.support.job_runs import applications, run_program

DEMO = Path(__file__).resolve().parents[2] / "examples" / "flights" / "demo.py"


class Demo(NamedTuple):
    """What it printed, where it worked, and the application that it left there."""

    printed: str
    work: Path
    app: str


def run_demo(folder: Path) -> Demo:
    """Run it below a folder."""
    done = run_program(folder, [sys.executable, str(DEMO), "work"])
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    (application,) = applications(folder / "work")
    return Demo(done.stdout, folder / "work", application["app"])
