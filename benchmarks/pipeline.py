"""A captured job through Kafka, linker and writer into Neo4j: how long, how much, how fast to trace.

One job runs with the dispatcher ``kafka`` against a stack of its own (``lineage stack up``); the row
says what every part of the pipeline needed for it.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import redis

from benchmarks.correctness import witness_counts
from benchmarks.lineage_rows import trace_times
from benchmarks.pairs import KAFKA, RunError, Setup, run_once
from lineage_core.verdict import Verdict, judge
from lineage_store.opening import open_store
from lineage_store.port import GraphStore

QUERYABLE_LIMIT_S = 600.0
POLL_S = 0.1
SERVICES = ("linker", "writer")


@dataclass(frozen=True)
class Stack:
    """A running stack; ``settings`` are what ``lineage stack env`` exports."""

    folder: Path
    settings: Mapping[str, str]

    def redis(self) -> redis.Redis:
        """A client of its Redis."""
        return redis.Redis.from_url(self.settings["LINEAGE_REDIS"])

    def cpu_s(self, name: str) -> float:
        """User and system time of a service and all it started, since its start."""
        return cpu_s(self._pid(name))

    def stored_bytes(self) -> int:
        """Stop all of it; bytes of Neo4j's store files then (a stop is what has them written out).

        Its transaction log is left out: a setting bounds it, not the data.
        """
        lineage("stack", "down", "--dir", str(self.folder))
        data = self.folder / "neo4j"
        return sum(
            path.stat().st_size
            for path in data.rglob("*")
            if path.is_file() and "databases" in path.parts and "neo4j" in path.parent.parts
        )

    def _pid(self, name: str) -> int:
        shown = json.loads(lineage("stack", "status", "--dir", str(self.folder), "--json"))
        return int(next(one["pid"] for one in shown["servers"] if one["name"] == name))


def cpu_s(pid: int) -> float:
    """User and system time of a process and all it started, since its start."""
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in [process, *process.children(recursive=True)]]
    return sum(time.user + time.system for time in times)


def lineage(*arguments: str, settings: Mapping[str, str] | None = None) -> str:
    """What a ``lineage`` command prints; ``settings`` are environment variables for it.

    Raises:
        RunError: it failed.
    """
    command = [sys.executable, "-c", "from lineage.main import app; app()", *arguments]
    environment = os.environ | dict(settings or {})
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(f"lineage {shlex.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def stack(folder: Path) -> Iterator[Stack]:
    """A fresh stack in ``folder``, gone afterwards.

    Raises:
        RunError: it does not start.
    """
    if folder.exists():
        lineage("stack", "down", "--dir", str(folder), "--purge")
    lineage("stack", "up", "--dir", str(folder))
    try:
        yield Stack(folder, _exports(lineage("stack", "env", "--dir", str(folder))))
    finally:
        lineage("stack", "down", "--dir", str(folder), "--purge")


def _exports(text: str) -> dict[str, str]:
    found = {}
    for word in shlex.split(text, comments=True):
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
    return found


def pipeline_row(setup: Setup, input_bytes: int) -> dict[str, Any]:
    """Run the job once through a pipeline of its own.

    Raises:
        RunError: the job failed, or its lineage never became complete.
    """
    with stack(setup.folder / "stack") as servers:
        os.environ.update(servers.settings)
        # A first run is for caches, and for what servers compile as they go.
        with open_store(servers.settings["LINEAGE_STORE"]) as store:
            run_once(setup, KAFKA, 0, servers.settings)
            complete(store, store.applications()[0].app)
            store.delete(store.applications()[0].app)
        servers.redis().flushall()
        servers.redis().config_resetstat()
        base = int(servers.redis().info("memory")["used_memory"])
        before = {name: servers.cpu_s(name) for name in SERVICES}
        run = run_once(setup, KAFKA, 1, servers.settings)
        with open_store(servers.settings["LINEAGE_STORE"]) as store:
            app = store.applications()[0].app
            verdict, complete_at = complete(store, app)
            after = {name: servers.cpu_s(name) for name in SERVICES}
            peak = int(servers.redis().info("memory")["used_memory_peak"])
            associations = store.applications()[0].associations
            row = {
                "queryable_s": round(max(0.0, complete_at - run.times.jobs_ended), 3),
                "jobs_s": round(run.times.jobs_s, 3),
                "associations": associations,
                "flows": verdict.flows,
                "blocks": verdict.blocks_linked,
                "complete": verdict.complete,
                **_rates(before, after, associations, _pairs(store, app)),
                "redis_peak_ratio": round((peak - base) / input_bytes, 4),
                "witnesses": witness_counts(setup, run.output, store, app, setup.folder / "index"),
                "trace": trace_times(store, app, setup.folder / "index"),
            }
        stored = servers.stored_bytes()
        return row | {"store_bytes": stored, "store_ratio": round(stored / input_bytes, 4)}


def complete(store: GraphStore, app: str) -> tuple[Verdict, float]:
    """Wait until an application's lineage is complete; the verdict, and when it was (unix seconds).

    Raises:
        RunError: it never became so.
    """
    deadline = time.monotonic() + QUERYABLE_LIMIT_S
    reasons: object = "nothing has arrived"
    while time.monotonic() < deadline:
        with suppress(KeyError):
            verdict = judge(store.messages(app), store.counts(app), now=time.time())
            if verdict.complete:
                return verdict, time.time()
            reasons = verdict.reasons
        time.sleep(POLL_S)
    raise RunError(f"lineage is incomplete: {reasons}")


def _pairs(store: GraphStore, app: str) -> int:
    graph = store.graph(app)
    consumers = [
        ref.block_id
        for node in graph.nodes()
        for space in graph.spaces_of(node.node)
        for ref in graph.blocks_into(space, 0, 2**64 - 1)
    ]
    return sum(edge.pairs for edge in graph.edges_into(dict.fromkeys(consumers)))


def _rates(
    before: Mapping[str, float], after: Mapping[str, float], associations: int, pairs: int
) -> dict[str, Any]:
    used = {name: after[name] - before[name] for name in before}
    return {
        "linker_cpu_s": round(used["linker"], 2),
        "writer_cpu_s": round(used["writer"], 2),
        "linker_associations_per_s": round(associations / used["linker"]),
        "linker_pairs": pairs,
        "linker_pairs_per_s": round(pairs / used["linker"]),
    }
