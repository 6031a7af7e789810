"""Blocks of a task straight to Kafka, one record each; what Kafka does not take goes to the spool."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lineage_core.environment.private_files import ensure_private_folder
from lineage_emitter.dispatch.block_packer import BlockPacker
from lineage_emitter.dispatch.outbox import Outbox, is_too_large, outbox_of
from lineage_emitter.dispatch.spool import BlockFile, claim_run, run_name
from lineage_emitter.errors import DeliveryError
from lineage_kafka.topics import RECORD_BYTES_MAX, flow_partition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message

    from lineage_core.contract.block import FlowBlock
    from lineage_emitter.dispatch.kafka_target import KafkaTarget

WAITING_BYTES_MAX = 16 << 20
"""Record batches held until they are acknowledged; the producer's queue has a copy of them."""


class TaskKafka(BlockPacker):
    """Sends the record batches of one segment run. Not thread-safe.

    A record batch is held until Kafka has acknowledged it; else it goes to ``path``, in
    the layout of the spool. ``memory_bytes`` bounds what is held: beyond, :meth:`write` waits.
    """

    def __init__(
        self, target: KafkaTarget, app: str, partition: int, path: str, memory_bytes: int
    ) -> None:
        super().__init__()
        self.spooled = 0
        self.spooled_reason = ""
        self._target = target
        self._app = app
        self._partition = partition
        self._path = path
        self._waiting: dict[int, bytes] = {}
        self._waiting_bytes = 0
        self._waiting_bytes_max = min(max(memory_bytes // 4, 1 << 20), WAITING_BYTES_MAX)
        self._refused: list[bytes] = []
        self._number = 0
        self._is_away = False
        """A record was refused that is not itself to blame."""
        self._file: BlockFile | None = None
        self._outbox: Outbox | None = None
        try:
            self._outbox = outbox_of(target)
        except Exception as problem:  # not installed, or broken: a library that is missing, say
            self.spooled_reason = f"confluent-kafka can't be imported: {problem}"[:200]

    @property
    def file(self) -> str:
        """Host and path of the file with what was not sent; empty: all was."""
        return f"{socket.gethostname()}:{self._path}" if self.spooled else ""

    def write(self, block: FlowBlock, task: str) -> None:
        """Send a block of the task that node ``task`` ends, or append it to the file.

        Raises:
            OSError: neither works.
        """
        record_batch = self.record_batch_of(block, task)
        if not self._send(record_batch):
            self._spool(record_batch)
        self._spool_refused()

    def push(self) -> None:
        """Wait until Kafka has acknowledged what was written; what it has not goes to the file.

        Raises:
            OSError: the file can't be written.
        """
        if self._waiting:
            self._wait(lambda: not self._waiting)
        self._spool_refused()
        if self._file is not None:
            self._file.push()

    def sync(self) -> None:
        """As :meth:`push`, and the file is on the disk.

        Raises:
            OSError: the file can't be written.
        """
        try:
            self.push()
            if self._file is not None:
                self._file.fsync()
        finally:
            if self._file is not None:
                self._file.close()

    def discard(self) -> None:
        """Remove the file. What was sent is never committed and counts for nothing."""
        self._waiting.clear()
        if self._file is not None:
            self._file.close()
            self._file.remove()

    # -- Kafka -------------------------------------------------------------------------------

    def _send(self, record_batch: bytes) -> bool:
        outbox = self._outbox
        if outbox is None:
            return False
        if len(record_batch) > self._target.record_bytes:
            self.spooled_reason = (
                f"a block of {len(record_batch)} bytes; topic {self._target.flow} takes records of "
                f"{self._target.record_bytes} (max.message.bytes, up to {RECORD_BYTES_MAX} are needed)"
            )
            return False
        if self._is_away and not self._wait(lambda: True):
            return False
        if not outbox.is_open():
            return self._closed(outbox)
        if self._waiting and self._waiting_bytes + len(record_batch) > self._waiting_bytes_max:
            enough = self._waiting_bytes_max - len(record_batch)
            if not self._wait(lambda: self._waiting_bytes <= enough or not self._waiting):
                return False
        self._number += 1
        number = self._number
        self._waiting[number] = record_batch
        self._waiting_bytes += len(record_batch)
        try:
            outbox.produce(
                self._target.flow,
                self._topic_partition(outbox),
                self._app.encode(),
                record_batch,
                functools.partial(self._delivered, number),
            )
        except DeliveryError as problem:
            self.spooled_reason = str(problem)
            if self._waiting.pop(number, None) is None:
                return True  # its callback came first: it is among the refused
            self._waiting_bytes -= len(record_batch)
            return False
        return True

    def _topic_partition(self, outbox: Outbox) -> int:
        partitions = self._target.partitions or outbox.partitions(self._target.flow)
        return flow_partition(self._app, self._partition, partitions)

    def _delivered(self, number: int, error: KafkaError | None, _message: Message) -> None:
        """Acknowledged, or refused: then it goes to the file in a moment, outside of the callback."""
        record_batch = self._waiting.pop(number, None)
        if record_batch is None:
            return  # it is in the file
        self._waiting_bytes -= len(record_batch)
        if error is not None:
            assert self._outbox is not None
            self.spooled_reason = self._outbox.reason_of(error)
            self._refused.append(record_batch)
            self._is_away = self._is_away or not is_too_large(error)

    def _wait(self, is_done: Callable[[], bool]) -> bool:
        """Until ``done``; False when Kafka is away: then all that waited is in the file."""
        outbox = self._outbox
        assert outbox is not None
        if outbox.wait(lambda: is_done() or self._is_away) and not self._is_away:
            return True
        if self._is_away and not outbox.is_closed:
            outbox.give_up(self.spooled_reason)
        self._is_away = False
        self._closed(outbox)
        while self._waiting:
            self._spool(self._waiting.pop(next(iter(self._waiting))))
        self._waiting_bytes = 0
        return False

    def _closed(self, outbox: Outbox) -> bool:
        self.spooled_reason = outbox.reason
        return False

    # -- the spool ---------------------------------------------------------------------------

    def _spool_refused(self) -> None:
        while self._refused:
            self._spool(self._refused.pop(0))

    def _spool(self, record_batch: bytes) -> None:
        if self._file is None:
            ensure_private_folder(Path(self._path).parent)
            self._file = BlockFile(self._path)
        self.spooled += 1
        if self._file.append(record_batch):
            self._file.push()


def warm(target: KafkaTarget) -> None:
    """Make this process's producer while the task goes on: it needs half a second to get ready."""
    with contextlib.suppress(Exception):
        outbox_of(target).warm()


def reserve_run(app: str, name: str) -> int:
    """A number that no other run of a segment in its task has; runs of one task share a machine.

    Raises:
        OSError: no folder can be written.
    """
    # Spark's own scratch folder: all workers of an executor share it, and Spark removes it.
    local = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir()
    folder = os.path.join(local, f"lineage-runs-{app}")
    ensure_private_folder(Path(folder), ours=True)

    def reserve(path: str) -> None:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))

    return claim_run(lambda run: os.path.join(folder, f"{name}-{run}"), reserve)[1]


def create(
    target: KafkaTarget, app: str, name: str, partition: int, folder: str, memory_bytes: int
) -> tuple[TaskKafka, int]:
    """The way out of a new run of a segment, and the number of the run.

    Raises:
        OSError: no number can be had.
    """
    run = reserve_run(app, name)
    path = os.path.join(folder, run_name(name, run))
    return TaskKafka(target, app, partition, path, memory_bytes), run
