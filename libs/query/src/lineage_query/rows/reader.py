"""The text of rows: lines of text files by a sparse index that is built on first use, records of Parquet files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lineage_core.contract.block import I64, U64
from lineage_core.contract.row_sums import BLOCK_ROWS, sum_of
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.checksum_cache import (
    SAVE_BYTES_MIN,
    ChecksumCache,
    save_columns,
    saved_columns,
)
from lineage_query.rows.cut_texts import TEXT_BYTES_MAX, cut_text
from lineage_query.rows.formats import Formats, FormatsHere, is_parquet
from lineage_query.rows.line_index import BOM, STRIDE, LineIndex, build, ends_in, stride_of
from lineage_store.checksums import sha256_of
from lineage_store.paths import (
    Bytes,
    FileState,
    RowsError,
    canonical,
    current_file_state,
    files_below,
    is_compressed,
    plain_path,
    split_scheme,
)

if TYPE_CHECKING:
    from typing_extensions import Self

WINDOW_STRIDES = 256
"""Strides read at once for rows that lie near each other: 4 MiB."""
GAP_STRIDES = 1
SUMMED_AT_ONCE = 64
"""Blocks of rows that are summed together: some MB."""
SUMMED_STRIDES_MAX = 4096
"""A block of rows that is longer (64 MiB) is not summed."""
ALL_SUMMED_FROM = 2
"""Where one of so many blocks of rows is wanted, all are summed."""
EXPANDS_MAX = 1100
"""Maximum ratio of text to compressed bytes: deflate's bound is 1,032. Indexes of files beyond it are not stored."""
HEADERS_BYTES = 1 << 16
"""Bytes of a stored index beside its counts: names and types of columns, the path of the file."""
LONG_STRIDES = 64
"""Rows that are longer (1 MiB) are not read to their end."""
OPEN_INDEXES = 256
"""Maximum number of indexes in memory (about 100 kB for a file of 100 MB)."""


T = TypeVar("T")
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


@dataclass(frozen=True, slots=True)
class _CachedIndex:
    state: FileState
    index: LineIndex


class UnfitIndexError(Exception):
    """An index counts other ends than the bytes hold that are read by it."""


