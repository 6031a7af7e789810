"""Who asked what is recorded before it is answered; where it can't be, nothing is answered, and nothing deleted."""

from __future__ import annotations

import json
import resource
import shutil
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jwt
import pytest
from confluent_kafka import Consumer, TopicPartition
from cryptography.hazmat.primitives.asymmetric import ec
from fastapi.testclient import TestClient
from structlog.testing import capture_logs

from lineage_core.environment.redaction import without_secrets
from lineage_kafka.topics import Topics
from lineage_query_api import app, audit, audit_fields, audit_log
from lineage_query_api.app import create_app
from lineage_query_api.audit import ADDRESS_BYTES_MAX, ANONYMOUS_BYTES_MAX, CLIENT_BYTES_MAX
from lineage_query_api.audit_fields import BODY_BYTES_MAX, SCANNED_PER_CHARACTER
from lineage_query_api.auth import Oidc, TokenGate, new_token
from lineage_query_api.errors import SettingsError
from lineage_query_api.lineages import Lineages
from lineage_query_api.settings import read_settings
from lineage_store.url import open_store
from tests.support.servers import KafkaUnderTest
from tests.support.stored_lineage import store_run

pytestmark = pytest.mark.security
HOST = "http://127.0.0.1:8484"
PARTITIONS = 4
APPLICATION = "/v1/applications/app-1"
BACKWARD = {"direction": "backward", "start": {"places": ["write#0#0"]}}


class Served:
    """A server of callers with rights of their own, over one run."""

    def __init__(self, browser: TestClient, tokens: dict[str, str]) -> None:
        self.browser = browser
        self._tokens = tokens

    def status(self, caller: str, method: str, path: str, **more: Any) -> int:
        headers = {"Authorization": f"Bearer {self._tokens.get(caller, caller)}"}
        return self.browser.request(method, path, headers=headers, **more).status_code


@contextmanager
def served(folder: Path, where: str) -> Iterator[Served]:
    url = f"sqlite:///{folder}/lineage.db"
    store_run(url, folder)
    tokens, lines = {}, ""
    for name, role in (("ann", "admin"), ("ron", "reader")):
        tokens[name], told = new_token(name, role, rows=name == "ann", delete=name == "ann")  # type: ignore[arg-type]
        lines += told
    (folder / "tokens.toml").write_text(lines)
    settings = read_settings(
        store=url, api_tokens=folder / "tokens.toml", api_audit=where, api_roots=str(folder)
    )
    with (
        open_store(url) as store,
        TestClient(
            create_app(store, settings), base_url=HOST, raise_server_exceptions=False
        ) as browser,
    ):
        yield Served(browser, tokens)


