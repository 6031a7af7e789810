"""The whole pipeline for a test: real Kafka, Redis and Neo4j, and our services as processes of their own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pytest

from lineage.stack import supervisor
from lineage.stack.ports import free_ports
from lineage.stack.services import KINDS, Service, ServiceKind
from lineage_core.contract.verdict import Verdict, judge
from lineage_kafka.topics import Topics
from lineage_store.port import GraphStore
from lineage_store.url import open_store
from tests.support.job_runs import Row, environment, traced_from
from tests.support.probing import asked
from tests.support.servers import KafkaUnderTest, Neo4jUnderTest, RedisUnderTest, ServerUnderTest

COMPLETE_LIMIT_S = 240.0
POLL_S = 0.2


class ServiceUnderTest:
    """One process of a service: kill -9 and start again, as often as wanted."""

    def __init__(self, kind: ServiceKind, folder: Path, settings: Mapping[str, str]) -> None:
        self.name = folder.name
        self._service = Service(kind, folder, free_ports(1)[0], settings)

    @property
    def port(self) -> int:
        """Of /healthz, /readyz and /metrics."""
        return self._service.port

    def start(self) -> None:
        """Start it; returns at once."""
        supervisor.start(self._service)

    def wait_ready(self) -> None:
        """Return when /readyz answers."""
        supervisor.wait_ready(self._service)

    def kill(self) -> None:
        """As kill -9 does; returns when it has ended. Nothing where it has ended by itself."""
        supervisor.kill(self._service)

    def stop(self) -> bool:
        """SIGTERM; False when it had to be killed or did not run."""
        return supervisor.stop(self._service)

    def state(self) -> str:
        """The end of its log, and what it says of itself."""
        log = "\n".join(supervisor.log_tail(self._service, 40))
        return f"-- {self.name}\n{log}\n{self._says('/readyz')}\n{self._says('/metrics')}"

    def _says(self, path: str) -> str:
        status, text = asked(self._service.port, path)
        if not status:
            return f"{path}: no answer"
        dull = ("#", "python_", "process_")
        return "\n".join(
            line
            for line in text.splitlines()
            if not line.startswith(dull) and "_bucket" not in line
        )


@dataclass
class Pipeline:
    """Servers with topics of this test's own, and linkers and writers over them."""

    folder: Path
    kafka: KafkaUnderTest
    redis: RedisUnderTest
    neo4j: Neo4jUnderTest
    topics: Topics
    services: list[ServiceUnderTest] = field(default_factory=list)

    @property
    def settings(self) -> dict[str, str]:
        """Environment of everything that takes part."""
        servers: tuple[ServerUnderTest, ...] = (self.kafka, self.redis, self.neo4j)
        found = {name: value for server in servers for name, value in server.settings.items()}
        return found | {
            "LINEAGE_TOPIC_PREFIX": self.topics.prefix,
            "LINEAGE_LINKER_GROUP": f"{self.topics.prefix}linker",
            "LINEAGE_WRITER_GROUP": f"{self.topics.prefix}writer",
            "LINEAGE_DISPATCHER": "kafka",
            "LINEAGE_SPOOL": str(self.folder / "spool"),
        }

    def add(self, name: str) -> ServiceUnderTest:
        """One more process of a service."""
        kind = next(kind for kind in KINDS if kind.name == name)
        folder = self.folder / f"{name}-{len(self.services)}"
        made = ServiceUnderTest(kind, folder, self.settings)
        self.services.append(made)
        made.start()
        return made

    @contextmanager
    def store(self) -> Iterator[GraphStore]:
        """The store, as a command of a person with these settings opens it."""
        names = ("LINEAGE_NEO4J_USER", "LINEAGE_NEO4J_PASSWORD", "LINEAGE_NEO4J_PASSWORD_FILE")
        before = {name: os.environ.pop(name, None) for name in names}
        os.environ.update({name: value for name, value in self.settings.items() if name in names})
        try:
            with open_store(self.settings["LINEAGE_STORE"]) as store:
                yield store
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    def run(self, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start ``lineage run``'s program over Kafka in ``folder``; its output goes to ``job.log``."""
        with (folder / "job.log").open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "lineage_emitter.autorun", *arguments],
                cwd=folder,
                env=environment(self.settings),
                text=True,
                stdout=log,
                stderr=log,
            )

    def verdict(self, app: str) -> Verdict:
        """The verdict as it is now."""
        with self.store() as store:
            return judge(store.messages(app), store.counts(app), now=time.time())

    def complete(self, app: str, limit_s: float = COMPLETE_LIMIT_S) -> Verdict:
        """Wait until an application's lineage is complete; fails with the reasons when it is not."""
        deadline = time.monotonic() + limit_s
        while True:
            with suppress(KeyError):
                verdict = self.verdict(app)
                if verdict.complete:
                    return verdict
                if time.monotonic() > deadline:
                    self.fail(f"{app} is not complete: {verdict.to_json()}")
            if time.monotonic() > deadline:
                self.fail(f"{app} never arrived")
            time.sleep(POLL_S)

    def traced(self, out: Path, app: str | None = None) -> Counter[Row]:
        """(text, source locations) of every row under ``out``, asked of the store."""
        with self.store() as store:
            return traced_from(store, self.folder / "index", out, app)

    def fail(self, reason: str) -> NoReturn:
        """Fail the test, and show how all services are."""
        states = "\n".join(one.state() for one in self.services)
        pytest.fail(f"{reason}\n{states}", pytrace=False)

    def close(self) -> None:
        """Stop the services."""
        for service in self.services:
            service.stop()


