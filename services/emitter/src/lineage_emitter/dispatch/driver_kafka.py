"""The driver's messages to Kafka, in order; while Kafka is away, to the driver's file in the spool."""

from __future__ import annotations

import functools
import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_core.contract.message import Commit, Message, dump_message
from lineage_core.environment.private_files import ensure_private_folder, folder_named
from lineage_emitter.dispatch.outbox import Outbox, is_too_large, outbox_of
from lineage_emitter.dispatch.sending import SpoolSender, locked_file, send_lines
from lineage_emitter.dispatch.target_settings import target_of
from lineage_emitter.dispatch.topic_partitions import TopicPartitions, check_kafka
from lineage_emitter.errors import DeliveryError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka import Message as Record

    from lineage_emitter.settings import Settings

logger = logging.getLogger(__name__)

WAITING_BYTES_MAX = 32 << 20
"""Messages held until they are acknowledged; beyond, writing waits."""
LAST_TRY_S = 10.0
"""At the end, for how long files of a Kafka that came back are sent before `lineage send` has to."""


class DriverKafka:
    """Sends messages, each held until it is acknowledged. Thread-safe.

    Once one could not be sent, all that follow wait behind it in ``driver.jsonl`` until Kafka is back:
    then that file goes first.
    """

    def __init__(self, settings: Settings, app: str) -> None:
        self.folder = folder_named(settings.spool_folder(), app)
        self.blocks_dir = self.folder / "blocks"
        self.target = target_of(settings)
        self.spooled_blocks = 0
        """Blocks that tasks had to leave in the spool."""
        self._app = app
        self._topics = settings.topics
        self._fail = settings.on_error == "fail"
        self._lock = threading.RLock()
        self._waiting: dict[int, bytes] = {}
        self._refused: dict[int, bytes] = {}
        self._waiting_bytes = 0
        self._number = 0
        self._is_away = False
        """A message was refused that is not itself to blame."""
        self._writes_to_file = False
        """Messages wait in the file, and those that follow go behind them."""
        self._unsynced = False
        self._closed = False
        self._reason = ""

    @property
    def _path(self) -> Path:
        return self.folder / "driver.jsonl"

    def open(self) -> None:
        """Ask Kafka for its topics.

        Raises:
            DeliveryError: Kafka can't be used, and ``on_error`` is ``fail``.
            OSError: a secret's file can't be read.
        """
        away = ""
        try:
            self.target, self._topic_partitions = check_kafka(self.target, self._topics)
        except DeliveryError as problem:
            if self._fail:
                raise
            away = self._reason = str(problem)
            self._topic_partitions = TopicPartitions(self._topics, {})
        self._outbox = Outbox(self.target, messages=True, away=away)
        self._outbox.warm()
        self._writes_to_file = bool(away)

    # -- messages ----------------------------------------------------------------------------

    def write(self, message: Message) -> None:
        """Send a message, or append it to the file.

        Raises:
            OSError: neither works.
        """
        value = dump_message(message).encode()
        with self._lock:
            if self._closed:
                return
            if isinstance(message, Commit):
                self.spooled_blocks += message.spooled
            if self._writes_to_file and not self._catch_up():
                self._append([value])
                return
            if self._waiting_bytes + len(value) > WAITING_BYTES_MAX:
                self._settle()
            self._send(message, value)

    def _send(self, message: Message, value: bytes) -> None:
        self._number += 1
        number = self._number
        self._waiting[number] = value
        self._waiting_bytes += len(value)
        try:
            topic, partition = self._topic_partitions.of_message(message, self._outbox)
            delivered = functools.partial(self._delivered, number)
            self._outbox.produce(topic, partition, self._key, value, delivered)
        except DeliveryError as problem:
            self._reason = str(problem)
            self._refuse(number)
            self._is_away = self._is_away or self._outbox.is_closed
        self._leave_refused()

    @property
    def _key(self) -> bytes:
        return self._app.encode("utf-8", "surrogatepass")

    def _delivered(self, number: int, error: KafkaError | None, _record: Record) -> None:
        with self._lock:
            if error is not None:
                self._reason = self._outbox.reason_of(error)
                self._refuse(number)
                self._is_away = self._is_away or not is_too_large(error)
            elif (value := self._waiting.pop(number, None)) is not None:
                self._waiting_bytes -= len(value)

    def _refuse(self, number: int) -> None:
        value = self._waiting.pop(number, None)
        if value is not None:
            self._waiting_bytes -= len(value)
            self._refused[number] = value

    def push(self) -> None:
        """Serve what Kafka has answered so far.

        Raises:
            OSError: what it refused can't be written.
        """
        with self._lock:
            if not self._closed:
                self._outbox.poll()
                self._leave_refused()

    def sync(self) -> None:
        """Wait until every message is acknowledged, or on the disk.

        Raises:
            OSError: what was refused can't be written.
            DeliveryError: Kafka is away, and ``on_error`` is ``fail``.
        """
        with self._lock:
            if self._closed:
                return
            self._settle()
            if self._unsynced:
                with locked_file(self._path) as stream:
                    os.fsync(stream.fileno())
                self._unsynced = False
            if self._fail and self._path.exists():
                raise DeliveryError(f"Kafka does not take lineage: {self._reason}")

    def _settle(self) -> None:
        if self._waiting and not self._outbox.wait(lambda: not self._waiting or self._is_away):
            self._reason = self._outbox.reason
            self._is_away = True
        self._leave_refused()

    # -- the file ----------------------------------------------------------------------------

    def _leave_refused(self) -> None:
        """What Kafka refused goes to the file; if it is away, all that waits does, in order."""
        if self._is_away:
            self._is_away = False
            self._writes_to_file = True
            if not self._outbox.is_closed:
                self._outbox.give_up(self._reason)
            for number in list(self._waiting):
                self._refuse(number)
        if self._refused:
            values = [self._refused[number] for number in sorted(self._refused)]
            self._refused.clear()
            self._append(values)

    def _append(self, values: list[bytes]) -> None:
        ensure_private_folder(self.folder)
        # Opened each time: `lineage send` may have delivered and removed it meanwhile.
        with locked_file(self._path) as stream:
            stream.write(b"".join(value + b"\n" for value in values))
        self._unsynced = True

    def _catch_up(self) -> bool:
        """Whether Kafka is back and has all that waited in the file."""
        if not self._outbox.is_open():
            return False
        try:
            if self._path.exists():
                send_lines(self._path, self._topic_partitions, self._outbox)
        except DeliveryError as problem:
            self._reason = str(problem)
            return False
        self._writes_to_file = self._unsynced = False
        return True

    # -- end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Make all messages durable; where Kafka came back, send what waits in the spool.

        Raises:
            OSError, DeliveryError: as for :meth:`sync`.
        """
        with self._lock:
            if self._closed:
                return
            try:
                if self._writes_to_file or self.spooled_blocks:
                    self._last_try()
                self.sync()
            finally:
                self._closed = True
                self._warn_of_waiting()

    def _last_try(self) -> None:
        self._settle()
        if not self._outbox.is_open() or (self._writes_to_file and not self._catch_up()):
            return
        try:
            sender = SpoolSender(self._topic_partitions, outbox_of(self.target), self._outbox)
            sender.send_application(self.folder, limit_s=LAST_TRY_S)
        except DeliveryError as problem:
            self._reason = str(problem)

    def has_waiting(self) -> bool:
        """Whether lineage of this application waits in the driver's spool."""
        return self._path.exists() or (
            self.blocks_dir.is_dir() and any(self.blocks_dir.glob("*.lmf"))
        )

    def _warn_of_waiting(self) -> None:
        if self.has_waiting():
            logger.warning(
                "lineage waits in the spool %s (%s); deliver it: lineage send --spool %s",
                *(self.folder, self._reason or "tasks could not send it", self.folder.parent),
            )
