"""Reads files of the lake: a look-up opens those row groups alone that it needs."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from lineage_core.tracing.budget import current_budget
from lineage_store.errors import DamagedError, StoreUnavailableError
from lineage_store.lake.arrow import array_of_texts, nulls, pc, scalar_of
from lineage_store.lake.columns import TYPES, Kind, application_key
from lineage_store.lake.file_names import folder_of, key_in, name_in
from lineage_store.lake.footers import read_footer
from lineage_store.lake.opening import FileOpener
from lineage_store.lake.storage_errors import reason_of
from lineage_store.lake.table import LakeFile, LakeTable

FOOTERS_CACHED: Final = 4_096
CACHE_BYTES: Final = 32 << 20
"""Memory of the columns of row groups that are kept for the next look-up: a trace reads the same ones again and again."""
GROUP_OVERHEAD: Final = 4_096
CACHED_GROUP_BYTES: Final = 2 << 20
"""Larger columns of a row group are not kept."""
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

COMPUTED_CACHED: Final = 1_024
"""Number of values that are kept of files; each is of one application."""

APPLICATIONS_AT_ONCE: Final = 64
"""Applications whose footers are read together where all are read."""

Files: TypeAlias = tuple[LakeFile, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows whose ``column`` is one of some texts, and whose range ``low``..``high`` may hold one of the numbers given for it.

    ``column``: None if the rows are looked up by number alone (of the text ""). A row may be returned that only holds
    numbers of another text.
    """

    column: str | None
    low: str | None = None
    high: str | None = None
    ranges: Mapping[str, Sequence[tuple[int, int]]] | None = None
    texts: tuple[str, ...] = ()
    is_span: bool = False

    @classmethod
    def of_texts(cls, column: str, texts: Iterable[str]) -> Lookup:
        """By a column alone."""
        return cls(column, texts=tuple(sorted(set(texts))))

    @classmethod
    def of_ranges(
        cls,
        column: str | None,
        low: str,
        high: str,
        ranges: Mapping[str, Sequence[tuple[int, int]]],
    ) -> Lookup:
        """By a column, and by numbers."""
        return cls(column, low, high, ranges, tuple(sorted(ranges)))

    @classmethod
    def of_prefix(cls, column: str, first: str, stop: str) -> Lookup:
        """By a column alone, whose texts begin at ``first`` and end before ``stop``."""
        return cls(column, texts=(first, stop), is_span=True)

    @property
    def columns(self) -> list[str]:
        """The columns that decide."""
        return [name for name in dict.fromkeys((self.column, self.low, self.high)) if name]

    def may_hold(self, group: RowGroup) -> bool:
        """Whether a row group may hold a row that is looked up, by its statistics."""
        texts: Sequence[str] = self.texts
        if self.is_span:
            bounds = group.bounds.get(self.column or "")
            return bounds is None or (bounds[0] < texts[1] and bounds[1] >= texts[0])
        if self.column is not None and (bounds := group.bounds.get(self.column)) is not None:
            first = bisect_left(texts, bounds[0])
            texts = [text for text in texts[first:] if text <= bounds[1]]
            if not texts:
                return False
        if self.ranges is None:
            return bool(self.texts)
        lowest, highest = group.bounds.get(self.low or ""), group.bounds.get(self.high or "")
        if lowest is None or highest is None:
            return True
        ranges = self.ranges
        return any(
            first <= highest[1] and last >= lowest[0]
            for text in texts
            for first, last in ranges[text]
        )

    def mask(self, rows: pa.Table) -> Any:
        """Which rows are looked up."""
        found: Any = scalar_of(True)
        if self.column is not None:
            texts = rows[self.column]
            if self.is_span:
                begin, stop = self.texts
                return pc.and_(
                    pc.greater_equal(texts, scalar_of(begin)), pc.less(texts, scalar_of(stop))
                )
            found = pc.is_in(texts, value_set=array_of_texts(self.texts))
        if self.ranges is not None and self.low is not None and self.high is not None:
            ranges = [span for text in self.texts for span in self.ranges[text]]
            first = min((span[0] for span in ranges), default=INT64_MAX)
            last = max((span[1] for span in ranges), default=INT64_MIN)
            fits = pc.and_(
                pc.less_equal(rows[self.low], scalar_of(last)),
                pc.greater_equal(rows[self.high], scalar_of(first)),
            )
            found = pc.and_(found, fits)
        return found


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a file. ``bounds``: smallest and largest value by column, where they are known."""

    index: int
    kind: str
    rows: int
    bounds: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class _Footer:
    metadata: pq.FileMetaData
    columns: frozenset[str]
    groups: tuple[RowGroup, ...]


@dataclass(slots=True)
class ReadCounts:
    """What look-ups opened: footers (files), row groups, and bytes of columns in these."""

    footers: int = 0
    groups: int = 0
    column_bytes: int = 0


def rows_of(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows of a table, as tuples of its columns."""
    for batch in table.to_batches():
        current_budget().check()
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class LakeReader:
    """Reads rows of applications from the files of the newest version. May be shared by threads."""

    def __init__(self, table: LakeTable) -> None:
        self.table = table
        self.counts = ReadCounts()
        self.opener = FileOpener(table)
        self._lock = threading.Lock()
        self._footers: OrderedDict[str, _Footer] = OrderedDict()
        self._computed: OrderedDict[Hashable, Any] = OrderedDict()
        self._groups: OrderedDict[Hashable, pa.Table] = OrderedDict()
        self._held = 0

    def files(self, key: str) -> Files:
        """The files of an application now; none where there is none."""
        return self.table.snapshot().files.get(key, ())

    def key_of(self, app: str) -> str:
        """The key of an application; of one whose id was lost with its files, and of no other, its folder's name is the id."""
        key, files = application_key(app), self.table.snapshot().files
        named = key_in(app)
        is_lost = key not in files and named in files and self._app_of(files[named]) == app
        return named if is_lost else key

    def answer(self, key: str, work: Callable[[Files], T]) -> T:
        """What ``work`` makes of the files of an application, all of one version.

        Raises:
            DamagedError: a file is damaged or missing.
            StoreError: the storage can't be read.
        """
        files = self.files(key)
        is_tried = False
        while True:
            try:
                return work(files)
            except FileNotFoundError as error:
                # Somebody compacted or deleted the application since, or put another copy in place of the lake.
                newer = self.table.snapshot(surely=True).files.get(key, ())
                if newer == files:
                    if missing := self._missing_of(files):
                        raise self._damaged(files, missing) from error
                    if is_tried:
                        raise StoreUnavailableError(
                            f"can't read the lake: {reason_of(error)}"
                        ) from error
                is_tried, files = newer == files, newer
            except DamagedError as error:
                raise self._damaged(files, error.damage) from error

    def answers(
        self,
        work: Callable[[Files], T],
        keys: Sequence[str] | None = None,
        *,
        of_damaged: Callable[[DamagedError], T],
    ) -> Iterator[T]:
        """What ``work`` makes of the files of each application.

        Args:
            work: gets the files of one application.
            keys: of some of them, in this order; None: of all.
            of_damaged: makes it where a file is damaged or missing, which harms no other application.

        Raises:
            StoreError: the storage can't be read.
        """
        files = self.table.snapshot().files
        wanted = list(files) if keys is None else keys
        for at in range(0, len(wanted), APPLICATIONS_AT_ONCE):
            some = wanted[at : at + APPLICATIONS_AT_ONCE]
            # Files that somebody compacted since are replaced by others, which are read then.
            with suppress(FileNotFoundError, DamagedError):
                self._read_footers(chain.from_iterable(files.get(key, ()) for key in some))
            for key in some:
                try:
                    answer = self.answer(key, work)
                except DamagedError as error:
                    answer = of_damaged(error)
                yield answer

    def _damaged(self, files: Files, damage: str) -> DamagedError:
        """The error that names the application, by what is left of it; a file that is put back is read anew."""
        with self._lock:
            for file in files:
                self._footers.pop(file.path, None)
        written_at = max((file.added_at for file in files), default=0.0)
        return DamagedError(damage, self._app_of(files), written_at)

    def _app_of(self, files: Files) -> str:
        for file in files:
            if (name := name_in(file.path)) is not None:
                return name
        for file in files:
            with suppress(FileNotFoundError, DamagedError):
                for (name,) in rows_of(self.read((file,), Kind.APPLICATION, ("name",))):
                    return str(name)
        return folder_of(files[0].key) if files else ""

    def _missing_of(self, files: Files) -> str:
        """Which files are not there; empty: all are, or the storage does not tell."""
        try:
            found = self.table.files.get_file_info([file.path for file in files])
        except OSError:
            return ""
        missing = [info.path for info in found if info.type is fs.FileType.NotFound]
        more = f" (and {len(missing) - 1:,} more)" if missing[1:] else ""
        return f"{missing[0]} of the lake{more} is missing" if missing else ""

    def remember(self, name: str, files: Files, compute: Callable[[Files], T]) -> T:
        """What is computed of some files, which never change, once."""
        remembered = (name, files)
        with self._lock:
            if remembered in self._computed:
                self._computed.move_to_end(remembered)
                known: T = self._computed[remembered]
                return known
        computed = compute(files)
        with self._lock:
            self._computed[remembered] = computed
            while len(self._computed) > COMPUTED_CACHED:
                self._computed.popitem(last=False)
        return computed

    def read(
        self, files: Files, kind: Kind, columns: Sequence[str], lookup: Lookup | None = None
    ) -> pa.Table:
        """Rows of one kind, those that are looked up or all; equal rows may be among them.

        Raises:
            FileNotFoundError: a file is not there any more (see :meth:`answer`).
            StoreError: a file is damaged, or the storage can't be read.
            BudgetError: the query has no time left.
        """
        schema = pa.schema([(name, TYPES[name]) for name in columns])
        self._read_footers(files)
        wanted = [(file, self._groups_of(file, kind, lookup)) for file in files]
        parts = self.opener.each(
            lambda some: self._parts(*some, columns, lookup), [some for some in wanted if some[1]]
        )
        return pa.concat_tables([pa.Table.from_batches([], schema), *chain.from_iterable(parts)])

    def _read_footers(self, files: Iterable[LakeFile]) -> None:
        """Read the footers that were not read yet, on object storage several at the same time."""
        with self._lock:
            missing = [file for file in files if file.path not in self._footers]
        self.opener.each(self._footer, missing)

    def _groups_of(self, file: LakeFile, kind: Kind, lookup: Lookup | None) -> list[RowGroup]:
        """The row groups of a file that may hold what is looked up."""
        return [
            group
            for group in self._footer(file).groups
            if group.kind == kind and (lookup is None or lookup.may_hold(group))
        ]

    def _parts(
        self,
        file: LakeFile,
        groups: Sequence[RowGroup],
        columns: Sequence[str],
        lookup: Lookup | None,
    ) -> list[pa.Table]:
        footer = self._footer(file)

        def read(stream: pa.NativeFile) -> list[pa.Table]:
            opened = pq.ParquetFile(
                stream,
                metadata=footer.metadata,
                pre_buffer=self.opener.is_remote,
                page_checksum_verification=True,
            )
            parts = []
            for group in groups:
                current_budget().check()
                part = self._group(file, opened, footer, group, columns, lookup)
                if part.num_rows:
                    parts.append(part)
            return parts

        return self.opener.read(file, read)

    def _group(
        self,
        file: LakeFile,
        opened: pq.ParquetFile,
        footer: _Footer,
        group: RowGroup,
        columns: Sequence[str],
        lookup: Lookup | None,
    ) -> pa.Table:
        names = list(columns)
        if lookup is not None:
            deciding = self._columns(file, opened, footer, group, lookup.columns)
            mask = lookup.mask(deciding)
            if not pc.any(mask).as_py():
                return pa.table({})
            return self._columns(file, opened, footer, group, names).filter(mask)
        return self._columns(file, opened, footer, group, names)

    def _columns(
        self,
        file: LakeFile,
        opened: pq.ParquetFile,
        footer: _Footer,
        group: RowGroup,
        names: Sequence[str],
    ) -> pa.Table:
        cached = (file.path, group.index, *names)
        with self._lock:
            if cached in self._groups:
                self._groups.move_to_end(cached)
                return self._groups[cached]
        stored = [name for name in names if name in footer.columns]
        rows = opened.read_row_group(group.index, columns=stored, use_threads=False)
        arrays = [
            rows[name].cast(TYPES[name]) if name in stored else nulls(group.rows, TYPES[name])
            for name in names
        ]
        table = pa.table(arrays, schema=pa.schema([(name, TYPES[name]) for name in names]))
        described = footer.metadata.row_group(group.index)
        chunks = (described.column(at) for at in range(described.num_columns))
        read_bytes = sum(
            chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in stored
        )
        with self._lock:
            self.counts.groups += 1
            self.counts.column_bytes += read_bytes
            if table.nbytes <= CACHED_GROUP_BYTES and cached not in self._groups:
                self._groups[cached] = table
                self._held += table.nbytes + GROUP_OVERHEAD
                while self._held > CACHE_BYTES:
                    self._held -= self._groups.popitem(last=False)[1].nbytes + GROUP_OVERHEAD
        return table

    def _footer(self, file: LakeFile) -> _Footer:
        with self._lock:
            footer = self._footers.get(file.path)
            if footer is not None:
                self._footers.move_to_end(file.path)
                return footer
        footer = self.opener.read(file, lambda stream: _footer_of(read_footer(stream, file.path)))
        with self._lock:
            self.counts.footers += 1
            self._footers[file.path] = footer
            while len(self._footers) > FOOTERS_CACHED:
                self._footers.popitem(last=False)
        return footer


def _footer_of(metadata: pq.FileMetaData) -> _Footer:
    groups = []
    names: list[str] = metadata.schema.names
    for index in range(metadata.num_row_groups):
        described = metadata.row_group(index)
        bounds = {}
        for at, name in enumerate(names):
            statistics = described.column(at).statistics
            # Rows without a value fit no look-up.
            if statistics is not None and statistics.has_min_max:
                bounds[name] = (statistics.min, statistics.max)
        kind = bounds.get("kind", ("", ""))
        if kind[0] != kind[1]:
            raise pa.ArrowInvalid(f"row group {index} holds rows of several kinds")
        groups.append(RowGroup(index, str(kind[0]), described.num_rows, bounds))
    return _Footer(metadata, frozenset(names), tuple(groups))
