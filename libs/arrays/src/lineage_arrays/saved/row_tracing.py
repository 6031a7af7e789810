"""Rows of Spark's programs, traced through the arrays of recordings: rows that an array was made of, and rows of a file that it was written to.

An array of rows has one along its first axis for each of them.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic

import numpy as np

from lineage_arrays.cells import Cells, Shape
from lineage_arrays.claims import TraceClaims
from lineage_arrays.errors import ArrayLineageError, CellError
from lineage_arrays.formats.names import holds_rows
from lineage_arrays.saved.address import CellAddress
from lineage_arrays.saved.following import (
    C,
    Followed,
    TraceableRecording,
    follow_back,
    follow_forward,
)
from lineage_arrays.saved.linking import FileLinks, Recordings
from lineage_arrays.saved.locating import locate, status_of
from lineage_arrays.saved.reading import NamedArray, read_recording
from lineage_arrays.saved.storing import node_of
from lineage_arrays.workflow import ArrayFile
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import TooMuchError
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item
from lineage_query.collected_rows import CellBackend, place_of_row, row_at
from lineage_query.rows.file_status import FileStatus
from lineage_query.rows.places import Location
from lineage_store.port import GraphStore

ITEMS_MAX = 10_000
"""Cells and rows of one array that an answer lists: it lists all."""


class RowTracing(CellBackend, Generic[C]):
    """Traces rows through recordings, whatever their cells are."""

    store: GraphStore
    choices: bool

    @abstractmethod
    def recordings(self) -> Recordings[TraceableRecording[C]]:
        """The recordings of the store."""

    @abstractmethod
    def cells(self, shape: Shape, region: Region) -> C:
        """The cells at some positions of an array."""

    @abstractmethod
    def region(self, cells: C) -> Region:
        """The positions of cells."""

    @abstractmethod
    def file_status(self, app: str, file: ArrayFile) -> FileStatus:
        """Whether a file is still what an application read or wrote."""

    def trace_rows(
        self, direction: Direction, app: str, node: str, rows: Sequence[Location]
    ) -> Answer:
        recordings = self.recordings()
        recording = recordings.of(app)
        is_backward = direction is Direction.BACKWARD
        arrays = recording.outputs if is_backward else recording.sources
        of_node = (one for one in arrays if node_of(one.node.number) == node and one.holds_rows)
        array = next(of_node, None)
        if array is None:
            raise ArrayLineageError(
                f"{node} of {app} is an array, and which of its cells lie in {rows[0]} is not known"
            )
        shape = array.node.shape
        region = cells_of_rows(shape, [_row_of(array, place) for place in rows])
        start = app, array
        return self.trace_from(
            recordings, direction, start, self.cells(shape, region), of_rows=True
        )

    def trace_from(
        self,
        recordings: Recordings[TraceableRecording[C]],
        direction: Direction,
        start: tuple[str, NamedArray],
        cells: C,
        *,
        of_rows: bool = False,
    ) -> Answer:
        """Trace cells of an array; ``of_rows`` as in :func:`follow_forward`."""
        links = FileLinks(self.store, recordings)
        choices = self.choices
        followed = (
            follow_back(recordings, links, start, cells, choices=choices)
            if direction is Direction.BACKWARD
            else follow_forward(
                recordings, links, start, cells, to=None, choices=choices, of_rows=of_rows
            )
        )
        return self.answer(direction, followed)

    def answer(self, direction: Direction, followed: Followed[C]) -> Answer:
        """What was found, as an answer about rows: rows have places, and other programs go on from these; cells have none.

        Raises:
            TooMuchError: there are too many cells to list.
        """
        found = followed.found.items()
        groups = tuple(
            self._group(app, array, self.region(cells))
            for (app, _, _), (array, cells) in found
            if cells
        )
        apps = tuple(dict.fromkeys((followed.app, *(app for app, _, _ in followed.found))))
        return Answer(
            app=followed.app,
            direction=direction,
            requested_places=(),
            start=(),
            exact=not followed.superset,
            reasons=tuple(followed.superset),
            groups=groups,
            warnings=(
                *followed.incomplete,
                *(f"chosen by the values of cells: {call}" for call in followed.chosen),
            ),
            changed=any(group.changed for group in groups),
            complete=not followed.incomplete,
            apps=apps,
        )

    def _group(self, app: str, array: NamedArray, region: Region) -> Group:
        file, shape = array.file, array.node.shape
        listed = rows_of_cells(shape, region) if array.holds_rows else region
        what = "rows" if array.holds_rows else "cells"
        if listed.count > ITEMS_MAX:
            raise TooMuchError(
                f"{listed.count:,} {what} of {array.name} lie on the way",
                "ask for fewer, or `lineage arrays` within the programs of arrays alone",
            )
        items = tuple(_items(array, listed))
        return Group(
            node=node_of(array.node.number),
            label=array.name,
            what=what,
            path=file.path if file is not None and array.holds_rows else None,
            count=len(items),
            items=items,
            file_status="same" if file is None else self.file_status(app, file),
            app=app,
        )


@dataclass(frozen=True)
class StoredCells(RowTracing[Cells]):
    """Traces rows through the recordings of a store.

    Args:
        store: the store.
        choices: all cells that took part in choices, not the chosen ones alone.
    """

    store: GraphStore
    choices: bool = False

    def recordings(self) -> Recordings[TraceableRecording[Cells]]:
        return Recordings(partial(read_recording, self.store))

    def cells(self, shape: Shape, region: Region) -> Cells:
        size = math.prod(shape)
        return Cells.whole(shape) if region.count == size else Cells.of_region(shape, region)

    def region(self, cells: Cells) -> Region:
        return cells.region()

    def file_status(self, app: str, file: ArrayFile) -> FileStatus:
        return status_of(file)

    def trace_cells(self, direction: Direction, address: CellAddress, app: str | None) -> Answer:
        """Trace cells of an array, to the cells and the rows at the other end.

        Raises:
            ArrayLineageError: there is no such array, or its recording can't be read.
            CellError: it has no such cells.
            TooMuchError: the answer would list too many.
        """
        recordings = self.recordings()
        is_source = direction is Direction.FORWARD
        located = locate(self.store, recordings, address.name, app, sources=is_source)
        cells = Cells.of(located.array.node.shape, address.where)
        return self.trace_from(recordings, direction, (located.app, located.array), cells)


def claims_with(app: str, claims: TraceClaims, beyond: Answer) -> TraceClaims:
    """What a trace of cells of an application says of itself with all that it goes on to from rows."""
    own = f"{app}: "
    reasons = [reason.removeprefix(own) for reason in beyond.reasons]
    missing = [text.removeprefix(own) for text in beyond.warnings if not beyond.complete]
    if not (beyond.exact or reasons):
        reasons = ["rows on the way may have more sources than their own"]
    if not (beyond.complete or missing):
        missing = ["rows on the way can't be followed to their end"]
    return TraceClaims(
        superset_reasons=tuple(dict.fromkeys((*claims.superset_reasons, *reasons))),
        incomplete_reasons=tuple(dict.fromkeys((*claims.incomplete_reasons, *missing))),
        chosen_by=claims.chosen_by,
    )


def groups_beyond(beyond: Answer, arrays: Collection[tuple[str, str]]) -> tuple[Group, ...]:
    """Groups of an answer that are not of some arrays, by application and node."""
    return tuple(one for one in beyond.groups if (one.app or beyond.app, one.node) not in arrays)


def rows_of_cells(shape: Shape, region: Region) -> Region:
    """The rows that cells of an array lie in."""
    width = np.uint64(math.prod(shape[1:]))
    return Region.of_runs(region.first // width, region.last // width) if region else region


def cells_of_rows(shape: Shape, rows: Sequence[int | None]) -> Region:
    """All cells of some rows of an array; None: of all rows.

    Raises:
        CellError: it has no such row.
    """
    size = math.prod(shape)
    if None in rows:
        return Region.from_text(f"0-{size - 1}" if size > 1 else "0" * size)
    wanted = np.unique(np.array(rows, np.int64))
    if not shape or (len(wanted) and not 0 <= wanted[0] <= wanted[-1] < shape[0]):
        raise CellError(f"an array of shape {shape} has no row {wanted[-1]}")
    if not size:
        return Region()
    first = wanted.astype(np.uint64) * np.uint64(size // shape[0])
    return Region.of_runs(first, first + np.uint64(size // shape[0] - 1))


def _row_of(array: NamedArray, place: Location) -> int | None:
    """Which row of an array a place is; None: all."""
    if array.rows is None:
        if place.unit == "line":
            raise ArrayLineageError(f"{place}: rows of {array.name} are numbered from 0: PATH#ROW")
        return place.number
    collected = row_at(place)
    if collected is None or collected[:2] != (array.rows.app, array.rows.node):
        raise ArrayLineageError(f"{array.name} was not made of {place}")
    try:
        return array.rows.row(*collected[2:])
    except IndexError as error:
        raise CellError(str(error)) from error


def _items(array: NamedArray, listed: Region) -> Iterator[Item]:
    """Rows of an array, or cells of one that has none."""
    numbers = listed.positions().astype(np.int64)
    if array.rows is not None:
        rows = numbers.tolist()
        for row, (partition, ordinal) in zip(rows, array.rows.places(rows), strict=True):
            place = place_of_row(array.rows.app, array.rows.node, partition, ordinal)
            yield Item(f"{array.name}[{row}]", str(place), None)
    elif array.file is not None and holds_rows(array.file.path):
        for row in numbers.tolist():
            yield Item(f"{array.name}[{row}]", str(Location(array.file.path, row, "record")), None)
    else:
        for cell in Cells(array.node.shape, positions=numbers).coordinates().tolist():
            yield Item(f"{array.name}[{','.join(map(str, cell))}]", None, None)
