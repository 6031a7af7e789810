"""Every service is replaced by an upgrade, and again by a rollback, while jobs send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kube.cluster import Namespace
from tests.kube.faults import pods
from tests.kube.release import SMALL, Release
from tests.kube.word_counts import (
    applications,
    assert_lineage_is_that_of_the_text,
    container_of,
    example,
    rows_of,
    start,
)

pytestmark = pytest.mark.kube

RUNS = 2
JOBS_LIMIT_S = 600
DEPLOYED = ("linker", "writer", "query-api")
SERVICES = ("linker", "writer", "queryApi")
CHANGED: Mapping[str, Any] = {
    **SMALL,
    **{service: {**SMALL[service], "logLevel": "warning"} for service in SERVICES},
}


def test_upgrade_and_rollback_while_jobs_run(release: Release, space: Namespace) -> None:
    manifests = example("local", release)
    container_of(manifests)["args"] = [
        *("sh", "-ec"),
        f"for run in $(seq {RUNS}); do "
        "lineage run /opt/job/wordcount.py /input /data/out-$run; done",
    ]
    start(space, manifests)
    before = set(pods(release, *DEPLOYED))
    release.install(CHANGED)
    upgraded = set(pods(release, *DEPLOYED))
    assert not before & upgraded, "the upgrade replaced no pod"
    release.helm("rollback", release.name, "--wait", "--timeout=280s")
    assert not upgraded & set(pods(release, *DEPLOYED)), "the rollback replaced no pod"
    apps = applications(space.finished("wordcount", JOBS_LIMIT_S))
    assert len(apps) == RUNS
    with release.api() as api:
        for number, app in enumerate(apps, 1):
            assert_lineage_is_that_of_the_text(api, app, rows_of(space, f"/data/out-{number}"))
    # Sends an event of its own and reads its trace back.
    release.helm("test", release.name, "--timeout=180s")
