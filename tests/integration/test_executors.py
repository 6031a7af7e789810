"""Looking at executors before the first job: whatever they can't do ends capture, not the job."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext, cloudpickle

from lineage_emitter.session import executors

pytestmark = pytest.mark.integration


def test_executors_on_which_no_task_that_looks_runs_are_unfit(
    spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(executors.Probe):
        def __call__(self, split: int, records: Iterable[Any]) -> Iterator[tuple[str, str]]:
            raise RuntimeError("nothing runs here")

    monkeypatch.setattr(executors, "Probe", Broken)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    found = executors.check_executors(spark_context, tmp_path / "spool")
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert found.capture.startswith("a task that looked failed of RuntimeError")


def test_executors_like_the_drivers_are_fit(spark_context: SparkContext, tmp_path: Path) -> None:
    found = executors.check_executors(spark_context, tmp_path / "spool")
    assert found == executors.ExecutorFacts()
