"""Kafka with SASL_SSL and ACLs, Redis with TLS and an ACL user, Neo4j with TLS: set up by settings alone."""

from __future__ import annotations

import asyncio
import json
import os
import re
import selectors
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lineage.stack import supervisor
from lineage.stack.kafka_server import create_topics
from lineage.stack.ports import free_ports
from lineage.stack.services import KINDS, Service
from lineage_core.contract.verdict import judge
from lineage_emitter.dispatch.topics_check import check_topics
from lineage_emitter.errors import DeliveryError
from lineage_emitter.settings import read_settings
from lineage_kafka.topics import RECORD_BYTES_MAX, Topics
from lineage_linker.errors import BrokerUnavailableError, StateUnavailableError
from lineage_linker.redis_access import RedisAccess
from lineage_linker.service import Service as Linker
from lineage_linker.settings import LinkerSettings
from lineage_store.errors import StoreError
from lineage_store.url import open_store
from tests.support import secured
from tests.support.job_runs import CLI, environment, traced_from
from tests.support.linker_worker import until
from tests.support.secured import EMITTER, LINKER, NOBODY, WRITER
from tests.support.servers import Native, guarded
from tests.support.stored_lineage import spool_run, store_run

pytestmark = pytest.mark.integration

TOPICS = Topics()
RIGHTS = {
    EMITTER: {TOPICS.flow: ("WRITE",), TOPICS.node: ("WRITE",)},
    LINKER: {
        TOPICS.flow: ("READ",),
        TOPICS.node: ("READ",),
        TOPICS.edge: ("WRITE",),
        TOPICS.dead_letter: ("WRITE",),
    },
    WRITER: {TOPICS.edge: ("READ",), TOPICS.dead_letter: ("WRITE",)},
}
GROUPS = {LINKER: "lineage-linker", WRITER: "lineage-writer"}


@dataclass(frozen=True)
class Secured:
    """The three servers; topics and rights are there."""

    files: secured.Files
    kafka: secured.SecuredKafka
    redis: secured.SecuredRedis
    neo4j: secured.SecuredNeo4j

    def settings(self, part: str) -> dict[str, str]:
        """All settings of the emitter, the linker or the writer."""
        own = {
            EMITTER: {"LINEAGE_DISPATCHER": "kafka"},
            LINKER: self.redis.user_settings(LINKER),
            WRITER: self.neo4j.user_settings(),
        }
        return self.kafka.user_settings(part) | own[part]

    def secrets(self) -> list[str]:
        passwords = [self.files.password(user) for user in ("admin", *RIGHTS, NOBODY)]
        return [*passwords, self.neo4j.password]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with guarded(tmp_path_factory.mktemp("secured")) as run:
        kafka_port, controller, redis_port, neo4j_port = free_ports(4)
        files = secured.Files(run.folder / "secrets")
        made = Secured(
            files,
            secured.SecuredKafka(run.folder / "kafka", kafka_port, controller, files),
            secured.SecuredRedis(run.folder / "redis", redis_port, files),
            secured.SecuredNeo4j(run.folder / "neo4j", neo4j_port, files),
        )
        for server in (made.kafka, made.redis, made.neo4j):
            supervisor.start(server)
            run.runners.append(Native(server))
        for server in (made.kafka, made.redis, made.neo4j):
            supervisor.wait_ready(server)
        _grant(made)
        yield made


