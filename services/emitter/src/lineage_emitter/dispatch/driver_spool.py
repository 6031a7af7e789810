"""The driver's half of the spool."""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from pathlib import Path
from typing import IO

from lineage_core.contract.message import Message, dump_message
from lineage_core.environment.private_files import (
    create_private_folder,
    ensure_private_folder,
    folder_named,
    private_opener,
)


def claim_folder(root: Path, app: str) -> str:
    """The first of ``app``, ``app-2``, ``app-3`` ... whose folder nobody has; it is made.

    Spark names a local application by the millisecond: two drivers may be given one id.

    Raises:
        OSError: the folder can't be made.
    """
    ensure_private_folder(root)
    for number in itertools.count(1):
        name = app if number == 1 else f"{app}-{number}"
        with contextlib.suppress(FileExistsError):
            create_private_folder(folder_named(root, name))
            return name
    raise AssertionError("numbers never end")


class DriverSpool:
    """The driver's half of the spool: messages in the order written. Thread-safe."""

    target = None

    def __init__(self, root: Path, app: str) -> None:
        self.folder = folder_named(root, app)
        self.blocks_dir = self.folder / "blocks"
        self._lock = threading.Lock()
        self._file: IO[str] | None = None

    def open(self) -> None:
        """Make the folders.

        Raises:
            OSError: the folder can't be written.
        """
        ensure_private_folder(self.blocks_dir)
        path = self.folder / "driver.jsonl"
        self._file = open(path, "a", encoding="utf-8", opener=private_opener)  # noqa: SIM115

    def write(self, message: Message) -> None:
        """Append a message (durable after :meth:`sync`).

        Raises:
            OSError: the spool can't be written.
        """
        with self._lock:
            if self._file is not None:
                self._file.write(dump_message(message) + "\n")

    def push(self) -> None:
        """Hand all messages to the operating system."""
        with self._lock:
            if self._file is not None:
                self._file.flush()

    def sync(self) -> None:
        """Make all messages durable.

        Raises:
            OSError: the spool can't be written, or is not there any more.
        """
        with self._lock:
            if self._file is not None:
                # Before it is flushed: who links may remove the spool as soon as the end is in it.
                self._check_still_exists(self._file)
                self._file.flush()
                os.fsync(self._file.fileno())

    def _check_still_exists(self, file: IO[str]) -> None:
        """What is written to a file that was removed goes nowhere, and no write says so."""
        if os.fstat(file.fileno()).st_nlink == 0:
            raise FileNotFoundError(f"the spool {self.folder} was removed while the program ran")

    def close(self) -> None:
        """Make all messages durable and close.

        Raises:
            OSError: the spool can't be written, or is not there any more.
        """
        try:
            self.sync()
        finally:
            with self._lock:
                file, self._file = self._file, None
                if file is not None:
                    with contextlib.suppress(OSError):
                        file.close()
