"""Client of the background session: sends it queries, and starts it where none runs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from enum import Enum

from lineage.background.sessions import (
    SESSIONS_MAX,
    idle_s,
    log_of,
    peer_uid,
    remove_ended,
    running,
    session_for,
    sessions_folder,
    socket_address,
    turn,
)
from lineage.background.wire import (
    REPLY_BYTES_MAX,
    Answered,
    Failed,
    QueryRequest,
    Refused,
    WireError,
    encoded,
    receive,
    send,
)
from lineage.terminal import echo
from lineage_core.environment.module_programs import module_command
from lineage_core.environment.private_files import private_opener
from lineage_core.errors import LineageError
from lineage_query.answers import Answer
from lineage_query.trace_query import TraceQuery
from lineage_store.errors import NoSuchRowError
from lineage_store.url import absolute_store

PROCESS = "lineage.background_process"
LISTENS_S = 30.0
"""Seconds until a session that was started must listen; its Spark takes longer."""
KEPT_S = 86_400.0
"""Seconds for which the log of an ended session is kept."""
LOOK_S = 0.02
"""Seconds between checks whether a new session listens."""


class StartOutcome(Enum):
    """Outcome of a request to start a session."""

    STARTED = "a session starts"
    THERE = "a session is there"
    NONE = "there is no session"


class SessionRefusalError(LineageError):
    """The session refused a query, as this process would have; ``kind`` is the type of the session's error."""

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class NoRowRefusalError(SessionRefusalError, NoSuchRowError):
    """The session searched all rows, and none matches the query."""


def has_spark() -> bool:
    """Whether this process may have its own Spark session, as a program that calls the API has."""
    return "pyspark" in sys.modules


def answered(url: str, question: TraceQuery) -> Answer | None:
    """The session's answer to a query about rows of DataFrames; None where this process needs its own Spark to answer.

    Raises:
        SessionRefusalError: the session refuses the query.
        TraceError: the setting of sessions is no number.
    """
    if question.regions or has_spark():
        return None
    name = session_for(url)
    if name is None:
        return None
    try:
        with turn(name) as mine:
            return _ask(name, url, question) if mine else None
    except (OSError, WireError) as problem:
        _say(str(problem))
        return None


def _ask(name: str, url: str, question: TraceQuery) -> Answer | None:
    connection = _connected(name) or _started(name, url)
    if connection is None:
        return None
    with connection:
        send(connection, encoded(QueryRequest.of(question, os.getcwd())))
        reply = receive(connection, REPLY_BYTES_MAX, None)
    match reply:
        case Answered():
            return reply.read()
        case Refused():
            refusal_type = NoRowRefusalError if reply.no_such_row else SessionRefusalError
            raise refusal_type(reply.message, reply.error)
        case Failed():
            _say(reply.why)
            return None
        case _:
            raise WireError("it sent a request instead of a reply")


def _connected(name: str) -> socket.socket | None:
    """A connection to a session; None where there is none.

    Raises:
        WireError: another user listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(name) as address:
            connection.connect(address)
        if peer_uid(connection) != os.geteuid():
            raise WireError("another user listens there")
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def begin(url: str) -> StartOutcome:
    """Start the session for later queries of this command's user, and wait until it listens.

    The session starts its Spark and warms it up with a query of its own until a request arrives.

    Raises:
        TraceError: the setting of sessions is no number.
        OSError: the folder of sessions can't be made, or is another user's.
        WireError: it does not listen.
    """
    name = session_for(url)
    if name is None:
        return StartOutcome.NONE
    with turn(name) as mine:
        connection = _connected(name) if mine else None
        outcome = StartOutcome.THERE
        if connection is None and mine:
            connection = _started(name, url, warm=True)
            outcome = StartOutcome.NONE if connection is None else StartOutcome.STARTED
        if connection is not None:
            connection.close()
        return outcome


def _started(name: str, url: str, *, warm: bool = False) -> socket.socket | None:
    """A connection to a new session; None at the limit of sessions, or while the one of this name ends.

    Raises:
        WireError: it does not listen.
    """
    process = _process(name, url, warm=warm)
    if process is None:
        return None
    due = time.monotonic() + LISTENS_S
    while process.poll() is None and time.monotonic() < due:
        connection = _connected(name)
        if connection is not None:
            # The session outlives this process: do not wait for its end.
            process.returncode = 0
            return connection
        time.sleep(LOOK_S)
    process.kill()
    process.wait()
    raise WireError(f"the session does not start, see {log_of(name)}")


def _process(name: str, url: str, *, warm: bool) -> subprocess.Popen[bytes] | None:
    """The process of a new session; None at the limit of sessions, or while the one of this name ends."""
    sessions = running()
    if len(sessions) >= SESSIONS_MAX or any(session.name == name for session in sessions):
        return None
    remove_ended(KEPT_S)
    # Not the folder of the command: Python looks for modules where it starts.
    command = module_command(PROCESS, name, absolute_store(url), str(idle_s()), *["warm"] * warm)
    with open(log_of(name), "wb", opener=private_opener) as log:
        return subprocess.Popen(
            command,
            cwd=sessions_folder(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _say(why: str) -> None:
    echo(
        f"lineage: the background session has no answer ({why}): a Spark of this command's own is started",
        err=True,
    )
