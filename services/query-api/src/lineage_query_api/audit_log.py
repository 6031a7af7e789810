"""Destinations of audit records: logs that only grow, on disk or elsewhere before a call returns."""

from __future__ import annotations

import fcntl
import logging
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from logging.handlers import SysLogHandler
from pathlib import Path
from threading import Lock
from typing import Any, Protocol
from urllib.parse import SplitResult, urlsplit

import structlog
from confluent_kafka import KafkaException, Producer

from lineage_core.environment.private_files import (
    ensure_private_file,
    ensure_private_folder,
    private_opener,
)
from lineage_kafka.dead_letters import DeadLetterError, read_kafka_settings
from lineage_query_api.errors import SettingsError

WAIT_S = 10.0
"""How long another server may take to have a record."""
SYSLOG_PORT = 514
DESTINATIONS = (
    "a folder, stdout, kafka:TOPIC, syslog://HOST:PORT, syslog+tcp://HOST:PORT or syslog:///dev/log"
)


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
