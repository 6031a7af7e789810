"""Opens files of a lake for reading, by few requests where each takes long."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

import pyarrow as pa

from lineage_core.tracing.budget import current_budget
from lineage_store.errors import DamagedError, StoreUnavailableError
from lineage_store.lake.table import LakeFile, LakeTable

WHOLE_BYTES: Final = 4 << 20
"""Files of object storage that are not larger are read whole: that takes about as long as one more request."""
HELD_BYTES: Final = 64 << 20
"""Memory of files that are held whole."""
AT_ONCE: Final = 8
"""Files of object storage that are read at the same time; delta-rs asks for their sizes one after the other."""

S = TypeVar("S")
T = TypeVar("T")


READ_BYTES: Final = 8 << 20
"""Bytes that are read at a time of a file that may be damaged."""


class as_store_errors:
    """Errors of Arrow and of the system as those of a store; a missing file stays what it is."""

    def __init__(self, table: LakeTable, path: str) -> None:
        self._table = table
        self._path = path

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, FileNotFoundError):
            return
        # Arrow has one error for what can't be unpacked, and for what the storage does not give.
        if isinstance(error, OSError) and not _gives_bytes(self._table, self._path):
            raise StoreUnavailableError(f"can't read {self._path} of the lake: {error}") from error
        if isinstance(error, OSError | pa.ArrowException | AttributeError):
            raise DamagedError(f"{self._path} of the lake is damaged: {error}") from error


def _gives_bytes(table: LakeTable, path: str) -> bool:
    """Whether the storage gives all bytes of a file: what is wrong is wrong with these."""
    try:
        with table.files.open_input_file(path) as stream:
            while stream.read_buffer(READ_BYTES).size:
                current_budget().check()
    except OSError:
        return False
    return True


class FileOpener:
    """Opens files of a table, which never change. May be shared by threads.

    A request to object storage takes tens of milliseconds, whatever it is for: there a small file is read whole and held
    in memory, and of larger ones columns that lie beside each other are read by one request. ``held_bytes``: of the files
    that are held.
    """

    def __init__(self, table: LakeTable) -> None:
        self._table = table
        self._lock = threading.Lock()
        self._held: OrderedDict[str, pa.Buffer] = OrderedDict()
        self.held_bytes = 0
        # Its threads begin when they are needed.
        self._pool = ThreadPoolExecutor(AT_ONCE, "lake")

    @property
    def is_remote(self) -> bool:
        """Whether the files are on object storage: columns that lie beside each other are to be read at once there."""
        return not self._table.address.is_local

    def open(self, file: LakeFile) -> pa.NativeFile:
        """A file, to be closed by the caller.

        Raises:
            FileNotFoundError: it is not there any more.
            DamagedError: it has not the size that was written.
            OSError: the storage can't be read.
        """
        if not self._is_held_whole(file):
            stream = self._table.files.open_input_file(file.path)
        else:
            with self._lock:
                if (held := self._held.get(file.path)) is not None:
                    self._held.move_to_end(file.path)
            stream = pa.BufferReader(self._read(file) if held is None else held)
        if (size := stream.size()) != file.size:
            stream.close()
            raise DamagedError(
                f"{file.path} of the lake is damaged: it has {size:,} bytes of {file.size:,}"
            )
        return stream

    def each(self, work: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """What ``work`` makes of each item, in their order: on object storage of several at the same time."""
        if len(items) < 2 or not self.is_remote:
            return [work(item) for item in items]
        tasks = [self._pool.submit(copy_context().run, work, item) for item in items]
        try:
            return [task.result() for task in tasks]
        finally:
            for task in tasks:
                task.cancel()

    def _is_held_whole(self, file: LakeFile) -> bool:
        return self.is_remote and file.size <= WHOLE_BYTES

    def _read(self, file: LakeFile) -> pa.Buffer:
        with self._table.files.open_input_file(file.path) as stream:
            whole = stream.read_buffer()
        with self._lock:
            if file.path not in self._held:
                self._held[file.path] = whole
                self.held_bytes += whole.size
                while self.held_bytes > HELD_BYTES:
                    self.held_bytes -= self._held.popitem(last=False)[1].size
        return whole
