"""From places in files to items and back.

A source row's line is its ordinal in its split, plus the rows of the splits before it, plus one.
A sink row's line is its ordinal, plus the newlines written before it, plus one. Where a file holds
a lone carriage return, rows and lines differ: they are then counted in the file itself. Records
that are no lines are counted from 0, and in no file: it is not known how they lie in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lineage_core.address import parse_space
from lineage_core.block import U64
from lineage_core.graph import FlowGraph, SinkFileRecord, SplitRecord, Unit
from lineage_core.region import Region
from lineage_store.paths import FileState, RowsError, canonical, plain_path
from lineage_store.places import Location, LocationError, shown
from lineage_store.rows import ForbiddenRowsError, RowReader


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Items of one partition in a file.

    ``positions``: uint64, which items. ``path``: as the engine wrote it, without ``file:``.
    ``numbers``: uint64, lines from 1 or records from 0, or None when they can't be told (and of
    files as a whole). ``texts``: one for each row asked for, None where it can't be read.
    ``changed``: the file is not as it was. ``note``: why lines or texts are missing, or what else
    is to be known; empty if nothing.
    """

    positions: U64
    path: str
    unit: Unit
    numbers: U64 | None
    texts: Sequence[str | None]
    changed: bool
    note: str = ""

    def places(self, path: str) -> list[str | None]:
        """Each item as people read it, with the file called ``path``."""
        if self.unit == "file":
            return [path] * len(self.positions)
        if self.numbers is None:
            return [None] * len(self.positions)
        return [shown(path, number, self.unit) for number in self.numbers.tolist()]


