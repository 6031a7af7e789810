"""Versions of files that applications recorded, in the lake."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
import pyarrow as pa

from lineage_core.tracing.budget import current_budget
from lineage_store.errors import DamagedError
from lineage_store.lake.application import summary_of
from lineage_store.lake.arrow import array_of, pc, scalar_of
from lineage_store.lake.columns import Kind
from lineage_store.lake.files import Files, LakeReader, Lookup, rows_of
from lineage_store.recorded_files import FileQuery, FileRow, StoredFile

_COLUMNS = ("number", "file_name", "folder", "file", "node", "wrote", "size", "mtime", "checksum")


class LakeFileRows:
    """Implements :class:`lineage_store.recorded_files.FileRows`: the files of each application are looked at."""

    def __init__(self, reader: LakeReader, wanted: FileQuery) -> None:
        self._reader = reader
        self._wanted = wanted
        self._lookup: Lookup | None = None
        self._unread: dict[str, None] = {}
        if wanted.checksum:
            self._lookup = Lookup.of_texts("checksum", [wanted.checksum])
        elif not wanted.by_links:
            spans = {"": [(name, name) for name in wanted.names]}
            self._lookup = Lookup.of_ranges(None, "file_name", "file_name", spans)

    def read(self, apps: Collection[str] | None, limit: int) -> Iterator[StoredFile]:
        keys = self._keys() if apps is None else list(map(self._reader.key_of, apps))
        of_applications = self._answers(keys)
        return islice(chain.from_iterable(of_applications), max(limit, 0))

    def count(self) -> Mapping[str, tuple[int, int]]:
        counts = {}
        for stored in self._answers(self._keys()):
            if stored:
                characters = sum(len(one.row.folder) + len(one.row.file) for one in stored)
                counts[stored[0].app] = len(stored), characters
        return counts

    def not_indexed(self) -> Iterator[StoredFile]:
        return iter(())

    def unread(self) -> Collection[str]:
        return list(self._unread)

    def _answers(self, keys: Sequence[str] | None) -> Iterator[list[StoredFile]]:
        return self._reader.answers(self._of_application, keys, of_damaged=self._not_read)

    def _not_read(self, error: DamagedError) -> list[StoredFile]:
        self._unread[error.app] = None
        return []

    def _keys(self) -> list[str] | None:
        return None if self._wanted.app is None else [self._reader.key_of(self._wanted.app)]

    def _of_application(self, files: Files) -> list[StoredFile]:
        current_budget().check()
        rows = self._reader.read(files, Kind.FILE, _COLUMNS, self._lookup)
        if not rows.num_rows:
            return []
        rows = rows.filter(self._fits(rows))
        summary = summary_of(self._reader, files)
        first: dict[FileRow, int] = {}
        for number, *columns in rows_of(rows):
            row = FileRow(*columns)
            first[row] = min(number, first.get(row, number))
        return [StoredFile(summary.app, summary.started_at, at, row) for row, at in first.items()]

    def _fits(self, rows: pa.Table) -> Any:
        """Which rows have the name and the state that are looked up."""
        wanted = self._wanted
        fits = pc.is_valid(rows["file_name"])
        if not (wanted.checksum or wanted.by_links):
            fits = pc.and_(
                fits,
                pc.is_in(rows["file_name"], value_set=array_of(np.array(wanted.names, np.int64))),
            )
        if wanted.state is not None:
            first, last = wanted.times
            fits = pc.and_(fits, pc.equal(rows["size"], scalar_of(wanted.state.size)))
            fits = pc.and_(fits, pc.greater_equal(rows["mtime"], scalar_of(first)))
            fits = pc.and_(fits, pc.less_equal(rows["mtime"], scalar_of(last)))
        return fits