def _grant(servers: Secured) -> None:
    """Make topics, SCRAM users and ACLs."""
    from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
    from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
    from confluent_kafka.admin._scram import (
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = servers.kafka.admin()
    create_topics(admin, {TOPICS.flow: 2, TOPICS.edge: 2, TOPICS.node: 1, TOPICS.dead_letter: 1})
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    made = admin.alter_user_scram_credentials(
        [
            UserScramCredentialUpsertion(user, scram, servers.files.password(user).encode())
            for user in (LINKER, WRITER)
        ]
    )
    rights = [
        (user, ResourceType.TOPIC, topic, right)
        for user, topics in RIGHTS.items()
        for topic, those in topics.items()
        for right in those
    ]
    rights += [(user, ResourceType.GROUP, group, "READ") for user, group in GROUPS.items()]
    granted = admin.create_acls(
        [
            AclBinding(
                kind,
                name,
                ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                AclOperation[right],
                AclPermissionType.ALLOW,
            )
            for user, kind, name, right in rights
        ]
    )
    for done in (*made.values(), *granted.values()):
        done.result(30)


@pytest.fixture
def service(servers: Secured, tmp_path: Path) -> Iterator[Any]:
    """Starts our services, each with its own settings alone."""
    started: list[Service] = []

    def start(part: str, **settings: str) -> Service:
        kind = next(kind for kind in KINDS if kind.name == part)
        folder = tmp_path / f"{part}-{len(started)}"
        made = Service(kind, folder, free_ports(1)[0], servers.settings(part) | settings)
        supervisor.start(made)
        started.append(made)
        return made

    yield start
    for one in started:
        supervisor.stop(one)


def _log(service: Service) -> str:
    return service.log.read_text(encoding="utf-8", errors="replace")


def _hides(text: str, servers: Secured, *more: str) -> None:
    for secret in (*servers.secrets(), *more):
        assert secret not in text


def _with_environment(settings: Mapping[str, str], patch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LINEAGE_")]:
        patch.delenv(name)
    for name, value in settings.items():
        patch.setenv(name, value)


@pytest.mark.long
def test_lineage_goes_through_secured_servers(
    servers: Secured, service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    linker, writer = service(LINKER), service(WRITER)
    spool_run(tmp_path / "spool", tmp_path)
    sent = subprocess.run(
        [*CLI, "send", "--spool", str(tmp_path / "spool")],
        cwd=tmp_path,
        env=environment(servers.settings(EMITTER)),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert sent.returncode == 0, sent.stderr
    supervisor.wait_ready(linker)
    supervisor.wait_ready(writer)

    _with_environment(servers.neo4j.user_settings(), monkeypatch)
    with open_store(servers.neo4j.uri) as store:

        def verdict() -> Any:
            try:
                return judge(store.messages("app-1"), store.counts("app-1"), now=2_000.0)
            except KeyError:
                return None

        def complete() -> bool:
            found = verdict()
            return found is not None and found.complete

        until(complete, f"complete: {_log(linker)[-3000:]}\n{_log(writer)[-3000:]}")
        answer = traced_from(store, tmp_path / "index", tmp_path / "out")

    url = f"sqlite:///{tmp_path / 'embedded.db'}"
    (tmp_path / "again").mkdir()
    assert not (tmp_path / "spool" / "app-1" / "blocks").exists()
    store_run(url, tmp_path)
    with open_store(url) as embedded:
        assert answer == traced_from(embedded, tmp_path / "index", tmp_path / "out")
    assert sum(answer.values()) == 5

    # Whoever looks at the machine's processes or at the logs learns no secret.
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            _hides(words.decode("utf-8", "replace"), servers)
    for process in (supervisor.running(linker), supervisor.running(writer)):
        assert process is not None
        _hides(Path(f"/proc/{process.pid}/environ").read_text(), servers)
    assert supervisor.stop(linker)
    assert supervisor.stop(writer)
    for server in (linker, writer, servers.kafka, servers.redis, servers.neo4j):
        _hides(server.log.read_text(encoding="utf-8", errors="replace"), servers)
    _hides(sent.stdout + sent.stderr, servers)

    # The linker's user is given what the guide says, and asked for nothing else.
    with servers.redis.client() as redis:
        assert redis.keys("lm:*")
        asked = {(one["reason"], one["object"]) for one in redis.acl_log()}
    assert asked <= {("command", "client|setinfo")}
    guide = Path(__file__).parents[2] / "docs" / "guide" / "security.md"
    lines = " ".join(guide.read_text(encoding="utf-8").split())
    assert secured.LINKER_ACL.format(sha256="HASH").replace("  ", " ") in lines


def test_a_batch_that_expands_is_refused_by_a_topic_that_keeps_records_as_they_are(
    servers: Secured,
) -> None:
    from confluent_kafka import KafkaError, Producer
    from confluent_kafka.cimpl import NewTopic

    admin = servers.kafka.admin()
    config = {"compression.type": "uncompressed", "max.message.bytes": str(RECORD_BYTES_MAX)}
    topic = NewTopic("kept-as-is", num_partitions=1, replication_factor=1, config=config)
    admin.create_topics([topic])["kept-as-is"].result(30)
    bomb = {"compression.type": "zstd", "message.max.bytes": 100_000_000}
    producer = Producer(servers.kafka.client_config() | bomb)
    errors: list[Any] = []
    producer.produce(
        "kept-as-is",
        bytes(2 * RECORD_BYTES_MAX),
        partition=0,
        on_delivery=lambda error, _: errors.append(error),
    )
    assert producer.flush(60) == 0
    assert [error.code() for error in errors] == [KafkaError.MSG_SIZE_TOO_LARGE]


def _run(question: Coroutine[Any, Any, object]) -> None:
    """Run until its connections are gone: closing one with TLS takes an answer of the other side.

    `asyncio.run` doesn't wait for it, and what it leaves is complained about in whatever test comes next.
    """
    selector = selectors.DefaultSelector()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.get_loop()
        own = len(selector.get_map())

        async def closed() -> None:
            while len(selector.get_map()) > own:
                await asyncio.sleep(0.01)

        try:
            runner.run(question)
        finally:
            runner.run(asyncio.wait_for(closed(), 60))


WRONG = "a-wrong-password"


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("password", "LINEAGE_KAFKA_SASL_PASSWORD_FILE"),
        pytest.param("authority", "LINEAGE_KAFKA_SSL_CA_FILE", marks=pytest.mark.long),
        pytest.param("protocol", "LINEAGE_KAFKA_SECURITY_PROTOCOL", marks=pytest.mark.long),
        ("rights", "docs/guide/security.md"),
    ],
)
def test_kafka_that_refuses_says_what_to_do(
    servers: Secured,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
    advice: str,
) -> None:
    (tmp_path / "wrong").write_text(WRONG)
    faults = {
        "password": {"LINEAGE_KAFKA_SASL_PASSWORD_FILE": str(tmp_path / "wrong")},
        "authority": {"LINEAGE_KAFKA_SSL_CA_FILE": str(servers.files.stranger_file)},
        "protocol": {"LINEAGE_KAFKA_SECURITY_PROTOCOL": "PLAINTEXT"},
        "rights": servers.kafka.user_settings(NOBODY),
    }[fault]
    _with_environment(servers.settings(LINKER) | faults, monkeypatch)
    with pytest.raises(BrokerUnavailableError) as raised:
        _run(Linker(LinkerSettings())._kafka_answers())
    assert advice in str(raised.value)
    _hides(repr(raised.value), servers, WRONG)

    _with_environment(servers.settings(EMITTER) | faults, monkeypatch)
    config = read_settings(dispatcher="kafka").librdkafka_config()
    with pytest.raises(DeliveryError) as delivery:
        check_topics(config, [TOPICS.flow, TOPICS.node], 10.0)
    assert advice in str(delivery.value)
    _hides(repr(delivery.value), servers, WRONG)


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("password", "LINEAGE_REDIS_PASSWORD_FILE"),
        ("login", "LINEAGE_REDIS_PASSWORD_FILE"),
        ("authority", "LINEAGE_REDIS_CA_FILE"),
        ("protocol", "rediss://"),
        ("rights", "docs/guide/security.md"),
    ],
)
def test_redis_that_refuses_says_what_to_do(
    servers: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, advice: str
) -> None:
    (tmp_path / "wrong").write_text(WRONG)
    faults = {
        "password": {"LINEAGE_REDIS_PASSWORD_FILE": str(tmp_path / "wrong")},
        "login": {"LINEAGE_REDIS_PASSWORD_FILE": "", "LINEAGE_REDIS_USERNAME": ""},
        "authority": {"LINEAGE_REDIS_CA_FILE": str(servers.files.stranger_file)},
        "protocol": {"LINEAGE_REDIS": servers.redis.url.replace("rediss", "redis")},
        "rights": servers.redis.user_settings(NOBODY),
    }[fault]
    _with_environment(servers.settings(LINKER) | faults, monkeypatch)
    refused = pytest.raises(StateUnavailableError)
    with LinkerSettings().redis_client() as client, refused as raised:
        RedisAccess(client).run()
    assert advice in str(raised.value)
    _hides(repr(raised.value), servers, WRONG)


