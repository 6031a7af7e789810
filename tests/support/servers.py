"""Kafka, Redis and Neo4j for tests: one of each a run, started on first use, killed at will.

Where a Docker-compatible engine answers they are the official images, elsewhere the launcher's native
servers (`lineage stack`); LINEAGE_TEST_SERVERS=docker or =native decides otherwise. What a test sees is the
same: an address on loopback, `kill()` as kill -9, `start()` on the same data and port.
"""

from __future__ import annotations

import functools
import gc
import itertools
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import yaml  # type: ignore[import-untyped]

from lineage.stack import supervisor
from lineage.stack.kafka_server import Kafka, create_topics
from lineage.stack.neo4j_server import DATABASE, Neo4j, write_secret
from lineage.stack.ports import LOOPBACK, free_ports
from lineage.stack.redis_server import Redis
from lineage.stack.server import NotReady, Server
from lineage_kafka.topics import RECORD_BYTES_MAX, Topics
from tests.support.jvm import OPTIONS

if TYPE_CHECKING:
    import neo4j
    from confluent_kafka.admin import AdminClient
    from redis import Redis as RedisClient
    from testcontainers.core.container import DockerContainer

COMPOSE = Path(__file__).resolve().parents[2] / "infra/compose/compose.yaml"
GUARDIAN = Path(__file__).with_name("guardian.py")
DELETED_AT_ONCE = 1_000
"""Nodes a transaction: those of lineage carry large properties."""

_names = itertools.count()


class Runner(ABC):
    """One way to run a server."""

    @abstractmethod
    def start(self) -> None:
        """Start, again after a kill on the same data and port; returns when it answers."""

    @abstractmethod
    def signal(self, number: signal.Signals) -> None:
        """Send SIGKILL (returns when the server has ended), SIGSTOP or SIGCONT."""

    def remove(self) -> None:
        """Leave nothing behind, at the end of the run."""
        return


class Native(Runner):
    """As the launcher runs it."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def start(self) -> None:
        supervisor.start(self._server)
        supervisor.wait_ready(self._server)

    def signal(self, number: signal.Signals) -> None:
        process = supervisor.running(self._server)
        assert process is not None, f"{self._server.name} does not run"
        if number is signal.SIGKILL:
            assert process.kill()
        else:
            assert process.send(number)


class Container(Runner):
    """As an official image; testcontainers removes it even when the run is killed."""

    def __init__(self, container: DockerContainer, server: Server, port: int) -> None:
        self._container = container
        # On loopback, and fixed: a restarted container would get another port of Docker's choice.
        cast("dict[str, Any]", container.ports)[f"{port}/tcp"] = (LOOPBACK, server.port)
        self._server = server
        self._created = False

    def start(self) -> None:
        if self._created:
            self._container.get_wrapped_container().start()
        else:
            self._container.start()
            self._created = True
        deadline = time.monotonic() + self._server.start_limit_s
        while True:
            try:
                self._server.check()
                return
            except NotReady as reason:
                if time.monotonic() >= deadline:
                    logs = b"\n".join(self._container.get_logs()).decode("utf-8", "replace")
                    raise AssertionError(f"{reason}\n{logs[-4_000:]}") from None
                time.sleep(0.2)

    def signal(self, number: signal.Signals) -> None:
        wrapped = self._container.get_wrapped_container()
        # A signal would reach a container's first process alone, which may be just the server's parent.
        if number is signal.SIGSTOP:
            wrapped.pause()
        elif number is signal.SIGCONT:
            wrapped.unpause()
        else:
            wrapped.kill(signal=int(number))
            wrapped.wait()

    def remove(self) -> None:
        self._container.stop()


class ServerUnderTest:
    """What all servers offer to a test."""

    def __init__(self, server: Server, runner: Runner) -> None:
        self._server = server
        self._runner = runner

    @property
    def address(self) -> str:
        """Where it listens, as host:port."""
        return f"{LOOPBACK}:{self._server.port}"

    @property
    def settings(self) -> dict[str, str]:
        """The environment variables (LINEAGE_...) by which our own programs find it."""
        return self._server.settings()

    def start(self) -> None:
        """Start it after `kill`, on the same data and port; returns when it answers."""
        self._runner.start()

    def kill(self) -> None:
        """As kill -9 does; returns when it has ended."""
        self._runner.signal(signal.SIGKILL)

    @contextmanager
    def down(self) -> Iterator[None]:
        """Killed for a while."""
        self.kill()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It holds its connections but does nothing: a server that hangs."""
        self._runner.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._runner.signal(signal.SIGCONT)


