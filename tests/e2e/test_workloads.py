"""The benchmark's jobs on small inputs: what traces say is what plain Python says."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from benchmarks.catalog import WORKLOADS
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


@pytest.mark.parametrize("name", SMALL)
def test_traces_name_the_lines_that_made_a_row(
    name: str, spark_context: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = WORKLOADS[name]
    if name == "pagerank":
        workload = replace(workload, extra=(str(TURNS),), witnesses=of_ranks(TURNS))
    source = workload.prepare(tmp_path / "inputs", SMALL[name])
    script, *arguments = workload.arguments(source, tmp_path / "out", 2)
    chosen = {key.removeprefix("LINEAGE_").lower(): v for key, v in workload.settings.items()}
    url = f"sqlite:///{tmp_path / STORE}"
    with LineageContext(spark_context, store=url, link=True, **chosen) as lc:
        monkeypatch.setattr("pyspark.SparkContext", ContextOfTheTest(lc))
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(script, run_name="__main__")
    monkeypatch.undo()
    assert judged(tmp_path, lc.app).reasons == ()
    setup = Setup(workload, source, tmp_path, 2, 2)
    with open_store(url) as store:
        whereabouts = (tmp_path / "out", store, lc.app, tmp_path / "index")
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
