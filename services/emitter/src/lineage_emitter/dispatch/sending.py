"""Delivers to Kafka what waits in a spool: blocks and messages, as often as needed.

What Kafka has acknowledged is deleted, so this can be killed at any time and run again, and several
may run at once: a file is one sender's at a time. Sent twice, a block or message is still one: the
pipeline knows them by their ids.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lineage_core.codec.record_batch import RecordBatch
from lineage_core.contract.block_header import BlockHeader
from lineage_core.contract.message import End
from lineage_core.environment.private_files import private_opener
from lineage_core.errors import ContractError
from lineage_emitter.dispatch.outbox import Outbox
from lineage_emitter.dispatch.target_settings import target_of
from lineage_emitter.dispatch.topic_partitions import TopicPartitions, check_kafka
from lineage_emitter.errors import DeliveryError
from lineage_store.spool import reader as spool

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from lineage_emitter.settings import Settings

WINDOW_BYTES = 16 << 20
"""Records under way at a time."""
PATIENCE_S = 30.0
"""No job waits for `lineage send`: a slow Kafka may take its time."""
SILENT_S = 600.0
"""A driver's file without an end, not written for so long, is one whose driver is dead."""


@dataclass(slots=True)
class SendReport:
    """What one call sent of an application.

    ``busy``: files that another process is writing or sending. ``problems``: by place, what can't be
    sent; it stays where it is.
    """

    app: str
    blocks: int = 0
    messages: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    busy: int = 0
    problems: dict[str, str] = field(default_factory=dict)


SendProgress = Callable[[SendReport], None]


