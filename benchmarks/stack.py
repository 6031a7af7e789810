"""A stack of its own to measure on: Kafka, Redis, Neo4j, linker and writer (``lineage stack``)."""

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
from unittest.mock import patch

import redis

from benchmarks.pairs import RunError
from lineage_core.contract.verdict import Verdict, judge
from lineage_store.port import GraphStore

QUERYABLE_LIMIT_S = 600.0
POLL_S = 0.1
SERVICES = "linker,writer"
"""With the servers that these need. Nobody asks the query API: its time and memory would count as lineage's."""
NEO4J_HEAP, NEO4J_PAGE_CACHE = "2g", "1g"
"""More than the stack's defaults: the published design's graph must fit, and both get the same."""


def stored_bytes(neo4j: Path) -> int:
    """Bytes of the store files below a stopped Neo4j's folder (a stop is what has them written out).

    Its transaction log is left out: a setting bounds it, not the data.
    """
    store = neo4j / "home" / "data" / "databases" / "neo4j"
    return sum(path.stat().st_size for path in store.rglob("*") if path.is_file())


@dataclass(frozen=True)
class Stack:
    """A running stack; ``settings`` are what ``lineage stack env`` exports."""

    folder: Path
    settings: Mapping[str, str]

    def redis(self) -> redis.Redis:
        """A client of its Redis."""
        return redis.Redis.from_url(self.settings["LINEAGE_REDIS"])

    def pids(self) -> dict[str, int]:
        """The first process of each server and service."""
        shown = json.loads(lineage("stack", "status", "--dir", str(self.folder), "--json"))
        return {server["name"]: int(server["pid"]) for server in shown["servers"]}

    def stop(self) -> int:
        """Stop all of it; bytes of Neo4j's store then."""
        lineage("stack", "down", "--dir", str(self.folder))
        return stored_bytes(self.folder / "neo4j")

    def start(self) -> None:
        """Start all of it, on the same data."""
        bounds = ("--neo4j-heap", NEO4J_HEAP, "--neo4j-page-cache", NEO4J_PAGE_CACHE)
        lineage("stack", "up", "--dir", str(self.folder), "--only", SERVICES, *bounds)


def lineage(*arguments: str, settings: Mapping[str, str] | None = None) -> str:
    """What a ``lineage`` command prints; ``settings`` are environment variables for it.

    Raises:
        RunError: it failed.
    """
    command = [sys.executable, "-c", "from lineage.main import app; app()", *arguments]
    environment = os.environ | dict(settings or {})
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RunError(f"lineage {shlex.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


@contextmanager
def stack(folder: Path) -> Iterator[Stack]:
    """A fresh stack in ``folder``, gone afterwards; this process's environment names it meanwhile.

    Raises:
        RunError: it does not start.
    """
    if folder.exists():
        lineage("stack", "down", "--dir", str(folder), "--purge")
    settings: dict[str, str] = {}
    servers = Stack(folder, settings)
    try:
        servers.start()
        settings |= _exports(lineage("stack", "env", "--dir", str(folder)))
        with patch.dict(os.environ, settings):
            yield servers
    finally:
        lineage("stack", "down", "--dir", str(folder), "--purge")


def _exports(text: str) -> dict[str, str]:
    variables = {}
    for word in shlex.split(text, comments=True):
        name, equals, value = word.partition("=")
        if equals:
            variables[name] = value
    return variables


def arrived(store: GraphStore, before: set[str]) -> str:
    """Wait until the store knows of an application that is not one of those before; its id.

    Raises:
        RunError: none came.
    """
    deadline = time.monotonic() + QUERYABLE_LIMIT_S
    while time.monotonic() < deadline:
        new_ids = set(store.application_ids()) - before
        if new_ids:
            return new_ids.pop()
        time.sleep(POLL_S)
    raise RunError("no lineage has arrived in the store")


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
