"""Audit records: who requested what, from where, and with which outcome, written to a log that nobody rewrites.

A response is sent only after its record is written; a request that changes or deletes something is recorded before it
starts, too. If a record can't be written, the request is refused.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import select
import socket
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from http import HTTPStatus
from itertools import takewhile
from logging.handlers import SysLogHandler
from pathlib import Path
from threading import Lock
from typing import Any, Protocol
from urllib.parse import SplitResult, quote, unquote_plus, urlsplit

import structlog
from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from confluent_kafka import KafkaException, Producer
from fastapi import Request
from prometheus_client import CollectorRegistry, Counter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lineage_core.environment.private_files import (
    ensure_private_file,
    ensure_private_folder,
    private_opener,
)
from lineage_core.environment.redaction import REDACTED, redact_arguments
from lineage_kafka.dead_letters import DeadLetterError, read_kafka_settings
from lineage_query_api.auth import Principal
from lineage_query_api.errors import ProblemError, SettingsError
from lineage_query_api.problems import problem

BODY_BYTES_MAX = 2_048
"""Maximum size of a request body in a record; a whole record stays below 8 KiB, which any syslog server accepts."""
SCANNED_MAX = 16_384
"""Characters of a request body that are searched for secrets: the rest is not recorded."""
CHARACTERS_PER_TEXT = 16
"""What a text counts beside its own: many short ones take longer."""
SCANNED_PER_CHARACTER = 4
"""Characters of a path that are searched for secrets, for each that is recorded."""
OMITTED = "..."
ADDRESS_BYTES_MAX = 1_024
"""Bytes of a path in a record, and of a query."""
ANONYMOUS_BYTES_MAX = 256
"""The same for an unauthenticated caller, whose bodies are not recorded: outsiders can't fill the log."""
CLIENT_BYTES_MAX = 64
"""Bytes of the address of a caller: a proxy may hand on any text for one."""
WAIT_S = 10.0
"""How long another server may take to have a record."""
FAILED_S = 1.0
"""Seconds without a new attempt after a record could not be written."""
WRITER_THREADS = 4
"""Threads that keep records: a log that hangs holds up no others."""
SYSLOG_PORT = 514
NOT_WRITTEN = "the audit log can't be written, so nothing is answered"
DESTINATIONS = (
    "a folder, stdout, kafka:TOPIC, syslog://HOST:PORT, syslog+tcp://HOST:PORT or syslog:///dev/log"
)
Fields = Mapping[str, Any]


class AuditError(Exception):
    """A record could not be kept."""


class AuditLog(Protocol):
    """Keeps records, from several threads."""

    def write_record(self, line: str) -> None:
        """Keep one record, a JSON object without line breaks.

        Raises:
            AuditError: it is not kept.
        """

    def close(self) -> None:
        """Release resources."""


def open_audit(where: str, days: int) -> AuditLog | None:
    """The log at a destination; None for an empty one.

    Args:
        where: one of `DESTINATIONS`.
        days: how long files of a folder are kept.

    Raises:
        SettingsError: it is no destination, or can't be used.
    """
    try:
        destination = urlsplit(where)
        if not where:
            return None
        if where == "stdout":
            return _Stdout()
        if destination.scheme == "kafka":
            return _Topic(destination.path)
        if destination.scheme in {"syslog", "syslog+tcp"}:
            return _Syslog(destination)
        if not destination.scheme:
            return _Folder(Path(where), days)
    except (AuditError, OSError, ValueError) as error:
        raise SettingsError(f"LINEAGE_API_AUDIT: {error}") from error
    # Not all of it: a password may be in it.
    raise SettingsError(f"LINEAGE_API_AUDIT is {destination.scheme}:...: it must be {DESTINATIONS}")


