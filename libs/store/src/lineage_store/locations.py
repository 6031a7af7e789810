"""From ``path:line`` to items and back.

A source row's line is its ordinal in its split, plus the rows of the splits before it, plus one.
A sink row's line is its ordinal, plus the newlines written before it, plus one. Where a file holds
a lone carriage return, rows and lines differ: they are then counted in the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from lineage_core.address import parse_space
from lineage_core.block import U64
from lineage_core.errors import LineageError
from lineage_core.graph import FlowGraph, SinkFileRecord, SplitRecord
from lineage_core.region import Region
from lineage_store.paths import FileState, RowsError, canonical, plain_path, state_of
from lineage_store.rows import RowReader

_LOCATION = re.compile(r"(?P<path>.+):(?P<line>\d{1,18})", re.DOTALL)


class LocationError(LineageError):
    """A location or address that names no row; the message says what does."""


@dataclass(frozen=True, slots=True)
class Location:
    """A line of a file as typed, from 1."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


def parse_location(text: str) -> Location:
    """Read ``path:line``.

    Raises:
        LocationError: the text has another form.
    """
    found = _LOCATION.fullmatch(text)
    if found is None:
        raise LocationError(f"{text!r} names no row: give PATH:LINE as grep -n prints it")
    if int(found["line"]) == 0:
        raise LocationError(f"{text}: lines are counted from 1")
    return Location(found["path"], int(found["line"]))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Items of one partition as rows of a file.

    ``path``: as the engine wrote it, without ``file:``. ``lines``: uint64, from 1, or None when
    they can't be told. ``texts``: one for each row asked for, None where it can't be read.
    ``changed``: the file is not as it was. ``note``: why lines or texts are missing, or what else
    is to be known; empty if nothing.
    """

    path: str
    lines: U64 | None
    texts: Sequence[str | None]
    changed: bool
    note: str = ""


@dataclass(slots=True)
class _SourceFile:
    """The splits of one file, in order."""

    splits: list[SplitRecord]
    starts: dict[int, int] = field(default_factory=dict)
    """Rows of the file before each split that they are known for, by index in ``splits``."""


class Locations:
    """Rows of the files that one application read and wrote."""

    def __init__(self, graph: FlowGraph, reader: RowReader) -> None:
        self._graph = graph
        self._reader = reader
        self._sources: dict[str, dict[str, _SourceFile]] = {}
        self._sinks: dict[str, dict[str, SinkFileRecord]] = {}
        self._states: dict[str, FileState | None] = {}
        self._kinds = {node.node: node.kind for node in graph.nodes()}

    def look_again(self) -> None:
        """Forget which files are as they were: between two questions they may change."""
        self._states.clear()

    def items_at(self, node: str, path: str, line: int) -> dict[str, Region]:
        """The items of a node on a line of a canonical path; empty when it has no such file.

        Raises:
            LocationError: the file has no such line.
            RowsError: rows must be counted in the file, and it can't be read.
        """
        file = self._sinks_of(node).get(path)
        if file is not None:
            row = _sink_row(file, line)
            if file.rows is not None and row >= file.rows:
                has = _counted(_last_line(file), "line")
                raise LocationError(f"{path} has {has}; there is no line {line}")
            return {f"{node}#{file.partition}": Region.from_positions([row])}
        source = self._sources_of(node).get(path)
        if source is None:
            return {}
        rows = range(line - 1, line)
        if not self._changed(source.splits[0]) and self._readable(path):
            rows = self._reader.rows_of_line(path, line)
        found: dict[str, list[int]] = {}
        for row in rows:
            split, ordinal = self._split_of(source, row)
            found.setdefault(f"{node}#{split.partition}", []).append(ordinal)
        if not found:
            raise LocationError(f"{path} has no line {line}")
        return {space: Region.from_positions(ordinals) for space, ordinals in found.items()}

    def check(self, space: str, region: Region, shown: str) -> None:
        """Refuse items that a partition of a file is known not to have; ``shown``: the space.

        Raises:
            LocationError: there are no such items.
        """
        name = parse_space(space)
        files = {file.partition: file.rows for file in self._sinks_of(name.name).values()}
        for source in self._sources_of(name.name).values():
            files |= {split.partition: split.rows for split in source.splits}
        if not files or name.incarnation is not None or not region.count:
            return
        if name.partition not in files:
            raise LocationError(f"there is no {shown}: no such partition was read or written")
        rows, last = files[name.partition], int(region.last[-1])
        if rows is not None and last >= rows:
            has = _counted(rows, "row")
            raise LocationError(f"{shown} has {has}, counted from 0; there is no {shown}#{last}")

    def rows_of(self, space: str, region: Region, *, texts: bool = True) -> Rows | None:
        """Items of a partition as rows of its file; None when they lie in no file."""
        name = parse_space(space)
        if name.incarnation is not None:
            return None
        positions = region.positions()
        for file in self._sinks_of(name.name).values():
            if file.partition == name.partition:
                return self._sink_rows(file, positions, texts=texts)
        for path, source in self._sources_of(name.name).items():
            for at, split in enumerate(source.splits):
                if split.partition == name.partition:
                    return self._source_rows(path, source, at, positions, texts=texts)
        return None

    def is_gone(self, path: str) -> bool:
        """Whether there is no such file any more."""
        try:
            return state_of(canonical(path)) is None
        except RowsError:
            return False

    def _sink_rows(self, file: SinkFileRecord, rows: U64, *, texts: bool) -> Rows:
        path = canonical(file.path)
        first, last = _sink_lines(file, rows)
        changed = self._changed(file)
        read: Sequence[str | None] = [None] * len(rows)
        note = ""
        if texts:
            try:
                read = self._reader.lines(path, first, last)
            except RowsError as error:
                note = str(error)
        return Rows(plain_path(file.path), first, read, changed, note)

    def _source_rows(
        self, path: str, source: _SourceFile, at: int, ordinals: U64, *, texts: bool
    ) -> Rows:
        changed = self._changed(source.splits[at])
        named = plain_path(source.splits[at].path)
        unread: list[str | None] = [None] * len(ordinals)
        try:
            rows = ordinals + np.uint64(self._rows_before(path, source, at))
        except RowsError as error:
            return Rows(named, None, unread, changed, str(error))
        try:
            lines = self._reader.lines_of_rows(path, rows)
            read = self._reader.rows(path, rows) if texts else unread
            lone = self._reader.index(path).lone_returns
        except RowsError as error:
            return Rows(named, rows + np.uint64(1), unread, changed, str(error))
        note = f"{path} holds carriage returns that end rows but no lines" if lone else ""
        return Rows(named, lines, read, changed, note)

    def _rows_before(self, path: str, source: _SourceFile, at: int) -> int:
        """Rows of the file before its ``at``-th split.

        Raises:
            RowsError: they have to be counted in the file, and can't be.
        """
        if at == 0:
            return 0
        if at not in source.starts:
            before = source.splits[at - 1]
            rows = before.rows
            if rows is None:
                if self._changed(before):
                    raise RowsError(f"{path} has changed: its rows can't be counted any more")
                rows = self._reader.rows_in_split(path, before.start, before.length)
            source.starts[at] = self._rows_before(path, source, at - 1) + rows
        return source.starts[at]

    def _split_of(self, source: _SourceFile, row: int) -> tuple[SplitRecord, int]:
        path = canonical(source.splits[0].path)
        last = len(source.splits) - 1
        at = 0
        while at < last and self._rows_before(path, source, at + 1) <= row:
            at += 1
        split = source.splits[at]
        ordinal = row - self._rows_before(path, source, at)
        if split.rows is not None and ordinal >= split.rows:
            rows = row - ordinal + split.rows
            had = _counted(rows, "line")
            raise LocationError(f"{path} had {had} when it was read; there is no line {row + 1}")
        return split, ordinal

    def _readable(self, path: str) -> bool:
        try:
            self._reader.index(path)
        except RowsError:
            return False
        return True

    def _changed(self, noted: SplitRecord | SinkFileRecord) -> bool:
        path = canonical(noted.path)
        if path not in self._states:
            try:
                self._states[path] = state_of(path)
            except RowsError:
                self._states[path] = None
        state = self._states[path]
        size = noted.file_size if isinstance(noted, SplitRecord) else noted.size
        return state is None or not state.is_still(size, noted.mtime)

    def _sources_of(self, node: str) -> dict[str, _SourceFile]:
        if node not in self._sources:
            files: dict[str, _SourceFile] = {}
            if self._kinds.get(node) == "source":
                for split in self._graph.splits(node):
                    files.setdefault(canonical(split.path), _SourceFile([])).splits.append(split)
            for file in files.values():
                file.splits.sort(key=lambda split: (split.start, split.partition))
            self._sources[node] = files
        return self._sources[node]

    def _sinks_of(self, node: str) -> dict[str, SinkFileRecord]:
        if node not in self._sinks:
            is_sink = self._kinds.get(node) == "sink"
            files = self._graph.sink_files(node) if is_sink else ()
            self._sinks[node] = {canonical(file.path): file for file in files}
        return self._sinks[node]


def _sink_lines(file: SinkFileRecord, rows: U64) -> tuple[U64, U64]:
    """First and last line (from 1) of each row of an output file."""
    one = np.uint64(1)
    if not file.newlines:
        return rows + one, rows + one
    at = np.array([row for row, _ in file.newlines], np.uint64)
    extra = np.array([count for _, count in file.newlines], np.uint64)
    before = np.concatenate((np.zeros(1, np.uint64), np.cumsum(extra, dtype=np.uint64)))
    first = rows + one + before[np.searchsorted(at, rows, side="left")]
    last = rows + one + before[np.searchsorted(at, rows, side="right")]
    return first, last


def _sink_row(file: SinkFileRecord, line: int) -> int:
    """The row of an output file that a line (from 1) belongs to."""
    before = 0
    for row, extra in file.newlines:
        if row + 1 + before > line:
            break
        before += extra
        if line <= row + 1 + before:
            return row
    return line - 1 - before


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _last_line(file: SinkFileRecord) -> int:
    return (file.rows or 0) + sum(extra for _, extra in file.newlines)
