"""What a task loads to run captured functions: none of what only the driver needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

# Classes of these are in the functions that tasks run.
RUN_BY_TASKS = (
    "attempts",
    "batches",
    "buckets",
    "by_record",
    "combiner",
    "detail",
    "driver_sinks",
    "equal_keys",
    "join_by_key",
    "keeping",
    "lines",
    "named_rows",
    "operators",
    "pairs",
    "segment",
    "shuffles",
    "stamps",
    "whole_batches",
)
OF_THE_DRIVER = ("captured", "commit_thread", "context", "jobs", "rdd", "session", "settings")
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
    given = json.dumps([OF_THE_DRIVER, [*RUN_BY_TASKS, "daemon"]])
    words = [sys.executable, "-c", PROGRAM, given]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
