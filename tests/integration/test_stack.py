"""`lineage stack` as a person uses it: real servers, commands in processes of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from neo4j import GraphDatabase
from redis import Redis

from lineage.stack import processes, supervisor
from lineage.stack.ports import LOOPBACK, free_ports, is_free
from lineage.stack.redis_server import Redis as RedisServer
from lineage_service.local_servers import running_at
from tests.integration.test_servers import consume, produce
from tests.support import servers

LIMIT_S = 600

pytestmark = pytest.mark.integration


class Stack:
    """The commands, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / ".lineage" / "stack"

    def command(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("LINEAGE_")
        }
        done = subprocess.run(
            [str(Path(sys.executable).with_name("lineage")), "stack", *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def status(self, code: int = 0) -> dict[str, Any]:
        found = json.loads(self.command("status", "--json", code=code).stdout)
        assert found["folder"] == str(self.data)
        assert found["ready"] == (code == 0)
        return {server["name"]: server for server in found["servers"]}

    def settings(self) -> dict[str, str]:
        """As a shell has them after `eval "$(lineage stack env)"`."""
        script = self.command("env").stdout + "env -0"
        done = subprocess.run(["sh", "-euc", script], capture_output=True, check=True, env={})
        pairs = (pair.partition("=") for pair in done.stdout.decode().split("\0") if pair)
        return {name: value for name, _, value in pairs if name.startswith("LINEAGE_")}

    def processes(self) -> list[int]:
        """Of processes that work in the folder."""
        found = []
        for link in Path("/proc").glob("[0-9]*/cwd"):
            try:
                if link.readlink().is_relative_to(self.data):
                    found.append(int(link.parent.name))
            except OSError:
                continue
        return found


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    made = Stack(tmp_path)
    yield made
    for file in made.data.rglob("*.pid"):
        left = processes.load(file)
        if left is not None:
            left.kill()


def wait_for(condition: Callable[[], bool], limit_s: float = 60) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class BootstrapOnly:
    """As much of a Kafka under test as produce and consume look at."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


@pytest.mark.long
def test_from_up_to_purge(
    stack: Stack, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
    first = stack.command("up", "--partitions", "2")
    assert 'eval "$(lineage stack env)"' in first.stdout
    status = stack.status()
    assert list(status) == ["kafka", "redis", "neo4j", "linker", "writer", "query-api"]
    assert {one["state"] for one in status.values()} == {"ready"}
    assert sorted(one["pid"] for one in status.values()) == sorted(stack.processes())
    settings = stack.settings()
    assert settings["LINEAGE_DISPATCHER"] == "kafka"
    _secrets_are_kept(stack, settings)
    api = status["query-api"]["address"]
    assert httpx.get(f"{api}/v1/applications").status_code == 401
    local = running_at(api)
    assert local is not None
    assert f"page and API: {api}/?token={local.token}\n" in first.stdout
    with httpx.Client(headers={"Authorization": f"Bearer {local.token}"}, timeout=60) as client:
        assert client.get(f"{api}/v1/applications").json()["items"] == []
        assert client.get(f"{api}/v1/dead-letters").json()["total"] == 0

    # Again: nothing changes.
    assert stack.command("up").stderr.count("runs already") == 6
    assert stack.status() == status
    assert stack.settings() == settings

    kafka: Any = BootstrapOnly(settings["LINEAGE_KAFKA"])
    produce(kafka, "lineage-flow", [b"block"])
    with Redis.from_url(settings["LINEAGE_REDIS"]) as redis:
        redis.set("key", "value")
    _run(settings, "CREATE (:N {id: 1})")

    # A crash of all of them: up starts them on their data, on the same ports.
    for one in status.values():
        os.kill(one["pid"], signal.SIGKILL)
    wait_for(lambda: stack.processes() == [])
    crashed = stack.status(code=1)
    assert {one["state"] for one in crashed.values()} == {"ended"}
    assert (
        "not running: kafka, redis, neo4j, linker, writer, query-api" in stack.command("env").stderr
    )
    stack.command("up")
    assert stack.settings() == settings
    assert consume(kafka, "lineage-flow", 1) == [b"block"]
    with Redis.from_url(settings["LINEAGE_REDIS"]) as redis:
        assert redis.get("key") == b"value"
    assert _run(settings, "MATCH (n:N) RETURN n.id AS id") == [{"id": 1}]

    # Down keeps the data and no process, purge nothing at all.
    stack.command("down")
    assert stack.processes() == []
    assert {one["state"] for one in stack.status(code=1).values()} == {"stopped"}
    stack.command("up", "--only", "redis")
    with Redis.from_url(settings["LINEAGE_REDIS"]) as redis:
        assert redis.get("key") == b"value"
    stack.command("down", "--purge")
    assert stack.processes() == []
    assert list(stack.folder.iterdir()) == []
    assert "there is no stack" in stack.command("status", code=2).stderr


def _run(settings: dict[str, str], query: str) -> list[dict[str, Any]]:
    password = Path(settings["LINEAGE_NEO4J_PASSWORD_FILE"]).read_text().strip()
    uri, user = settings["LINEAGE_STORE"], settings["LINEAGE_NEO4J_USER"]
    with GraphDatabase.driver(uri, auth=(user, password)) as driver:
        return [record.data() for record in driver.execute_query(query).records]


def _secrets_are_kept(stack: Stack, settings: dict[str, str]) -> None:
    file = Path(settings["LINEAGE_NEO4J_PASSWORD_FILE"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert stack.data.stat().st_mode & 0o777 == 0o700
    password = file.read_bytes().strip()
    assert len(password) >= 16
    for other in stack.data.rglob("*"):
        if other.is_file() and other != file:
            assert password not in other.read_bytes(), other
    for pid in stack.processes():
        assert password not in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert password not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_port_that_a_stranger_took_is_changed_and_said(stack: Stack) -> None:
    stack.command("up", "--only", "redis")
    stack.command("down")
    port = int(stack.status(code=1)["redis"]["address"].rpartition(":")[2])
    with socket.create_server((LOOPBACK, port)):
        said = stack.command("up", "--only", "redis").stderr
    assert f"port {port} is taken" in said
    status = stack.status()["redis"]
    assert status["state"] == "ready"
    assert status["address"] != f"{LOOPBACK}:{port}"
    assert stack.settings()["LINEAGE_REDIS"] == f"redis://{status['address']}/0"


def test_a_server_that_can_not_start_says_why(stack: Stack) -> None:
    stack.command("up", "--only", "redis")
    stack.command("down")
    (manifest,) = stack.data.rglob("*.manifest")
    manifest.write_text("rubbish\n")
    said = stack.command("up", "--only", "redis", code=2).stderr
    assert "redis ended instead of starting" in said
    assert "Invalid AOF manifest file format" in said
    assert "Invalid AOF manifest file format" in stack.command("logs", "redis").stdout
    assert stack.status(code=1)["redis"]["state"] == "ended"
    stack.command("down", "--purge", "--only", "redis")
    stack.command("up", "--only", "redis")
    assert stack.status()["redis"]["state"] == "ready"


def test_ports_are_free_and_not_of_the_range_for_outgoing_connections() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    assert max(ports) < int(text.split()[0])
    assert all(is_free(port) for port in ports)
    with socket.create_server((LOOPBACK, ports[0])):
        assert not is_free(ports[0])


def test_a_run_of_tests_that_is_killed_leaves_no_server_behind(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from tests.support.servers import guarded\n"
        "with guarded(Path(sys.argv[1])) as servers:\n"
        "    servers.redis(); print('up', flush=True); time.sleep(600)"
    )
    folder = tmp_path / "servers"
    folder.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        cwd=servers.GUARDIAN.parents[1],
        env={**os.environ, "LINEAGE_TEST_SERVERS": "native"},
        stdout=subprocess.PIPE,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        process = supervisor.running(RedisServer(folder / "redis", 1))
        assert process is not None
        run.kill()
    assert process.wait(60)
    wait_for(lambda: not folder.exists())
