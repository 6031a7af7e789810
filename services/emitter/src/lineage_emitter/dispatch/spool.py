"""The spool: a folder into which tasks write their blocks and the driver its messages.

``<spool>/<app_id>/driver.jsonl`` holds the driver's messages, one JSON object a line;
``<spool>/<app_id>/blocks/<node>-<partition>-<attempt>[-<run>].lmf`` the record batches of one segment run.
Its writer holds a lock on a block file: ``lineage send`` leaves it alone until it is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from lineage_core.environment.private_files import private_opener
from lineage_emitter.dispatch.block_packer import BlockPacker

if TYPE_CHECKING:
    from lineage_core.contract.block import FlowBlock

T = TypeVar("T")

SEGMENT_RUNS_MAX = 1 << 24
"""Runs of one segment in a task: a ``cartesian`` runs its right side for each batch of its left."""
WRITE_BYTES = 1 << 20
"""Record batches are written to the operating system in pieces of about this size."""


def run_name(name: str, run: int) -> str:
    """Name of the file of a segment's run in one task."""
    return f"{name}-{run}.lmf" if run else f"{name}.lmf"


def claim_run(path: Callable[[int], str], create: Callable[[str], T]) -> tuple[T, int]:
    """Create the file of the first run that has none, and the number of the run.

    ``path``: of a run's file; ``create`` raises FileExistsError where there is one.

    Raises:
        FileExistsError: all runs have theirs.
        OSError: the file can't be created.
    """
    run = 0
    while run < SEGMENT_RUNS_MAX:
        try:
            return create(path(run)), run
        except FileExistsError:
            run = _next_free_run(run, lambda number: os.path.exists(path(number)))
    raise FileExistsError(f"{SEGMENT_RUNS_MAX} files such as {path(0)}")


def _next_free_run(run: int, is_taken: Callable[[int], bool]) -> int:
    """A free number behind ``run``, which is taken; runs take numbers one after another."""
    step = 1
    while is_taken(run + step):
        step *= 2
    last, free = run + step // 2, run + step
    while free - last > 1:
        middle = (last + free) // 2
        last, free = (middle, free) if is_taken(middle) else (last, middle)
    return free


class BlockFile:
    """A new file of record batches.

    Raises:
        FileExistsError: it is there already.
        OSError: the folder can't be written.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.record_batches = 0
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
        self._descriptor = private_opener(path, flags)
        # Not every shared file system has locks; there `lineage send` has to wait for the job's end.
        with contextlib.suppress(OSError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def append(self, record_batch: bytes) -> bool:
        """Append a record batch; True when it is time to :meth:`push`."""
        self._pending.append(record_batch)
        self._pending_bytes += len(record_batch)
        self.record_batches += 1
        return self._pending_bytes >= WRITE_BYTES

    def push(self) -> None:
        """Write all record batches to the operating system: they outlive this process, not the machine."""
        if not self._pending:
            return
        remaining = memoryview(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]

    def fsync(self) -> None:
        """Wait until all that was pushed is on the disk."""
        os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def remove(self) -> None:
        """Remove the file."""
        os.unlink(self.path)


class TaskSpool(BlockPacker):
    """Appends the record batches of one segment run to a file of its own. Not thread-safe."""

    spooled = 0
    spooled_reason = ""

    def __init__(self, file: BlockFile) -> None:
        super().__init__()
        self._file = file

    @classmethod
    def create(cls, folder: str, name: str) -> tuple[TaskSpool, int]:
        """Create a file that no other run has; returns it and the number of the run.

        Raises:
            OSError: the folder can't be written.
        """
        return claim_run(
            lambda run: os.path.join(folder, run_name(name, run)), lambda path: cls(BlockFile(path))
        )

    @property
    def path(self) -> str:
        """Where the file is."""
        return self._file.path

    @property
    def file(self) -> str:
        """The file's name."""
        return os.path.basename(self._file.path)

    def write(self, block: FlowBlock, task: str) -> None:
        """Append a block of the task that node ``task`` ends.

        Raises:
            OSError: the spool can't be written (disk full, folder gone).
        """
        if self._file.append(self.record_batch_of(block, task)):
            self.push()

    def push(self) -> None:
        """Write all record batches to the operating system: they outlive this process, not the machine."""
        self._file.push()

    def sync(self) -> None:
        """Make every record batch durable and close the file.

        An empty file stays: another run of the segment in this task would take its number, and two commits would be of one name.
        """
        try:
            self.push()
            if self.blocks:
                self._file.fsync()
        finally:
            self._file.close()

    def discard(self) -> None:
        """Close and remove the file."""
        self._file.close()
        self._file.remove()
