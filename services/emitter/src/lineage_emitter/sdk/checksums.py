"""Checksums of files that jobs read and wrote: taken once these are done with them, while they are as they were then."""

from __future__ import annotations

import os
import threading
from functools import partial
from pathlib import Path
from typing import TypeAlias

from lineage_core.contract.message import (
    Message,
    RecordFiles,
    RecordSplit,
    RecordSplits,
    SinkFile,
    SinkFiles,
    Split,
    Splits,
)
from lineage_core.recipe.document import File
from lineage_core.recipe.names import DELTA, ICEBERG
from lineage_store.checksums import sha256_of

FILE_BYTES_MAX = 64 << 20
"""Larger files have no checksum: size and time bind their rows."""
BYTES_MAX = 128 << 20
"""Of all files of an application's DataFrames together, of those that it reads otherwise, and of those that it writes: an eighth of a second each."""
READ_BYTES = 1 << 20
_LOCAL = "file:"
_WRITTEN_ONCE = {DELTA, ICEBERG}
FilesRead: TypeAlias = Splits | RecordSplits
FilesWritten: TypeAlias = SinkFiles | RecordFiles


class Checksums:
    """Checksums of files of this machine, each taken once. Thread-safe.

    Args:
        bytes_max: of all files together; 0: none has a checksum.
    """

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._digests: dict[tuple[str, int, int], str] = {}
        self._remaining_bytes = bytes_max
        self._lock = threading.Lock()

    def of(self, file: File, format: str | None) -> str:
        """The checksum of a file; empty where it is not as it was recorded, too large, elsewhere, or never written again."""
        rest = file.path.removeprefix(_LOCAL)
        if rest == file.path or format in _WRITTEN_ONCE:
            return ""
        key = rest, file.size, file.mtime
        with self._lock:
            if key not in self._digests:
                self._digests[key] = self._checksum(Path("/" + rest.lstrip("/")), file)
            return self._digests[key]

    def _checksum(self, path: Path, file: File) -> str:
        if file.size > min(FILE_BYTES_MAX, self._remaining_bytes):
            return ""
        self._remaining_bytes -= file.size
        try:
            before = path.stat()
            if (before.st_size, before.st_mtime_ns // 1_000_000) != (file.size, file.mtime):
                return ""
            with path.open("rb") as opened:
                checksum = sha256_of(iter(partial(opened.read, READ_BYTES), b""))
            after = path.stat()
        except OSError:
            return ""
        return checksum if _mark(before) == _mark(after) else ""


def with_checksums(message: FilesRead | FilesWritten, checksums: Checksums) -> Message:
    """The message with the checksum of each file that is still what the message says."""
    if isinstance(message, Splits | RecordSplits):
        splits = tuple(
            split.model_copy(update=_summed(split, split.file_size, checksums))
            for split in message.splits
        )
        return message.model_copy(update={"splits": splits})
    files = tuple(
        file.model_copy(update=_summed(file, file.size, checksums)) for file in message.files
    )
    return message.model_copy(update={"files": files})


def _summed(of: Split | RecordSplit | SinkFile, size: int, checksums: Checksums) -> dict[str, str]:
    return {"checksum": checksums.of(File(of.path, size, round(of.mtime * 1000)), None)}


def _mark(state: os.stat_result) -> tuple[int, int, int, int]:
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns
