"""Values that can't work are refused before anything is installed, in words that say what to do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube.cluster import CommandFailed, Namespace
from tests.kube.release import CHART, SMALL, Release

pytestmark = pytest.mark.kube


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"linker": {"replicaCount": 3}}, "replicaCount"),
        ({"linker": {"replicas": "three"}}, "integer"),
        ({}, "kafka.bootstrapServers is not set"),
        ({**SMALL, "kafka": {"bootstrapServers": "kafka:9092"}}, "choose one of them"),
        ({**SMALL, "ingress": {"enabled": True}}, "set ingress.host"),
    ],
    ids=["unknown", "type", "no servers", "two Kafkas", "no host"],
)
def test_wrong_values_are_refused(space: Namespace, values: dict[str, Any], said: str) -> None:
    release = Release(space)
    with pytest.raises(CommandFailed) as refused:
        release.helm("install", release.name, str(CHART), values=values)
    assert said in str(refused.value)
    assert not release.left()
