"""Rows of Spark's programs, traced through the arrays of recordings: rows that an array was made of, and rows of a file that it was written to.

An array of rows has one along its first axis for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from lineage_arrays.cells import I64, Cells, Shape
from lineage_arrays.errors import ArrayLineageError, CellError
from lineage_arrays.formats.names import holds_rows
from lineage_arrays.saved.address import CellAddress
from lineage_arrays.saved.following import Followed, follow_back, follow_forward
from lineage_arrays.saved.linking import FileLinks, Recordings
from lineage_arrays.saved.locating import locate, status_of
from lineage_arrays.saved.reading import NamedArray, StoredRecording, read_recording
from lineage_arrays.saved.storing import node_of
from lineage_core.tracing.budget import TooMuchError
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group, Item
from lineage_query.collected_rows import CellBackend, place_of_row, row_at
from lineage_query.rows.places import Location
from lineage_store.port import GraphStore

ITEMS_MAX = 10_000
"""Cells and rows of one array that an answer lists: it lists all."""


@dataclass(frozen=True)
class StoredCells(CellBackend):
    """Traces rows through the recordings of a store.

    Args:
        store: the store.
        choices: all cells that took part in choices, not the chosen ones alone.
    """

    store: GraphStore
    choices: bool = False

    def trace_rows(
        self, direction: Direction, app: str, node: str, rows: Sequence[Location]
    ) -> Answer:
        recordings = self._recordings()
        recording = recordings.of(app)
        is_backward = direction is Direction.BACKWARD
        arrays = recording.outputs if is_backward else recording.sources
        of_node = (one for one in arrays if node_of(one.node.number) == node and one.holds_rows)
        array = next(of_node, None)
        if array is None:
            raise ArrayLineageError(
                f"{node} of {app} is an array, and which of its cells lie in {rows[0]} is not known"
            )
        cells = cells_of_rows(array.node.shape, [_row_of(array, place) for place in rows])
        return self._traced(recordings, direction, (app, array), cells, of_rows=True)

    def trace_cells(self, direction: Direction, address: CellAddress, app: str | None) -> Answer:
        """Trace cells of an array, to the cells and the rows at the other end.

        Raises:
            ArrayLineageError: there is no such array, or its recording can't be read.
            CellError: it has no such cells.
            TooMuchError: the answer would list too many.
        """
        recordings = self._recordings()
        is_source = direction is Direction.FORWARD
        located = locate(self.store, recordings, address.name, app, sources=is_source)
        cells = Cells.of(located.array.node.shape, address.where)
        return self._traced(recordings, direction, (located.app, located.array), cells)

    def _recordings(self) -> Recordings[StoredRecording]:
        return Recordings[StoredRecording](partial(read_recording, self.store))

    def _traced(
        self,
        recordings: Recordings[StoredRecording],
        direction: Direction,
        start: tuple[str, NamedArray],
        cells: Cells,
        *,
        of_rows: bool = False,
    ) -> Answer:
        links = FileLinks(self.store, recordings)
        followed = (
            follow_back(recordings, links, start, cells, choices=self.choices)
            if direction is Direction.BACKWARD
            else follow_forward(
                recordings, links, start, cells, to=None, choices=self.choices, of_rows=of_rows
            )
        )
        return answer_of(direction, followed)


def answer_of(direction: Direction, followed: Followed[Cells]) -> Answer:
    """What was found, as an answer about rows: rows have places, and other programs go on from these; cells have none.

    Raises:
        TooMuchError: there are too many cells to list.
    """
    found = followed.found.items()
    groups = tuple(_group(app, array, cells) for (app, _, _), (array, cells) in found if cells)
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


def rows_of_cells(cells: Cells) -> I64:
    """The rows that cells of an array lie in, in order."""
    width = math.prod(cells.shape[1:])
    return np.unique(cells.positions() // width) if cells else np.zeros(0, np.int64)


def cells_of_rows(shape: Shape, rows: Sequence[int | None]) -> Cells:
    """All cells of some rows of an array; None: of all rows.

    Raises:
        CellError: it has no such row.
    """
    if None in rows:
        return Cells.whole(shape)
    wanted = np.unique(np.array(rows, np.int64))
    if not shape or (len(wanted) and not 0 <= wanted[0] <= wanted[-1] < shape[0]):
        raise CellError(f"an array of shape {shape} has no row {wanted[-1]}")
    width = math.prod(shape[1:])
    positions = wanted[:, None] * width + np.arange(width, dtype=np.int64)
    return Cells.at(shape, positions.ravel())


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


def _group(app: str, array: NamedArray, cells: Cells) -> Group:
    file = array.file
    count = len(rows_of_cells(cells)) if array.holds_rows else cells.count
    if count > ITEMS_MAX:
        raise TooMuchError(
            f"{count:,} {'rows' if array.holds_rows else 'cells'} of {array.name} lie on the way",
            "ask for fewer, or `lineage arrays` within the programs of arrays alone",
        )
    items = tuple(_items(array, cells))
    return Group(
        node=node_of(array.node.number),
        label=array.name,
        what="rows" if array.holds_rows else "cells",
        path=file.path if file is not None and array.holds_rows else None,
        count=len(items),
        items=items,
        file_status="same" if file is None else status_of(file),
        app=app,
    )


def _items(array: NamedArray, cells: Cells) -> Iterator[Item]:
    if array.rows is not None:
        rows = rows_of_cells(cells).tolist()
        for row, (partition, ordinal) in zip(rows, array.rows.places(rows), strict=True):
            place = place_of_row(array.rows.app, array.rows.node, partition, ordinal)
            yield Item(f"{array.name}[{row}]", str(place), None)
    elif array.file is not None and holds_rows(array.file.path):
        for row in rows_of_cells(cells).tolist():
            place = Location(array.file.path, row, "record")
            yield Item(f"{array.name}[{row}]", str(place), None)
    else:
        for cell in cells.coordinates().tolist():
            yield Item(f"{array.name}[{','.join(map(str, cell))}]", None, None)
