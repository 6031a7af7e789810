"""The cluster of kubectl's current context, as the tests use it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import yaml  # type: ignore[import-untyped]

T = TypeVar("T")
Manifest = Mapping[str, Any]
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
COMMAND_LIMIT_S = 120
ASK_EVERY_S = 0.5
VOLUMES = "LINEAGE_KUBE_PV"
"""Names a program that is called with NAME SIZE before a claim of that size is made, where the cluster
makes no volumes by itself."""


class CommandFailed(AssertionError):
    """kubectl or helm said no."""


def run(*words: str, text: str | None = None, limit_s: float = COMMAND_LIMIT_S) -> str:
    """What a command prints.

    Raises:
        CommandFailed: it ended with another exit code than 0; the message has what it said.
    """
    done = subprocess.run(
        words, input=text, capture_output=True, text=True, timeout=limit_s, check=False
    )
    if done.returncode:
        raise CommandFailed(f"{shlex.join(words)}: {done.stderr or done.stdout}")
    return done.stdout


def until(found: Callable[[], T | None], limit_s: float, what: str) -> T:
    """Ask again and again, until there is something.

    Raises:
        AssertionError: not in time.
    """
    deadline = time.monotonic() + limit_s
    while True:
        answer = found()
        if answer is not None:
            return answer
        assert time.monotonic() < deadline, f"{what}: not within {limit_s:.0f} s"
        time.sleep(ASK_EVERY_S)


def kustomized(folder: str) -> list[dict[str, Any]]:
    """The manifests of a folder with a kustomization."""
    return [one for one in yaml.safe_load_all(run("kubectl", "kustomize", folder)) if one]


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace, in which Pod Security is enforced as strictly as Kubernetes knows."""

    name: str

    def kubectl(self, *words: str, text: str | None = None, limit_s: float = 120) -> str:
        return run("kubectl", "--namespace", self.name, *words, text=text, limit_s=limit_s)

    def apply(self, manifests: Iterable[Manifest]) -> None:
        """Make or change objects; unknown fields are refused."""
        self.kubectl("apply", "--validate=strict", "-f", "-", text=yaml.safe_dump_all(manifests))

    def get(self, kind: str, *words: str) -> dict[str, Any]:
        """Objects, or one, as they are now."""
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, *words, "-o", "json"))
        return found

    def names(self, kind: str, labels: str, *words: str) -> list[str]:
        """Names of the objects with labels."""
        return self.kubectl("get", kind, "-l", labels, *words, "-o", "name").split()

    def finished(self, job: str, limit_s: float) -> str:
        """What a Job printed, once it is complete.

        Raises:
            AssertionError: it failed, or did not end in time.
        """

        def state() -> str | None:
            conditions = self.get("job", job)["status"].get("conditions", [])
            held = {one["type"] for one in conditions if one["status"] == "True"}
            return next((end for end in ("Complete", "Failed") if end in held), None)

        end = until(state, limit_s, f"the end of job {job}")
        said = self.kubectl("logs", f"job/{job}", "--tail=-1")
        assert end == "Complete", f"job {job} failed:\n{said[-8_000:]}"
        return said

    def volume(self, claim: str, size: str) -> None:
        """See that a claim will find a volume, where the cluster does not make one for it."""
        maker = os.environ.get(VOLUMES)
        if maker:
            run(*shlex.split(maker), f"{self.name}-{claim}", size)

    @contextmanager
    def forwarded(self, target: str, port: int) -> Iterator[int]:
        """A port of this machine that leads to one of a Service or pod."""
        command = ["kubectl", "--namespace", self.name, "port-forward", target, f":{port}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as forwarding:
            assert forwarding.stdout is not None
            try:
                said = forwarding.stdout.readline()
                assert said.startswith("Forwarding from"), said
                yield int(said.split(" -> ")[0].rsplit(":", 1)[1])
            finally:
                forwarding.terminate()

    def report(self) -> str:
        """What somebody needs who looks for the cause of a failed test."""
        parts = []
        for words in (
            ("get", "pods,jobs,pvc", "-o", "wide"),
            ("get", "events", "--sort-by=.lastTimestamp"),
        ):
            with suppress(CommandFailed, subprocess.TimeoutExpired):
                parts.append(self.kubectl(*words))
        for pod in self.kubectl("get", "pods", "-o", "name").split():
            with suppress(CommandFailed, subprocess.TimeoutExpired):
                log = self.kubectl("logs", pod, "--all-containers", "--prefix", "--tail=60")
                parts.append(f"--- {pod}\n{log}")
        return "\n".join(parts)


@contextmanager
def namespace(name: str) -> Iterator[Namespace]:
    """A new namespace, gone at the end with all that is in it."""
    manifest = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": RESTRICTED},
    }
    run("kubectl", "create", "-f", "-", text=yaml.safe_dump(manifest))
    try:
        yield Namespace(name)
    finally:
        run("kubectl", "delete", "namespace", name, "--wait", "--timeout=180s", limit_s=200)
