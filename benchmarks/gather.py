"""Gathers what the benchmark jobs of a cluster printed: python -m benchmarks.gather --wait 3600.

One JSON line a job, with the job's name. Exit code 1 when a job failed, has not finished, or said nothing.
kubectl reaches the cluster as always (its current context).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SELECTOR = "app.kubernetes.io/name=lineage-master,app.kubernetes.io/component=benchmark"
POLL_S = 2.0
TAIL = 5
"""Lines of a failed job that are shown."""


class GatherError(Exception):
    """The cluster can't be asked."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job of the cluster: ``succeeded``, ``failed`` or ``running``."""

    name: str
    state: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """kubectl, for the jobs of a namespace (empty: the context's own) with some labels."""

    namespace: str = ""
    selector: str = SELECTOR

    def jobs(self) -> list[Job]:
        """All of them, by name.

        Raises:
            GatherError: kubectl can't say.
        """
        items = json.loads(self._ask("get", "jobs", "-l", self.selector, "-o", "json"))["items"]
        return sorted((_job(item) for item in items), key=lambda job: job.name)

    def log(self, job: Job) -> str:
        """What the job's pod printed.

        Raises:
            GatherError: kubectl can't say, or the pod is gone.
        """
        return self._ask("logs", f"job/{job.name}")

    def _ask(self, *words: str) -> str:
        where = ["--namespace", self.namespace] if self.namespace else []
        try:
            result = subprocess.run(
                ["kubectl", *where, *words], capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            raise GatherError(
                "there is no kubectl on the path: install it, then try again"
            ) from error
        if result.returncode != 0:
            raise GatherError(f"kubectl {' '.join(words)}: {result.stderr.strip()}")
        return result.stdout


def _job(document: dict[str, Any]) -> Job:
    states = {
        condition["type"]: condition["status"]
        for condition in document.get("status", {}).get("conditions", ())
    }
    ended = {"Complete": "succeeded", "Failed": "failed"}
    state = next((state for kind, state in ended.items() if states.get(kind) == "True"), "running")
    return Job(document["metadata"]["name"], state)


def rows_in(log: str) -> Iterator[dict[str, Any]]:
    """Rows of benchmarks among the lines of a log."""
    for line in log.splitlines():
        if line.startswith("{"):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if "benchmark" in row:
                yield row


def finished(cluster: Cluster, wait_s: float) -> list[Job]:
    """The jobs, once none of them runs any more, or the time is over."""
    deadline = time.monotonic() + wait_s
    while True:
        jobs = cluster.jobs()
        if time.monotonic() >= deadline or all(job.state != "running" for job in jobs):
            return jobs
        time.sleep(POLL_S)


def gather(cluster: Cluster, jobs: Sequence[Job]) -> tuple[list[dict[str, Any]], list[str]]:
    """Rows, and what is wrong.

    Raises:
        GatherError: the cluster can't be asked.
    """
    if not jobs:
        return [], [f"there is no job with {cluster.selector}: kubectl apply -k infra/benchmarks"]
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for job in jobs:
        if job.state == "running":
            problems.append(f"{job.name} has not finished: see --wait")
            continue
        log = cluster.log(job)
        job_rows = list(rows_in(log)) if job.state == "succeeded" else []
        rows += [{"job": job.name, **row} for row in job_rows]
        if not job_rows:
            tail = "\n".join(f"  {line}" for line in log.splitlines()[-TAIL:])
            problems.append(f"{job.name} {job.state} without a row; its log ends with\n{tail}")
    return rows, problems


def main(words: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gather", description=__doc__)
    parser.add_argument("-n", "--namespace", default="", help="default: the context's own")
    parser.add_argument("-l", "--selector", default=SELECTOR, help="labels of the jobs")
    parser.add_argument("--wait", type=float, default=0, metavar="SECONDS", help="until all ended")
    parser.add_argument("--json-out", type=Path, help="append the rows to this file, too")
    options = parser.parse_args(words)
    cluster = Cluster(options.namespace, options.selector)
    try:
        rows, problems = gather(cluster, finished(cluster, options.wait))
    except GatherError as error:
        print(error, file=sys.stderr)
        return 1
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    print(lines, end="")
    if options.json_out is not None:
        with options.json_out.open("a", encoding="utf-8") as target:
            target.write(lines)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
