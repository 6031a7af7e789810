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
from lineage_store.errors import DamagedError, StoreError, StoreUnavailableError
from lineage_store.lake.storage_errors import reason_of
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


WRONG_BYTES: Final = (OSError, pa.ArrowException, UnicodeDecodeError)
"""What reading raises where bytes are not those of a file of Parquet; some of it also where the storage does not give them."""


def read_surely(
    table: LakeTable,
    path: str,
    work: Callable[[pa.NativeFile], T],
    first: Callable[[], T] | None = None,
) -> T:
    """What is read of a file: where that fails, it is read again of all of its bytes, which are fetched for that.

    So a failure of the storage that passes is none, and what fails again is in the bytes.

    Args:
        table: the table that the file is in.
        path: of the file.
        work: reads what it needs.
        first: does the same over what is open already.

    Raises:
        FileNotFoundError: the file is not there.
        DamagedError: its bytes can't be read.
        StoreUnavailableError: the storage does not give them, or there is no memory for them.
        StoreError: this program can't read the format.
    """
    try:
        try:
            if first is not None:
                return first()
            with table.files.open_input_file(path) as stream:
                return work(stream)
        except WRONG_BYTES as error:
            if isinstance(error, FileNotFoundError) or not _may_be_damage(error):
                raise
        whole = _bytes_of(table, path)
        try:
            return work(pa.BufferReader(whole))
        except WRONG_BYTES as error:
            if not _may_be_damage(error):
                raise
            raise DamagedError(f"{path} of the lake is damaged: {reason_of(error)}") from error
    except FileNotFoundError:
        raise
    except (OSError, MemoryError) as error:
        raise StoreUnavailableError(f"can't read {path} of the lake: {reason_of(error)}") from error
    except pa.ArrowNotImplementedError as error:
        raise StoreError(
            f"can't read {path} of the lake with this PyArrow: {reason_of(error)}"
        ) from error


def _may_be_damage(error: Exception) -> bool:
    """Whether bytes that changed may be why. Where the compression is there, nothing is missing that files are written with."""
    if isinstance(error, pa.ArrowNotImplementedError):
        return pa.Codec.is_available("zstd")
    return not isinstance(error, pa.ArrowMemoryError | pa.ArrowCancelled)


def _bytes_of(table: LakeTable, path: str) -> pa.Buffer:
    """All bytes of a file.

    Raises:
        OSError: the storage does not give them.
        BudgetError: the query has no time left.
    """
    sink = pa.BufferOutputStream()
    with table.files.open_input_file(path) as stream:
        while (part := stream.read_buffer(READ_BYTES)).size:
            current_budget().check()
            sink.write(part)
    return sink.getvalue()


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

    def read(self, file: LakeFile, work: Callable[[pa.NativeFile], T]) -> T:
        """What ``work`` reads of a file; it may be called twice.

        Raises:
            FileNotFoundError: it is not there any more.
            DamagedError: it has not the size that was written, or its bytes can't be read.
            StoreError: the storage can't be read.
        """

        def first() -> T:
            with self.stream(file) as stream:
                return work(stream)

        try:
            return read_surely(
                self._table, file.path, lambda stream: work(_of_size(file, stream)), first
            )
        except DamagedError:
            # Another file may be put in its place.
            self._forget(file)
            raise

    def stream(self, file: LakeFile) -> pa.NativeFile:
        """A file that is open.

        Raises:
            FileNotFoundError: it is not there any more.
            DamagedError: it has not the size that was written.
            OSError: the storage can't be read.
        """
        return _of_size(file, self._open(file))

    def _open(self, file: LakeFile) -> pa.NativeFile:
        if not self.is_held_whole(file):
            return self._table.files.open_input_file(file.path)
        with self._lock:
            if (held := self._held.get(file.path)) is not None:
                self._held.move_to_end(file.path)
        return pa.BufferReader(self._read(file) if held is None else held)

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

    def is_held_whole(self, file: LakeFile) -> bool:
        """Whether a file is read by one request, and held in memory."""
        return self.is_remote and file.size <= WHOLE_BYTES

    def _read(self, file: LakeFile) -> pa.Buffer:
        with self._table.files.open_input_file(file.path) as stream:
            whole = stream.read_buffer()
        _of_size(file, pa.BufferReader(whole))
        with self._lock:
            if file.path not in self._held:
                self._held[file.path] = whole
                self.held_bytes += whole.size
                while self.held_bytes > HELD_BYTES:
                    self.held_bytes -= self._held.popitem(last=False)[1].size
        return whole

    def _forget(self, file: LakeFile) -> None:
        with self._lock:
            if (held := self._held.pop(file.path, None)) is not None:
                self.held_bytes -= held.size


def _of_size(file: LakeFile, stream: pa.NativeFile) -> pa.NativeFile:
    """A file that is open, if it has the size that was written."""
    if (size := stream.size()) != file.size:
        raise DamagedError(
            f"{file.path} of the lake is damaged: it has {size:,} bytes of {file.size:,}"
        )
    return stream