class _Folder:
    """A file for each day (UTC), which only grows; several servers may share a folder."""

    def __init__(
        self,
        folder: Path,
        days: int,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        self._folder = folder
        self._days = days
        self._now = now
        self._lock = Lock()
        self._path = Path()
        self._file = -1
        with self._lock:
            self._open_file_of_today()

    def write_record(self, line: str) -> None:
        try:
            with self._lock:
                self._open_file_of_today()
                fcntl.flock(self._file, fcntl.LOCK_EX)
                try:
                    self._append(f"{line}\n".encode())
                finally:
                    fcntl.flock(self._file, fcntl.LOCK_UN)
                os.fdatasync(self._file)
        except OSError as error:
            raise AuditError(str(error)) from error

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file, self._path = -1, Path()

    def _append(self, data: bytes) -> None:
        end = os.lseek(self._file, 0, os.SEEK_END)
        if end and os.pread(self._file, 1, end - 1) != b"\n":
            # The previous writer was killed in the middle of a record.
            data = b"\n" + data
        try:
            if os.write(self._file, data) != len(data):
                raise AuditError("its disk is full")
        except BaseException:
            os.ftruncate(self._file, end)
            raise

    def _open_file_of_today(self) -> None:
        """Have the file of today open, and none that was moved or deleted."""
        now = self._now()
        path = self._folder / _name(f"{now:%Y-%m-%d}")
        if path == self._path and _is_file_at(self._file, path):
            return
        ensure_private_folder(self._folder, ours=True)
        ensure_private_file(path)
        file = private_opener(str(path), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)
        try:
            folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError:
            os.close(file)
            raise
        if self._file >= 0:
            os.close(self._file)
        self._file, self._path = file, path
        last = _name(f"{now - timedelta(days=self._days):%Y-%m-%d}")
        for old in self._folder.glob(_name("????-??-??")):
            if old.name < last:
                try:
                    old.unlink(missing_ok=True)
                except OSError as error:
                    structlog.get_logger().warning("audit_not_deleted", reason=str(error))


def _is_file_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.lstat())
    except FileNotFoundError:
        return False


def _name(day: str) -> str:
    return f"audit-{day}.jsonl"


class _Stdout:
    """Standard output, independent of the log level: for a cluster's log collector."""

    def __init__(self) -> None:
        self._lock = Lock()

    def write_record(self, line: str) -> None:
        try:
            with self._lock:
                sys.stdout.write(line + "\n")
                sys.stdout.flush()
        except (OSError, ValueError) as error:
            raise AuditError(str(error)) from error

    def close(self) -> None:
        pass


