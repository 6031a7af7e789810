"""Two releases in one namespace, each with its own servers: neither knows of the other."""

from __future__ import annotations

import pytest

from tests.kube.cluster import Namespace
from tests.kube.release import Release, installed
from tests.kube.word_counts import (
    JOB_LIMIT_S,
    applications,
    assert_lineage_is_that_of_the_text,
    example,
    rows_of,
    start,
)

pytestmark = pytest.mark.kube


def test_two_releases_in_one_namespace(space: Namespace) -> None:
    with installed(space, name="risk") as risk:
        with installed(space, name="sales") as sales:
            start(space, example("local", risk))
            (app,) = applications(space.finished("wordcount", JOB_LIMIT_S))
            with risk.api() as api:
                assert_lineage_is_that_of_the_text(api, app, rows_of(space, "/data/out"))
            assert _applications(sales) == []
            for release in (risk, sales):
                # Sends an event of its own, reads its trace back, and deletes it.
                release.helm("test", release.name, "--timeout=180s")
            assert _applications(sales) == []
        # The other is gone, with all that was its own.
        assert _applications(risk) == [app]
        risk.helm("test", risk.name, "--timeout=180s")


def _applications(release: Release) -> list[str]:
    with release.api() as api:
        return [one["app"] for one in api.asked("GET", "/v1/applications")["items"]]