@contextmanager
def pipeline(
    folder: Path,
    kafka: KafkaUnderTest,
    redis: RedisUnderTest,
    neo4j: Neo4jUnderTest,
    services: Sequence[str] = ("linker", "writer"),
) -> Iterator[Pipeline]:
    """A pipeline whose services are ready, on clean servers."""
    redis.clear()
    neo4j.clear()
    topics = kafka.create_topics()
    made = Pipeline(folder, kafka, redis, neo4j, topics)
    try:
        for name in services:
            made.add(name)
        for service in made.services:
            service.wait_ready()
        yield made
    finally:
        made.close()
        kafka.delete_topics(topics.prefix)


@dataclass(frozen=True)
class Fault:
    """Something that is killed, and comes back after a while."""

    name: str
    strike: Callable[[], None]
    mend: Callable[[], None]


class Chaos:
    """Strikes at random moments while jobs run; the seed decides what and when.

    Args:
        faults: what may be struck.
        seed: of all choices; a test prints it.
        gap_s: (least, most) seconds between two strikes.
        down_s: (least, most) seconds until a struck part is mended.
    """

    def __init__(
        self,
        faults: Sequence[Fault],
        seed: int,
        gap_s: tuple[float, float] = (0.5, 4.0),
        down_s: tuple[float, float] = (0.0, 2.0),
    ) -> None:
        self._faults = list(faults)
        self._random = random.Random(seed)
        self._gap_s = gap_s
        self._down_s = down_s
        self.struck: Counter[str] = Counter()

    def strike_until(self, over: Callable[[], bool], least: int = 0) -> None:
        """Strike until ``over`` says so, and at least ``least`` times."""
        while sum(self.struck.values()) < least or not over():
            if _wait(self._random.uniform(*self._gap_s), over) and self.enough(least):
                return
            fault = self._random.choice(self._faults)
            fault.strike()
            self.struck[fault.name] += 1
            _wait(self._random.uniform(*self._down_s), lambda: False)
            fault.mend()

    def enough(self, least: int) -> bool:
        """Whether there were as many strikes as wanted."""
        return sum(self.struck.values()) >= least


def _wait(seconds: float, over: Callable[[], bool]) -> bool:
    """Let time pass (that is what a fault at a random moment means); True when it is over before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if over():
            return True
        time.sleep(min(POLL_S, max(0.0, deadline - time.monotonic())))
    return over()


def kill_process(pid: int) -> None:
    """As kill -9 does, unless it has ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
