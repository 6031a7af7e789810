"""The benchmark jobs, small: what each measured, gathered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType

import pytest

from benchmarks.gather import Cluster, finished, gather
from tests.kube.cluster import Namespace, kustomized
from tests.kube.release import Release

pytestmark = pytest.mark.kube

JOBS_LIMIT_S = 900
LITTLE = {"BENCHMARK_SIZE": "1MB", "BENCHMARK_ROWS": "10000", "BENCHMARK_PAIRS": "1"}


def test_benchmarks_of_capture(space: Namespace) -> None:
    found = _run(space, "infra/benchmarks")
    assert set(found) == {
        "lineage-benchmark-wordcount",
        "lineage-benchmark-grep",
        "lineage-benchmark-join",
    }


def test_benchmarks_of_the_pipeline(release: Release) -> None:
    # Beside the release: there are its password and those whom its policies let in.
    kafka, neo4j = (release.component(name) for name in ("kafka", "neo4j"))
    servers = {"LINEAGE_KAFKA": f"{kafka}:9092", "LINEAGE_STORE": f"neo4j://{neo4j}:7687"}
    found = _run(release.namespace, "infra/benchmarks/pipeline", servers)
    assert set(found) == {
        "lineage-pipeline-benchmark-wordcount-kafka",
        "lineage-pipeline-benchmark-wordcount-pipeline",
    }


def _run(
    space: Namespace, folder: str, parameters: Mapping[str, str] = MappingProxyType({})
) -> set[str]:
    manifests = kustomized(folder)
    (found,) = (one for one in manifests if one["kind"] == "ConfigMap")
    found["data"].update(LITTLE | dict(parameters))
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
