"""Spark jobs on the cluster, as the examples run them: their lineage, asked through the Service."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube.cluster import Namespace, until
from tests.kube.release import Release
from tests.kube.word_counts import (
    JOB_LIMIT_S,
    applications,
    assert_lineage_is_that_of_the_text,
    container_of,
    example,
    inside,
    named,
    rows_of,
    start,
)

pytestmark = pytest.mark.kube

HELD = Path(__file__).with_name("jobs") / "held_wordcount.py"
EXECUTORS = "spark-role=executor"


def test_a_job_in_one_pod(release: Release, space: Namespace) -> None:
    start(space, example("local", release))
    (app,) = applications(space.finished("wordcount", JOB_LIMIT_S))
    with release.api() as api:
        assert_lineage_is_that_of_the_text(api, app, rows_of(space, "/data/out"))


def test_executors_as_pods_one_of_them_killed(release: Release, space: Namespace) -> None:
    manifests = example("executors", release)
    program = named(manifests, "ConfigMap", "wordcount-job")["data"]
    program["wordcount.py"] = HELD.read_text(encoding="utf-8")
    container_of(manifests)["args"].append("/data/gate")
    start(space, manifests)

    def waiting() -> list[str] | None:
        found = inside(space, "ls /data/gate 2>/dev/null || true").split()
        return found if len(found) == 2 else None

    # Both executors are in the last stage: each holds a part of what the shuffle wrote.
    until(waiting, JOB_LIMIT_S, "two executors in the last stage")
    before = set(space.names("pods", EXECUTORS))
    assert len(before) == 2
    space.kubectl("delete", min(before), "--grace-period=0", "--force")
    until(
        lambda: True if set(space.names("pods", EXECUTORS)) - before else None,
        JOB_LIMIT_S,
        "another executor in place of the killed one",
    )
    inside(space, "touch /data/gate/open")
    (app,) = applications(space.finished("wordcount", JOB_LIMIT_S))
    with release.api() as api:
        assert_lineage_is_that_of_the_text(api, app, rows_of(space, "/data/out"))
    assert space.names("pods", EXECUTORS) == [], "executors stayed behind"
