"""Run a job as it is, with its records captured as published: RECORD_... say where to.

RECORD_KAFKA=HOST:PORT RECORD_TOPIC=flows RECORD_PARTITIONS=4 RECORD_APP=a RECORD_DETAILED=false \
    python -m benchmarks.baselines.record_level.run job.py ARGS
"""

from __future__ import annotations

import os
import runpy
import sys

import pyspark
from pyspark import SparkContext

from benchmarks.baselines.record_level.capture import RecordContext
from benchmarks.baselines.record_level.sender import Target


def settings_for(target: Target) -> dict[str, str]:
    """Environment variables for a run that sends there."""
    return {
        "RECORD_KAFKA": target.bootstrap,
        "RECORD_TOPIC": target.topic,
        "RECORD_PARTITIONS": str(target.partitions),
        "RECORD_APP": target.app,
        "RECORD_DETAILED": str(target.detailed).lower(),
    }


def target_here() -> Target:
    """What the environment says."""
    return Target(
        os.environ["RECORD_KAFKA"],
        os.environ["RECORD_TOPIC"],
        int(os.environ["RECORD_PARTITIONS"]),
        os.environ["RECORD_APP"],
        os.environ["RECORD_DETAILED"] == "true",
    )


def main() -> None:
    """Command line entry."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    del sys.argv[0]
    target = target_here()

    def context(appName: str) -> RecordContext:
        return RecordContext(target, SparkContext(appName=appName))

    pyspark.SparkContext = context  # type: ignore[assignment,misc]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
