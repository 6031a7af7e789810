"""The benchmark jobs, small: what each measured, gathered."""

from __future__ import annotations

import json

import pytest

from benchmarks.gather import Cluster, finished, gather
from tests.kube.cluster import Namespace, kustomized
from tests.kube.release import Release
from tests.kube.word_counts import named

pytestmark = pytest.mark.kube

JOBS_LIMIT_S = 900
LITTLE = {"BENCHMARK_SIZE": "1MB", "BENCHMARK_ROWS": "10000", "BENCHMARK_PAIRS": "1"}


def test_benchmarks_of_capture(space: Namespace) -> None:
    found = _run(space, "infra/benchmarks")
    assert set(found) == {"lineage-wordcount", "lineage-grep", "lineage-join"}


def test_benchmarks_of_the_pipeline(release: Release) -> None:
    # Beside the release: there are its password and those whom its policies let in.
    found = _run(release.namespace, "infra/benchmarks/pipeline")
    assert set(found) == {
        "lineage-pipeline-wordcount-kafka",
        "lineage-pipeline-wordcount-pipeline",
    }


def _run(space: Namespace, folder: str) -> set[str]:
    manifests = kustomized(folder)
    named(manifests, "ConfigMap", "benchmark-parameters")["data"].update(LITTLE)
    space.apply(manifests)
    cluster = Cluster(space.name)
    rows, problems = gather(cluster, finished(cluster, JOBS_LIMIT_S))
    assert not problems, "\n".join(problems)
    for row in rows:
        assert row["provenance"]["commit"], json.dumps(row)
        if "witnesses" in row:
            asked = row["witnesses"]
            assert asked["rows"], json.dumps(row)
            assert asked["found"] >= asked["expected"], json.dumps(row)
    return {row["job"] for row in rows}
