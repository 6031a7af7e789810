"""The published design over real servers: what it stores and links is what plain Python counts."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from benchmarks.baselines.record_level.capture import RecordContext
from benchmarks.baselines.record_level.row import checked
from benchmarks.baselines.record_level.sender import Target
from benchmarks.baselines.record_level.servers import PARTITIONS, TOPIC, Servers, servers_in
from benchmarks.catalog import WORKLOADS
from benchmarks.pairs import RunError, Setup, check_same_output

pytestmark = pytest.mark.integration

SIZES = {"wordcount": 20_000, "grep": 20_000, "tweets": 300_000}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    with servers_in(tmp_path_factory.mktemp("record-level") / "servers") as found:
        yield found


class NeverStopped:
    """A context that the job can't end."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def stop(self) -> None:
        return


def run(setup: Setup, context: Any, output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script, *arguments = setup.workload.arguments(setup.source, output, setup.partitions)
    with monkeypatch.context() as patched:
        patched.setattr("pyspark.SparkContext", lambda appName: NeverStopped(context))
        patched.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(script, run_name="__main__")


@pytest.mark.long
@pytest.mark.parametrize("name", SIZES)
def test_flows_links_and_traces_are_those_of_plain_python(
    name: str,
    servers: Servers,
    spark_context: SparkContext,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workload = WORKLOADS[name]
    source = workload.prepare(tmp_path / "inputs", SIZES[name])
    setup = Setup(workload, source, tmp_path, 2, 2)
    in_detail = workload.published_in_detail
    target = Target(servers.kafka.bootstrap, TOPIC, PARTITIONS, name, in_detail)
    # Workers of the Python that has what the baseline needs.
    monkeypatch.setattr(spark_context, "pythonExec", sys.executable)
    run(setup, spark_context, tmp_path / "plain", monkeypatch)
    run(setup, RecordContext(target, spark_context), tmp_path / "out", monkeypatch)
    check_same_output(tmp_path / "plain", tmp_path / "out")

    servers.until_loaded()
    with pytest.raises(RunError, match="'links': 0"):
        checked(setup, servers.graph, name, tmp_path / "out")
    servers.graph.link(name)
    found = checked(setup, servers.graph, name, tmp_path / "out")

    assert found["flows"] > found["links"] / 2 > 0
    assert found["witnesses"]["found"] == found["witnesses"]["expected"] > 0
    wrong = replace(workload, witnesses=lambda *given: [{("in", 1)} for _ in given[1]])
    with pytest.raises(RunError, match="name other lines"):
        checked(replace(setup, workload=wrong), servers.graph, name, tmp_path / "out")