def records(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_each_request_is_recorded_with_who_asked_and_what(tmp_path: Path) -> None:
    with served(tmp_path, str(tmp_path / "audit")) as server:
        assert server.status("ron", "POST", f"{APPLICATION}/traces", json=BACKWARD) == 200
        assert (
            server.status("ron", "GET", f"{APPLICATION}/rows", params={"address": "x#0#1"}) == 403
        )
        assert server.status("nobody", "GET", "/v1/applications") == 401
        assert server.status("ron", "DELETE", APPLICATION) == 403
        assert server.status("ann", "DELETE", APPLICATION) == 204
        assert server.status("ann", "GET", "/healthz") == 200
    found = records(tmp_path / "audit")
    ron = {
        "name": "ron",
        "identity": "token:ron",
        "role": "reader",
        "rows": False,
        "delete": False,
        "erase": False,
        "watch": False,
        "access": False,
        "by": "token",
    }
    ann = {
        "name": "ann",
        "identity": "token:ann",
        "role": "admin",
        "rows": True,
        "delete": True,
        "erase": False,
        "watch": False,
        "access": False,
        "by": "token",
    }
    assert [
        (one["event"], one.get("status"), one["caller"], one["method"], one["path"], one["query"])
        for one in found
    ] == [
        ("response", 200, ron, "POST", f"{APPLICATION}/traces", ""),
        ("response", 403, ron, "GET", f"{APPLICATION}/rows", "address=x%230%231"),
        ("response", 401, None, "GET", "/v1/applications", ""),
        ("response", 403, ron, "DELETE", APPLICATION, ""),
        ("request", None, ann, "DELETE", APPLICATION, ""),
        ("response", 204, ann, "DELETE", APPLICATION, ""),
    ]
    assert [one["question"] for one in found] == [BACKWARD, *[None] * 5]
    assert {one["from"] for one in found} == {"testclient"}
    assert found[4]["id"] == found[5]["id"]
    assert len({one["id"] for one in found}) == 5
    assert datetime.fromisoformat(found[0]["at"]).tzinfo == UTC
    assert not any(token in json.dumps(found) for token in server._tokens.values())


def test_who_asks_for_headers_alone_needs_the_same_rights_and_is_recorded(tmp_path: Path) -> None:
    with served(tmp_path, str(tmp_path / "audit")) as server:
        assert server.status("nobody", "HEAD", "/v1/applications") == 401
        assert server.status("ron", "HEAD", f"{APPLICATION}/dump") == 403
        assert server.status("ann", "HEAD", f"{APPLICATION}/dump") == 200
    told = [
        (record["method"], record["caller"] and record["caller"]["name"], record["status"])
        for record in records(tmp_path / "audit")
    ]
    assert told == [
        ("HEAD", None, 401),
        ("HEAD", "ron", 403),
        ("HEAD", "ann", 200),
    ]


def test_who_chooses_a_name_of_somebody_else_is_recorded_by_subject(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    keys = SimpleNamespace(get_signing_key_from_jwt=lambda _: SimpleNamespace(key=key.public_key()))
    claims = {"iss": "https://i", "aud": "a", "sub": "s-1", "exp": 1 << 33}
    chosen = {**claims, "preferred_username": "ann", "roles": ["lineage-admin", "lineage-delete"]}
    with served(tmp_path, str(tmp_path / "audit")) as server:
        gate = TokenGate(None, Oidc("https://i", "a", "roles", keys))
        vars(server.browser.app)["state"].gate = gate
        assert server.status(jwt.encode(chosen, key, "ES256"), "DELETE", APPLICATION) == 204
    assert [one["caller"]["name"] for one in records(tmp_path / "audit")] == ["ann", "ann"]
    assert {one["caller"]["identity"] for one in records(tmp_path / "audit")} == {"sub:s-1"}


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        (b"{" + b"x" * 20_000, None),
        (b"[" * 2_000, None),
        (b"\xff\x00", None),
        (b"[NaN]", None),
        (b'"\\ud800\\n\\u2028"', "\ud800\n\u2028"),
        (b" " * 5_000 + b'{"a": [1, "b"]}', {"a": [1, "b"]}),
    ],
)
def test_whatever_is_sent_is_one_line_of_bounded_length(
    body: bytes, kept: object, tmp_path: Path
) -> None:
    with served(tmp_path, str(tmp_path / "audit")) as server:
        assert 400 <= server.status("ron", "POST", f"{APPLICATION}/traces", content=body) < 500
        server.status("ron", "GET", f"/v1/applications/{'y' * 30_000}?a={'z' * 30_000}")
        server.status("nobody", "POST", f"/v1/applications/{'y' * 30_000}/traces", content=body)
    first, second, third = records(tmp_path / "audit")
    assert first["question"] == kept
    assert first["question_bytes"] == len(body)
    assert first["question_sha256"] == sha256(body).hexdigest()
    assert (len(second["path"]), len(second["query"])) == (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX)
    assert (len(third["path"]), third["question"], third["caller"]) == (
        ANONYMOUS_BYTES_MAX,
        None,
        None,
    )
    (file,) = (tmp_path / "audit").iterdir()
    assert max(map(len, file.read_bytes().split(b"\n"))) < 8_192


