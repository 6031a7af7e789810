"""The background session answers its user alone, takes questions and nothing else, and ends by itself."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lineage import background_process as process
from lineage.background import client, sessions
from lineage.background.client import SessionRefusalError, answered
from lineage.background.sessions import (
    running,
    session_for,
    sessions_folder,
    socket_address,
    socket_of,
    turn,
)
from lineage.background.wire import (
    REQUEST_BYTES_MAX,
    Answered,
    Failed,
    Message,
    QueryRequest,
    Refused,
    WireError,
    encoded,
    receive,
)
from lineage.background_process import BackgroundServer, StartedSpark, listening
from lineage.main import app
from lineage_core.environment.private_files import ForeignOwnerError
from lineage_core.tracing.trace_result import Direction, TraceError
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery

pytestmark = pytest.mark.security

ASKED = QueryRequest(
    "/", "backward", ["out#1"], None, None, None, 20, True, False, "", False, False
)
ANSWER = Answer("app-1", Direction.BACKWARD, ("out#1",), (), True, (), (), (), False, True)


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store whose questions a session would answer, in a state folder of this test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "s"))
    monkeypatch.setenv(sessions.VARIABLE, "600")
    monkeypatch.delenv("LINEAGE_SPARK_MASTER", raising=False)
    # This process has loaded PySpark for other tests, perhaps.
    monkeypatch.setattr(client, "has_spark", lambda: False)
    return f"sqlite:///{tmp_path}/lineage.db"


def name_of(url: str) -> str:
    name = session_for(url)
    assert name is not None
    return name


def exchange(body: bytes, bytes_max: int = REQUEST_BYTES_MAX) -> Message:
    """What is read of some bytes."""
    here, there = socket.socketpair()
    with here, there:
        here.sendall(body)
        here.shutdown(socket.SHUT_WR)
        return receive(there, bytes_max, 5)


def framed(body: bytes) -> bytes:
    return struct.pack(">Q", len(body)) + body


@pytest.mark.parametrize(
    "message", [ASKED, Answered(ANSWER.to_json()), Refused("RowError", "none"), Failed("why")]
)
def test_messages_are_read_as_they_were_sent(message: Message) -> None:
    assert exchange(encoded(message)) == message


def test_all_of_a_question_is_sent() -> None:
    question = TraceQuery(
        Direction.FORWARD,
        ("a:1", "b\udcff#2"),
        "app",
        "node",
        1,
        7,
        texts=False,
        as_now=True,
        where="x > 1",
        all_jobs=True,
        way=True,
    )
    assert QueryRequest.of(question, "/").question() == question
    # The session answers with rows; they are counted by containers where the query was made.
    others = {one.name for one in dataclasses.fields(TraceQuery)} - {"regions", "by"}
    assert others <= {one.name for one in dataclasses.fields(QueryRequest)}
    assert Answered(ANSWER.to_json()).read() == ANSWER


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\x00",
        framed(pickle.dumps(ASKED)),
        framed(b"[" * 100_000),
        framed(b"{}"),
        framed(b'{"type": "run", "code": "1"}'),
        framed(b'{"type": "failed", "why": 3}'),
        framed(b'{"type": "failed", "why": "a", "more": 1}'),
        framed(json.dumps({"type": "asked", **dataclasses.asdict(ASKED), "limit": True}).encode()),
        framed(json.dumps({"type": "asked", **dataclasses.asdict(ASKED), "places": [1]}).encode()),
        encoded(ASKED)[:-1],
        struct.pack(">Q", REQUEST_BYTES_MAX + 1),
    ],
)
def test_what_is_no_message_is_refused_before_it_is_used(body: bytes) -> None:
    with pytest.raises(WireError):
        exchange(body)


def test_whoever_differs_in_what_decides_on_answers_has_another_session(
    url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    name = name_of(url)
    monkeypatch.setenv("PWD", "/elsewhere")
    assert name_of(url) == name
    assert name_of(f"{url}2") != name
    for variable in ("PYTHONPATH", "SPARK_CONF_DIR", "LINEAGE_SPARK_MASTER", "AWS_PROFILE", "TZ"):
        with monkeypatch.context() as changed:
            changed.setenv(variable, "local[1]")
            assert name_of(url) != name, variable
    conf = tmp_path / "conf"
    conf.mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    name = name_of(url)
    (conf / "spark-defaults.conf").write_text("spark.jars a.jar")
    assert name_of(url) != name
    # An upgrade: the file of a program is another one.
    name, upgraded = name_of(url), Path(process.__file__)
    state = sessions._state
    monkeypatch.setattr(sessions, "_state", lambda file: "new" if file == upgraded else state(file))
    assert name_of(url) != name


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("LINEAGE_SESSION_S", "0"),
        ("LINEAGE_FUNCTIONS_KEY", "a key of some length"),
        ("LINEAGE_FUNCTIONS_KEY_FILE", "/key"),
        ("LINEAGE_JDBC_PASSWORD_FILE", "/password"),
        ("LINEAGE_SPARK_MASTER", "sc://there"),
        ("LINEAGE_SPARK_MASTER", "yarn"),
    ],
)
def test_there_is_no_session_with_secrets_or_elsewhere(
    url: str, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    assert session_for(url) is None
    assert session_for("neo4j://there:7687") is None


@pytest.mark.parametrize("value", ["soon", "-1", "nan", "inf"])
def test_a_setting_that_is_no_number_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("LINEAGE_SESSION_S", value)
    with pytest.raises(TraceError, match="LINEAGE_SESSION_S"):
        session_for(url)


def test_its_folder_and_socket_are_of_its_user_alone(url: str) -> None:
    before = os.umask(0)
    try:
        with turn(name_of(url)) as mine, turn(name_of(url)) as other:
            assert (mine, other) == (True, False)
        with listening(name_of(url)):
            assert stat.S_IMODE(socket_of(name_of(url)).stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert stat.S_IMODE(sessions_folder().stat().st_mode) == 0o700
    for file in sessions_folder().iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not socket_of(name_of(url)).exists()


def test_a_folder_of_another_user_is_not_used(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(folder: Path, **_: bool) -> Path:
        raise ForeignOwnerError(f"{folder} belongs to another user")

    monkeypatch.setattr(sessions, "ensure_private_folder", refuse)
    assert answered(url, ASKED.question()) is None
    assert "another user" in capsys.readouterr().err


# -- the session ------------------------------------------------------------------------------


class NoSpark(StartedSpark):
    """A Spark that is never needed."""

    def __init__(self) -> None:
        self.well = True

    def is_well(self) -> bool:
        return self.well


@contextmanager
def serving(
    url: str, reply: Callable[[QueryRequest], Message], idle_s: float
) -> Iterator[list[str]]:
    """A session that replies so; the reason of its end, once it has ended."""

    class Replying(BackgroundServer):
        def _reply(self, connection: socket.socket, asked: QueryRequest) -> Message:
            return reply(asked)

    with turn(name_of(url)):
        pass
    ended: list[str] = []
    with listening(name_of(url)) as listener:
        server = Replying(url, idle_s, NoSpark())
        thread = threading.Thread(target=lambda: ended.append(server.serve(listener)))
        thread.start()
        try:
            yield ended
        finally:
            thread.join()


def test_the_session_answers_what_it_is_asked(url: str) -> None:
    asked: list[QueryRequest] = []

    def reply(question: QueryRequest) -> Message:
        asked.append(question)
        if question.where:
            return Refused("RowError", "no row of the output fulfils it")
        return Answered(ANSWER.to_json())

    question = ASKED.question()
    with serving(url, reply, 1.0):
        assert answered(url, question) == ANSWER
        with pytest.raises(SessionRefusalError, match="no row") as refused:
            answered(url, replace(question, where="total > 9"))
        assert refused.value.kind == "RowError"
        with turn(name_of(url)):
            # Another command is asking: this one does not wait.
            assert answered(url, question) is None
    assert asked == [
        dataclasses.replace(ASKED, folder=str(Path.cwd()), where=where)
        for where in ("", "total > 9")
    ]


def test_another_user_is_neither_answered_nor_asked(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def reply(question: QueryRequest) -> Message:
        raise AssertionError(question)

    monkeypatch.setattr(process, "peer_uid", lambda connection: os.geteuid() + 1)
    with serving(url, reply, 1.0):
        assert answered(url, ASKED.question()) is None
    assert "refused another user" in capsys.readouterr().err
    monkeypatch.setattr(client, "peer_uid", lambda connection: os.geteuid() + 1)
    with serving(url, reply, 0.5):
        assert answered(url, ASKED.question()) is None
    assert "another user listens there" in capsys.readouterr().err


def test_who_connects_and_asks_nothing_does_not_keep_it(url: str) -> None:
    with serving(url, lambda asked: Failed(""), 0.5) as ended:
        while not ended:
            with (
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection,
                suppress(OSError),
                socket_address(name_of(url)) as address,
            ):
                connection.connect(address)
                connection.sendall(framed(b'"idle"')[:3])
    assert ended == ["no query for 0.5 s"]


def test_what_fails_there_is_answered_here_and_ends_it(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(asked: QueryRequest) -> Message:
        raise ZeroDivisionError

    for reply, why in ((lambda asked: Failed("of this"), "of this"), (broken, "is in its log")):
        with serving(url, reply, 60) as ended:
            assert answered(url, ASKED.question()) is None
        assert ended == ["Spark is not as it should be"]
        assert why in capsys.readouterr().err


def test_a_session_that_ends_at_a_question_is_no_answer(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with turn(name_of(url)):
        pass
    with listening(name_of(url)) as listener:

        def end() -> None:
            connection, _ = listener.accept()
            with connection:
                receive(connection, REQUEST_BYTES_MAX, 60)

        thread = threading.Thread(target=end)
        thread.start()
        assert answered(url, ASKED.question()) is None
        thread.join()
    assert "closed the connection without a reply" in capsys.readouterr().err


def test_a_session_that_does_not_start_is_none(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client, "PROCESS", "lineage.background.no_such_module")
    assert answered(url, ASKED.question()) is None
    said = capsys.readouterr().err
    assert "the session does not start" in said
    log = sessions.log_of(name_of(url))
    assert str(log) in said
    assert "no_such_module" in log.read_text()
    assert running() == []


def test_there_are_only_so_many(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SESSIONS_MAX", 0)
    monkeypatch.setattr(client, "PROCESS", "lineage.background.no_such_module")
    assert answered(url, ASKED.question()) is None
    assert not sessions.log_of(name_of(url)).exists()


def test_answers_that_are_too_large_are_not_sent(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(process, "REPLY_BYTES_MAX", 10)
    with serving(url, lambda asked: Answered(ANSWER.to_json()), 1.0):
        assert answered(url, ASKED.question()) is None
    assert "bytes" in capsys.readouterr().err


HOLDS = """
import fcntl, json, signal, sys
record = open(sys.argv[1], "w")
record.write(sys.argv[2].replace("PID", str(__import__("os").getpid())))
record.flush()
fcntl.flock(record, fcntl.LOCK_EX)
print("runs", flush=True)
signal.pause()
"""


def test_status_lists_those_that_run_and_stop_ends_them(url: str) -> None:
    with turn(name_of(url)):
        pass
    record = sessions.record_of(name_of(url))
    told = json.dumps({"name": name_of(url), "pid": 0, "store": url, "began": "", "idle_s": 600})
    command = [sys.executable, "-c", HOLDS, str(record), told.replace('"pid": 0', '"pid": PID')]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"runs\n"
        record.chmod(0o600)
        (found,) = json.loads(command_line("session", "status", "--json"))["sessions"]
        assert (found["pid"], found["store"]) == (session.pid, url)
        # A file that others can read is nobody's.
        record.chmod(0o644)
        assert command_line("session", "status") == "no session runs\n"
        record.chmod(0o600)
        assert str(session.pid) in command_line("session", "status")
        assert command_line("session", "stop") == "ended 1 session\n"
        assert session.wait(60) == -signal.SIGTERM
    assert command_line("session", "stop") == "ended 0 sessions\n"


def test_files_of_sessions_that_ended_long_ago_are_removed(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turn(name_of(url)):
        old, new = (sessions_folder() / name for name in ("a.log", "b.log"))
        for file in (old, new):
            file.touch()
        os.utime(old, (0, 0))
        monkeypatch.setattr(client, "PROCESS", "lineage.background.no_such_module")
    assert answered(url, ASKED.question()) is None
    assert (old.exists(), new.exists()) == (False, True)


def command_line(*words: str) -> str:
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.stdout
