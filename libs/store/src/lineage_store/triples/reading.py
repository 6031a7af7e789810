"""Reads parts of the table of triples: a look-up opens those row groups alone that it needs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lineage_core.tracing.budget import TooMuchError, current_budget
from lineage_store.lake.arrow import array_of, int64_of
from lineage_store.lake.footers import read_footer
from lineage_store.lake.opening import AT_ONCE, FileOpener, read_surely
from lineage_store.lake.table import LakeTable
from lineage_store.triples.columns import COLUMNS, Part
from lineage_store.triples.files import Columns, Numbers, PartFile, spans

CACHE_BYTES: Final = 128 << 20
"""Memory of row groups that are kept for the next look-up."""
FOOTER_BYTES: Final = 64 << 20
"""Memory of footers, as they are stored, that are kept for the next question."""
FETCHED_BYTES: Final = 32 << 20
"""Memory of row groups that are read of object storage before the first of them is used."""
ROOM_HINT: Final = (
    "trace fewer items, by --method auto, or by --engine spark, which has no such bound"
)


@dataclass(slots=True)
class ReadCounts:
    """What look-ups opened: files, row groups, rows in these, and bytes of their columns as they are stored (0: not counted); ``triples``: of rows those that are triples."""

    files: int = 0
    groups: int = 0
    rows: int = 0
    triples: int = 0
    column_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a file. ``lowest`` and ``highest``: bounds of the column that orders each row group, where that is a number."""

    metadata: pq.FileMetaData
    lowest: Numbers
    highest: Numbers
    columns: tuple[str, ...]

    @classmethod
    def read(cls, stream: pa.NativeFile, path: str) -> Footer:
        """The footer of an open file.

        Raises:
            ArrowInvalid: its bytes are others than were written, or bounds are missing.
            OSError: the storage can't be read.
        """
        described = read_footer(stream, path)
        groups = range(described.num_row_groups)
        is_numbered = described.schema.column(0).physical_type == "INT64"
        bounds: list[Any] = [
            described.row_group(at).column(0).statistics for at in groups if is_numbered
        ]
        # Compared with None, statistics end the process.
        if any(one is None for one in bounds):
            raise pa.ArrowInvalid("a row group has no statistics")
        return cls(
            described,
            np.array([one.min for one in bounds], dtype=np.int64),
            np.array([one.max for one in bounds], dtype=np.int64),
            tuple(described.schema.names),
        )


