"""Kafka, Neo4j with APOC, and the consumer between them, for the while."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import neo4j

from benchmarks.baselines.record_level.graph import RecordGraph
from benchmarks.catalog import ROOT
from benchmarks.kafka import broker, until_committed
from benchmarks.pairs import RunError
from benchmarks.stack import NEO4J_HEAP, NEO4J_PAGE_CACHE, stored_bytes
from lineage.stack import supervisor
from lineage.stack.downloads import jars_of
from lineage.stack.kafka_server import Kafka
from lineage.stack.neo4j_server import Neo4j
from lineage.stack.ports import free_ports
from lineage.stack.server import Server

TOPIC, GROUP = "record-level", "record-level"
PARTITIONS = 4
"""As many as a stack's topics have."""
POM = Path(__file__).with_name("apoc") / "pom.xml"
STOP_LIMIT_S = 60


@dataclass(frozen=True)
class Servers:
    """What runs."""

    kafka: Kafka
    neo4j: Neo4j
    consumer: subprocess.Popen[bytes]
    graph: RecordGraph

    def pids(self) -> dict[str, int]:
        """Process ids by name."""
        return {
            "kafka": _pid(self.kafka),
            "neo4j": _pid(self.neo4j),
            "consumer": self.consumer.pid,
        }

    def until_loaded(self) -> None:
        """Wait until all that was sent is in Neo4j.

        Raises:
            RunError: it takes too long, or the consumer has ended.
        """
        if self.consumer.poll() is not None:
            raise RunError(
                f"the consumer has ended; see {self.neo4j.folder.parent / 'consumer.log'}"
            )
        until_committed(self.kafka.bootstrap, GROUP, (TOPIC,))

    def stop_neo4j(self) -> int:
        """Stop it; bytes of its store then."""
        supervisor.stop(self.neo4j)
        return stored_bytes(self.neo4j.folder)


@contextmanager
def servers_in(folder: Path) -> Iterator[Servers]:
    """Servers with an empty graph, gone afterwards.

    Raises:
        StackError: one can't be started.
    """
    shutil.rmtree(folder, ignore_errors=True)
    server = _neo4j(folder)
    with ExitStack() as ending:
        ending.callback(shutil.rmtree, folder, ignore_errors=True)
        kafka = ending.enter_context(broker(folder / "kafka", {TOPIC: PARTITIONS}))
        ending.callback(supervisor.stop, server)
        _start(server)
        driver = ending.enter_context(_driver(server))
        graph = RecordGraph(driver)
        graph.prepare()
        consumer = ending.enter_context(_consumer(folder / "consumer.log", kafka, server))
        yield Servers(kafka, server, consumer, graph)


def empty_store_bytes(folder: Path) -> int:
    """Bytes of a store that holds no flow, from a Neo4j of its own.

    Raises:
        StackError: it can't be started.
    """
    server = _neo4j(folder)
    try:
        _start(server)
        with _driver(server) as driver:
            RecordGraph(driver).prepare()
        supervisor.stop(server)
        return stored_bytes(server.folder)
    finally:
        supervisor.stop(server)
        shutil.rmtree(folder, ignore_errors=True)


def _neo4j(folder: Path) -> Neo4j:
    (port,) = free_ports(1)
    return Neo4j(
        folder / "neo4j",
        port,
        heap=NEO4J_HEAP,
        page_cache=NEO4J_PAGE_CACHE,
        plugins=jars_of(POM),
    )


def _start(server: Server) -> None:
    supervisor.start(server)
    supervisor.wait_ready(server)


def _driver(server: Neo4j) -> neo4j.Driver:
    return neo4j.GraphDatabase.driver(server.uri, auth=(server.user, server.password))


def _pid(server: Server) -> int:
    process = supervisor.running(server)
    if process is None:
        raise RunError(f"{server.name} has ended; see {server.log}")
    return process.pid


@contextmanager
def _consumer(log: Path, kafka: Kafka, graph: Neo4j) -> Iterator[subprocess.Popen[bytes]]:
    module = "benchmarks.baselines.record_level.consumer"
    words = [kafka.bootstrap, TOPIC, GROUP, graph.uri, graph.user, str(graph.password_file)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *words], cwd=ROOT, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(STOP_LIMIT_S)
