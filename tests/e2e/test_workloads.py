"""The benchmark's jobs on small inputs: what traces say is what plain Python says."""

from __future__ import annotations

import runpy
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from benchmarks.catalog import WORKLOADS, Workload
from benchmarks.correctness import witness_counts
from benchmarks.pairs import RunError, Setup
from benchmarks.witnesses import of_ranks
from lineage_emitter import LineageContext
from lineage_store.url import open_store
from tests.support.job_runs import STORE, judged

pytestmark = pytest.mark.e2e

SMALL = {
    **dict.fromkeys(("wordcount", "grep", "sort", "distinct", "group"), 30_000),
    "tweets": 1_500_000,
    **dict.fromkeys(("join", "join-key"), 300),
    "pagerank": 2_000,
}
TURNS = 2


class ContextOfTheTest:
    """Stands for the class that a job makes its SparkContext by."""

    def __init__(self, lc: Any) -> None:
        lc.stop = lambda: None
        self._lc = lc

    def __call__(self, appName: str = "") -> Any:
        return self._lc


@dataclass(frozen=True)
class CapturedWorkload:
    """A workload that ran under capture: what it read, and where it wrote."""

    workload: Workload
    app: str
    source: Path
    out: Path


def captured(
    name: str, spark_context: SparkContext, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> CapturedWorkload:
    """Run a workload over a small input, into a store in the folder."""
    workload = WORKLOADS[name]
    if name == "pagerank":
        workload = replace(workload, extra=(str(TURNS),), witnesses=of_ranks(TURNS))
    source, out = workload.prepare(folder / "inputs", SMALL[name]), folder / "out"
    script, *arguments = workload.arguments(source, out, 2)
    chosen = {key.removeprefix("LINEAGE_").lower(): v for key, v in workload.settings.items()}
    url = f"sqlite:///{folder / STORE}"
    with LineageContext(spark_context, store=url, link=True, **chosen) as lc:
        monkeypatch.setattr("pyspark.SparkContext", ContextOfTheTest(lc))
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(script, run_name="__main__")
    monkeypatch.undo()
    return CapturedWorkload(workload, lc.app, source, out)


@pytest.mark.parametrize("name", SMALL)
def test_traces_name_the_lines_that_made_a_row(
    name: str, spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = captured(name, spark_context, tmp_path, monkeypatch)
    workload = run.workload
    assert judged(tmp_path, run.app).reasons == ()
    setup = Setup(workload, run.source, tmp_path, 2, 2)
    with open_store(f"sqlite:///{tmp_path / STORE}") as store:
        whereabouts = (run.out, store, run.app, tmp_path / "index")
        counts = witness_counts(setup, *whereabouts)
        assert counts["rows"] == (11 if name == "tweets" else workload.sampled_rows)
        assert counts["expected"] >= counts["rows"]
        if name == "join-key":
            assert counts["superset_rows"] == counts["rows"]
            assert counts["found"] > counts["expected"]
        else:
            assert (counts["superset_rows"], counts["found"]) == (0, counts["expected"])
        wrong = replace(workload, witnesses=lambda *given: [{("in", 1)} for _ in given[1]])
        with pytest.raises(RunError, match=r"the trace leaves out \[\('in', 1\)\]"):
            witness_counts(replace(setup, workload=wrong), *whereabouts)
