"""Services and servers killed, and the release upgraded, again and again while jobs send.

How often, the options say: ``make test-kube ARGS='-k soak --kills 30 --upgrades 5'``.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.kube.cluster import Namespace
from tests.kube.faults import kill, pods
from tests.kube.release import SERVERS, SMALL, Release, installed
from tests.kube.word_counts import (
    assert_lineage_is_that_of_the_text,
    container_of,
    example,
    inside,
    rows_of,
    start,
)

pytestmark = pytest.mark.kube

LAST_LIMIT_S = 600
"""Of the run that goes on when the last pod was killed, and of sending what waits."""
SERVICES = ("linker", "writer", "query-api")
VALUES = ("linker", "writer", "queryApi")
LASTING: Mapping[str, Any] = {
    **SMALL,
    "tryout": {
        **SMALL["tryout"],
        **{
            server: {**SMALL["tryout"][server], "persistence": {"enabled": True, "size": "1Gi"}}
            for server in SERVERS
        },
    },
}
"""On disks that outlive the pods of the servers."""


@pytest.fixture
def lasting(space: Namespace) -> Iterator[Release]:
    """A release whose servers keep their data."""
    for server in SERVERS:
        space.volume(f"data-lineage-master-{server}-0", "1Gi")
    with installed(space, LASTING) as made:
        yield made


# As long as its kills take; each of them has a limit of its own.
@pytest.mark.timeout(0)
def test_soak(
    lasting: Release,
    space: Namespace,
    pytestconfig: pytest.Config,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kills: int = pytestconfig.getoption("--kills")
    upgrades: int = pytestconfig.getoption("--upgrades")
    manifests = example("local", lasting)
    # What Kafka did not take while it was away is sent at the end.
    container_of(manifests)["args"] = [
        *("sh", "-ec"),
        "run=0; while [ ! -e /data/stop ]; do run=$((run + 1)); "
        "lineage run /opt/job/wordcount.py /input /data/out-$run; done; lineage send",
    ]
    start(space, manifests)
    # An upgrade after so many kills; the levels of the logs alternate.
    every = max(kills // upgrades, 1) if upgrades else kills + 1
    levels = itertools.cycle(("warning", "info"))
    killed: Counter[str] = Counter()
    upgraded = 0
    for number, component in zip(
        range(kills), itertools.cycle((*SERVICES, *SERVERS)), strict=False
    ):
        kill(lasting, component)
        killed[component] += 1
        if (number + 1) % every == 0 and upgraded < upgrades:
            _upgrade(lasting, next(levels))
            upgraded += 1
    inside(space, "touch /data/stop")
    apps = re.findall(
        r"lineage: (\S+): (?:sent to Kafka|lineage waits)",
        space.finished("wordcount", LAST_LIMIT_S),
    )
    with lasting.api() as api:
        found = []
        for number, app in enumerate(apps, 1):
            assert_lineage_is_that_of_the_text(api, app, rows_of(space, f"/data/out-{number}"))
            found.append(api.complete(app))
        held = api.asked("GET", "/v1/applications?limit=1000")["items"]
        letters = api.asked("GET", "/v1/dead-letters")["items"]
    assert {one["app"] for one in held} == set(apps), "applications that no job told of"
    assert not letters
    # The same program over the same text: as many flows and pairs each time, none of them twice.
    assert len({(one["flows"], one["associations"]) for one in found}) == 1, found
    with capsys.disabled():
        told = {"kills": dict(killed), "upgrades": upgraded, "applications": len(apps)}
        sys.stdout.write(
            f"\nsoak: {json.dumps(told)}: all complete, every row exact, no dead letter\n"
        )


def _upgrade(release: Release, level: str) -> None:
    before = set(pods(release, *SERVICES))
    release.install({**LASTING, **{one: {**LASTING[one], "logLevel": level} for one in VALUES}})
    assert not before & set(pods(release, *SERVICES)), "the upgrade replaced no pod"
