"""What capture asks of a way out, whichever it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lineage_core.contract.block import FlowBlock
    from lineage_core.contract.message import Message
    from lineage_emitter.dispatch.kafka_target import KafkaTarget


class TaskDispatcher(Protocol):
    """Takes the blocks of one segment run. Not thread-safe."""

    blocks: int
    flows: int
    associations: int
    bytes: int

    @property
    def file(self) -> str:
        """The file that holds blocks of the run, as a commit names it; empty: none does."""

    @property
    def spooled(self) -> int:
        """Blocks that could not be sent and wait in ``file`` for ``lineage send``."""

    @property
    def spooled_reason(self) -> str:
        """Why they could not be sent."""

    def next_seq(self) -> int:
        """Sequence number for the next block."""

    def write(self, block: FlowBlock, task: str) -> None:
        """Take a block of the task that node ``task`` ends (durable after :meth:`sync`).

        Raises:
            OSError: it can be put nowhere.
        """

    def push(self) -> None:
        """What was written outlives this process: others may read what its flows are about.

        Raises:
            OSError: it can be put nowhere.
        """

    def sync(self) -> None:
        """Make every block durable; the last call.

        Raises:
            OSError: blocks could be put nowhere.
        """

    def discard(self) -> None:
        """Drop what can still be dropped; the last call."""


class DriverDispatcher(Protocol):
    """Takes the messages of one application, in order. Thread-safe."""

    folder: Path
    """The application's folder in the spool."""
    blocks_dir: Path
    """Where tasks put block files."""

    @property
    def target(self) -> KafkaTarget | None:
        """Where tasks send to; None: to the spool."""

    def open(self) -> None:
        """Get ready.

        Raises:
            OSError: the spool can't be written.
            DeliveryError: Kafka can't be used, and ``on_error`` is ``fail``.
        """

    def write(self, message: Message) -> None:
        """Take a message (durable after :meth:`sync`).

        Raises:
            OSError: it can be put nowhere.
        """

    def push(self) -> None:
        """Hand all messages on, without waiting.

        Raises:
            OSError: they can be put nowhere.
        """

    def sync(self) -> None:
        """Make all messages durable.

        Raises:
            OSError: they can be put nowhere.
            DeliveryError: Kafka does not take them, and ``on_error`` is ``fail``.
        """

    def close(self) -> None:
        """Make all messages durable; the last call.

        Raises:
            OSError, DeliveryError: as for :meth:`sync`.
        """
