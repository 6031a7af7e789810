"""Word counts on the cluster: the examples' manifests, and what their lineage must be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kube.cluster import Namespace, kustomized
from tests.kube.release import Api, Release

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kubernetes"
STORIES = (EXAMPLES / "base" / "stories.txt").read_text(encoding="utf-8").splitlines()
JOB_LIMIT_S = 420
FILES = "files"
"""A pod that sees the data of the job."""

Manifests = list[dict[str, Any]]


def example(folder: str, release: Release) -> Manifests:
    """The manifests of an example, sending to a release."""
    manifests = kustomized(str(EXAMPLES / folder))
    kafka = f"{release.component('kafka')}.{release.namespace.name}:9092"
    named(manifests, "ConfigMap", "wordcount-lineage")["data"]["LINEAGE_KAFKA"] = kafka
    return manifests


def named(manifests: Manifests, kind: str, name: str) -> dict[str, Any]:
    """One manifest."""
    return next(one for one in manifests if (one["kind"], one["metadata"]["name"]) == (kind, name))


def container_of(manifests: Manifests) -> dict[str, Any]:
    """The one container of the Job."""
    pod = named(manifests, "Job", "wordcount")["spec"]["template"]["spec"]
    container: dict[str, Any] = pod["containers"][0]
    return container


def start(space: Namespace, manifests: Manifests) -> None:
    """Start the Job, and the pod that sees its data."""
    claim = named(manifests, "PersistentVolumeClaim", "wordcount-data")
    space.volume("wordcount-data", claim["spec"]["resources"]["requests"]["storage"])
    spec = named(kustomized(str(EXAMPLES / "local")), "Job", "wordcount")["spec"]["template"][
        "spec"
    ]
    spec["containers"][0] |= {"args": ["sleep", "infinity"], "resources": {}}
    # tini passes the signal on, and sleep heeds it.
    spec["terminationGracePeriodSeconds"] = 1
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": FILES}, "spec": spec}
    space.apply([*manifests, pod])
    space.kubectl("wait", "--for=condition=Ready", f"pod/{FILES}", "--timeout=110s")


def inside(space: Namespace, script: str) -> str:
    """What a shell prints that sees the data of the job."""
    return space.kubectl("exec", FILES, "--", "sh", "-c", script)


def applications(said: str) -> list[str]:
    """Of which `lineage run` told that their lineage was sent, in order."""
    return re.findall(r"lineage: (\S+): sent to Kafka", said)


def assert_lineage_is_that_of_the_text(
    api: Api, app: str, output: Sequence[tuple[str, str]]
) -> None:
    """Each row of the output is traced to just the lines of the text that hold its word.

    ``output``: places of rows, and the rows.
    """
    api.complete(app)
    assert len(output) == len({word for line in STORIES for word in line.split()})
    for place, row in output:
        word = row.split("\t")[0]
        found, exact = api.rows_behind(app, place)
        assert exact
        assert found == {
            f"/input/stories.txt:{number}"
            for number, text in enumerate(STORIES, 1)
            if word in text.split()
        }, word


def rows_of(space: Namespace, folder: str) -> list[tuple[str, str]]:
    """Places and rows of an output."""
    listed = inside(space, f"cd {folder} && grep -n '' part-*").splitlines()
    parts = [line.split(":", 2) for line in listed]
    return [(f"{folder}/{name}:{number}", row) for name, number, row in parts]
