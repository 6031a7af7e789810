"""Which files an application reads and writes: what it sends of them, with their checksums."""

from __future__ import annotations

import threading
from collections.abc import Callable

from lineage_core.contract.message import Message, RecordSplits, Splits
from lineage_emitter.sdk.checksums import Checksums, FilesRead, FilesWritten, with_checksums


class FileMessages:
    """Sends messages of files. Thread-safe.

    Args:
        send: sends a message.
        checksums_max: bytes of all files together of which checksums are taken, of those that are read, and of those that are written.
    """

    def __init__(self, send: Callable[[Message], None], checksums_max: int) -> None:
        self._send = send
        # What is read takes nothing from what is written.
        self._of_read, self._of_written = Checksums(checksums_max), Checksums(checksums_max)
        self._waiting: list[FilesRead] = []
        self._lock = threading.Lock()

    def add(self, message: FilesRead | FilesWritten) -> None:
        """Send which files were written; which are to be read waits for :meth:`send_read`."""
        if isinstance(message, Splits | RecordSplits):
            with self._lock:
                self._waiting.append(message)
        else:
            self._send(with_checksums(message, self._of_written))

    def send_read(self) -> None:
        """Send which files were read, with the checksums of those that are what they were when they were added."""
        if not self._waiting:
            return
        # Whoever comes meanwhile waits: its commit is of what was read of these files.
        with self._lock:
            for message in self._waiting:
                self._send(with_checksums(message, self._of_read))
            self._waiting.clear()