class RowReader:
    """Reads rows of files that are named by canonical paths.

    ``index_folder`` keeps the indexes of large files between processes; it may be missing or not
    writable (then each process builds its own). Several threads may read at once.
    """

    def __init__(self, index_folder: Path | None = None) -> None:
        self._folder = index_folder
        self._cached: OrderedDict[str, _CachedIndex] = OrderedDict()
        self._lock = threading.Lock()
        self._sums = ChecksumCache(index_folder)
        self.formats: Formats = FormatsHere()
        """The reader of files with packed rows."""
        self.names_unknown_files = True
        """Whether answers may name files that no application of the query's store used."""
        self._follows_links = True
        self._reader_of_application: Callable[[str], RowReader] | None = None

    def of_application(self, app: str) -> RowReader:
        """Reads the files of an application, by its full id.

        Raises:
            KeyError: there is no such application.
            BudgetError: what may be read of it is not known in the time of the query.
        """
        return self if self._reader_of_application is None else self._reader_of_application(app)

    def with_readers_of_applications(self, reader_of: Callable[[str], RowReader]) -> Self:
        """Reads the same by the same indexes, and files of applications by readers of their own."""
        other = copy(self)
        other._reader_of_application = reader_of
        return other

    def without_unknown_files(self) -> Self:
        """Reads the same by the same indexes, and lets no answer name files that no application of the query's store used."""
        other = copy(self)
        other.names_unknown_files = False
        return other

    def without_links(self) -> Self:
        """Reads the same by the same indexes, of canonical paths alone: a link on the way to a file was put there since."""
        other = copy(self)
        other._follows_links = False
        return other

    def state(self, path: str) -> FileState | None:
        """The current state of a file; None if it does not exist.

        Raises:
            RowsError: it is not known.
        """
        return current_file_state(path, links=self._follows_links)

    def may_read(self, path: str) -> bool:
        """Whether files of that path may be read."""
        return "\0" not in path

    def opened(self, path: str, *, packed: bool = False) -> Bytes:
        """The bytes of a file; ``packed``: without decompressing them.

        Raises:
            RowsError: it is gone, can't be read, or is no file.
        """
        return Bytes(path, packed=packed, links=self._follows_links)

    def is_folder(self, path: str) -> bool:
        """Whether a text names a folder of this machine."""
        return os.path.isdir(plain_path(path))

    def files_below(self, path: str, *, hidden: bool = False) -> list[str]:
        """The files with rows below a folder, by canonical path, in order; none where there is no such folder.

        Leaves out the names that Spark's readers leave out: those that start with ``_`` (except columns) or ``.``; ``hidden``: these instead.

        Raises:
            RowsError: it is not known.
        """
        return files_below(path, hidden=hidden)

    def index(self, path: str) -> LineIndex:
        """The index of the current version of a file.

        Raises:
            RowsError: the file is gone or can't be read.
        """
        state = self.state(path)
        if state is None:
            raise RowsError(f"{path}: no such file")
        with self._lock:
            cached = self._cached.get(path)
            if cached is not None and cached.state == state:
                self._cached.move_to_end(path)
                return cached.index
        # Not under the lock: other files are read meanwhile. Two threads may build the same.
        index = self._saved(path, state) or self._build(path, state)
        self._cache_index(path, state, index)
        return index

    def _cache_index(self, path: str, state: FileState, index: LineIndex) -> None:
        with self._lock:
            self._cached[path] = _CachedIndex(state, index)
            self._cached.move_to_end(path)
            if len(self._cached) > OPEN_INDEXES:
                self._cached.popitem(last=False)

    def _read(self, path: str, read: Callable[[Bytes, LineIndex], T]) -> T:
        """The result of ``read`` on a file with its index; if the index does not fit the bytes, with a rebuilt one.

        Raises:
            RowsError: the file is gone, can't be read, or is being written.
        """
        index = self.index(path)
        with contextlib.suppress(UnfitIndexError), closing(self.opened(path)) as source:
            return read(source, index)
        state = self.state(path)
        if state is None:
            raise RowsError(f"{path}: no such file")
        index = self._build(path, state)
        self._cache_index(path, state, index)
        try:
            with closing(self.opened(path)) as source:
                return read(source, index)
        except UnfitIndexError as error:
            raise RowsError(f"{path} is being written") from error

    def rows(self, path: str, rows: U64) -> list[str | None]:
        """The text of rows (from 0, in ascending order) as Hadoop reads them; None: no such row.

        A text longer than :data:`TEXT_BYTES_MAX` is cut and marked.

        Raises:
            RowsError: the file is gone or can't be read.
        """

        def read(source: Bytes, index: LineIndex) -> list[str | None]:
            existing = rows[: int(np.searchsorted(rows, np.uint64(index.rows)))]
            texts = _texts(source, index, existing, existing, rows_mode=True)
            return [*texts, *[None] * (len(rows) - len(existing))]

        return self._read(path, read)

    def sums(self, path: str, first: int, rows: int) -> Sequence[str | None]:
        """Current checksums of ``rows`` rows from ``first`` on, in blocks as :mod:`lineage_core.contract.row_sums` defines them.

        None: the block is incomplete, or larger than the limit for this. They are cached by the file's state.

        Raises:
            RowsError: the file is gone, can't be read, or is being written.
        """
        state = self.state(path)
        cached_sums = None if state is None else self._sums.rows(path, state, first, rows)
        if cached_sums is not None:
            return cached_sums
        state, sums = self._summed(path, state, first, rows, range(-(-rows // BLOCK_ROWS)))
        self._sums.store_rows(path, state, first, rows, sums)
        return sums

    def sums_of(
        self, path: str, first: int, rows: int, blocks: Iterable[int]
    ) -> Mapping[int, str | None]:
        """The checksums of :meth:`sums` for some blocks only, which is cheap for a few rows of a large file.

        Raises:
            RowsError: the file is gone, can't be read, or is being written.
        """
        requested_blocks = set(blocks)
        if is_compressed(path) or len(requested_blocks) * ALL_SUMMED_FROM > rows // BLOCK_ROWS:
            # All of them are cached for later processes. Compressed files are read from their start for any block.
            all_sums = self.sums(path, first, rows)
            return {block: all_sums[block] for block in requested_blocks}
        state = self.state(path)
        cached_sums = {} if state is None else self._sums.blocks(path, state, first, rows)
        missing = sorted(requested_blocks - cached_sums.keys())
        if missing:
            _, sums = self._summed(path, state, first, rows, missing)
            cached_sums.update(zip(missing, sums, strict=True))
        return cached_sums

    def _summed(
        self, path: str, state: FileState | None, first: int, rows: int, blocks: Sequence[int]
    ) -> tuple[FileState, list[str | None]]:
        """Checksums of some blocks (ascending) of rows of a file, whose state must not change meanwhile."""
        sums = self._read(
            path, lambda source, index: list(_sums(source, index, first, rows, blocks))
        )
        if state is None or self.state(path) != state:
            raise RowsError(f"{path} is being written")
        return state, sums

    def checksum(self, path: str) -> str:
        """The current checksum of a whole file, not decompressed; it is cached by the file's state.

        Raises:
            RowsError: the file is gone, can't be read, or is being written.
        """
        state = self.state(path)
        cached_checksum = None if state is None else self._sums.file_checksum(path, state)
        if cached_checksum is not None:
            return cached_checksum
        with closing(self.opened(path, packed=True)) as source:
            checksum = sha256_of(source.blocks())
        if state is None or self.state(path) != state:
            raise RowsError(f"{path} is being written")
        self._sums.store_file_checksum(path, state, checksum)
        return checksum

    def records(self, path: str, rows: U64) -> list[str | None]:
        """The text of records (from 0, ascending) of a file with an index of its own: Parquet.

        None: no such record, or a file of another format.

        Raises:
            RowsError: the file is gone or can't be read.
        """
        if not is_parquet(path):
            return [None] * len(rows)
        if self.state(path) is None:
            raise RowsError(f"{path}: no such file")
        with closing(self.opened(path)) as source:
            try:
                texts: list[str | None] = self.formats.read("parquet texts", source.stream, rows)
                return texts
            except (OSError, pa.ArrowException) as error:
                raise RowsError(f"{path}: {error}") from error

    def lines(self, path: str, first: U64, last: U64) -> list[str | None]:
        """The text of spans of lines (from 1, both included, ascending) as grep counts them, cut as that of :meth:`rows`.

        Raises:
            RowsError: the file is gone or can't be read.
        """
        first_line = np.uint64(1)

        def read(source: Bytes, index: LineIndex) -> list[str | None]:
            existing = int(np.searchsorted(last, np.uint64(index.lines), side="right"))
            low, high = first[:existing] - first_line, last[:existing] - first_line
            texts = _texts(source, index, low, high, rows_mode=False)
            return [*texts, *[None] * (len(first) - existing)]

        return self._read(path, read)

    def lines_of_rows(self, path: str, rows: U64) -> U64:
        """The lines (from 1) on which rows (ascending) start; for rows past the end, the row number.

        Raises:
            RowsError: the file is gone or can't be read.
        """
        if not self.index(path).lone_returns:
            return rows + np.uint64(1)

        def read(source: Bytes, index: LineIndex) -> list[int]:
            return [
                _ends_before(source, index, _row_start(source, index, row), rows_mode=False)
                if row < index.rows
                else row
                for row in rows.tolist()
            ]

        return np.array(self._read(path, read), np.uint64) + np.uint64(1)

    def rows_of_line(self, path: str, line: int) -> range:
        """The rows that start on a line (from 1); several if a lone carriage return splits it.

        Raises:
            RowsError: the file is gone or can't be read.
        """
        file_index = self.index(path)
        if not 1 <= line <= file_index.lines:
            return range(0)
        if not file_index.lone_returns:
            return range(line - 1, min(line, file_index.rows))

        def read(source: Bytes, index: LineIndex) -> range:
            low, last = 0, index.size - 1
            if line > 1:
                low = _nth_end(source, index, line - 1, rows_mode=False) + 1
            if line <= int(index.line_ends[-1]):
                last = _nth_end(source, index, line, rows_mode=False)
            first = _ends_before(source, index, low, rows_mode=True)
            return range(first, _ends_before(source, index, last, rows_mode=True) + 1)

        return self._read(path, read)

    def rows_in_split(self, path: str, start: int, length: int) -> int:
        """Rows that Hadoop reads from a split of a file.

        A split reads the lines that start after its first byte and at or before the byte after
        its last; the first split reads the file's first line too.

        Raises:
            RowsError: the file is gone or can't be read, or is compressed and cut in splits.
        """
        index = self.index(path)
        if is_compressed(path):
            state = self.state(path)
            if start == 0 and state is not None and length >= state.size:
                return index.rows
            raise RowsError(f"{path}: rows of a split of a compressed file can't be counted")

        def read(source: Bytes, index: LineIndex) -> int:
            stop = min(start + length, index.size)
            if index.rows == 0 or start >= index.size:
                return 0
            count = _ends_before(source, index, stop, rows_mode=True)
            count -= _ends_before(source, index, start, rows_mode=True)
            if stop == index.size and index.closed:
                count -= 1
            return count + (start == 0)

        return self._read(path, read)

    def _build(self, path: str, state: FileState) -> LineIndex:
        with closing(self.opened(path)) as source:
            index = build(source.blocks())
        if self._folder is not None and state.mtime is not None and index.size >= SAVE_BYTES_MIN:
            # An index that can't be stored is built again; this is no error.
            with contextlib.suppress(OSError):
                _save(self._folder, self._file_of(path), path, state, index)
        return index

    def _saved(self, path: str, state: FileState) -> LineIndex | None:
        if self._folder is None:
            return None
        # Of a compressed file the size of the text is not known before.
        text_max = state.size * (EXPANDS_MAX if is_compressed(path) else 1)
        bytes_max = 2 * 8 * (text_max // STRIDE + 2) + 4 * HEADERS_BYTES
        saved = saved_columns(self._folder / self._file_of(path), bytes_max)
        owner = saved.get("of")
        if owner is None or owner.tolist() != _named(path, state):
            return None
        index = _index_of(saved)
        return index if is_compressed(path) or (index and index.size == state.size) else None

    @staticmethod
    def _file_of(path: str) -> str:
        return hashlib.sha256(path.encode()).hexdigest()[:32] + ".npz"


class ForbiddenRowsError(RowsError):
    """A file outside of the folders that may be read."""


class RootedReader(RowReader):
    """Reads files below some folders (or prefixes such as ``s3://bucket/lake``), and no others.

    Paths are first made canonical, with links resolved, so none leads outside.
    """

    def __init__(self, roots: Sequence[str], index_folder: Path | None = None) -> None:
        super().__init__(index_folder)
        self._roots = tuple(canonical(root).rstrip("/") + "/" for root in roots)

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders and prefixes."""
        return self._roots

    def state(self, path: str) -> FileState | None:
        """As :meth:`RowReader.state`.

        Raises:
            ForbiddenRowsError: the file lies outside.
            RowsError: it is not known.
        """
        spelled = self._spelled(path)
        self._check(path, spelled)
        return current_file_state(spelled, links=False)

    def may_read(self, path: str) -> bool:
        """Whether a path is below a root."""
        return self._is_below(canonical(path))

    def opened(self, path: str, *, packed: bool = False) -> Bytes:
        """As :meth:`RowReader.opened`.

        Raises:
            ForbiddenRowsError: the file lies outside.
            RowsError: it is gone, can't be read, or is no file; or a link was put on the way to it meanwhile.
        """
        spelled = self._spelled(path)
        self._check(path, spelled)
        return Bytes(spelled, packed=packed, links=False)

    def _spelled(self, path: str) -> str:
        return canonical(path) if self._follows_links else path

    def _is_below(self, spelled: str) -> bool:
        if "\0" in spelled:
            return False
        if split_scheme(spelled)[0] != "file" and ".." in spelled.split("/"):
            return False
        return spelled.startswith(self._roots)

    def files_below(self, path: str, *, hidden: bool = False) -> list[str]:
        """As :meth:`RowReader.files_below`.

        Raises:
            ForbiddenRowsError: the folder lies outside.
            RowsError: it is not known.
        """
        self._check(path)
        return super().files_below(path, hidden=hidden)

    def _check(self, path: str, spelled: str | None = None) -> None:
        if not self._is_below(canonical(path) if spelled is None else spelled):
            raise ForbiddenRowsError(f"{path}: rows of files there are not read by this server")

    def is_folder(self, path: str) -> bool:
        return self.may_read(path) and super().is_folder(path)


_ANY = RowReader()
_READING: ContextVar[RowReader] = ContextVar("lineage_reader", default=_ANY)


@contextmanager
def reading_by(reader: RowReader) -> Iterator[None]:
    """What reads files in the body by :func:`opened`, also in threads that have its context, reads those that ``reader`` may."""
    token = _READING.set(reader)
    try:
        yield
    finally:
        _READING.reset(token)


def opened(path: str) -> IO[bytes]:
    """A file, not decompressed, opened by the reader of the current query; without one, any file may be opened.

    Raises:
        RowsError: as :meth:`RowReader.opened`.
    """
    return _READING.get().opened(path, packed=True).stream


def values_from(
    path: str, first: int, count: int, columns: Sequence[tuple[str, str]]
) -> list[tuple[Any, ...]]:
    """As :func:`lineage_query.rows.parquet_rows.values_from`, of a file that is opened as by :func:`opened`.

    Raises:
        UnsureError, OSError, pa.ArrowException: as there.
        RowsError: as :meth:`RowReader.opened`.
    """
    with opened(path) as stream:
        rows: list[tuple[Any, ...]] = _READING.get().formats.read(
            "parquet values", stream, first, count, columns
        )
        return rows


def _named(path: str, state: FileState) -> list[str]:
    """What an index is of: it is never used for another state of the file."""
    return [path, str(state.size), str(state.mtime), str(state.change_token), str(STRIDE)]


def _index_of(saved: dict[str, Any]) -> LineIndex | None:
    """The index that some columns hold; None where they hold none."""
    if not {"facts", "line_ends"} <= set(saved) or len(saved["facts"]) != 4:
        return None
    facts, line_ends = saved["facts"], saved["line_ends"]
    row_ends = saved.get("row_ends", line_ends)
    size, bom, closed, closed_line = facts.tolist()
    fits = (
        isinstance(size, int) and size >= 0 and line_ends.dtype.kind == row_ends.dtype.kind == "i"
    )
    if not (fits and all(_are_counts(ends, size) for ends in (line_ends, row_ends))):
        return None
    return LineIndex(size, bool(bom), bool(closed), bool(closed_line), row_ends, line_ends)


def _are_counts(ends: I64, size: int) -> bool:
    """Whether these may be how many ends lie before each stride of a file."""
    steps = np.diff(ends)
    strides = -(-size // STRIDE)
    return len(steps) == strides and ends[0] == 0 and bool(((steps >= 0) & (steps <= STRIDE)).all())


def _save(folder: Path, name: str, path: str, state: FileState, index: LineIndex) -> None:
    columns = {
        "of": np.array(_named(path, state)),
        "facts": np.array([index.size, index.bom, index.closed, index.closed_line], np.int64),
        "line_ends": index.line_ends,
    }
    if index.lone_returns:
        columns["row_ends"] = index.row_ends
    save_columns(folder / name, columns)


def _texts(
    source: Bytes, index: LineIndex, first: U64, last: U64, *, rows_mode: bool
) -> list[str | None]:
    """The texts of ascending spans of rows (or lines, both from 0), without their ends; long ones are cut."""
    low, high = _strides(index, first, last, rows_mode=rows_mode)
    strides = high - low
    long = strides > LONG_STRIDES
    texts: list[str | None] = []
    for begin, stop in _runs_of_marks(long):
        if long[begin]:
            texts += [
                _beginning(source, index, int(first[at]), int(strides[at]), rows_mode=rows_mode)
                for at in range(begin, stop)
            ]
        else:
            part = slice(begin, stop)
            spans = _Spans(first[part], last[part], low[part], high[part])
            pieces = _pieces(source, index, spans, rows_mode=rows_mode)
            texts += [_text(_without_end(piece, rows_mode=rows_mode)) for piece in pieces]
    current_budget().count_text(sum(len(text) for text in texts if text is not None))
    return texts


def _runs_of_marks(marks: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """The runs of equal marks, as (begin, stop)."""
    if len(marks) and not marks.any():
        yield 0, len(marks)
        return
    ends = [*(np.flatnonzero(marks[1:] != marks[:-1]) + 1).tolist(), len(marks)]
    begin = 0
    for stop in ends if len(marks) else []:
        yield begin, stop
        begin = stop


def _beginning(source: Bytes, index: LineIndex, row: int, strides: int, *, rows_mode: bool) -> str:
    """The beginning of a row (or line, from 0) that spans so many strides; reads only the part that is shown."""
    counts = index.row_ends if rows_mode else index.line_ends
    begin = int(stride_of(counts, np.array([row], np.uint64))[0])
    window, ends = _window(
        source, index, begin, begin + TEXT_BYTES_MAX // STRIDE, rows_mode=rows_mode
    )
    start = int(ends[row - 1 - int(counts[begin])]) + 1 if row else 0
    if rows_mode and index.bom and row == 0:
        start = len(BOM)
    return cut_text(window[start : start + TEXT_BYTES_MAX], strides * STRIDE, about=True)


class _Spans(NamedTuple):
    """Ascending spans of rows (or lines, both from 0), and the strides in which each starts and ends."""

    first: U64
    last: U64
    low: I64
    high: I64


def _strides(index: LineIndex, first: U64, last: U64, *, rows_mode: bool) -> tuple[I64, I64]:
    """The strides in which spans of rows (or lines) start and end."""
    counts = index.row_ends if rows_mode else index.line_ends
    return stride_of(counts, first), stride_of(counts, last + np.uint64(1))


def _pieces(source: Bytes, index: LineIndex, spans: _Spans, *, rows_mode: bool) -> list[bytes]:
    """The bytes of spans, with the end of each."""
    counts = index.row_ends if rows_mode else index.line_ends
    first, last = spans.first, spans.last
    pieces: list[bytes] = []
    for members, begin, stop in _windows(spans.low.tolist(), spans.high.tolist()):
        window, ends = _window(source, index, begin, stop, rows_mode=rows_mode)
        # The k-th end (from 1) of the file is ends[k - 1 - base]; row r starts after the r-th.
        base = int(counts[begin])
        for a, b in zip(first[members].tolist(), last[members].tolist(), strict=True):
            start = int(ends[a - 1 - base]) + 1 if a else 0
            end = int(ends[b - base]) + 1 if b - base < len(ends) else len(window)
            pieces.append(window[start:end])
    if rows_mode and index.bom and len(first) and int(first[0]) == 0:
        pieces[0] = pieces[0][len(BOM) :]
    return pieces


def _sums(
    source: Bytes, index: LineIndex, first: int, rows: int, blocks: Sequence[int]
) -> Iterator[str | None]:
    firsts = np.array(blocks, np.uint64) * np.uint64(BLOCK_ROWS) + np.uint64(first)
    lasts = np.minimum(firsts + np.uint64(BLOCK_ROWS - 1), np.uint64(first + rows - 1))
    for at in range(0, len(firsts), SUMMED_AT_ONCE):
        low, high = firsts[at : at + SUMMED_AT_ONCE], lasts[at : at + SUMMED_AT_ONCE]
        requested, existing = len(low), int(np.searchsorted(high, np.uint64(index.rows)))
        low, high = low[:existing], high[:existing]
        begin, stop = _strides(index, low, high, rows_mode=True)
        short = stop - begin <= SUMMED_STRIDES_MAX
        spans = _Spans(low[short], high[short], begin[short], stop[short])
        pieces = iter(_pieces(source, index, spans, rows_mode=True))
        yield from (_sum(next(pieces)) if is_short else None for is_short in short.tolist())
        yield from [None] * (requested - existing)


def _sum(piece: bytes) -> str:
    """The checksum of rows, with the end of each, as Spark gave them to a worker: as UTF-8."""
    if b"\r" in piece:
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not piece.endswith(b"\n"):
        piece += b"\n"
    return sum_of(piece if piece.isascii() else _as_utf8(piece))


def _as_utf8(piece: bytes) -> bytes:
    """Replace invalid UTF-8 by U+FFFD as Java does: once for a surrogate, not for each of its bytes."""
    try:
        piece.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub("\ufffd".encode(), piece).decode("utf-8", "replace").encode()
    return piece


def _windows(low: list[int], high: list[int]) -> Iterator[tuple[slice, int, int]]:
    """Groups of neighbouring spans (ascending strides low..high) that are read together."""
    at = 0
    while at < len(low):
        begin, stop, after = low[at], high[at], at + 1
        while (
            after < len(low)
            and low[after] <= stop + GAP_STRIDES
            and high[after] - begin < WINDOW_STRIDES
        ):
            stop = max(stop, high[after])
            after += 1
        yield slice(at, after), begin, stop
        at = after


def _window(
    source: Bytes, index: LineIndex, begin: int, stop: int, *, rows_mode: bool
) -> tuple[bytes, I64]:
    """The bytes of the strides ``begin`` to ``stop`` (inclusive), and the positions of ends in them.

    Raises:
        UnfitIndexError: the index does not match these bytes.
    """
    length = (stop - begin + 1) * STRIDE
    window = source.read(begin * STRIDE, length + 1)
    following = window[length] if len(window) > length else -1
    window = window[:length]
    ends = ends_in(window, following, rows=rows_mode)
    fits = (
        _are_counted(index.row_ends if rows_mode else index.line_ends, begin, stop, ends)
        and (begin > 0 or window.startswith(BOM) == index.bom)
        and (following >= 0 or _ends_as(index, window, begin * STRIDE + len(window)))
    )
    if not fits:
        raise UnfitIndexError
    return window, ends


def _are_counted(counts: I64, begin: int, stop: int, ends: I64) -> bool:
    """Whether the positions of ends match the counts of the strides."""
    if begin == stop:
        return len(ends) == int(counts[min(stop + 1, len(counts) - 1)]) - int(counts[begin])
    counted = np.diff(counts[begin : stop + 2])
    return np.array_equal(np.bincount(ends // STRIDE, minlength=len(counted)), counted)


def _ends_as(index: LineIndex, window: bytes, size: int) -> bool:
    """Whether the end of a file of ``size`` bytes, which is in a window, matches an index."""
    closed, closed_line = window.endswith((b"\n", b"\r")), window.endswith(b"\n")
    return (size, closed, closed_line) == (index.size, index.closed, index.closed_line)


def _nth_end(source: Bytes, index: LineIndex, n: int, *, rows_mode: bool) -> int:
    """The byte of the n-th end, from 1."""
    counts = index.row_ends if rows_mode else index.line_ends
    stride = int(stride_of(counts, np.array([n]))[0])
    _, ends = _window(source, index, stride, stride, rows_mode=rows_mode)
    return stride * STRIDE + int(ends[n - 1 - int(counts[stride])])


def _row_start(source: Bytes, index: LineIndex, row: int) -> int:
    return _nth_end(source, index, row, rows_mode=True) + 1 if row else 0


def _ends_before(source: Bytes, index: LineIndex, at: int, *, rows_mode: bool) -> int:
    """How many ends lie before byte ``at``."""
    counts = index.row_ends if rows_mode else index.line_ends
    stride = min(at // STRIDE, len(counts) - 1)
    if stride == len(counts) - 1:
        return int(counts[-1])
    _, ends = _window(source, index, stride, stride, rows_mode=rows_mode)
    return int(counts[stride]) + int(np.searchsorted(ends, at - stride * STRIDE))


def _without_end(piece: bytes, *, rows_mode: bool) -> bytes:
    r"""A row without its ``\n``, ``\r\n`` or ``\r``; a line without its ``\n``."""
    if piece.endswith(b"\n"):
        piece = piece[:-1]
        return piece[:-1] if rows_mode and piece.endswith(b"\r") else piece
    return piece[:-1] if rows_mode and piece.endswith(b"\r") else piece


def _text(piece: bytes) -> str:
    if len(piece) > TEXT_BYTES_MAX:
        return cut_text(piece[:TEXT_BYTES_MAX], len(piece))
    return piece.decode("utf-8", errors="replace")
