"""What happens to a release: pods that die, linkers that come and go."""

from __future__ import annotations

from tests.kube.cluster import until
from tests.kube.release import Release

REPLACED_LIMIT_S = 120
READY_LIMIT_S = 280


def kill(release: Release, component: str) -> None:
    """As a node that fails would: no signal to heed, no time to stop. Returns when it is ready again."""
    replace(release, component, "--grace-period=0", "--force")


def replace(release: Release, component: str, *how: str) -> None:
    """Delete a pod, in good order by default; returns when another is ready in its place."""
    before = pods(release, component)
    release.namespace.kubectl("delete", f"pod/{min(before.values())}", *how)
    # By id: a server's new pod has the name of the old one.
    until(
        lambda: True if set(pods(release, component)) - set(before) else None,
        REPLACED_LIMIT_S,
        f"another {component}",
    )
    ready(release, component)


def scale(release: Release, linkers: int) -> None:
    """Have so many linkers, all of them ready."""
    space = release.namespace
    space.kubectl("scale", f"deployment/{release.component('linker')}", f"--replicas={linkers}")
    until(
        lambda: True if len(pods(release, "linker")) == linkers else None,
        REPLACED_LIMIT_S,
        f"{linkers} linkers",
    )
    ready(release, "linker")


def ready(release: Release, component: str) -> None:
    """Wait until all pods of a part are ready."""
    # The pods themselves: what a Deployment says of them comes later.
    wait = ("--for=condition=Ready", f"--timeout={READY_LIMIT_S}s")
    release.namespace.kubectl(
        *("wait", "pods", "-l", release.labels(component), *wait), limit_s=READY_LIMIT_S + 20
    )


def pods(release: Release, *components: str) -> dict[str, str]:
    """Ids and names of the pods of some parts that are there to stay."""
    return {
        pod["metadata"]["uid"]: pod["metadata"]["name"]
        for component in components
        for pod in release.namespace.get("pods", "-l", release.labels(component))["items"]
        if "deletionTimestamp" not in pod["metadata"]
    }