class KeptFiles:
    """What is kept of the files of a table, which never change, for the next questions: footers, and on object storage small files. May be shared by threads."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table
        self.opener = FileOpener(table)
        self._lock = threading.Lock()
        self._footers: OrderedDict[str, Footer] = OrderedDict()
        self._held = 0

    def footer(self, stream: pa.NativeFile, path: str) -> Footer:
        """The footer of an open file; raises as :meth:`Footer.read`."""
        with self._lock:
            kept = self._footers.get(path)
            if kept is not None:
                self._footers.move_to_end(path)
                return kept
        read = Footer.read(stream, path)
        with self._lock:
            if path not in self._footers:
                self._footers[path] = read
                self._held += read.metadata.serialized_size
            while self._held > FOOTER_BYTES:
                self._held -= self._footers.popitem(last=False)[1].metadata.serialized_size
        return read


@dataclass(frozen=True, slots=True)
class _Opened:
    file: pq.ParquetFile
    footer: Footer


class GroupReader:
    """Row groups of files, of one question; the latest are kept in memory."""

    def __init__(self, kept: KeptFiles) -> None:
        self.table = kept.table
        self.counts = ReadCounts()
        self._kept = kept
        self._opener = kept.opener
        self._opened: dict[str, _Opened] = {}
        self._groups: OrderedDict[tuple[str, int, tuple[str, ...]], tuple[Columns, int]] = (
            OrderedDict()
        )
        self._held = 0
        self._read: list[tuple[pq.FileMetaData, int]] = []

    def opened(self, file: PartFile) -> _Opened:
        """A file with its footer."""
        path = file.file.path
        if path not in self._opened:
            self._hold(file, self._open(file))
        return self._opened[path]

    def open_together(self, files: Sequence[PartFile]) -> None:
        """Open files of object storage at the same time, if each of them is read by one request; others when they are used.

        Raises:
            FileNotFoundError: one is not there any more.
            StoreError: one is damaged, or the storage can't be read.
        """
        small = [file for file in files if self._opener.is_held_whole(file.file)]
        for file, opened in zip(small, self._opener.each(self._open, small), strict=True):
            self._hold(file, opened)

    def _hold(self, file: PartFile, opened: _Opened) -> None:
        self._opened[file.file.path] = opened
        self.counts.files += 1

    def _open(self, file: PartFile) -> _Opened:
        path = file.file.path
        return read_surely(
            self.table,
            path,
            lambda stream: self._parsed(stream, path),
            lambda: self._parsed(self._opener.stream(file.file), path),
        )

    def _parquet(self, stream: pa.NativeFile, metadata: pq.FileMetaData) -> pq.ParquetFile:
        return pq.ParquetFile(
            stream,
            metadata=metadata,
            # On object storage neighbouring columns, and row groups, are read by one request.
            pre_buffer=self._opener.is_remote,
            page_checksum_verification=True,
        )

    def _parsed(self, stream: pa.NativeFile, path: str) -> _Opened:
        footer = self._kept.footer(stream, path)
        return _Opened(self._parquet(stream, footer.metadata), footer)

    def read(self, file: PartFile, work: Callable[[pq.ParquetFile], pa.Table]) -> pa.Table:
        """What ``work`` reads of a file; it may be called twice.

        Raises:
            FileNotFoundError: the file is not there any more.
            StoreError: it is damaged, or the storage can't be read.
        """
        opened = self.opened(file)
        return read_surely(
            self.table,
            file.file.path,
            lambda stream: work(self._parsed(stream, file.file.path).file),
            lambda: work(opened.file),
        )

    def groups(
        self, file: PartFile, indices: Sequence[int], names: tuple[str, ...]
    ) -> Iterator[tuple[int, Columns]]:
        """Some columns of row groups, with all of their rows, in order; of large files of object storage several are read at the same time.

        Raises:
            FileNotFoundError: the file is not there any more.
            StoreError: it is damaged, or the storage can't be read.
            BudgetError: the query has no time left.
        """
        is_far = self._opener.is_remote and not self._opener.is_held_whole(file.file)
        for some in self._batches(file, indices) if is_far else [indices]:
            if is_far:
                path = file.file.path
                missing = [at for at in some if (path, at, names) not in self._groups]
                self._fetch(file, missing, names)
            for index in some:
                yield index, self._group(file, index, names)

    def _batches(self, file: PartFile, indices: Sequence[int]) -> Iterator[list[int]]:
        """Row groups that are in memory together."""
        described = self.opened(file).footer.metadata
        some: list[int] = []
        held = 0
        for index in indices:
            rows = described.row_group(index)
            # Numbers are stored in fewer bytes than they have in memory.
            size = max(rows.total_byte_size, 8 * rows.num_rows * rows.num_columns)
            if some and held + size > FETCHED_BYTES:
                yield some
                some, held = [], 0
            some.append(index)
            held += size
        yield some

    def _fetch(self, file: PartFile, indices: Sequence[int], names: tuple[str, ...]) -> None:
        """Read row groups of object storage, by as many streams as there may be at once: one stream reads one part after the other."""
        if len(indices) < 2:
            return
        current_budget().check()
        opened = self.opened(file)
        size = -(-len(indices) // AT_ONCE)
        parts = [indices[at : at + size] for at in range(0, len(indices), size)]

        def read(part: Sequence[int]) -> pa.Table:
            def work(parquet: pq.ParquetFile) -> pa.Table:
                return parquet.read_row_groups(
                    list(part), columns=_stored(opened, names), use_threads=False
                )

            def first() -> pa.Table:
                with self._opener.stream(file.file) as stream:
                    return work(self._parquet(stream, opened.footer.metadata))

            return read_surely(
                self.table,
                file.file.path,
                lambda stream: work(self._parsed(stream, file.file.path).file),
                first,
            )

        for part, rows in zip(parts, self._opener.each(read, parts), strict=True):
            at = 0
            for index in part:
                count = opened.footer.metadata.row_group(index).num_rows
                self._keep(file, index, names, rows.slice(at, count))
                at += count

    def _group(self, file: PartFile, index: int, names: tuple[str, ...]) -> Columns:
        current_budget().check()
        at = (file.file.path, index, names)
        if at in self._groups:
            self._groups.move_to_end(at)
            return self._groups[at][0]
        stored = _stored(self.opened(file), names)
        rows = self.read(
            file,
            lambda parquet: parquet.read_row_group(index, columns=stored, use_threads=False),
        )
        return self._keep(file, index, names, rows)

    def counted(self) -> ReadCounts:
        """What was opened, with the bytes of its columns, which take long to be counted."""
        sizes = (
            described.column(at).total_compressed_size
            for metadata, index in self._read
            for described in (metadata.row_group(index),)
            for at in range(described.num_columns)
        )
        return replace(self.counts, column_bytes=sum(sizes))

    def _keep(self, file: PartFile, index: int, names: tuple[str, ...], rows: pa.Table) -> Columns:
        columns = {name: _array(rows.column(name)) for name in rows.schema.names}
        self.counts.groups += 1
        self.counts.rows += rows.num_rows
        self._read.append((self.opened(file).footer.metadata, index))
        if file.part in {Part.BACK, Part.FORWARD}:
            self.counts.triples += rows.num_rows
        self._groups[file.file.path, index, names] = columns, rows.nbytes
        self._held += rows.nbytes
        while self._held > CACHE_BYTES:
            self._held -= self._groups.popitem(last=False)[1][1]
        return columns

    def close(self) -> None:
        """Close what is open."""
        for opened in self._opened.values():
            opened.file.close(force=True)
        self._opened.clear()
        self._groups.clear()


def _stored(opened: _Opened, names: Sequence[str]) -> list[str]:
    """Those of some columns that a file has."""
    return [name for name in names if name in opened.footer.columns]


def _array(column: Any) -> Any:
    if column.type == pa.int64():
        # Mostly there is one chunk, which need not be copied.
        chunks = getattr(column, "chunks", [column])
        return np.from_dlpack(chunks[0]) if len(chunks) == 1 else int64_of(column)
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


class SortedPart:
    """Rows of one part of a data set, in all files of it."""

    def __init__(
        self,
        reader: GroupReader,
        part: Part,
        files: Sequence[PartFile],
        names: Sequence[str] = (),
    ) -> None:
        """``names``: the columns that are read, the first of the part among them; none: all."""
        self._reader = reader
        self._names = tuple(names or COLUMNS[part])
        self._files = sorted(
            (file for file in files if file.part is part), key=lambda file: file.first
        )
        self.part = part
        self.key = next(iter(COLUMNS[part]))

    @property
    def counts(self) -> ReadCounts:
        """What was read, of all parts."""
        return self._reader.counts

    def equal(self, keys: Numbers) -> Columns:
        """The rows whose key is one of some.

        Args:
            keys: numbers, in order, each once.

        Raises:
            StoreError: a file is damaged, or the storage can't be read.
            BudgetError: the query has no time left.
        """
        return self.between(keys, keys)

    def all(self, names: Sequence[str] = ()) -> Columns:
        """All rows; ``names``: of these columns alone. Nothing of it is kept."""
        parts = []
        for file in self._files:
            opened = self._reader.opened(file)
            stored = _stored(opened, names or self._names)
            rows = self._reader.read(file, _all_of(stored))
            parts.append({name: _array(rows.column(name)) for name in stored})
        return self._joined(parts)

    def floors(self, keys: Numbers) -> Columns:
        """Of each number the row with the largest key that is not larger; none for numbers before all keys.

        Args:
            keys: numbers, in order; no key of the part is in two rows.

        Raises:
            StoreError: a file is damaged, or the storage can't be read.
            BudgetError: the query has no time left.
        """
        parts = []
        begins = np.searchsorted(keys, [file.first for file in self._files])
        for file, begin, stop in zip(
            self._files, begins, np.r_[begins[1:], len(keys)], strict=True
        ):
            if begin == stop:
                continue
            some = keys[begin:stop]
            groups = np.searchsorted(self._reader.opened(file).footer.lowest, some, "right") - 1
            wanted = sorted(set(groups.tolist()))
            for index, rows in self._reader.groups(file, wanted, self._names):
                at = np.searchsorted(rows[self.key], some[groups == index], "right") - 1
                parts.append(_taken(rows, at))
        return self._joined(parts)

    def between(
        self, firsts: Numbers, lasts: Numbers, most: int | None = None, held: int = 0
    ) -> Columns:
        """The rows whose key is in one of some ranges, in the order of their key.

        Args:
            firsts: where the ranges begin; they are in order and apart.
            lasts: where they end; both ends belong to them.
            most: rows; None: any number.
            held: rows that the caller has by now, which count, too.

        Raises:
            StoreError: a file is damaged, or the storage can't be read.
            BudgetError: there are more rows, or the query has no time left.
        """
        parts = []
        count = held
        for file, begins, stops in self._overlapped(firsts, lasts):
            wanted = np.flatnonzero(stops > begins).tolist()
            for index, rows in self._reader.groups(file, wanted, self._names):
                some = slice(begins[index], stops[index])
                order = rows[self.key]
                low = np.searchsorted(order, firsts[some], "left")
                high = np.searchsorted(order, lasts[some], "right")
                taken = spans(low, high)
                if len(taken):
                    parts.append(_taken(rows, taken))
                    count += len(taken)
                    check_room(count, most)
        return self._in_order(parts)

    def overlapping(self, firsts: Numbers, lasts: Numbers) -> tuple[list[PartFile], int]:
        """The files that have rows in some ranges, and how many rows their row groups with such have; footers alone are read.

        Args:
            firsts: where the ranges begin; they are in order and apart.
            lasts: where they end; both ends belong to them.

        Raises:
            StoreError: a file is damaged, or the storage can't be read.
            BudgetError: the query has no time left.
        """
        files, rows = [], 0
        for file, begins, stops in self._overlapped(firsts, lasts):
            described = self._reader.opened(file).footer.metadata
            groups = np.flatnonzero(stops > begins).tolist()
            rows += sum(described.row_group(group).num_rows for group in groups)
            if groups:
                files.append(file)
        return files, rows

    def _overlapped(
        self, firsts: Numbers, lasts: Numbers
    ) -> Iterator[tuple[PartFile, Numbers, Numbers]]:
        """The files that some ranges reach, and of each of their row groups the first range that reaches it and the one after the last."""
        for file in self._files:
            current_budget().check()
            begin, stop = _overlapping(firsts, lasts, file.first, file.last)
            if begin < stop:
                footer = self._reader.opened(file).footer
                begins = np.searchsorted(lasts, footer.lowest, "left")
                yield file, begins, np.searchsorted(firsts, footer.highest, "right")

    def _in_order(self, parts: Sequence[Columns]) -> Columns:
        rows = self._joined(parts)
        keys = rows[self.key]
        # Ranges of segments overlap.
        if np.all(keys[1:] >= keys[:-1]):
            return rows
        return _taken(rows, np.argsort(keys, kind="stable"))

    def _joined(self, parts: Sequence[Columns]) -> Columns:
        if not parts:
            kinds: dict[str, Any] = COLUMNS[self.part]
            return {
                name: np.empty(0, np.int64)
                if kinds[name] == pa.int64()
                else pa.nulls(0, kinds[name])
                for name in self._names
            }
        return {name: _concat([part[name] for part in parts]) for name in parts[0]}

    def __bool__(self) -> bool:
        return bool(self._files)


def _all_of(names: list[str]) -> Callable[[pq.ParquetFile], pa.Table]:
    return lambda parquet: parquet.read(columns=names, use_threads=False)


def check_room(count: int, most: int | None) -> None:
    """Refuse more triples than a trace may take.

    Raises:
        BudgetError: there are more, or no time is left.
    """
    current_budget().check()
    if most is not None and count > most:
        raise TooMuchError(f"the trace takes {count:,} triples, more than {most:,}", ROOM_HINT)


def _overlapping(firsts: Numbers, lasts: Numbers, low: int, high: int) -> tuple[int, int]:
    return int(np.searchsorted(lasts, low, "left")), int(np.searchsorted(firsts, high, "right"))


def _taken(rows: Columns, indices: Numbers) -> Columns:
    return {
        name: column[indices] if isinstance(column, np.ndarray) else column.take(array_of(indices))
        for name, column in rows.items()
    }


def _concat(arrays: Sequence[Any]) -> Any:
    if len(arrays) == 1:
        return arrays[0]
    if isinstance(arrays[0], np.ndarray):
        return np.concatenate(arrays)
    return pa.concat_arrays(arrays)
