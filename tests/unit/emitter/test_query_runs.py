"""Queries whose batches can't be recorded are named."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lineage_emitter.dataframes.streams import QueryRun


def run_of(kind: str, trigger: str) -> QueryRun:
    """A query that Spark runs by a class, with a trigger."""
    execution = SimpleNamespace(
        getClass=lambda: SimpleNamespace(getSimpleName=lambda: kind),
        trigger=lambda: SimpleNamespace(toString=lambda: trigger),
    )
    named = SimpleNamespace(toString=lambda: "an id")
    java = SimpleNamespace(streamingQuery=lambda: execution, id=lambda: named, runId=lambda: named)
    sc: Any = None
    query: Any = SimpleNamespace(_jsq=java)
    return QueryRun(sc, query)


@pytest.mark.parametrize(
    ("kind", "trigger", "refusal"),
    [
        ("MicroBatchExecution", "AvailableNowTrigger", ""),
        ("MicroBatchExecution", "ProcessingTimeTrigger(0)", ""),
        (
            "ContinuousExecution",
            "ContinuousTrigger(1000)",
            "queries with the trigger `continuous` have no batches",
        ),
        (
            "MicroBatchExecution",
            "RealTimeTrigger(300000)",
            "batches of MicroBatchExecution with RealTimeTrigger are not recorded",
        ),
        (
            "AsyncProgressTrackingMicroBatchExecution",
            "ProcessingTimeTrigger(0)",
            "batches of AsyncProgressTrackingMicroBatchExecution with ProcessingTimeTrigger are not recorded",
        ),
    ],
)
def test_queries_without_batches_are_named(kind: str, trigger: str, refusal: str) -> None:
    assert run_of(kind, trigger).refusal == refusal