class InFlightRecords:
    """Records under way; all of them must arrive."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._waiting: dict[int, int] = {}
        self._number = 0
        self._failed = ""

    def send(self, topic_partition: tuple[str, int], key: bytes, value: bytes) -> None:
        """Send one record.

        Raises:
            DeliveryError: this or an earlier one did not arrive.
        """
        if sum(self._waiting.values()) + len(value) > WINDOW_BYTES:
            self.settle()
        self._number += 1
        self._waiting[self._number] = len(value)
        delivered = functools.partial(self._delivered, self._number)
        self._outbox.produce(*topic_partition, key, value, delivered)

    def settle(self) -> None:
        """Wait until all have arrived.

        Raises:
            DeliveryError: one has not.
        """
        arrived = self._outbox.wait(lambda: not self._waiting or bool(self._failed))
        if not arrived or self._failed:
            raise DeliveryError(self._failed or self._outbox.reason)

    def _delivered(self, number: int, error: KafkaError | None, _message: Message) -> None:
        self._waiting.pop(number, None)
        if error is not None:
            self._failed = self._failed or self._outbox.reason_of(error)


class SpoolSender:
    """Sends spool folders. ``blocks`` and ``messages``: the outboxes for them."""

    def __init__(self, topic_partitions: TopicPartitions, blocks: Outbox, messages: Outbox) -> None:
        self._topic_partitions = topic_partitions
        self._blocks = blocks
        self._messages = messages

    def send_application(
        self, folder: Path, progress: SendProgress | None = None, limit_s: float | None = None
    ) -> SendReport:
        """Send one application's folder, and remove it when nothing is left.

        ``limit_s``: begin no further file after that time.

        Raises:
            DeliveryError: Kafka is away; what it has not acknowledged is still there.
            OSError: the folder can't be read or written.
        """
        deadline = None if limit_s is None else time.monotonic() + limit_s
        report = SendReport(folder.name)
        driver_file = folder / spool.DRIVER_FILE
        # Messages of nodes and tasks first: a block without them has to wait.
        files = [driver_file, *spool.block_files(folder)]
        report.bytes_total = sum(path.stat().st_size for path in files if path.exists())
        for path in files:
            if deadline is not None and time.monotonic() > deadline:
                break
            send = self._send_messages if path == driver_file else self._send_blocks
            with _try_lock(path) as stream:
                if stream is None:
                    report.busy += path.exists()
                elif self._send_file(send, path, stream, report):
                    path.unlink(missing_ok=True)
            if progress is not None:
                progress(report)
        for empty in (folder / spool.BLOCKS_FOLDER, folder):
            with contextlib.suppress(OSError):
                empty.rmdir()
        return report

    def _send_file(
        self,
        send: Callable[[Path, IO[bytes], SendReport], bool],
        path: Path,
        stream: IO[bytes],
        report: SendReport,
    ) -> bool:
        """Send a file; True when it is all there and no longer needed."""
        try:
            return send(path, stream, report)
        except DeliveryError as problem:
            if self._blocks.is_closed or self._messages.is_closed:
                raise
            report.problems[path.name] = str(problem)
            return False

    def _send_blocks(self, path: Path, stream: IO[bytes], report: SendReport) -> bool:
        in_flight, can_remove, blocks = InFlightRecords(self._blocks), True, 0
        for record_batch in spool.record_batches_of(path):
            if not isinstance(record_batch, RecordBatch):
                # A writer that was killed: nothing is missing that was ever promised.
                if not record_batch.truncated:
                    can_remove = False
                    report.problems[path.name] = record_batch.reason
                continue
            try:
                header = BlockHeader.from_json(record_batch.header)
            except ContractError as problem:
                can_remove = False
                report.problems[path.name] = f"frame at byte {record_batch.offset}: {problem}"
                continue
            size = record_batch.stop - record_batch.offset
            value = os.pread(stream.fileno(), size, record_batch.offset)
            app, partition = header.app, header.block_id.partition
            topic_partition = self._topic_partitions.of_task(app, partition, self._blocks)
            in_flight.send(topic_partition, app.encode(), value)
            blocks += 1
            report.bytes_done += size
        in_flight.settle()
        report.blocks += blocks
        return can_remove

    def _send_messages(self, path: Path, stream: IO[bytes], report: SendReport) -> bool:
        in_flight, can_remove, messages = InFlightRecords(self._messages), True, 0
        ended = time.time() - path.stat().st_mtime > SILENT_S
        for line in spool.read_lines(stream, 0):
            if line.message is None:
                can_remove = False
                report.problems[f"{path.name}, byte {line.start}"] = line.reason
                continue
            value = os.pread(stream.fileno(), line.stop - line.start, line.start).rstrip(b"\n")
            topic_partition = self._topic_partitions.of_message(line.message, self._messages)
            in_flight.send(
                topic_partition, line.message.app.encode("utf-8", "surrogatepass"), value
            )
            messages += 1
            report.bytes_done += line.stop - line.start
            ended = ended or isinstance(line.message, End)
        in_flight.settle()
        report.messages += messages
        return can_remove and ended


def send_all(
    settings: Settings, folder: Path, progress: SendProgress | None = None
) -> list[SendReport]:
    """Send every application of a spool that has something to send.

    Raises:
        DeliveryError: Kafka is away; what it has not acknowledged is still there.
        OSError: the folder, or a secret's file, can't be read.
    """
    folders = sorted(path.parent for path in folder.glob(f"*/{spool.DRIVER_FILE}"))
    folders += sorted(path.parent for path in folder.glob(f"*/{spool.BLOCKS_FOLDER}"))
    if not folders:
        return []
    target, topic_partitions = check_kafka(target_of(settings), settings.topics)
    target = replace(target, timeout_s=max(target.timeout_s, PATIENCE_S))
    sender = SpoolSender(topic_partitions, Outbox(target), Outbox(target, messages=True))
    reports = [sender.send_application(item, progress) for item in dict.fromkeys(folders)]
    return [item for item in reports if item.bytes_total or item.busy or item.problems]


def send_lines(path: Path, topic_partitions: TopicPartitions, outbox: Outbox) -> None:
    """Send all messages of a driver's own file, then remove it.

    Raises:
        DeliveryError: Kafka is away; the file is as it was.
        OSError: it can't be read or removed.
    """
    with locked_file(path) as stream:
        in_flight = InFlightRecords(outbox)
        for line in spool.read_lines(stream, 0):
            if line.message is not None:
                value = os.pread(stream.fileno(), line.stop - line.start, line.start)
                topic_partition = topic_partitions.of_message(line.message, outbox)
                key = line.message.app.encode("utf-8", "surrogatepass")
                in_flight.send(topic_partition, key, value.rstrip(b"\n"))
        in_flight.settle()
        path.unlink(missing_ok=True)


@contextmanager
def locked_file(path: Path) -> Iterator[IO[bytes]]:
    """The driver's file, made where it is missing, while no other process has it.

    Raises:
        OSError: it can't be opened.
    """
    while True:
        with open(path, "a+b", opener=private_opener) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            if os.fstat(stream.fileno()).st_nlink:
                yield stream
                return


@contextmanager
def _try_lock(path: Path) -> Iterator[IO[bytes] | None]:
    """The file with an exclusive lock; None when it is gone or another process has the lock."""
    try:
        stream = path.open("r+b")
    except FileNotFoundError:
        yield None
        return
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield None
            return
        yield stream if os.fstat(stream.fileno()).st_nlink else None
