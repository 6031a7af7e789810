"""From the spool folder into the SQLite store: incremental, idempotent, resumable at any point.

Messages are taken in order from the byte where the last transaction stood. A commit's file is read,
its blocks are decoded by two threads (Arrow, NumPy and zstd let go of the interpreter), linked and
stored in transactions of bounded size; the file is deleted once they are durable. When this is
killed, the next call begins again at the last transaction: what is stored already stays unchanged.
"""

from __future__ import annotations

import fcntl
import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

from lineage_core.codec.packing import PackedBlock
from lineage_core.codec.record_batch import RecordBatch
from lineage_core.contract.message import Commit
from lineage_core.contract.trimming import RowLimit, row_limit_of
from lineage_core.linking.linker import TaskId
from lineage_store.paths import open_file
from lineage_store.spool import reader as spool
from lineage_store.spool.reader import Damage, Line
from lineage_store.sqlite.loading import Loader
from lineage_store.sqlite.store import SqliteStore

BATCH_BYTES = 8 * 2**20
"""Stored bytes in one transaction: other processes wait for no more than that."""
BATCH_MESSAGES = 5_000
"""Messages in one transaction."""
THREADS = 2
AHEAD_BLOCKS = 4
"""Blocks decoded ahead of the one that is being stored; each takes some megabytes."""


@dataclass(slots=True)
class IngestReport:
    """What one call stored. ``bytes_done`` of ``bytes_total``: of block files.

    ``problems``: reasons by place, of this call; the store keeps them for the verdict.
    """

    app: str = ""
    messages: int = 0
    tasks: int = 0
    blocks: int = 0
    flows: int = 0
    associations: int = 0
    edges: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    problems: dict[str, str] = field(default_factory=dict)


Progress: TypeAlias = Callable[[IngestReport], None]


@dataclass(frozen=True, slots=True)
class _FileStart:
    """A file of a committed task (``commit`` known) or of a claimed one begins."""

    task: TaskId
    commit: Commit | None
    path: Path | None


@dataclass(frozen=True, slots=True)
class _FileStop:
    """The file that began last is over; ``size`` in bytes, -1 when it is missing."""

    size: int


_Outcome: TypeAlias = Damage | PackedBlock
_Step: TypeAlias = Line | _FileStart | _FileStop | Damage | tuple[int, "Future[_Outcome]"]


def ingest_all(
    store: SqliteStore, spool_dir: str | Path, *, progress: Progress | None = None
) -> list[IngestReport]:
    """Ingest every application of a spool; see :func:`ingest`.

    A folder that can't be read is a problem of its report, not of the others.

    Raises:
        StoreError: the store can't be written.
    """
    reports = []
    for folder in sorted(path.parent for path in Path(spool_dir).glob(f"*/{spool.DRIVER_FILE}")):
        try:
            reports.append(ingest(store, folder, progress=progress))
        except OSError as error:
            reports.append(IngestReport(problems={str(folder): str(error)}))
    return reports


def ingest(
    store: SqliteStore, spool_app_dir: str | Path, *, progress: Progress | None = None
) -> IngestReport:
    """Store what is new in one application's spool folder.

    ``progress`` is called after each transaction. Files and lines that can't be read are listed in
    the store and skipped; files are tried again by the next call when they have changed. When the
    application has ended and nothing is left to read, its folder is removed.

    Raises:
        StoreError: the store can't be written.
        OSError: the folder can't be read.
    """
    folder = Path(spool_app_dir)
    try:
        stream = open_file(str(folder / spool.DRIVER_FILE))
    except FileNotFoundError:
        return IngestReport()
    with stream:
        # One process at a time reads a folder; the other finds its work done.
        fcntl.flock(stream, fcntl.LOCK_EX)
        app = _application(stream)
        if app is None:
            return IngestReport()
        with ThreadPoolExecutor(THREADS, "lineage-ingest") as pool:
            return _Ingest(store, folder, app, stream, pool, progress).run()


def _application(stream: IO[bytes]) -> str | None:
    """The application that the first message names."""
    for line in spool.read_lines(stream, 0):
        if line.message is not None:
            return line.message.app
    return None


