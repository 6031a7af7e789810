"""Traces of cells through stored recordings: of one program, or on through the files that programs gave each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lineage_arrays.cells import Cells
from lineage_arrays.display import CellsDisplay, DisplayedCells, Remark
from lineage_arrays.operators.operator import Operator
from lineage_arrays.saved.address import CellAddress
from lineage_arrays.saved.current_values import values_of_file
from lineage_arrays.saved.following import Followed, follow_back, follow_forward
from lineage_arrays.saved.linking import FileLinks, Recordings
from lineage_arrays.saved.locating import FileStatus, Located, change_since, locate, status_of
from lineage_arrays.saved.reading import StoredRecording, read_recording
from lineage_arrays.saved.storing import node_of
from lineage_arrays.workflow import ArrayFile
from lineage_store.port import GraphStore


@dataclass(frozen=True)
class CellsFound:
    """Cells of one array. ``file_status``: whether its file is still what was read or written; None: it is in no file.

    ``node``: the array, as a node of the application. ``holds_rows``: rows of other programs are those along its first axis.
    """

    app: str
    name: str
    cells: Cells
    file: ArrayFile | None = None
    file_status: FileStatus | None = None
    node: str = ""
    holds_rows: bool = False


@dataclass(frozen=True)
class StoredTrace(CellsDisplay):
    """The answer to a question about stored recordings.

    ``app``, ``name``, ``asked``: the array that it is about, and its cells. ``found``: cells of the arrays at which the trace ends.
    ``warnings``: what files have become since; they change no answer. ``file``: of the array that it is about.
    A notebook shows it with pictures, over the values of files that have not changed.
    """

    app: str
    name: str
    asked: Cells
    found: tuple[CellsFound, ...]
    warnings: tuple[str, ...] = ()
    file: ArrayFile | None = None

    def _displayed(self) -> list[DisplayedCells]:
        return [
            DisplayedCells(one.name, one.cells, values_of_file(one.file, large=False))
            for one in self.found
        ]

    def _remarks(self) -> Iterator[Remark]:
        for warning in self.warnings:
            yield "warning", warning, "doubtful"
        yield from super()._remarks()


def trace_back(
    store: GraphStore,
    address: CellAddress,
    *,
    app: str | None = None,
    all_jobs: bool = False,
    choices: bool = False,
    operators: Sequence[Operator] = (),
    to_rows: bool = False,
) -> StoredTrace:
    """Which cells of the arrays from outside some cells were made from.

    Args:
        store: the store.
        address: cells of an array that a recorded program named or saved.
        app: its application; None: the one that wrote the file as it is now, else the latest that has the name.
        all_jobs: go on through the programs that wrote the files which were read.
        choices: all cells that took part in choices, not the chosen ones alone.
        operators: those whose own functions may be called.
        to_rows: with ``all_jobs``, the caller goes on from rows that arrays were made of (`lineage_arrays.saved.row_tracing`); else
            the trace is incomplete where it comes to some.

    Raises:
        ArrayLineageError: there is no such array, or its recording can't be read.
        CellError: it has no such cells.
        BudgetError: the question has no time left.
    """
    recordings = Recordings[StoredRecording](partial(read_recording, store, operators=operators))
    links = FileLinks(store, recordings) if all_jobs else None
    located = locate(store, recordings, address.name, app, sources=False)
    asked = Cells.of(located.array.node.shape, address.where)
    start = located.app, located.array
    followed = follow_back(recordings, links, start, asked, choices=choices)
    if all_jobs and not to_rows:
        followed.stop_at_rows()
    return _answer(located, asked, followed)


def trace_forward(
    store: GraphStore,
    address: CellAddress,
    *,
    to: str | None = None,
    app: str | None = None,
    all_jobs: bool = False,
    choices: bool = False,
    operators: Sequence[Operator] = (),
    to_rows: bool = False,
) -> StoredTrace:
    """Which cells of named and saved arrays some cells of an array from outside went into.

    Args:
        store: the store.
        address: cells of an array that a recorded program read or named as a source.
        to: an output of that name alone; None: all.
        app: the application; None: the one that read the file as it is now, else the latest that has the name.
        all_jobs: go on through the programs that read the files which were written, and through all that read this one.
        choices: as in :func:`trace_back`.
        operators: as in :func:`trace_back`.
        to_rows: as in :func:`trace_back`, of files of rows that arrays were written to.

    Raises:
        ArrayLineageError, CellError, BudgetError: as :func:`trace_back`.
    """
    recordings = Recordings[StoredRecording](partial(read_recording, store, operators=operators))
    links = FileLinks(store, recordings) if all_jobs else None
    located = locate(store, recordings, address.name, app, sources=True)
    asked = Cells.of(located.array.node.shape, address.where)
    start = located.app, located.array
    followed = follow_forward(recordings, links, start, asked, to=to, choices=choices)
    if all_jobs and not to_rows:
        followed.stop_at_rows()
    return _answer(located, asked, followed)


def _answer(located: Located, asked: Cells, followed: Followed[Cells]) -> StoredTrace:
    return StoredTrace(
        located.app,
        located.array.name,
        asked,
        tuple(
            CellsFound(
                app,
                array.name,
                cells,
                array.file,
                _status(array.file),
                node_of(array.node.number),
                array.holds_rows,
            )
            for (app, _, _), (array, cells) in followed.found.items()
        ),
        change_since(located),
        located.array.file,
        superset_reasons=tuple(followed.superset),
        incomplete_reasons=tuple(followed.incomplete),
        chosen_by=tuple(followed.chosen),
    )


def _status(file: ArrayFile | None) -> FileStatus | None:
    return None if file is None else status_of(file)