@dataclass(slots=True)
class _SourceFile:
    """The parts of one file, in order, each with the splits that read it: mostly one."""

    path: str
    parts: list[list[SplitRecord]]
    starts: dict[int, int] = field(default_factory=dict)
    """Rows of the file before each part that they are known for, by index in ``parts``."""

    @property
    def first(self) -> SplitRecord:
        """One that reads the file from its beginning."""
        return self.parts[0][0]

    def rows_of(self, at: int) -> int | None:
        """Rows of a part, if some task counted them."""
        return next((split.rows for split in self.parts[at] if split.rows is not None), None)


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one partition of a source reads of a file: its ``at``-th part."""

    split: SplitRecord
    file: _SourceFile
    at: int


class Locations:
    """Rows of the files that one application read and wrote."""

    def __init__(self, graph: FlowGraph, reader: RowReader) -> None:
        self._graph = graph
        self._reader = reader
        self._sources: dict[str, dict[str, _SourceFile]] = {}
        self._pieces: dict[str, dict[int, list[_Piece]]] = {}
        self._sinks: dict[str, dict[str, SinkFileRecord]] = {}
        self._states: dict[str, FileState | None] = {}
        self._kinds = {node.node: node.kind for node in graph.nodes()}

    def look_again(self) -> None:
        """Forget which files are as they were: between two questions they may change."""
        self._states.clear()

    def unit(self, node: str, path: str) -> Unit | None:
        """What items of a node are of a file (its canonical path); None when it has no such file."""
        written = self._sinks_of(node).get(path)
        if written is not None:
            return written.unit
        read = self._sources_of(node).get(path)
        return None if read is None else read.first.unit

    def items_at(self, node: str, place: Location) -> dict[str, Region]:
        """The items of a node at a place with a canonical path; empty when it has no such file.

        Raises:
            LocationError: the file has no such row.
            RowsError: rows must be counted in the file, and it can't be read.
        """
        file = self._sinks_of(node).get(place.path)
        if file is not None:
            row = _sink_row(file, place)
            if file.rows is not None and row >= file.rows:
                raise LocationError(_past_the_end(file, place))
            return {f"{node}#{file.partition}": Region.from_positions([row])}
        source = self._sources_of(node).get(place.path)
        if source is None:
            return {}
        found: dict[str, list[int]] = {}
        for split, ordinal in self._splits_at(source, place):
            found.setdefault(f"{node}#{split.partition}", []).append(ordinal)
        if not found:
            raise LocationError(f"{place.path} has no {place.unit} {place.number}")
        return {space: Region.from_positions(ordinals) for space, ordinals in found.items()}

    def check(self, space: str, region: Region, shown: str) -> None:
        """Refuse items that a partition of a file is known not to have; ``shown``: the space.

        Raises:
            LocationError: there are no such items.
        """
        name = parse_space(space)
        rows_of = {file.partition: file.rows for file in self._sinks_of(name.name).values()}
        rows_of |= {at: _rows_in(pieces) for at, pieces in self._pieces_of(name.name).items()}
        if not rows_of or name.incarnation is not None or not region.count:
            return
        if name.partition not in rows_of:
            raise LocationError(f"there is no {shown}: no such partition was read or written")
        rows, last = rows_of[name.partition], int(region.last[-1])
        if rows is not None and last >= rows:
            has = _counted(rows, "row")
            raise LocationError(f"{shown} has {has}, counted from 0; there is no {shown}#{last}")

    def rows_of(self, space: str, region: Region, *, texts: bool = True) -> list[Rows]:
        """Items of a partition as rows of files, in order; none when they lie in no file."""
        name = parse_space(space)
        if name.incarnation is not None:
            return []
        positions = region.positions()
        for file in self._sinks_of(name.name).values():
            if file.partition == name.partition:
                return [self._sink_rows(file, positions, texts=texts)]
        pieces = self._pieces_of(name.name).get(name.partition, [])
        if pieces and pieces[0].split.unit == "file":
            return self._whole_files(pieces, positions)
        return [self._source_rows(piece, positions, texts=texts) for piece in pieces[:1]]

    def partitions(self, node: str) -> dict[int, int | None]:
        """Rows of each partition of a source or sink; None where they are not known."""
        files = self._sinks_of(node).values()
        if files:
            return {file.partition: file.rows for file in files}
        return {at: _rows_in(pieces) for at, pieces in self._pieces_of(node).items()}

    def is_gone(self, path: str) -> bool:
        """Whether there is no such file any more."""
        try:
            return self._reader.state(canonical(path)) is None
        except RowsError:
            return False

    def _sink_rows(self, file: SinkFileRecord, rows: U64, *, texts: bool) -> Rows:
        path, named = canonical(file.path), plain_path(file.path)
        changed = self._changed(file)
        read: Sequence[str | None] = [None] * len(rows)
        if file.unit != "line":
            read, note = self._records(path, rows, texts=texts and not changed)
            return Rows(rows, named, file.unit, rows, read, changed, note)
        first, last = _sink_lines(file, rows)
        note = ""
        if texts:
            try:
                read = self._reader.lines(path, first, last)
            except RowsError as error:
                note = str(error)
        return Rows(rows, named, "line", first, read, changed, note)

    def _whole_files(self, pieces: Sequence[_Piece], positions: U64) -> list[Rows]:
        files = {piece.split.row: piece.split for piece in pieces}
        found = []
        for position in positions.tolist():
            split, one = files.get(position), np.array([position], np.uint64)
            if split is None:
                found.append(Rows(one, "", "line", None, [None], changed=False))
            else:
                changed = self._changed(split)
                found.append(Rows(one, plain_path(split.path), "file", None, [None], changed))
        return found

    def _source_rows(self, piece: _Piece, ordinals: U64, *, texts: bool) -> Rows:
        path, unit = piece.file.path, piece.split.unit
        changed = self._changed(piece.split)
        named = plain_path(piece.split.path)
        unread: list[str | None] = [None] * len(ordinals)
        try:
            rows = ordinals + np.uint64(self._rows_before(piece.file, piece.at))
        except RowsError as error:
            return Rows(ordinals, named, unit, None, unread, changed, str(error))
        if unit != "line":
            read, note = self._records(path, rows, texts=texts and not changed)
            return Rows(ordinals, named, unit, rows, read, changed, note)
        try:
            lines = self._reader.lines_of_rows(path, rows)
            read = self._reader.rows(path, rows) if texts else unread
            lone = self._reader.index(path).lone_returns
        except RowsError as error:
            return Rows(ordinals, named, unit, rows + np.uint64(1), unread, changed, str(error))
        note = f"{path} holds carriage returns that end rows but no lines" if lone else ""
        return Rows(ordinals, named, unit, lines, read, changed, note)

    def _records(self, path: str, rows: U64, *, texts: bool) -> tuple[Sequence[str | None], str]:
        """Texts of records, and why there are none where they can't be read."""
        unread: list[str | None] = [None] * len(rows)
        if not texts:
            return unread, ""
        try:
            return self._reader.records(path, rows), ""
        except RowsError as error:
            return unread, str(error)

    def _rows_before(self, source: _SourceFile, at: int) -> int:
        """Rows of the file before its ``at``-th part.

        Raises:
            RowsError: they have to be counted in the file, and can't be.
        """
        first = source.parts[at][0].first
        if at == 0 or first is not None:
            return first or 0
        if at not in source.starts:
            rows = source.rows_of(at - 1)
            if rows is None:
                rows = self._counted_rows(source, source.parts[at - 1][0])
            source.starts[at] = self._rows_before(source, at - 1) + rows
        return source.starts[at]

    def _counted_rows(self, source: _SourceFile, before: SplitRecord) -> int:
        if before.unit != "line":
            raise RowsError(f"{source.path}: records before these were not all read, nor counted")
        if self._changed(before):
            raise RowsError(f"{source.path} has changed: its rows can't be counted any more")
        return self._reader.rows_in_split(source.path, before.start, before.length)

    def _splits_at(self, source: _SourceFile, place: Location) -> Iterable[tuple[SplitRecord, int]]:
        """Splits that a place lies in, with its ordinal in each."""
        if place.number is None:
            return [(split, split.row) for part in source.parts for split in part]
        rows = range(place.number, place.number + 1)
        if place.unit == "line":
            rows = range(place.number - 1, place.number)
            if not self._changed(source.first) and self._readable(source.path):
                rows = self._reader.rows_of_line(source.path, place.number)
        return [found for row in rows for found in self._splits_of(source, row)]

    def _splits_of(self, source: _SourceFile, row: int) -> Iterable[tuple[SplitRecord, int]]:
        last = len(source.parts) - 1
        at = 0
        while at < last and self._rows_before(source, at + 1) <= row:
            at += 1
        ordinal = row - self._rows_before(source, at)
        rows = source.rows_of(at)
        if rows is not None and ordinal >= rows:
            unit, said = source.first.unit, row + (source.first.unit == "line")
            had = _counted(row - ordinal + rows, unit)
            raise LocationError(
                f"{source.path} had {had} when it was read; there is no {unit} {said}"
            )
        return [(split, ordinal) for split in source.parts[at]]

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
                self._states[path] = self._reader.state(path)
            except ForbiddenRowsError:
                return False
            except RowsError:
                self._states[path] = None
        state = self._states[path]
        size = noted.file_size if isinstance(noted, SplitRecord) else noted.size
        return state is None or not state.is_still(size, noted.mtime)

    def _sources_of(self, node: str) -> dict[str, _SourceFile]:
        if node not in self._sources:
            files: dict[str, dict[int, list[SplitRecord]]] = {}
            if self._kinds.get(node) == "source":
                for split in self._graph.splits(node):
                    parts = files.setdefault(canonical(split.path), {})
                    parts.setdefault(split.start, []).append(split)
            self._sources[node] = {
                path: _SourceFile(path, [parts[start] for start in sorted(parts)])
                for path, parts in files.items()
            }
        return self._sources[node]

    def _pieces_of(self, node: str) -> dict[int, list[_Piece]]:
        """What each partition of a source reads."""
        if node not in self._pieces:
            found = self._pieces[node] = {}
            for file in self._sources_of(node).values():
                for at, part in enumerate(file.parts):
                    for split in part:
                        found.setdefault(split.partition, []).append(_Piece(split, file, at))
        return self._pieces[node]

    def _sinks_of(self, node: str) -> dict[str, SinkFileRecord]:
        if node not in self._sinks:
            is_sink = self._kinds.get(node) == "sink"
            files = self._graph.sink_files(node) if is_sink else ()
            self._sinks[node] = {canonical(file.path): file for file in files}
        return self._sinks[node]


def _rows_in(pieces: Sequence[_Piece]) -> int | None:
    """Rows of a partition, if they are known."""
    rows = [piece.split.rows for piece in pieces]
    return None if None in rows else sum(one or 0 for one in rows)


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


def _sink_row(file: SinkFileRecord, place: Location) -> int:
    """The row of an output file that a place in it belongs to."""
    number = place.number or 0
    if place.unit != "line":
        return number
    before = 0
    for row, extra in file.newlines:
        if row + 1 + before > number:
            break
        before += extra
        if number <= row + 1 + before:
            return row
    return number - 1 - before


def _past_the_end(file: SinkFileRecord, place: Location) -> str:
    count = file.rows or 0
    if place.unit == "line":
        count += sum(extra for _, extra in file.newlines)
    has = _counted(count, place.unit) + (", counted from 0" if place.unit == "record" else "")
    return f"{place.path} has {has}; there is no {place.unit} {place.number}"


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
