"""The spool: a folder into which tasks write their blocks and the driver its messages.

``<spool>/<app_id>/driver.jsonl`` holds the driver's messages, one JSON object a line;
``<spool>/<app_id>/blocks/<node>-<partition>-<attempt>[-<run>].lmf`` the frames of one segment run.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lineage_core.csv_codec import encode_csv, header_of
from lineage_core.frame import compress, pack_frame

if TYPE_CHECKING:
    from lineage_core.block import FlowBlock

RUNS_MAX = 16
WRITE_BYTES = 1 << 20
"""Frames are handed to the operating system in pieces of about this size."""


class TaskSpool:
    """Appends the frames of one segment run to a file of its own. Not thread-safe."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.blocks = self.flows = self.associations = self.bytes = 0
        self._descriptor = descriptor
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._seq = 0

    @classmethod
    def create(cls, folder: str, name: str) -> tuple[TaskSpool, int]:
        """Create a file that no other run has; returns it and the number of the run.

        Raises:
            OSError: the folder can't be written.
        """
        for run in range(RUNS_MAX):
            path = os.path.join(folder, f"{name}-{run}.lmf" if run else f"{name}.lmf")
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND
                return cls(path, os.open(path, flags, 0o644)), run
            except FileExistsError:
                continue
        raise FileExistsError(f"{RUNS_MAX} files for {name} in {folder}")

    def next_seq(self) -> int:
        """Sequence number for the next block."""
        self._seq += 1
        return self._seq - 1

    def write(self, block: FlowBlock) -> None:
        """Append a block.

        Raises:
            OSError: the spool can't be written (disk full, folder gone).
        """
        header = header_of(block)
        frame = pack_frame(header.to_json(), compress(encode_csv(block)))
        self._pending.append(frame)
        self._pending_bytes += len(frame)
        self.blocks += 1
        self.flows += header.rows
        self.associations += header.associations
        self.bytes += len(frame)
        if self._pending_bytes >= WRITE_BYTES:
            self.push()

    def push(self) -> None:
        """Hand all frames to the operating system: they outlive this process, not the machine."""
        if not self._pending:
            return
        left = memoryview(b"".join(self._pending))
        self._pending.clear()
        self._pending_bytes = 0
        while left:
            left = left[os.write(self._descriptor, left) :]

    def sync(self) -> None:
        """Make every frame durable and close the file; an empty file is removed."""
        try:
            self.push()
            if self.blocks:
                os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)
        if not self.blocks:
            os.unlink(self.path)

    def discard(self) -> None:
        """Close and remove the file."""
        self._pending.clear()
        os.close(self._descriptor)
        os.unlink(self.path)