def test_the_linkers_redis_user_sees_no_other_keys(
    servers: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from redis.exceptions import ResponseError

    _with_environment(servers.settings(LINKER), monkeypatch)
    with LinkerSettings().redis_client() as client:
        client.set("lm:{app}:end", "1", ex=60)
        for command in (
            ("GET", "other"),
            ("EVAL", "return redis.call('GET', 'other')", 0),
            ("FLUSHALL",),
            ("KEYS", "*"),
            ("CONFIG", "GET", "*"),
            ("ACL", "LIST"),
        ):
            with pytest.raises(ResponseError, match=r"no permissions|can't access"):
                client.execute_command(*command)
    with servers.redis.client() as redis:
        redis.acl_log_reset()


@pytest.mark.parametrize(
    ("fault", "advice"),
    [
        ("password", "LINEAGE_NEO4J_PASSWORD_FILE"),
        ("authority", "LINEAGE_NEO4J_CA_FILE"),
        ("protocol", r"neo4j\+s://"),
    ],
)
def test_neo4j_that_refuses_says_what_to_do(
    servers: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, advice: str
) -> None:
    (tmp_path / "wrong").write_text(WRONG)
    right = servers.neo4j.user_settings()
    faults = {
        "password": {"LINEAGE_NEO4J_PASSWORD_FILE": str(tmp_path / "wrong")},
        "authority": {"LINEAGE_NEO4J_CA_FILE": str(servers.files.stranger_file)},
        "protocol": {
            "LINEAGE_STORE": right["LINEAGE_STORE"].replace("+s", ""),
            "LINEAGE_NEO4J_CA_FILE": "",
        },
    }[fault]
    _with_environment(right | faults, monkeypatch)
    with pytest.raises(StoreError, match=advice) as raised:
        open_store(os.environ["LINEAGE_STORE"])
    _hides(repr(raised.value), servers, WRONG)


def test_services_that_are_refused_say_so_in_their_logs(
    servers: Secured, service: Any, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text(WRONG)
    linker = service(LINKER, LINEAGE_KAFKA_SASL_PASSWORD_FILE=str(wrong))
    writer = service(WRITER, LINEAGE_KAFKA_SASL_PASSWORD_FILE=str(wrong))
    for one, event in ((linker, "server_is_away"), (writer, "kafka_client_restarted")):

        def said(one: Service = one, event: str = event) -> bool:
            return any(
                json.loads(line)["event"] == event and "LINEAGE_KAFKA_SASL_PASSWORD_FILE" in line
                for line in _log(one).splitlines()
                if line.endswith("}")
            )

        until(said, f"{one.name} says what is wrong: {_log(one)[-2000:]}")
        _hides(_log(one), servers, WRONG)


def test_a_value_that_can_not_be_used_is_not_shown(
    servers: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A secret where none may be, or of another kind than it should.
    faults = {
        "LINEAGE_REDIS": f"redis://{LINKER}:{WRONG}@localhost:1/0",
        "LINEAGE_KAFKA_SECURITY_PROTOCOL": WRONG,
        "LINEAGE_KAFKA_SASL_MECHANISM": WRONG,
    }
    for module, part in (("lineage_linker", LINKER), ("lineage_writer", WRITER)):
        for name, value in faults.items():
            if part == WRITER and name == "LINEAGE_REDIS":
                continue
            ended = subprocess.run(
                [sys.executable, "-P", "-m", module],
                env=environment(servers.settings(part) | {name: value}),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=60,
            )
            assert ended.returncode == 2
            assert re.search(name, ended.stderr + ended.stdout)
            _hides(ended.stderr + ended.stdout, servers, WRONG)