class KafkaUnderTest(ServerUnderTest):
    @property
    def bootstrap(self) -> str:
        """The address, for `bootstrap.servers`."""
        return self.address

    def admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        # Its answers may set off a collection on a thread of Kafka's client, where to free another client that
        # is garbage by then ends the process.
        gc.collect()
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create_topics(self, partitions: int = 4, prefix: str | None = None) -> Topics:
        """The pipeline's topics under a prefix that no other test has (or the given one).

        Flow and edge get ``partitions`` partitions, the others one.
        """
        topics = Topics(f"t{next(_names)}-" if prefix is None else prefix)
        create_topics(self.admin(), topics.partitions(partitions))
        return topics

    def delete_topics(self, prefix: str) -> None:
        """Delete every topic whose name begins so."""
        admin = self.admin()
        names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]
        for done in admin.delete_topics(names, operation_timeout=30).values() if names else ():
            done.result()


class RedisUnderTest(ServerUnderTest):
    @property
    def url(self) -> str:
        return self.settings["LINEAGE_REDIS"]

    def client(self) -> RedisClient:
        """A synchronous client; the caller closes it (`with`)."""
        from redis import Redis as RedisClient

        client: RedisClient = RedisClient.from_url(self.url)
        return client

    def clear(self) -> None:
        """Remove all data."""
        with self.client() as client:
            client.flushall()


class Neo4jUnderTest(ServerUnderTest):
    @property
    def uri(self) -> str:
        """neo4j://host:port, which is LINEAGE_STORE too."""
        return self.settings["LINEAGE_STORE"]

    @property
    def user(self) -> str:
        return self.settings["LINEAGE_NEO4J_USER"]

    @property
    def password_file(self) -> Path:
        return Path(self.settings["LINEAGE_NEO4J_PASSWORD_FILE"])

    @property
    def password(self) -> str:
        return self.password_file.read_text(encoding="ascii").strip()

    def driver(self) -> neo4j.Driver:
        """A synchronous driver; the caller closes it (`with`)."""
        from neo4j import GraphDatabase

        return GraphDatabase.driver(self.uri, auth=(self.user, self.password))

    def clear(self) -> None:
        """Remove all nodes, constraints and indexes."""
        with self.driver() as driver, driver.session(database=DATABASE) as session:
            session.run(
                "MATCH (n) CALL (n) { DETACH DELETE n } IN TRANSACTIONS OF $rows ROWS",
                rows=DELETED_AT_ONCE,
            ).consume()
            for kind, kinds in (("CONSTRAINT", "CONSTRAINTS"), ("INDEX", "INDEXES")):
                found = session.run(f"SHOW {kinds} YIELD name, type").data()
                for name in (one["name"] for one in found if one["type"] != "LOOKUP"):
                    session.run(f"DROP {kind} `{name}`").consume()


@dataclass(frozen=True, slots=True)
class ServersOfTheRun:
    """Makes the servers of one run of the tests.

    ``folder`` is theirs alone.
    """

    folder: Path
    runners: list[Runner] = field(default_factory=list)

    def kafka(self) -> KafkaUnderTest:
        port, controller_port = free_ports(2)
        server = Kafka(self.folder / "kafka", port, controller_port, options=OPTIONS.split())
        return KafkaUnderTest(server, self._started(server, _kafka_container))

    def redis(self) -> RedisUnderTest:
        server = Redis(self.folder / "redis", *free_ports(1))
        return RedisUnderTest(server, self._started(server, _redis_container))

    def neo4j(self) -> Neo4jUnderTest:
        server = Neo4j(self.folder / "neo4j", *free_ports(1), options=OPTIONS.split())
        return Neo4jUnderTest(server, self._started(server, _neo4j_container))

    def _started(self, server: Any, container: Any) -> Runner:
        runner: Runner = container(server) if container_engine_answers() else Native(server)
        self.runners.append(runner)
        runner.start()
        return runner


