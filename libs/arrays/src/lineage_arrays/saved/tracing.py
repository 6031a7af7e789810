"""Traces of cells through stored recordings: of one program, or on through the files that programs gave each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from lineage_arrays.cells import Cells
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.operators.operator import Operator
from lineage_arrays.querying import CellTrace, TraceClaims, forward
from lineage_arrays.saved.address import CellAddress
from lineage_arrays.saved.linking import FileLink, FileLinks, NotLinked, Recordings
from lineage_arrays.saved.locating import FileStatus, locate, status_of
from lineage_arrays.saved.reading import NamedArray, StoredRecording, read_recording
from lineage_arrays.workflow import ArrayFile
from lineage_core.tracing.budget import current_budget
from lineage_store.port import GraphStore


@dataclass(frozen=True)
class CellsFound:
    """Cells of one array. ``file_status``: whether its file is still what was read or written; None: it is in no file."""

    app: str
    name: str
    cells: Cells
    file: ArrayFile | None = None
    file_status: FileStatus | None = None


@dataclass(frozen=True)
class StoredTrace(TraceClaims):
    """The answer to a question about stored recordings.

    ``app``, ``name``, ``asked``: the array that it is about, and its cells. ``found``: cells of the arrays at which the trace ends.
    ``warnings``: what files have become since; they change no answer.
    """

    app: str
    name: str
    asked: Cells
    found: tuple[CellsFound, ...]
    warnings: tuple[str, ...] = ()


@dataclass
class _Answer:
    """What a trace has found so far, by application and number of the array."""

    app: str
    found: dict[tuple[str, int, str], tuple[NamedArray, Cells]] = field(default_factory=dict)
    superset: dict[str, None] = field(default_factory=dict)
    incomplete: dict[str, None] = field(default_factory=dict)
    chosen: dict[str, None] = field(default_factory=dict)

    def add(self, app: str, array: NamedArray, cells: Cells) -> None:
        key = app, array.node.number, array.name
        known = self.found.get(key)
        self.found[key] = array, cells if known is None else known[1] | cells

    def remark(self, app: str, trace: CellTrace) -> None:
        """Take what a trace of one recording says about itself."""
        prefix = "" if app == self.app else f"{app}: "
        for texts, of_trace in (
            (self.superset, trace.superset_reasons),
            (self.incomplete, trace.incomplete_reasons),
            (self.chosen, trace.chosen_by),
        ):
            texts.update(dict.fromkeys(f"{prefix}{text}" for text in of_trace))

    def trace(self, name: str, asked: Cells, warnings: Sequence[str]) -> StoredTrace:
        return StoredTrace(
            self.app,
            name,
            asked,
            tuple(
                CellsFound(app, array.name, cells, array.file, _status(array.file))
                for (app, _, _), (array, cells) in self.found.items()
            ),
            tuple(warnings),
            superset_reasons=tuple(self.superset),
            incomplete_reasons=tuple(self.incomplete),
            chosen_by=tuple(self.chosen),
        )


def _status(file: ArrayFile | None) -> FileStatus | None:
    return None if file is None else status_of(file)


class _Pending:
    """Cells of arrays that the trace has yet to go on from, each array with all that reaches it."""

    def __init__(self) -> None:
        self._reached: dict[tuple[str, int], Cells] = {}
        self._queue: deque[tuple[str, int]] = deque()

    def add(self, app: str, number: int, cells: Cells) -> None:
        key = app, number
        known = self._reached.get(key)
        together = cells if known is None else known | cells
        if known is None or together != known:
            self._reached[key] = together
            if key not in self._queue:
                self._queue.append(key)

    def next(self) -> tuple[str, int, Cells] | None:
        current_budget().check()
        if not self._queue:
            return None
        app, number = self._queue.popleft()
        return app, number, self._reached[app, number]


def trace_back(
    store: GraphStore,
    address: CellAddress,
    *,
    app: str | None = None,
    all_jobs: bool = False,
    choices: bool = False,
    operators: Sequence[Operator] = (),
) -> StoredTrace:
    """Which cells of the arrays from outside some cells were made from.

    Args:
        store: the store.
        address: cells of an array that a recorded program named or saved.
        app: its application; None: the one that wrote the file as it is now, else the latest that has the name.
        all_jobs: go on through the programs that wrote the files which were read.
        choices: all cells that took part in choices, not the chosen ones alone.
        operators: those whose own functions may be called.

    Raises:
        ArrayLineageError: there is no such array, or its recording can't be read.
        CellError: it has no such cells.
        BudgetError: the question has no time left.
    """
    recordings = Recordings(partial(read_recording, store, operators=operators))
    links = FileLinks(store, recordings)
    located = locate(store, recordings, address.name, app, sources=False)
    asked = Cells.of(located.array.node.shape, address.where)
    answer, pending = _Answer(located.app), _Pending()
    pending.add(located.app, located.array.node.number, asked)
    while (step := pending.next()) is not None:
        of_app, number, cells = step
        recording = recordings.of(of_app)
        trace = recording.back_from(recording.flow.nodes[number], cells, choices=choices)
        answer.remark(of_app, trace)
        for source in recording.sources:
            if source.name not in trace.cells:
                continue
            source_cells = trace.cells[source.name]
            link = None
            if all_jobs and source.file is not None and source_cells:
                link = links.writer(of_app, source.file)
            if isinstance(link, FileLink):
                _note_copy(answer, link)
                pending.add(link.app, link.array.node.number, source_cells)
                if not link.superset:
                    continue
            if isinstance(link, NotLinked):
                answer.incomplete[link.reason] = None
            answer.add(of_app, source, source_cells)
    return answer.trace(located.array.name, asked, located.warnings)


def trace_forward(
    store: GraphStore,
    address: CellAddress,
    *,
    to: str | None = None,
    app: str | None = None,
    all_jobs: bool = False,
    choices: bool = False,
    operators: Sequence[Operator] = (),
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

    Raises:
        ArrayLineageError, CellError, BudgetError: as :func:`trace_back`.
    """
    recordings = Recordings(partial(read_recording, store, operators=operators))
    links = FileLinks(store, recordings)
    located = locate(store, recordings, address.name, app, sources=True)
    asked = Cells.of(located.array.node.shape, address.where)
    answer, pending = _Answer(located.app), _Pending()
    pending.add(located.app, located.array.node.number, asked)
    if all_jobs and located.array.file is not None:
        _follow(answer, pending, links.other_readers(located.app, located.array.file), asked)
    while (step := pending.next()) is not None:
        of_app, number, cells = step
        recording = recordings.of(of_app)
        for output, trace in traces_to_outputs(
            recording, number, cells, to if not all_jobs else None, choices
        ):
            answer.remark(of_app, trace)
            (output_cells,) = trace.cells.values()
            is_read = False
            if all_jobs and output.file is not None and output_cells and output.name != to:
                readers = links.readers(of_app, output.file)
                is_read = _follow(answer, pending, readers, output_cells)
            if not is_read and to in (None, output.name):
                answer.add(of_app, output, output_cells)
    if to is not None and not any(name == to for _, _, name in answer.found):
        raise ArrayLineageError(
            f"no output {to!r} was made from {located.array.name} of {located.app}"
            + (
                ", or from what was made of it"
                if all_jobs
                else "; --all-jobs goes on through files"
            )
        )
    return answer.trace(located.array.name, asked, located.warnings)


def traces_to_outputs(
    recording: StoredRecording, number: int, cells: Cells, to: str | None, choices: bool
) -> list[tuple[NamedArray, CellTrace]]:
    """The outputs that were made from an array (``to``: of that name alone), each with the trace of some cells to it."""
    start = recording.flow.nodes[number]
    traces: dict[int, CellTrace] = {}
    reached = []
    for output in recording.outputs_of(start):
        if to not in (None, output.name):
            continue
        at = output.node.number
        if at not in traces:
            traces[at] = forward(recording.flow, start, cells, output.node, choices=choices)
        reached.append((output, traces[at]))
    return reached


def _follow(
    answer: _Answer, pending: _Pending, links: Iterable[FileLink | NotLinked], cells: Cells
) -> bool:
    """Go on to all programs that read a file, or what may be its copy; whether any read the file itself."""
    is_read = False
    for link in links:
        if isinstance(link, NotLinked):
            answer.incomplete[link.reason] = None
            continue
        _note_copy(answer, link)
        pending.add(link.app, link.array.node.number, cells)
        is_read = is_read or not link.superset
    return is_read


def _note_copy(answer: _Answer, link: FileLink) -> None:
    if link.superset:
        answer.superset[link.superset] = None