def test_a_long_question_is_cut(tmp_path: Path) -> None:
    with served(tmp_path, str(tmp_path / "audit")) as server:
        server.status("ron", "POST", f"{APPLICATION}/traces", json=["\u00e9" * 3_000])
    (told,) = records(tmp_path / "audit")
    assert told["question"].startswith('["' + "\\u00e9" * 250)
    assert len(json.dumps(told["question"])) <= BODY_BYTES_MAX + 2


def test_secrets_are_looked_for_in_what_is_told_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = list[str]()

    def hide(text: str) -> str:
        looked_at.append(text)
        return without_secrets(text)

    monkeypatch.setattr(audit_fields, "without_secrets", hide)
    texts = ["x" * 900_000, "-eyJ" * 200_000, ["a"] * 200_000, {"b": "c" * 900_000}]
    with served(tmp_path, str(tmp_path / "audit")) as server:
        server.status("nobody", "GET", f"/v1/{'p' * 30_000}?{'q=1&' * 5_000}")
        server.status("ron", "GET", f"/v1/{'p' * 30_000}?{'q' * 30_000}")
        assert sum(map(len, looked_at)) < 20_000
        assert len(looked_at) < 500
        for text in texts:
            looked_at.clear()
            server.status("ron", "POST", f"{APPLICATION}/traces", json=text)
            assert sum(map(len, looked_at)) < 30_000
            assert len(looked_at) < 3_000
    told = [one["question"] for one in records(tmp_path / "audit")[2:]]
    assert told[:2] == ['"..."'] * 2
    assert told[2].startswith('["a", "a", ')
    assert told[3] == '{"b": "..."}'


def test_no_part_of_a_secret_is_told_that_is_not_looked_at_whole(tmp_path: Path) -> None:
    long = "password=" + "x" * (SCANNED_PER_CHARACTER * ANONYMOUS_BYTES_MAX - 40)
    with served(tmp_path, str(tmp_path / "audit")) as server:
        server.status("nobody", "GET", f"/v1/{long};AKIA{'0' * 16};{'y' * 5_000}")
        server.status("nobody", "GET", f"/v1/me?{long};AKIA{'0' * 16};{'y' * 5_000}&b=2")
    assert "AKIA" not in json.dumps(records(tmp_path / "audit"))


def test_a_caller_behind_a_proxy_has_a_short_address(tmp_path: Path) -> None:
    given = {"api_proxies": "10.0.0.0/8", "api_open": True, "api_audit": str(tmp_path / "audit")}
    with open_store(f"sqlite:///{tmp_path}/lineage.db", create=True) as store:
        server = create_app(store, read_settings(**given))
        with TestClient(server, base_url=HOST, client=("10.0.0.5", 4711)) as browser:
            claimed = {"X-Forwarded-For": f"{'x' * 30_000}, 10.1.2.3"}
            assert browser.get("/v1/me", headers=claimed).status_code == 200
    (told,) = records(tmp_path / "audit")
    assert told["from"] == "x" * CLIENT_BYTES_MAX


def test_secrets_in_addresses_and_questions_are_hidden(tmp_path: Path) -> None:
    with served(tmp_path, str(tmp_path / "audit")) as server:
        for query in ("token=", "%74oken=", "where=password%3D", "name=jdbc%3Ax%3A%2F%2Fu%3A"):
            server.status("ron", "GET", f"/v1/me?a=1&{query}lm-secret%40h&b=2")
        server.status("ron", "GET", "/v1/me?--token&address=x")
        for question in (
            {"password": 'lm"secret'},
            {"a": ["x", {"token": "lm-secret"}]},
            {"places": ["jdbc:x://u:lm-secret@h/t", "-----BEGIN PRIVATE KEY-----lm-secret", "b"]},
        ):
            server.status("ron", "POST", f"{APPLICATION}/traces", json=question)
        escaped = b'{"p\\u0061ssword": "lm-secret"}'
        server.status("ron", "POST", f"{APPLICATION}/traces", content=escaped)
    found = records(tmp_path / "audit")
    assert "secret" not in json.dumps(found).lower().replace("\\", "")
    assert found[0]["query"] == "a=1&token=***&b=2"
    assert found[4]["query"] == "--token&address=x"
    assert found[7]["question"]["places"][2] == "b"


