"""Two releases in one namespace, each with its own servers: neither knows of the other."""

from __future__ import annotations

import pytest

from tests.kube.cluster import Namespace
from tests.kube.release import Release, installed

pytestmark = pytest.mark.kube


def test_two_releases_in_one_namespace(space: Namespace) -> None:
    with installed(space, name="risk") as risk:
        with installed(space, name="sales") as sales:
            for release in (risk, sales):
                # Sends an event of its own and reads its trace back.
                release.helm("test", release.name, "--timeout=180s")
            assert len(_applications(risk)) == len(_applications(sales)) == 1
            assert not _applications(risk) & _applications(sales)
        # The other is gone, with all that was its own.
        assert len(_applications(risk)) == 1
        risk.helm("test", risk.name, "--timeout=180s")


def _applications(release: Release) -> set[str]:
    with release.api() as api:
        return {one["app"] for one in api.asked("GET", "/v1/applications")["items"]}
