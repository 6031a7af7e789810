"""What a task loads to run captured functions: none of what only the driver needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lineage_emitter import worker

pytestmark = pytest.mark.unit

WORKER = sorted(
    f"worker.{file.stem}"
    for file in Path(worker.__path__[0]).glob("*.py")
    if file.stem != "__init__"
)
# Classes of these are in the functions that tasks run, too.
BESIDE = ("daemon", "driver.driver_sinks", "driver.pairs", "driver.shuffles")
OF_THE_DRIVER = (
    "context",
    "driver.captured",
    "driver.rdd",
    "session.commit_thread",
    "session.jobs",
    "session.session",
    "settings",
)
PROGRAM = """
import importlib, json, sys

told, names = json.loads(sys.argv[1])
for name in names:
    importlib.import_module(f"lineage_emitter.{name}")
    loaded = [one for one in told if f"lineage_emitter.{one}" in sys.modules]
    if loaded:
        sys.exit(f"{name} loads {loaded}")
"""


def test_a_task_loads_nothing_of_the_driver() -> None:
    given = json.dumps([OF_THE_DRIVER, [*WORKER, *BESIDE]])
    words = [sys.executable, "-c", PROGRAM, given]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
