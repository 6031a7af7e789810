"""Capture that is switched off: what takes the place of a dispatcher and of a task, and does nothing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lineage_core.contract.message import Message
    from lineage_emitter.dispatch.kafka_target import KafkaTarget


class InertDispatcher:
    """Takes messages and drops them."""

    target: KafkaTarget | None = None

    def __init__(self) -> None:
        self.folder = self.blocks_dir = Path(tempfile.gettempdir())

    def open(self) -> None:
        """Nothing to get ready."""

    def write(self, message: Message) -> None:
        """Drop a message."""

    def push(self) -> None:
        """Nothing is handed on."""

    def sync(self) -> None:
        """Nothing is made durable."""

    def close(self) -> None:
        """Nothing to close."""


class InertTask:
    """A task that captures nothing."""

    ended = False
    superset_reason = ""

    def capture(self, *arguments: Any, **options: Any) -> None:
        """Drop what was captured."""

    capture_columns = add_input = add_output = add_inputs = add_outputs = capture
    commit = fail = capture

    def __enter__(self) -> InertTask:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass
