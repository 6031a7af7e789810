"""How soon the chart is installed on a cluster, how soon each service is ready, and what it holds when idle.

Installs charts/lineage-master with its try-out servers in a new namespace of the cluster that kubectl and helm
reach, ``--runs`` times, and lets each service be replaced as often, first in good order (``ready_s``), then
killed by force (``ready_after_kill_s``: Kafka waits for a member that does not answer before another has its
partitions): python -m benchmarks.cluster --runs 5. Images must be there: make images images-load.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from benchmarks.provenance import provenance
from tests.kube.cluster import Namespace, namespace
from tests.kube.faults import kill, replace
from tests.kube.release import Release

SERVICES = ("linker", "writer", "query-api")
IDLE_S = 30
"""After the last of them is ready; then their memory is read."""


def main() -> None:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    runs: int = parser.parse_args().runs
    installs, uninstalls = list[float](), list[float]()
    ready: dict[str, list[float]] = {service: [] for service in SERVICES}
    killed: dict[str, list[float]] = {service: [] for service in SERVICES}
    memory: dict[str, list[float]] = {service: [] for service in SERVICES}
    for number in range(runs):
        with namespace(f"benchmark-cluster-{os.getpid()}-{number}") as space:
            release = Release(space)
            with _append_seconds(installs):
                release.install()
            for service in SERVICES:
                for durations, end in ((ready, replace), (killed, kill)):
                    end(release, service)
                    durations[service].append(_seconds_to_ready(release, service))
            time.sleep(IDLE_S)
            for service in SERVICES:
                memory[service].append(_resident_mb(space, release, service))
            with _append_seconds(uninstalls):
                release.uninstall()
    row = {
        "benchmark": "cluster",
        "runs": runs,
        "install_s": _median_and_range(installs),
        "uninstall_s": _median_and_range(uninstalls),
        "ready_s": {service: _median_and_range(seconds) for service, seconds in ready.items()},
        "ready_after_kill_s": {
            service: _median_and_range(seconds) for service, seconds in killed.items()
        },
        "idle_mb": {service: _median_and_range(megabytes) for service, megabytes in memory.items()},
    }
    print(json.dumps(row | {"provenance": provenance()}), flush=True)


@contextmanager
def _append_seconds(seconds: list[float]) -> Iterator[None]:
    started = time.monotonic()
    yield
    seconds.append(round(time.monotonic() - started, 1))


def _seconds_to_ready(release: Release, service: str) -> float:
    """From the start of a pod's container until it is ready; Kubernetes tells whole seconds."""
    (pod,) = release.namespace.get("pods", "-l", release.labels(service))["items"]
    (container,) = pod["status"]["containerStatuses"]
    conditions = {
        condition["type"]: condition["lastTransitionTime"]
        for condition in pod["status"]["conditions"]
    }
    started = datetime.fromisoformat(container["state"]["running"]["startedAt"])
    return (datetime.fromisoformat(conditions["Ready"]) - started).total_seconds()


def _resident_mb(space: Namespace, release: Release, service: str) -> float:
    """Resident memory of all processes of a pod, in MB."""
    (pod,) = space.names("pods", release.labels(service))
    statuses = space.kubectl("exec", pod, "--", "sh", "-c", "cat /proc/[0-9]*/status")
    kilobytes = [line.split()[1] for line in statuses.splitlines() if line.startswith("VmRSS:")]
    return round(sum(map(int, kilobytes)) * 1024 / 1e6, 1)


def _median_and_range(values: list[float]) -> dict[str, Any]:
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


if __name__ == "__main__":
    main()
