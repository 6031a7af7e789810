"""A release of the chart with its try-out servers, and what its query API answers."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml  # type: ignore[import-untyped]

from tests.kube.cluster import CommandFailed, Namespace, run, until

CHART = Path(__file__).resolve().parents[2] / "charts" / "lineage-master"
INSTALL_LIMIT_S = 300
COMPLETE_LIMIT_S = 180
GONE_LIMIT_S = 60
SERVERS = ("kafka", "redis", "neo4j")
LITTLE_CPU = {"requests": {"cpu": "50m"}}
"""A test's cluster may be one node of two cores: what is asked for there is not what is used."""
TRYOUT = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))["tryout"]


def _little(server: str) -> dict[str, Any]:
    values: dict[str, Any] = {"persistence": {"enabled": False}, "resources": LITTLE_CPU}
    if "CLUSTER_PROGRAM" in os.environ:
        # It has stand-ins, under the same tags.
        values["image"] = {"tag": TRYOUT[server]["image"]["tag"].partition("@")[0]}
    return values


SMALL: Mapping[str, Any] = {
    "tryout": {
        "enabled": True,
        **{server: _little(server) for server in SERVERS},
    },
    "topics": {"partitions": 4, "replication": 1},
    **{
        service: {"replicas": 1, "resources": LITTLE_CPU}
        for service in ("linker", "writer", "queryApi")
    },
    "setup": {"resources": LITTLE_CPU},
    "test": {"resources": LITTLE_CPU},
}
"""One of each, on the disks of their pods."""
# Jobs of the tests have namespaces of their own.
SMALL["tryout"]["kafka"]["clients"] = [{"namespaceSelector": {}}]


@dataclass(frozen=True, slots=True)
class Release:
    """An installed chart."""

    namespace: Namespace
    name: str = "lineage-master"

    def component(self, name: str) -> str:
        """What Kubernetes calls the objects of a part."""
        base = self.name if "lineage-master" in self.name else f"{self.name}-lineage-master"
        return f"{base}-{name}"

    def labels(self, component: str) -> str:
        """A selector of its pods."""
        own = f"app.kubernetes.io/instance={self.name}"
        return f"{own},app.kubernetes.io/component={component}"

    def helm(self, *words: str, values: Mapping[str, Any] | None = None) -> str:
        """Run helm in the release's namespace; values go to it as a file."""
        given = () if values is None else ("--values", "-")
        text = None if values is None else json.dumps(values)
        place = ("--namespace", self.namespace.name)
        return run("helm", *words, *place, *given, text=text, limit_s=INSTALL_LIMIT_S + 60)

    def install(self, values: Mapping[str, Any] = SMALL) -> None:
        """Install or upgrade, and wait until all of it is ready."""
        wait = ("--install", "--wait", f"--timeout={INSTALL_LIMIT_S}s")
        try:
            self.helm("upgrade", self.name, str(CHART), *wait, values=values)
        except CommandFailed as error:
            raise CommandFailed(f"{error}\n{self.namespace.report()}") from None

    def uninstall(self) -> None:
        self.helm("uninstall", self.name, "--wait", f"--timeout={INSTALL_LIMIT_S}s")

    def left(self) -> list[str]:
        """What is there of it, of every kind that it may have made."""
        kinds = self.namespace.kubectl("api-resources", "--namespaced", "--verbs=list", "-o=name")
        own = f"app.kubernetes.io/instance={self.name}"
        passing = {"events", "events.events.k8s.io", "endpointslices.discovery.k8s.io"}
        wanted = ",".join(sorted(set(kinds.split()) - passing))
        return self.namespace.names(wanted, own, "--ignore-not-found")

    @contextmanager
    def api(self) -> Iterator[Api]:
        """Its query API, asked through the Service."""
        secret = self.namespace.get("secret", self.component("api-token"))
        token = base64.b64decode(secret["data"]["token"]).decode().strip()
        service = f"service/{self.component('query-api')}"
        with (
            self.namespace.forwarded(service, 8080) as port,
            httpx.Client(
                base_url=f"http://127.0.0.1:{port}",
                headers={"Authorization": f"Bearer {token}"},
                timeout=60,
                trust_env=False,
            ) as client,
        ):
            yield Api(client)


@dataclass(frozen=True, slots=True)
class Api:
    """Questions to the query API."""

    client: httpx.Client

    def asked(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """An answer that is none of an error."""
        answer = self.client.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        found: dict[str, Any] = answer.json()
        return found

    def complete(self, app: str) -> dict[str, Any]:
        """The verdict on an application, once all its lineage is stored."""

        def verdict() -> dict[str, Any] | None:
            found = self.asked("GET", f"/v1/applications?search={app}")["items"]
            return found[0] if found and found[0]["final"] else None

        found = until(verdict, COMPLETE_LIMIT_S, f"the verdict on {app}")
        assert found["complete"], found["reasons"]
        return found

    def rows_behind(self, app: str, place: str) -> tuple[set[str], bool]:
        """Locations of the source rows behind a row of the output, and whether they are exact."""
        start = {"places": [place]}
        path = f"/v1/applications/{app}/traces"
        traced = self.asked("POST", path, {"direction": "backward", "start": start})
        assert traced["complete"], traced["reasons"]
        groups = traced["groups"]
        assert all(len(group["items"]) == group["count"] for group in groups), "more than a page"
        return {item["location"] for group in groups for item in group["items"]}, traced["exact"]


@contextmanager
def installed(
    namespace: Namespace, values: Mapping[str, Any] = SMALL, name: str = "lineage-master"
) -> Iterator[Release]:
    """A release, uninstalled at the end: then nothing is left of it."""
    release = Release(namespace, name)
    try:
        release.install(values)
        yield release
    except BaseException:
        # A failed installation may have left no release.
        with contextlib.suppress(CommandFailed):
            release.uninstall()
        raise
    release.uninstall()
    # Pods go a little later than what they are of.
    until(lambda: None if release.left() else True, GONE_LIMIT_S, "the end of all of the release")