def lines_of(connection: socket.socket, count: int) -> list[dict[str, Any]]:
    """Records that a server of syslog was sent, without what stands before them."""
    data = b""
    connection.settimeout(30)
    while data.count(b"\n") < count:
        data += connection.recv(65_536)
    return [json.loads(line.removeprefix(b"<38>lineage-audit: ")) for line in data.splitlines()]


def test_nothing_is_answered_or_deleted_while_it_can_not_be_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "FAILED_S", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as syslog:
        port = syslog.getsockname()[1]
        with served(tmp_path, f"syslog+tcp://127.0.0.1:{port}") as server:
            connection, _ = syslog.accept()
            assert server.status("ron", "GET", APPLICATION) == 200
            (told,) = lines_of(connection, 1)
            assert (told["caller"]["name"], told["path"]) == ("ron", APPLICATION)
            # It goes away, and comes back.
            connection.close()
            syslog.close()
            assert server.status("ron", "GET", APPLICATION) == 503
            assert server.status("ann", "DELETE", APPLICATION) == 503
            assert server.status("ann", "GET", "/healthz") == 200
            with socket.create_server(("127.0.0.1", port)) as again:
                assert server.status("ann", "GET", APPLICATION) == 200
                connection, _ = again.accept()
                (told,) = lines_of(connection, 1)
                assert (told["caller"]["name"], told["status"]) == ("ann", 200)
                connection.close()


def test_a_local_syslog_is_sent_records(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
        local.bind(str(tmp_path / "log"))
        with served(tmp_path, f"syslog://{tmp_path}/log") as server:
            assert server.status("ron", "GET", APPLICATION) == 200
        local.settimeout(30)
        told = json.loads(local.recv(65_536).removeprefix(b"<38>lineage-audit: "))
        assert (told["caller"]["name"], told["status"]) == ("ron", 200)


def test_a_local_syslog_that_reads_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "WAIT_S", 0.1)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as local:
        local.bind(str(tmp_path / "log"))
        log = audit_log.open_audit(f"syslog://{tmp_path}/log", 1)
        assert log is not None
        with suppress(audit_log.AuditError), closing(log):
            for _ in range(10_000):
                log.write_record("x" * 1_000)
            pytest.fail("it takes records for ever")


class Hangs:
    """A log that takes nothing until it may go on, and then fails."""

    def __init__(self) -> None:
        self.go_on = threading.Event()

    def write_record(self, line: str) -> None:
        self.go_on.wait(30)
        raise OSError("away")

    def close(self) -> None: ...


def test_a_log_that_hangs_stops_no_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Hangs()
    monkeypatch.setattr(app, "open_audit", lambda *_: log)
    with served(tmp_path, "stdout") as server, ThreadPoolExecutor(60) as callers:
        waiting = [callers.submit(server.status, "nobody", "GET", "/v1/me") for _ in range(60)]
        assert server.status("nobody", "GET", "/healthz") == 200
        assert server.status("nobody", "GET", "/readyz") == 200
        assert server.status("nobody", "GET", "/metrics") == 200
        assert not any(one.done() for one in waiting)
        log.go_on.set()
        assert {one.result(60) for one in waiting} == {503}


def test_a_log_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Hangs()
    monkeypatch.setattr(app, "open_audit", lambda *_: log)
    monkeypatch.setattr(audit, "WAIT_S", 0.05)
    monkeypatch.setattr(audit, "FAILED_S", 0.0)
    with served(tmp_path, "stdout") as server:
        for _ in range(8):
            assert server.status("ann", "DELETE", APPLICATION) == 503
        log.go_on.set()


