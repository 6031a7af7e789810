"""The servers and services of a stack, made from its state: the one list of what it consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from lineage.stack.errors import StackError
from lineage.stack.kafka_server import Kafka
from lineage.stack.neo4j_server import Neo4j
from lineage.stack.ports import free_ports
from lineage.stack.redis_server import Redis
from lineage.stack.server import Server
from lineage.stack.services import KINDS, Service
from lineage.stack.state import StackState
from lineage_kafka.topics import Topics

SERVERS = ("kafka", "redis", "neo4j")
PORT_USES = ("kafka", "kafka_controller", "redis", "neo4j", *(kind.name for kind in KINDS))


def known_names() -> tuple[str, ...]:
    """All that `up` starts by default: the servers, and those services that are installed."""
    return *SERVERS, *(kind.name for kind in KINDS if kind.is_installed())


def needed_names(names: Iterable[str]) -> frozenset[str]:
    """These and all that they need.

    Raises:
        StackError: a name is unknown.
    """
    needs = {kind.name: kind.needs for kind in KINDS}
    server_names = known_names()
    needed: set[str] = set()
    for name in names:
        if name not in server_names:
            raise StackError(f"no server is called {name!r}; there are {', '.join(server_names)}")
        needed |= {name} | needs.get(name, frozenset())
    return frozenset(needed)


def new_ports() -> dict[str, int]:
    """A free port for each use."""
    return dict(zip(PORT_USES, free_ports(len(PORT_USES)), strict=True))


def servers_of(folder: Path, state: StackState, names: Iterable[str]) -> list[Server]:
    """The named servers of the stack in a folder, in the order of their start."""
    requested = frozenset(names)
    ports, options = state.ports, state.options
    servers: dict[str, Server] = {
        "kafka": Kafka(
            folder / "kafka",
            ports["kafka"],
            ports["kafka_controller"],
            heap=options.kafka_heap,
            topics=Topics().partitions(options.partitions),
        ),
        "redis": Redis(folder / "redis", ports["redis"], memory=f"{options.redis_memory}b"),
        "neo4j": Neo4j(
            folder / "neo4j",
            ports["neo4j"],
            heap=options.neo4j_heap,
            page_cache=options.neo4j_page_cache,
        ),
    }
    settings = {name: server.settings() for name, server in servers.items()}
    # Of those that the stack was made without there may be no port.
    for kind in (kind for kind in KINDS if kind.name in requested):
        needed = {key: value for name in kind.needs for key, value in settings[name].items()}
        servers[kind.name] = Service(kind, folder / kind.name, ports[kind.name], needed)
    return [server for name, server in servers.items() if name in requested]


def settings_of(folder: Path, servers: Iterable[Server]) -> Mapping[str, str]:
    """Environment variables by which jobs and commands use the stack."""
    settings = {key: value for server in servers for key, value in server.settings().items()}
    return {**settings, "LINEAGE_SPOOL": str(spool_folder(folder))}


def spool_folder(folder: Path) -> Path:
    """Where blocks wait that Kafka could not take."""
    return folder / "spool"