class _Ingest:
    """One call of :func:`ingest`."""

    def __init__(
        self,
        store: SqliteStore,
        folder: Path,
        app: str,
        stream: IO[bytes],
        pool: ThreadPoolExecutor,
        progress: Progress | None,
    ) -> None:
        self._store, self._folder, self._app = store, folder, app
        self._stream, self._pool, self._progress = stream, pool, progress
        self._report = IngestReport(app)
        self._durable: list[Path] = []
        """Files whose blocks are stored when the open transaction ends."""
        heard_at = store.now() - spool.age_s(folder)
        with store.transaction() as connection:
            self._loader = Loader(connection, app, self._report, heard_at)
        if self._loader.offset > os.fstat(stream.fileno()).st_size:
            self._loader.offset = 0  # another file than last time: repetitions change nothing

    def run(self) -> IngestReport:
        files = spool.block_files(self._folder)
        self._report.bytes_total = sum(max(0, _size(path)) for path in files)
        self._delete([path for path in files if self._loader.is_done(path.name)])
        self._store_all(self._changed_files())
        self._store_all(self._new_lines())
        while claims := self._claimed_files():
            self._store_all(claims)
        self._sweep()
        return self._report

    # -- what is to be done ------------------------------------------------------------------

    def _changed_files(self) -> Iterator[_Step]:
        """Files of committed tasks that could not be read whole and have changed since."""
        for row in self._loader.open_tasks():
            path = spool.block_path(self._folder, row.file)
            if path is not None and _size(path) not in (-1, row.file_bytes):
                # Without its message the commit was being stored: it is still among the new lines.
                commit = self._loader.commit_of(row.task)
                if commit is not None:
                    yield from self._file(row.task, commit, path)

    def _new_lines(self) -> Iterator[_Step]:
        for line in spool.read_lines(self._stream, self._loader.offset):
            message = line.message
            if message is not None and message.app == self._app:
                self._loader.collect_source(message)
            if isinstance(message, Commit) and message.app == self._app:
                path = spool.block_path(self._folder, message.file)
                task = TaskId(message.node, message.partition, message.attempt)
                yield from self._file(task, message, path)
            yield line

    def _file(self, task: TaskId, commit: Commit | None, path: Path | None) -> Iterator[_Step]:
        yield _FileStart(task, commit, path)
        # Blocks of sinks are not stored from the file of a claimed task: no block reads the space of a sink.
        row_limit = None if commit is None else row_limit_of(commit)
        size = -1 if path is None else _size(path)
        if path is not None and size >= 0:
            for batch in spool.record_batches_of(path):
                yield batch if isinstance(batch, Damage) else self._decoding(batch, row_limit)
        yield _FileStop(size)

    def _decoding(
        self, batch: RecordBatch, row_limit: RowLimit | None
    ) -> tuple[int, Future[_Outcome]]:
        is_source = self._loader.sources.__contains__
        decoding = _submit(self._pool, spool.decode, batch, self._app, is_source, row_limit)
        return batch.stop - batch.offset, decoding

    def _claimed_files(self) -> Iterator[_Step] | None:
        """Files of tasks without a commit whose records some visible block read.

        None when there is no more to find. Reading one may claim others, also in the same file.
        """
        claimed = []
        with self._store.transaction():
            for path in spool.block_files(self._folder):
                header = None
                if not self._loader.is_committed(path.name):
                    header = spool.first_header(path)
                if header is not None and header.app == self._app:
                    task = self._loader.claimant(path.name, _size(path), header)
                    if task is not None:
                        claimed.append((task, path))
        if not claimed:
            return None
        return (step for task, path in claimed for step in self._file(task, None, path))

    # -- doing it ----------------------------------------------------------------------------

    def _store_all(self, steps: Iterator[_Step]) -> None:
        """Take all steps, in transactions of bounded size."""
        queue = _decoding_ahead(steps)
        try:
            over = False
            while not over:
                with self._store.transaction():
                    over = self._store_some(queue)
                    self._loader.recount_unmatched()
                self._delete(self._durable)
                self._durable.clear()
                if self._progress is not None:
                    self._progress(self._report)
        finally:
            queue.close()

    def _store_some(self, steps: Iterator[_Step]) -> bool:
        """Take steps until the transaction is big enough; True when there are no more."""
        stored = messages = 0
        for step in steps:
            match step:
                case Line():
                    self._loader.line(step)
                    messages += 1
                    stored += step.stop - step.start
                case _FileStart():
                    self._loader.begin_file(step.task, step.commit, step.path)
                case _FileStop():
                    path = self._loader.end_file(step.size)
                    if path is not None:
                        self._durable.append(path)
                case Damage():
                    self._loader.damage(step)
                case (size, future):
                    stored += self._loader.block(future.result())
                    self._report.bytes_done += size
            if stored >= BATCH_BYTES or messages >= BATCH_MESSAGES:
                return False
        return True

    def _delete(self, paths: list[Path]) -> None:
        for path in paths:
            path.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """After the end: remove files that are no longer needed, and the folder when it is empty."""
        if not self._loader.ended:
            return
        files = spool.block_files(self._folder)
        self._delete([path for path in files if not self._loader.is_committed(path.name)])
        # A damaged file stays for inspection, and for another attempt.
        if not spool.block_files(self._folder):
            (self._folder / spool.DRIVER_FILE).unlink(missing_ok=True)
            for empty in (self._folder / spool.BLOCKS_FOLDER, self._folder):
                with suppress(OSError):
                    empty.rmdir()


def _submit(
    pool: ThreadPoolExecutor, work: Callable[..., _Outcome], *arguments: Any
) -> Future[_Outcome]:
    """Let the pool do it; here and now where pools take no more: the interpreter is about to end."""
    try:
        return pool.submit(work, *arguments)
    except RuntimeError:
        future: Future[_Outcome] = Future()
        future.set_result(work(*arguments))
        return future


def _decoding_ahead(steps: Iterator[_Step]) -> Generator[_Step, None, None]:
    """The same steps, but blocks begin to be decoded some steps before they are taken."""
    queue: deque[_Step] = deque()
    decoding = 0
    for step in steps:
        queue.append(step)
        decoding += isinstance(step, tuple)
        while decoding > AHEAD_BLOCKS or len(queue) > BATCH_MESSAGES:
            first = queue.popleft()
            decoding -= isinstance(first, tuple)
            yield first
    yield from queue


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return -1