@pytest.mark.parametrize("fails", [False, True])
def test_an_error_of_the_server_is_recorded_too(
    fails: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        if fails:
            monkeypatch.setattr(audit_log._Folder, "write_record", broken)
        raise RuntimeError("of the server")

    monkeypatch.setattr(Lineages, "find", broken)
    with capture_logs(), served(tmp_path, str(tmp_path / "audit")) as server:
        status = server.status("ron", "GET", f"{APPLICATION}/progress")
    assert status == (503 if fails else 500)
    if not fails:
        assert [one["status"] for one in records(tmp_path / "audit")] == [500]


def test_standard_output_takes_records(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with served(tmp_path, "stdout") as server:
        assert server.status("ron", "GET", APPLICATION) == 200
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    (told,) = map(json.loads, lines)
    assert (told["caller"]["name"], told["status"]) == ("ron", 200)


def test_files_are_of_a_day_and_end_with_their_time(tmp_path: Path) -> None:
    (tmp_path / "audit-of-us.jsonl").touch()
    day = 1

    def now() -> datetime:
        return datetime(2026, 1, day, 23, 59, tzinfo=UTC)

    log, other = (audit_log._Folder(tmp_path, 2, now) for _ in range(2))
    for day in (1, 2, 3, 4):
        log.write_record(f"first of {day}")
        other.write_record(f"second of {day}")
    log.close()
    other.close()
    found = {file.name: file.read_text() for file in tmp_path.glob("audit-2*")}
    assert found == {
        f"audit-2026-01-0{one}.jsonl": f"first of {one}\nsecond of {one}\n" for one in (2, 3, 4)
    }
    assert (tmp_path / "audit-of-us.jsonl").exists()


def test_a_record_is_whole_or_not_there(tmp_path: Path) -> None:
    log = audit_log._Folder(tmp_path / "audit", 2)
    log.write_record("first")
    (file,) = (tmp_path / "audit").iterdir()
    with file.open("a") as stream:
        stream.write("torn by who was kil")
    log.write_record("second")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    was = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 3, hard))
    try:
        with pytest.raises(audit_log.AuditError):
            log.write_record("of a disk that is full")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, was)
    log.write_record("third")
    assert file.read_text().splitlines() == ["first", "torn by who was kil", "second", "third"]
    # It is made anew where somebody moved it away, with its folder.
    file.rename(tmp_path / "moved")
    log.write_record("fourth")
    shutil.rmtree(file.parent)
    log.write_record("fifth")
    assert file.read_text() == "fifth\n"
    log.close()


def test_a_folder_of_records_is_of_its_user_alone(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir(mode=0o777)
    audit_log._Folder(tmp_path / "audit", 2).close()
    assert stat.S_IMODE((tmp_path / "audit").stat().st_mode) == 0o700
    (file,) = (tmp_path / "audit").iterdir()
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch()
    with pytest.raises(OSError, match="symbolic"):
        audit_log._Folder(tmp_path / "audit", 2)


@pytest.mark.parametrize(
    "where",
    [
        "ftp://there",
        "kafka:",
        "syslog+tcp://127.0.0.1:1",
        "/dev/null/there",
        "syslog://h:x",
        "syslog://[::1",
        "http://u:pw@h",
    ],
)
def test_a_destination_that_can_not_be_used_is_told_at_the_start(where: str) -> None:
    with pytest.raises(SettingsError, match=r"^LINEAGE_API_AUDIT((?!pw).)*$"):
        audit_log.open_audit(where, 1)


@pytest.mark.long
@pytest.mark.integration
def test_a_topic_takes_records(
    kafka: KafkaUnderTest,
    kafka_topics: Topics,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in kafka.settings.items():
        monkeypatch.setenv(name, text)
    topic = kafka_topics.dead_letter
    with served(tmp_path, f"kafka:{topic}") as server:
        assert server.status("ron", "GET", APPLICATION) == 200
    with served(tmp_path, f"kafka:{topic}-of-nobody") as server:
        assert server.status("ron", "GET", APPLICATION) == 503
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": topic})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    (record,) = consumer.consume(1, 60)
    consumer.close()
    value = record.value()
    assert value is not None
    told = json.loads(value)
    assert (told["caller"]["name"], told["status"]) == ("ron", 200)
