"""From places in files to items and back.

A source row's line is its ordinal in its split, plus the rows of the splits before it, plus one.
A sink row's line is its ordinal, plus the newlines written before it, plus one. Where a file holds
a lone carriage return, rows and lines differ: they are then counted in the file itself. Records
that are no lines are counted from 0, and in no file: it is not known how they lie in it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from itertools import compress
from typing import TypeAlias, TypeVar

import numpy as np

from lineage_core.contract.address import POSITION_MAX, SpaceKind, parse_space
from lineage_core.contract.block import U64
from lineage_core.contract.graph import FlowGraph, SinkFileRecord, SplitRecord, Unit
from lineage_core.contract.positions import is_file_node
from lineage_core.contract.region import Region
from lineage_core.contract.row_sums import BLOCK_ROWS, sums_in
from lineage_core.tracing.budget import current_budget
from lineage_query.blocks import input_region, output_region
from lineage_query.rows.bound_rows import InFile, LocatedRows
from lineage_query.rows.file_status import (
    CurrentState,
    FileStatus,
    by_state,
    current_state,
    has_changed,
    worst,
)
from lineage_query.rows.line_bytes import LineBytes, lines_in_bytes
from lineage_query.rows.places import Location, LocationError, PastTheEndError
from lineage_query.rows.reader import RowReader
from lineage_query.rows.sink_rows import count_text, past_the_end, sink_lines, sink_row
from lineage_store.paths import RowsError, Spellings, plain_path

ROWS_MAX = POSITION_MAX // 2
"""Maximum number of rows of a file: those before a part and a position in it are still a position."""
TRIES = 3
"""Maximum number of attempts to read a file that changes while it is read."""
_BYTES_AND = ({"byte", "line"}, {"byte", "file"})
"""Units of which one can be told by the other."""
COMPARED_MAX = 1 << 30
"""Maximum size of a file that is read completely to check whether only its time has changed: takes a few seconds."""
T = TypeVar("T")
_Texts: TypeAlias = Sequence[str | None]
_FileThen: TypeAlias = tuple[str, str, int, float]
"""A file version that a node recorded: node, canonical path, size, modification time."""


@dataclass(slots=True)
class _SourceFile:
    """The parts of one file, in order, each with the splits that read it: usually one."""

    path: str
    parts: list[list[SplitRecord]]
    starts: dict[int, int] = field(default_factory=dict)
    """The number of rows before each part, where known, by index in ``parts``."""

    @property
    def first(self) -> SplitRecord:
        """One that reads the file from its beginning."""
        return self.parts[0][0]

    def rows_of(self, at: int) -> int | None:
        """Rows of a part, if some task counted them."""
        return next((split.rows for split in self.parts[at] if split.rows is not None), None)


@dataclass(frozen=True, slots=True)
class FilePart:
    """Where items of a partition lie: some rows of one file.

    ``canonical_path`` and ``path``: of the file, the latter as people write it. ``split``: the first byte and the number of bytes
    of the split that the items were read in; None where the file is not divided (a written file, a file that is one item).
    ``items``: their positions. ``rows``: their numbers in the file, in its unit; None where rows before the split can't be
    counted. ``size`` and ``mtime``: the version of the file.
    """

    canonical_path: str
    path: str
    unit: Unit
    size: int
    mtime: float
    items: Region
    rows: Region | None
    split: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class _Piece:
    """What one partition of a source reads of a file: its ``at``-th part."""

    split: SplitRecord
    file: _SourceFile
    at: int


class Locations:
    """Rows of the files that one application read and wrote.

    The state of a file is read once and cached: take :meth:`as_now` for every answer.
    """

    def __init__(self, graph: FlowGraph, reader: RowReader) -> None:
        self._graph = graph
        self._reader = reader
        self._sources: dict[str, dict[str, _SourceFile]] = {}
        self._pieces: dict[str, dict[int, list[_Piece]]] = {}
        self._sinks: dict[str, dict[str, SinkFileRecord]] = {}
        self._states: dict[str, CurrentState] = {}
        self._file_statuses: dict[_FileThen, FileStatus] = {}
        self._spellings = Spellings()
        self._files: dict[str, dict[str, list[SplitRecord | SinkFileRecord]]] = {}
        self._kinds = {node.node: node.kind for node in graph.nodes()}

    def as_now(self, spellings: Spellings | None = None) -> Locations:
        """A copy that reads the state of every file again. ``spellings``: the links already resolved for this query."""
        now = copy(self)
        now._states, now._file_statuses, now._spellings = {}, {}, spellings or Spellings()
        return now

    def spelled(self, path: str) -> str:
        """The canonical path of a file, resolved at the first call."""
        return self._spellings.of(path)

    def unit(self, node: str, path: str) -> Unit | None:
        """The unit of a file (its canonical path) that an item of a node is; None if the node has no such file."""
        written = self._sinks_of(node).get(path)
        if written is not None:
            return written.unit
        read = self._sources_of(node).get(path)
        return None if read is None else read.first.unit

    def items_at(self, node: str, location: Location) -> dict[str, Region]:
        """The items of a node at a place with a canonical path; empty when it has no such file.

        A line of a file of whose bytes a node used some is the bytes of its text, and bytes of a file of lines are these lines.

        Raises:
            LocationError: the file has no such row.
            RowsError: rows must be counted in the file, and it can't be read or is another version.
            TooMuchError: bytes are of more lines than a query may name.
        """
        if is_file_node(node):
            return self._bytes_at(node, location)
        if location.unit == "byte":
            return self._lines_at(node, location)
        file = self._sinks_of(node).get(location.path)
        if file is not None:
            row = sink_row(file, location)
            if file.rows is not None and row >= file.rows:
                raise PastTheEndError(past_the_end(file, location))
            return {f"{node}#{file.partition}": Region.from_positions([row])}
        source = self._sources_of(node).get(location.path)
        if source is None:
            return {}
        ordinals_by_space: dict[str, list[int]] = {}
        for split, ordinal in self._splits_at(source, location):
            ordinals_by_space.setdefault(f"{node}#{split.partition}", []).append(ordinal)
        if not ordinals_by_space:
            raise PastTheEndError(f"{location.path} has no {location.unit} {location.number}")
        return {
            space: Region.from_positions(ordinals) for space, ordinals in ordinals_by_space.items()
        }

    def names(self, node: str, location: Location) -> bool:
        """Whether a place with a canonical path may name items of a node.

        Either both count the file in one unit, or one of them in bytes and the other in lines or as a whole.
        """
        unit = self.unit(node, location.path)
        return unit == location.unit or {unit, location.unit} in _BYTES_AND

    def lines_at(self, node: str, location: Location) -> list[int]:
        """The lines, from 1, that bytes of a file of a node are of: of the version that it read or wrote.

        Args:
            node: also one whose rows are not items.
            location: of bytes, with a canonical path.

        Raises:
            RowsError: the file is another version now, or can't be read.
            LocationError: the file has no such bytes.
            TooMuchError: there are more than a query may name.
        """
        first, length = location.split or (0, 0)
        region, wrote = _range(first, first + length - 1), self._wrote(node, location.path)
        found = self._in_lines(
            node, location.path, lambda lines: lines.lines_of(region), written=wrote
        )
        if wrote and not found:
            raise PastTheEndError(f"{location.path} has no such bytes: {location}")
        return found

    def _wrote(self, node: str, path: str) -> bool:
        return any(isinstance(of, SinkFileRecord) for of in self._files_of(node).get(path, ()))

    def _in_lines(
        self, node: str, path: str, find: Callable[[LineBytes], T], *, written: bool
    ) -> T:
        file_status = self.file_status(node, path)
        if has_changed(file_status) or file_status == "unknown":
            raise RowsError(
                f"{path} is not there as it was read or written: which bytes its lines are is not known"
            )
        with lines_in_bytes(self._reader, path, written=written) as lines:
            return find(lines)

    def _lines_at(self, node: str, location: Location) -> dict[str, Region]:
        unit = self.unit(node, location.path)
        if unit == "file":
            return self.items_at(node, Location(location.path, None, "file"))
        if unit != "line":
            return {}
        regions: dict[str, list[Region]] = {}
        for line in self.lines_at(node, location):
            for space, region in self.items_at(node, Location(location.path, line)).items():
                regions.setdefault(space, []).append(region)
        return {space: Region.union(of_space) for space, of_space in regions.items()}

    def _bytes_at(self, node: str, location: Location) -> dict[str, Region]:
        if self.unit(node, location.path) is None:
            return {}
        if location.split is not None:
            first, length = location.split
            return {f"{node}#0": _range(first, first + length - 1)}
        if location.number is None:
            size = max(size for size, _ in self.versions(node, location.path))
            return {f"{node}#0": _range(0, size - 1)} if size else {}
        line = location.number or 0
        # The lines are those of the application at the other end.
        written = not self._wrote(node, location.path)
        region = self._in_lines(
            node, location.path, lambda lines: lines.bytes_of([line]), written=written
        )
        if not region:
            raise PastTheEndError(f"{location.path} has no line {location.number}")
        return {f"{node}#0": region}

    def bytes_used(self, node: str, *, wrote: bool) -> Region:
        """The bytes of a file that the tasks of an application wrote, or read; ``node``: the file."""
        return self._all_items(f"{node}#0", None, read=not wrote)

    def _part_in(self, node: str, location: Location) -> dict[str, Region]:
        """The bytes of a file that an application used, or of a part of it."""
        if self.unit(node, location.path) is None:
            return {}
        used = self.bytes_used(node, wrote=self._wrote(node, location.path))
        if location.split is None:
            return {f"{node}#0": used}
        first, length = location.split
        part = _range(first, first + length - 1)
        if not used & part:
            raise LocationError(f"{location}: no lineage of these bytes was recorded")
        return {f"{node}#0": used & part}

    def items_in(self, node: str, location: Location) -> dict[str, Region]:
        """All items of a node in a file (a place without a number, with a canonical path), or in one of its splits.

        Of a split whose rows no task counted, they are those that lineage was recorded of: a task may have read a part of it.

        Raises:
            LocationError: the file has no such split, or no lineage of these bytes was recorded.
        """
        if is_file_node(node):
            return self._part_in(node, location)
        file = self._sinks_of(node).get(location.path)
        if file is not None:
            if location.split is not None:
                raise LocationError(f"{location}: a written file has no splits: name the file")
            return {
                f"{node}#{file.partition}": self._all_items(f"{node}#{file.partition}", file.rows)
            }
        source = self._sources_of(node).get(location.path)
        if source is None:
            return {}
        items: dict[str, Region] = {}
        for split in (split for part in source.parts for split in part):
            current_budget().check()
            if location.split not in (None, (split.start, split.length)):
                continue
            space = f"{node}#{split.partition}"
            region = (
                Region.from_positions([split.row])
                if split.unit == "file"
                else self._all_items(space, split.rows, read=True)
            )
            items[space] = items[space] | region if space in items else region
        return items

    def _all_items(self, space: str, rows: int | None, *, read: bool = False) -> Region:
        """All items of a partition. ``rows``: how many there are, if known; ``read``: of a source."""
        if rows is not None:
            return _range(0, rows - 1) if rows else Region()
        find = self._graph.blocks_from if read else self._graph.blocks_into
        refs = find(space, 0, POSITION_MAX)
        return (input_region if read else output_region)(self._graph, space, refs)

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
            has = count_text(rows, "row")
            raise LocationError(f"{shown} has {has}, counted from 0; there is no {shown}#{last}")

    def rows_of(self, space: str, region: Region, *, texts: bool = True) -> list[LocatedRows]:
        """Items of a partition as rows of files, in order; none when they lie in no file."""
        name = parse_space(space)
        if name.incarnation is not None:
            return []
        positions = region.positions()
        for file in self._sinks_of(name.name).values():
            if file.partition == name.partition and file.unit == "byte":
                return [self._bytes_in(file, positions)]
            if file.partition == name.partition:
                return [self._sink_rows(file, positions, texts=texts)]
        pieces = self._pieces_of(name.name).get(name.partition, [])
        if pieces and pieces[0].split.unit == "byte":
            return [self._bytes_in(pieces[0].split, positions)]
        if pieces and pieces[0].split.unit == "file":
            return self._unsplit_file_rows(pieces, positions)
        return [self._source_rows(piece, positions, texts=texts) for piece in pieces[:1]]

    def _bytes_in(self, of: SplitRecord | SinkFileRecord, positions: U64) -> LocatedRows:
        return self._in_file(of).rows(positions, positions, [None] * len(positions))

    def parts_of(self, space: str, region: Region) -> Iterator[FilePart]:
        """The files that items of a partition lie in, without listing the items; none when they lie in no file."""
        name = parse_space(space)
        if name.incarnation is not None or name.kind is not SpaceKind.PARTITION or not region:
            return
        for file in self._sinks_of(name.name).values():
            if file.partition == name.partition:
                path = self._spellings.of(file.path)
                yield FilePart(
                    path, plain_path(file.path), file.unit, file.size, file.mtime, region, region
                )
                return
        pieces = self._pieces_of(name.name).get(name.partition, [])
        if pieces and pieces[0].split.unit == "file":
            yield from self._whole_files(pieces, region)
            return
        for piece in pieces[:1]:
            if piece.split.unit == "byte":
                split, path = piece.split, plain_path(piece.split.path)
                yield FilePart(
                    piece.file.path, path, "byte", split.file_size, split.mtime, region, region
                )
            else:
                yield self._part_of(piece, region)

    def _whole_files(self, pieces: Sequence[_Piece], region: Region) -> Iterator[FilePart]:
        whole = Region.from_positions([0])
        pieces_by_row = {piece.split.row: piece for piece in pieces}
        is_among = region.contains(np.fromiter(pieces_by_row, np.uint64))
        for row, piece in compress(pieces_by_row.items(), is_among.tolist()):
            current_budget().check()
            split, item = piece.split, Region.from_positions([row])
            path = plain_path(split.path)
            yield FilePart(
                piece.file.path, path, split.unit, split.file_size, split.mtime, item, whole
            )

    def _part_of(self, piece: _Piece, region: Region) -> FilePart:
        split, rows = piece.split, None
        with suppress(RowsError):
            before = np.uint64(self._rows_before(piece.file, piece.at))
            rows = Region(region.first + before, region.last + before)
        return FilePart(
            piece.file.path,
            plain_path(split.path),
            split.unit,
            split.file_size,
            split.mtime,
            region,
            rows,
            (split.start, split.length),
        )

    def recorded_paths(self, node: str) -> dict[str, list[str]]:
        """The files that a node read or wrote: their paths as recorded, by canonical path."""
        return {
            path: list(dict.fromkeys(record.path for record in records))
            for path, records in self._files_of(node).items()
        }

    def versions(self, node: str, path: str) -> frozenset[tuple[int, float]]:
        """Sizes and modification times of a file (its canonical path) that a node recorded."""
        files = self._files_of(node).get(path, ())
        return frozenset((_size_of(record), record.mtime) for record in files)

    def partitions(self, node: str) -> dict[int, int | None]:
        """Rows of each partition of a source or sink; None where they are not known."""
        files = self._sinks_of(node).values()
        if files:
            return {file.partition: file.rows for file in files}
        return {at: _rows_in(pieces) for at, pieces in self._pieces_of(node).items()}

    def row_count(self, node: str, path: str) -> int | None:
        """How many rows of a file (its canonical path) a node read or wrote; None where that is not known."""
        file = self._sinks_of(node).get(path)
        if file is not None:
            return file.rows
        source = self._sources_of(node).get(path)
        if source is None:
            return None
        counts = [source.rows_of(at) for at in range(len(source.parts))]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def file_status(self, node: str, path: str) -> FileStatus:
        """The status of a file (its canonical path), compared with the version that a node read or wrote."""
        return worst({self._file_status(record) for record in self._files_of(node).get(path, ())})

    def is_undecided(self, node: str, path: str) -> bool:
        """Whether the content of a file of which only the modification time differs can't be compared with the recorded one.

        ``path``: canonical.
        """
        files = self._files_of(node).get(path, ())
        if all(record.checksum for record in files):
            return any(_size_of(record) > COMPARED_MAX for record in files)
        source = self._sources_of(node).get(path)
        if source is None:
            return True
        try:
            return all(
                self._is_summed(path, split, start)
                for part, start in self._counted_parts(source)
                if start is not None
                for split in part
            )
        except RowsError:
            return True

    def file_statuses(self, node: str) -> dict[str, FileStatus]:
        """The status of each file of a node, compared with the version that the node read or wrote."""
        return {path: self.file_status(node, path) for path in self._files_of(node)}

    def has_splits(self, node: str, partitions: Collection[int]) -> FileStatus:
        """The status of the splits that partitions of a source read, compared with the current files."""
        statuses: set[FileStatus] = set()
        for file in self._sources_of(node).values():
            for at, part in enumerate(file.parts):
                splits = [split for split in part if split.partition in partitions]
                statuses |= {self._split_status(file, at, split) for split in splits}
        return worst(statuses)

    def _split_status(self, file: _SourceFile, at: int, split: SplitRecord) -> FileStatus:
        file_status = self._file_status(split)
        if file_status != "same" or not split.summed:
            return file_status
        try:
            start = self._rows_before(file, at)
            return file_status if self._is_summed(file.path, split, start) else "changed"
        except RowsError:
            return "unknown"

    def _sink_rows(self, file: SinkFileRecord, rows: U64, *, texts: bool) -> LocatedRows:
        path = self._spellings.of(file.path)
        if file.unit != "line":
            read, note = self._records(path, file, rows, texts=texts)
            return self._in_file(file).rows(rows, rows, read, note)
        first, last = sink_lines(file, rows)
        unread: list[str | None] = [None] * len(rows)
        if not texts:
            return self._in_file(file).rows(rows, first, unread, last_numbers=last)

        def read_lines() -> tuple[_Texts, list[bool | None]]:
            return self._reader.lines(path, first, last), [None] * len(rows)

        try:
            read, checked, file_status = self._read_unchanged(file, read_lines)
        except RowsError as error:
            return self._in_file(file).rows(rows, first, unread, str(error), last_numbers=last)
        return self._in_file(file, file_status).rows(rows, first, read, "", checked, last)

    def _unsplit_file_rows(self, pieces: Sequence[_Piece], positions: U64) -> list[LocatedRows]:
        files = {piece.split.row: piece.split for piece in pieces}
        file_rows = []
        for position in positions.tolist():
            split, single = files.get(position), np.array([position], np.uint64)
            in_file = InFile("", "line", "same") if split is None else self._in_file(split)
            file_rows.append(in_file.rows(single, None, [None]))
        return file_rows

    def _source_rows(self, piece: _Piece, ordinals: U64, *, texts: bool) -> LocatedRows:
        path, split = piece.file.path, piece.split
        unread: list[str | None] = [None] * len(ordinals)
        try:
            rows = ordinals + np.uint64(self._rows_before(piece.file, piece.at))
        except RowsError as error:
            return self._in_file(split).rows(ordinals, None, unread, str(error))
        if split.unit != "line":
            read, note = self._records(path, split, rows, texts=texts)
            return self._in_file(split).rows(ordinals, rows, read, note)

        def read_lines() -> tuple[_Texts, list[bool | None]]:
            return self._reader.rows(path, rows), self._checked(piece, ordinals)

        checked: list[bool | None] | None = None
        file_status = self._file_status(split)
        try:
            lines, read = self._reader.lines_of_rows(path, rows), unread
            if texts:
                read, checked, file_status = self._read_unchanged(split, read_lines)
            lone = self._reader.index(path).lone_returns
        except RowsError as error:
            lines = rows + np.uint64(1)
            return self._in_file(split).rows(ordinals, lines, unread, str(error))
        note = f"{path} holds carriage returns that end rows but no lines" if lone else ""
        return self._in_file(split, file_status).rows(ordinals, lines, read, note, checked)

    def _in_file(
        self, of: SplitRecord | SinkFileRecord, file_status: FileStatus | None = None
    ) -> InFile:
        file_status = file_status or self._file_status(of)
        return InFile(
            plain_path(of.path), of.unit, file_status, has_file_checksum=bool(of.checksum)
        )

    def _read_unchanged(
        self, of: SplitRecord | SinkFileRecord, read: Callable[[], tuple[_Texts, list[bool | None]]]
    ) -> tuple[_Texts, list[bool | None], FileStatus]:
        """The result of ``read`` on a file that does not change meanwhile, with the status of the file.

        Raises:
            RowsError: it can't be read.
        """
        path = self._spellings.of(of.path)
        for _ in range(TRIES):
            file_status = self._file_status(of)
            texts, checked = read()
            if current_state(self._reader, path) == self._states[path]:
                return texts, checked, "changed" if False in checked else file_status
            self._forget(path)
        raise RowsError(f"{path} is being written")

    def _forget(self, path: str) -> None:
        self._states.pop(path, None)
        for then in [then for then in self._file_statuses if then[1] == path]:
            del self._file_statuses[then]

    def _checked(self, piece: _Piece, ordinals: U64) -> list[bool | None]:
        """Whether each row is the one that was read, by the checksum of its block of rows; None: there is no checksum."""
        checks: list[bool | None] = [None] * len(ordinals)
        before = self._rows_before(piece.file, piece.at)
        blocks: list[int] = (ordinals // np.uint64(BLOCK_ROWS)).tolist()
        for record in piece.split.summed:
            recorded_sums = sums_in(record.sums)
            summed_rows = min(record.rows, len(recorded_sums) * BLOCK_ROWS)
            row_indexes = [
                at for at, ordinal in enumerate(ordinals.tolist()) if ordinal < summed_rows
            ]
            touched_blocks = [blocks[at] for at in row_indexes]
            current_sums = self._reader.sums_of(
                piece.file.path, before, summed_rows, touched_blocks
            )
            for at, block in zip(row_indexes, touched_blocks, strict=True):
                if checks[at] is not False:
                    checks[at] = recorded_sums[block] == current_sums[block]
        return checks

    def _records(
        self, path: str, of: SplitRecord | SinkFileRecord, rows: U64, *, texts: bool
    ) -> tuple[Sequence[str | None], str]:
        """Texts of records of a file that is as it was, and why there are none where they can't be read."""
        unread: list[str | None] = [None] * len(rows)
        if not texts or has_changed(self._file_status(of)):
            return unread, ""

        def read() -> tuple[Sequence[str | None], list[bool | None]]:
            return self._reader.records(path, rows), []

        try:
            texts_read, _, file_status = self._read_unchanged(of, read)
        except RowsError as error:
            return unread, str(error)
        return (unread if has_changed(file_status) else texts_read), ""

    def _rows_before(self, source: _SourceFile, at: int) -> int:
        """Rows of the file before its ``at``-th part.

        Raises:
            RowsError: they have to be counted in the file, and can't be.
        """
        # A file may have very many parts: from the nearest one of which it is known.
        known = at
        while known and known not in source.starts and source.parts[known][0].first is None:
            known -= 1
        first = source.parts[known][0].first
        start = source.starts.get(known, first or 0)
        for part in range(known, at):
            current_budget().check()
            rows = source.rows_of(part)
            if rows is None:
                rows = self._counted_rows(source, source.parts[part][0])
            start += rows
            if start > ROWS_MAX:
                raise RowsError(f"{source.path} is said to have more rows than a file can have")
            source.starts[part + 1] = start
        return start

    def _counted_rows(self, source: _SourceFile, before: SplitRecord) -> int:
        if before.unit != "line":
            raise RowsError(f"{source.path}: records before these were not all read, nor counted")
        if self._changed(before):
            raise RowsError(f"{source.path} has changed: its rows can no longer be counted")
        return self._reader.rows_in_split(source.path, before.start, before.length)

    def _splits_at(
        self, source: _SourceFile, location: Location
    ) -> Iterable[tuple[SplitRecord, int]]:
        """Splits that a place lies in, with its ordinal in each."""
        if location.number is None:
            return [(split, split.row) for part in source.parts for split in part]
        rows = range(location.number, location.number + 1)
        if location.unit == "line":
            rows = range(location.number - 1, location.number)
            if not self._changed(source.first) and self._readable(source.path):
                rows = self._reader.rows_of_line(source.path, location.number)
        return [located for row in rows for located in self._splits_of(source, row)]

    def _splits_of(self, source: _SourceFile, row: int) -> Iterable[tuple[SplitRecord, int]]:
        last = len(source.parts) - 1
        at = 0
        while at < last and self._rows_before(source, at + 1) <= row:
            at += 1
        ordinal = row - self._rows_before(source, at)
        rows = source.rows_of(at)
        if rows is not None and ordinal >= rows:
            unit, number = source.first.unit, row + (source.first.unit == "line")
            row_count = count_text(row - ordinal + rows, unit)
            raise PastTheEndError(
                f"{source.path} had {row_count} when it was read; there is no {unit} {number}"
            )
        return [(split, ordinal) for split in source.parts[at]]

    def _readable(self, path: str) -> bool:
        try:
            self._reader.index(path)
        except RowsError:
            return False
        return True

    def _changed(self, record: SplitRecord | SinkFileRecord) -> bool:
        return has_changed(self._file_status(record))

    def _file_status(self, record: SplitRecord | SinkFileRecord) -> FileStatus:
        key = (record.node, self._spellings.of(record.path), _size_of(record), record.mtime)
        status = self._file_statuses.get(key)
        if status is None:
            status = self._file_statuses[key] = self._compared(*key)
        return status

    def _compared(self, node: str, path: str, size: int, mtime: float) -> FileStatus:
        if path not in self._states:
            self._states[path] = current_state(self._reader, path)
        state = self._states[path]
        if state == "unseen":
            return "unknown"
        file_status = by_state(state, size, mtime)
        if file_status in {"changed", "gone"}:
            return file_status
        # If the modification time is as recorded, only the requested rows are compared, when they are read.
        same = self._has_content(node, path, size, rows=file_status is None)
        if same is None:
            return file_status or "changed"
        return (file_status or "touched") if same else "changed"

    def _has_content(self, node: str, path: str, size: int, *, rows: bool) -> bool | None:
        """Whether a file has the content that was read, by a checksum of it all or (``rows``) of all of its rows.

        None if there is no checksum of all of it, or the file is larger than `COMPARED_MAX`.
        """
        checksums = {record.checksum for record in self._files_of(node).get(path, ())}
        source = self._sources_of(node).get(path)
        if size > COMPARED_MAX:
            return None
        try:
            if "" not in checksums:
                return checksums == {self._reader.checksum(path)}
            if source is None or not rows:
                return None
            return all(
                self._has_all_rows(path, split, start)
                for part, start in self._counted_parts(source)
                for split in part
            )
        except RowsError:
            return None

    def _has_all_rows(self, path: str, split: SplitRecord, start: int | None) -> bool:
        """Whether all rows of a split, which starts at row ``start`` (None: unknown), are those that were read."""
        if split.rows is None or start is None:
            return False
        is_summed = split.rows == 0 or split.rows in {record.rows for record in split.summed}
        return is_summed and self._is_summed(path, split, start)

    def _is_summed(self, path: str, split: SplitRecord, start: int) -> bool:
        """Whether all rows of a split that checksums were taken of have the same now."""
        for summed in split.summed:
            recorded_sums = sums_in(summed.sums)
            rows = min(summed.rows, len(recorded_sums) * BLOCK_ROWS)
            if recorded_sums != list(self._reader.sums(path, start, rows)):
                return False
        return True

    @staticmethod
    def _counted_parts(source: _SourceFile) -> Iterator[tuple[list[SplitRecord], int | None]]:
        """Each part with the rows of the file before it, as tasks counted them."""
        start: int | None = 0
        for at, part in enumerate(source.parts):
            current_budget().check()
            yield part, start
            rows = source.rows_of(at)
            start = None if start is None or rows is None else start + rows

    def _sources_of(self, node: str) -> dict[str, _SourceFile]:
        if node not in self._sources:
            files: dict[str, dict[int, list[SplitRecord]]] = {}
            if self._kinds.get(node) == "source" or is_file_node(node):
                for split in self._graph.splits(node):
                    parts = files.setdefault(self._spellings.of(split.path), {})
                    parts.setdefault(split.start, []).append(split)
            self._sources[node] = {
                path: _SourceFile(path, [parts[start] for start in sorted(parts)])
                for path, parts in files.items()
            }
        return self._sources[node]

    def _files_of(self, node: str) -> dict[str, list[SplitRecord | SinkFileRecord]]:
        """The records of each file that a node read or wrote, also of nodes whose rows are not items."""
        if node not in self._files:
            records_by_path: dict[str, list[SplitRecord | SinkFileRecord]] = {}
            for split in self._graph.splits(node):
                records_by_path.setdefault(self._spellings.of(split.path), []).append(split)
            for file in self._graph.sink_files(node):
                records_by_path.setdefault(self._spellings.of(file.path), []).append(file)
            # Assign only the complete dict: other threads may read it.
            self._files[node] = records_by_path
        return self._files[node]

    def _pieces_of(self, node: str) -> dict[int, list[_Piece]]:
        """What each partition of a source reads."""
        if node not in self._pieces:
            pieces: dict[int, list[_Piece]] = {}
            for file in self._sources_of(node).values():
                for at, part in enumerate(file.parts):
                    for split in part:
                        pieces.setdefault(split.partition, []).append(_Piece(split, file, at))
            # Assign only the complete dict: other threads may read it.
            self._pieces[node] = pieces
        return self._pieces[node]

    def _sinks_of(self, node: str) -> dict[str, SinkFileRecord]:
        if node not in self._sinks:
            is_sink = self._kinds.get(node) == "sink" or is_file_node(node)
            files = self._graph.sink_files(node) if is_sink else ()
            self._sinks[node] = {self._spellings.of(file.path): file for file in files}
        return self._sinks[node]


def _range(first: int, last: int) -> Region:
    return Region(*(np.array([end], np.uint64) for end in (first, last)))


def _size_of(record: SplitRecord | SinkFileRecord) -> int:
    return record.file_size if isinstance(record, SplitRecord) else record.size


def _rows_in(pieces: Sequence[_Piece]) -> int | None:
    """Rows of a partition, if they are known."""
    rows = [piece.split.rows for piece in pieces]
    return None if None in rows else sum(count or 0 for count in rows)