class _Syslog:
    """A syslog server, or this machine's. Syslog has no acknowledgements: records in transit are lost if it stops."""

    def __init__(self, at: SplitResult) -> None:
        self._at = at
        self._lock = Lock()
        self._handler: _StrictHandler | None = None
        with self._lock:
            self._open()

    def write_record(self, line: str) -> None:
        record = logging.LogRecord("lineage", logging.INFO, "", 0, line, None, None)
        with self._lock:
            try:
                if self._handler is not None and self._handler.is_closed_by_server():
                    self._drop()
                self._open().emit(record)
            except OSError as error:
                self._drop()
                raise AuditError(f"syslog: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _open(self) -> _StrictHandler:
        if self._handler is None:
            self._handler = _StrictHandler(self._at)
        return self._handler

    def _drop(self) -> None:
        if self._handler is not None:
            self._handler.close()
        self._handler = None


class _StrictHandler(SysLogHandler):
    """Raises errors, which the standard library's handler prints, and waits no longer than `WAIT_S`."""

    append_nul = False

    def __init__(self, at: SplitResult) -> None:
        self._tcp = at.scheme == "syslog+tcp"
        self._server = (at.hostname or "localhost", at.port or SYSLOG_PORT)
        super().__init__(at.path if not at.netloc else self._server, SysLogHandler.LOG_AUTH)
        # Over TCP each record ends with its line (RFC 6587, 3.4.2).
        end = "\n" if self._tcp else ""
        self.setFormatter(logging.Formatter("lineage-audit: %(message)s" + end))

    def createSocket(self) -> None:
        if not self._tcp:
            super().createSocket()
            return
        self.unixsocket = False
        self.socktype = socket.SOCK_STREAM
        self.socket = socket.create_connection(self._server, WAIT_S)

    def _connect_unixsocket(self, address: str) -> None:
        super()._connect_unixsocket(address)  # type: ignore[misc]
        self.socket.settimeout(WAIT_S)

    def is_closed_by_server(self) -> bool:
        """Whether the other side has closed the connection."""
        if not self._tcp:
            return False
        waiting = select.poll()
        waiting.register(self.socket, select.POLLIN)
        return bool(waiting.poll(0)) and not self.socket.recv(1, socket.MSG_PEEK)

    def handleError(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        assert error is not None
        raise error


class _Topic:
    """A topic of Kafka: a record is kept when all brokers that should have it do."""

    def __init__(self, topic: str) -> None:
        if not topic:
            raise AuditError("kafka: needs the name of a topic")
        try:
            self._producer = Producer(
                {
                    **read_kafka_settings().librdkafka_config(),
                    "enable.idempotence": True,
                    "acks": "all",
                    "linger.ms": 0,
                    "message.timeout.ms": int(WAIT_S * 1000),
                }
            )
        except (DeadLetterError, KafkaException) as error:
            raise AuditError(str(error)) from error
        self._topic = topic

    def write_record(self, line: str) -> None:
        delivery_errors: list[Any] = []
        try:
            self._producer.produce(
                self._topic,
                line.encode(),
                on_delivery=lambda error, _: delivery_errors.append(error),
            )
            until = time.monotonic() + 2 * WAIT_S
            while not delivery_errors and time.monotonic() < until:
                self._producer.poll(0.05)
        except (KafkaException, BufferError) as error:
            raise AuditError(f"Kafka: {error}") from error
        if not delivery_errors:
            raise AuditError("Kafka does not take records: is it up?")
        if delivery_errors[0] is not None:
            raise AuditError(f"Kafka: {delivery_errors[0]}")

    def close(self) -> None:
        self._producer.flush(WAIT_S)
        # It would go on to look for its servers, as long as somebody holds it.
        del self._producer


class Auditor:
    """ASGI middleware: each request of the API is recorded before its answer leaves.

    ``registry``: registers the counter of records that could not be written.
    """

    def __init__(self, app: ASGIApp, *, audit: AuditLog, registry: CollectorRegistry) -> None:
        self._app = app
        self._audit = audit
        self._failed = Counter(
            "lineage_api_audit_failures", "Audit records that could not be kept.", registry=registry
        )
        self._log = structlog.get_logger()
        self._threads = CapacityLimiter(WRITER_THREADS)
        self._not_before = 0.0
        self._stuck_threads = 0
        """Abandoned threads that still wait for the log."""
        self._lock = Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "/v1/" not in scope["path"]:
            await self._app(scope, receive, send)
            return
        number = uuid.uuid4().hex
        body = _RequestBody()
        has_started = is_refused = False

        async def write_record(event: str, status: int | None = None) -> bool:
            first = {"event": event} if status is None else {"event": event, "status": status}

            def record() -> Fields:
                return {**first, "id": number, **_fields(scope, body)}

            return await self._write_in_thread(record, str(scope["state"].get("request_id", "")))

        async def receive_recorded() -> Message:
            message = await receive()
            body.take(message.get("body", b""))
            return message

        async def send_recorded(message: Message) -> None:
            nonlocal has_started, is_refused
            if message["type"] == "http.response.start":
                is_refused = not await write_record("response", message["status"])
                has_started = True
                if is_refused:
                    await _refusal(scope)(scope, receive, send)
            if not is_refused:
                await send(message)

        async def record_request() -> None:
            if not await write_record("request"):
                raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, NOT_WRITTEN)

        scope.setdefault("state", {})["audit_request"] = record_request
        try:
            await self._app(scope, receive_recorded, send_recorded)
        except Exception as error:
            if has_started:
                await write_record("broken")
                raise
            if await write_record("response", 500):
                raise
            self._log.error("request_failed", reason=str(error), exc_info=error)
            await _refusal(scope)(scope, receive, send)

    async def _write_in_thread(self, record: Callable[[], Fields], request_id: str) -> bool:
        """Write a record in a thread; one that takes too long counts as failed, whatever its later outcome."""
        if time.monotonic() < self._not_before or self._stuck_threads >= WRITER_THREADS:
            self._failed.inc()
            return False
        has_started = has_ended = is_abandoned = False

        def write_record() -> str:
            nonlocal has_started, has_ended
            has_started = True
            try:
                self._audit.write_record(
                    json.dumps({"at": datetime.now(timezone.utc).isoformat(), **record()})
                )
            except Exception as error:
                return str(error) or type(error).__name__
            finally:
                with self._lock:
                    has_ended = True
                    self._stuck_threads -= is_abandoned
            return ""

        reason = "it takes too long"
        with move_on_after(2 * WAIT_S):
            reason = await run_sync(write_record, limiter=self._threads, abandon_on_cancel=True)
        with self._lock:
            is_abandoned = has_started and not has_ended
            self._stuck_threads += is_abandoned
        if reason:
            self._not_before = time.monotonic() + FAILED_S
            self._failed.inc()
            self._log.error("audit_failed", reason=reason, request_id=request_id)
        return not reason


async def record_before(request: Request) -> None:
    """Keep a record of a request that is about to change something, where the server keeps records.

    Raises:
        ProblemError: 503, it can't be kept.
    """
    record_request: Callable[[], Awaitable[None]] | None = getattr(
        request.state, "audit_request", None
    )
    if record_request is not None:
        await record_request()
    elif request.app.state.audited:
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, NOT_WRITTEN)


def _refusal(scope: Scope) -> ASGIApp:
    return problem(str(scope["state"].get("request_id", "")), 503, NOT_WRITTEN)


