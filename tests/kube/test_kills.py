"""Pods killed, and linkers added and taken away, while jobs send: nothing is lost, nothing is there twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.kube.cluster import Namespace, until
from tests.kube.release import Release
from tests.kube.word_counts import (
    applications,
    assert_lineage_is_that_of_the_text,
    container_of,
    example,
    rows_of,
    start,
)

pytestmark = pytest.mark.kube

RUNS = 3
SERVICES = ("linker", "writer", "query-api")
REPLACED_LIMIT_S = 60
JOBS_LIMIT_S = 900
"""Of several jobs, one after the other, on a machine that has other things to do."""


def test_every_service_is_killed_while_jobs_run(release: Release, space: Namespace) -> None:
    manifests = example("local", release)
    container = container_of(manifests)
    container["args"] = [
        *("sh", "-ec"),
        f"for run in $(seq {RUNS}); do "
        "lineage run /opt/job/wordcount.py /input /data/out-$run; done",
    ]
    start(space, manifests)
    killed = dict.fromkeys(SERVICES, 0)
    for service, linkers in zip(itertools.cycle(SERVICES), _linkers(), strict=False):
        _kill(release, service)
        killed[service] += 1
        _scale(release, linkers)
        if _is_over(space) and min(killed.values()) > 0:
            break
    apps = applications(space.finished("wordcount", JOBS_LIMIT_S))
    assert len(apps) == RUNS
    with release.api() as api:
        found = []
        for number, app in enumerate(apps, 1):
            assert_lineage_is_that_of_the_text(api, app, rows_of(space, f"/data/out-{number}"))
            found.append(api.complete(app))
    # The same program over the same text: as many flows and pairs each time, none of them twice.
    assert len({(one["flows"], one["associations"]) for one in found}) == 1, found


def _linkers() -> Iterator[int]:
    """How many there are to be, one kill after the other: 1, 3, 1, 1, 3, 1 ..."""
    return itertools.cycle((1, 3, 1))


def _kill(release: Release, service: str) -> None:
    """As a node that fails would: no signal to heed, no time to stop. Returns when it is ready again."""
    space = release.namespace
    before = set(space.names("pods", release.labels(service)))
    space.kubectl("delete", min(before), "--grace-period=0", "--force")
    until(
        lambda: True if set(space.names("pods", release.labels(service))) - before else None,
        REPLACED_LIMIT_S,
        f"another {service}",
    )
    _ready(release, service)


def _scale(release: Release, linkers: int) -> None:
    space = release.namespace
    space.kubectl("scale", f"deployment/{release.component('linker')}", f"--replicas={linkers}")
    until(
        lambda: True if len(space.names("pods", release.labels("linker"))) == linkers else None,
        REPLACED_LIMIT_S,
        f"{linkers} linkers",
    )
    _ready(release, "linker")


def _ready(release: Release, service: str) -> None:
    # The pods themselves: what a Deployment says of them comes later.
    wait = ("--for=condition=Ready", "--timeout=280s")
    release.namespace.kubectl("wait", "pods", "-l", release.labels(service), *wait, limit_s=300)


def _is_over(space: Namespace) -> bool:
    return bool(space.get("job", "wordcount")["status"].get("conditions"))
