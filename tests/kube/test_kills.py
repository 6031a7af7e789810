"""Pods killed, and linkers added and taken away, while jobs send: nothing is lost, nothing is there twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.kube.cluster import Namespace
from tests.kube.faults import kill, scale
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
        kill(release, service)
        killed[service] += 1
        scale(release, linkers)
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


def _is_over(space: Namespace) -> bool:
    return bool(space.get("job", "wordcount")["status"].get("conditions"))