class _RequestBody:
    """The body of a request, as far as it is received; the server limits its size."""

    def __init__(self) -> None:
        self._body = bytearray()

    def take(self, part: bytes) -> None:
        """Append a received chunk."""
        self._body += part

    def audit_fields(self) -> dict[str, Any]:
        """The fields of a record: JSON without secrets, cut if it is long, and a digest that identifies the body."""
        if not self._body:
            return {"question": None}
        body = bytes(self._body)
        digest = {"question_bytes": len(body), "question_sha256": sha256(body).hexdigest()}
        with suppress(ValueError, RecursionError):
            redactor = _Redactor()
            redacted = redactor.of(json.loads(body))
            text = json.dumps(redacted, allow_nan=False)
            is_complete = redactor.characters_remaining > 0 and len(text) <= BODY_BYTES_MAX
            return {**digest, "question": redacted if is_complete else _cut(text, BODY_BYTES_MAX)}
        # Not recorded: the service refuses a body that is not JSON.
        return {**digest, "question": None}


class _Redactor:
    """Removes secrets from JSON, as far as a record may contain it: the rest is not processed.

    ``characters_remaining``: how many more it processes.
    """

    def __init__(self) -> None:
        self.characters_remaining = SCANNED_MAX

    def of(self, value: Any) -> Any:
        """The recorded form of a value."""
        if isinstance(value, str):
            return self._redact_text(value)
        self.characters_remaining -= 1
        if isinstance(value, list):
            return [self.of(element) for element in takewhile(self._is_within_limit, value)]
        if isinstance(value, dict):
            return {
                self._redact_text(name): self._redact_member(name, element)
                for name, element in takewhile(self._is_within_limit, value.items())
            }
        return value

    def _is_within_limit(self, _: object) -> bool:
        return self.characters_remaining > 0

    def _redact_member(self, name: str, value: Any) -> Any:
        if not isinstance(value, str):
            return self.of(value)
        redacted, text = self._redact_text(value), f"{name}={value}"
        return (
            REDACTED
            if self.characters_remaining > 0 and _without_secrets(text) != text
            else redacted
        )

    def _redact_text(self, text: str) -> str:
        self.characters_remaining -= len(text) + CHARACTERS_PER_TEXT
        # Not its beginning: a secret that is cut can't be recognised.
        return _without_secrets(text) if self.characters_remaining > 0 else OMITTED


def _fields(scope: Scope, body: _RequestBody) -> dict[str, Any]:
    caller: Principal | None = scope["state"].get("caller")
    most = ADDRESS_BYTES_MAX if caller is not None else ANONYMOUS_BYTES_MAX
    query = scope["query_string"].decode("utf-8", "replace")
    address = f"{scope['path']}?{query}".encode("utf-8", "replace")
    return {
        "request_id": scope["state"].get("request_id", ""),
        "from": _cut((scope.get("client") or ("unknown",))[0], CLIENT_BYTES_MAX),
        "caller": None
        if caller is None
        else {
            "name": _cut(caller.name, ANONYMOUS_BYTES_MAX),
            "identity": _cut(caller.identity, ANONYMOUS_BYTES_MAX),
            "role": caller.role,
            "rows": caller.rows,
            "delete": caller.delete,
            "erase": caller.erase,
            "access": caller.access,
            "watch": caller.watch,
            "by": caller.auth,
        },
        "method": _cut(scope["method"], CLIENT_BYTES_MAX),
        "path": _cut(_redacted_beginning(scope["path"], most, _without_secrets), most),
        "query": _cut(_redacted_query(query, most), most),
        "address_sha256": sha256(address).hexdigest(),
        **({"question": None} if caller is None else body.audit_fields()),
    }


def _redacted_beginning(text: str, most: int, redact: Callable[[str], str]) -> str:
    """A text without secrets, or the recorded part of a longer one.

    ``redact``: removes the secrets.
    """
    near = text[: SCANNED_PER_CHARACTER * most]
    redacted = redact(near)
    # A secret that is cut can't be recognised: the cut must be far beyond the recorded part, else nothing is recorded.
    return OMITTED if len(near) < len(text) and len(redacted) < 2 * most else redacted


def _redacted_query(query: str, most: int) -> str:
    """The first parameters of a query string, up to the recorded number."""
    parameters, characters = list[str](), 0
    for parameter in query.split("&"):
        parameters.append(_redacted_beginning(parameter, most, _redacted_parameter))
        characters += len(parameters[-1]) + 1
        if characters > most:
            break
    return "&".join(parameters)


def _redacted_parameter(text: str) -> str:
    """A parameter of a query as it was sent, but for a secret in it, however that is spelled."""
    plain = unquote_plus(text)
    hidden = _without_secrets(plain)
    return text if hidden == plain else quote(hidden, safe="=*")


def _without_secrets(text: str) -> str:
    (redacted,) = redact_arguments([text])
    return redacted


def _cut(text: str, most: int) -> str:
    """The beginning of a text, of at most so many bytes as JSON."""
    text = text[:most]
    while len(written := json.dumps(text)) > most + 2:
        text = text[: len(text) * most // len(written)]
    return text