@contextmanager
def guarded(folder: Path) -> Iterator[ServersOfTheRun]:
    """Servers whose processes and files are gone at the end, even when this process is killed."""
    guardian = subprocess.Popen(
        [sys.executable, str(GUARDIAN), str(folder)],
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    assert guardian.stdin is not None
    servers = ServersOfTheRun(folder)
    try:
        yield servers
    finally:
        for runner in servers.runners:
            runner.remove()
        guardian.stdin.close()
        guardian.wait(timeout=60)


@functools.cache
def container_engine_answers() -> bool:
    """Whether containers are to be used."""
    chosen = os.environ.get("LINEAGE_TEST_SERVERS", "")
    if chosen:
        assert chosen in {"docker", "native"}, "LINEAGE_TEST_SERVERS is docker or native"
        return chosen == "docker"
    # In a process of its own: without an engine, Docker's client leaves an open socket behind.
    asked = [sys.executable, "-c", "import docker; docker.from_env(timeout=10).ping()"]
    return not subprocess.run(asked, capture_output=True, check=False, timeout=60).returncode


def _container(name: str, server: Server, port: int, settings: Mapping[str, str]) -> Container:
    """A server in the image that compose runs under that name."""
    from testcontainers.core.container import DockerContainer

    services = yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))["services"]
    container = DockerContainer(services[name]["image"])
    for variable, value in settings.items():
        container = container.with_env(variable, value)
    return Container(container, server, port)


def _kafka_container(server: Kafka) -> Container:
    settings = {
        "KAFKA_NODE_ID": "1",
        "KAFKA_PROCESS_ROLES": "broker,controller",
        "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093",
        # Two listeners, for the broker can't reach itself by the host's port.
        "KAFKA_LISTENERS": "HOST://:9092,INSIDE://:19092,CONTROLLER://:9093",
        "KAFKA_ADVERTISED_LISTENERS": f"HOST://{server.bootstrap},INSIDE://localhost:19092",
        "KAFKA_INTER_BROKER_LISTENER_NAME": "INSIDE",
        "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": (
            "HOST:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "KAFKA_LOG_DIRS": "/var/lib/kafka/data",
        "KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "KAFKA_OFFSETS_TOPIC_NUM_PARTITIONS": "4",
        "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "4",
        "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
        "KAFKA_BROKER_HEARTBEAT_INTERVAL_MS": "1000",
        "KAFKA_BROKER_SESSION_TIMEOUT_MS": "5000",
        "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
        "KAFKA_MESSAGE_MAX_BYTES": str(RECORD_BYTES_MAX),
        "KAFKA_REPLICA_FETCH_MAX_BYTES": str(RECORD_BYTES_MAX),
        "KAFKA_HEAP_OPTS": f"-Xmx{server.heap}",
    }
    return _container("kafka", server, 9092, settings)


def _redis_container(server: Redis) -> Container:
    made = _container("redis", server, 6379, {})
    made._container.with_command(
        "redis-server --appendonly yes --appendfsync everysec --save '' "
        f"--maxmemory {server.memory} --maxmemory-policy noeviction"
    )
    return made


def _neo4j_container(server: Neo4j) -> Container:
    import secrets

    server.folder.mkdir(parents=True)
    write_secret(server.password_file, secrets.token_hex(16))
    settings = {
        "NEO4J_AUTH": f"{server.user}/{server.password}",
        "NEO4J_server_memory_heap_max__size": server.heap,
        "NEO4J_server_memory_pagecache_size": server.page_cache,
        # Routing tables name the host's port.
        "NEO4J_server_bolt_advertised__address": server.uri.removeprefix("neo4j://"),
        "NEO4J_server_http_enabled": "false",
        "NEO4J_dbms_usage__report_enabled": "false",
        "NEO4J_db_tx__log_rotation_retention__policy": "keep_none",
        "NEO4J_db_tx__log_preallocate": "false",
    }
    return _container("neo4j", server, 7687, settings)
