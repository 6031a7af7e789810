"""Traces of cells through the recordings of several applications: the way is found here, and each step is answered in a confined process.

Nothing that a recording says is decoded here, but names and runs of positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lineage_arrays.claims import TraceClaims
from lineage_arrays.errors import ArrayLineageError
from lineage_arrays.saved.address import parse_address
from lineage_arrays.saved.following import follow_back, follow_forward
from lineage_arrays.saved.linking import FileLinks, Recordings
from lineage_arrays.saved.locating import CurrentFiles, locate
from lineage_arrays.saved.plain_values import claims_of, file_of, rows_of
from lineage_arrays.saved.reading import NamedArray, listed_arrays
from lineage_arrays.workflow import Node
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import current_budget
from lineage_query.rows.reader import RowReader
from lineage_query_api.array_models import (
    ArrayApplication,
    ArrayApplications,
    ArrayModel,
    FollowedCellsModel,
    FollowedTraceModel,
    FollowRequest,
    ListedArrayModel,
)
from lineage_query_api.array_standings import array_model
from lineage_query_api.lineages import Lineages
from lineage_store.paths import RowsError
from lineage_store.recorded_files import FileVersion

PROGRAMS_MAX = 100
"""Recordings that one question reads, at most."""
RUNS_MAX = 4_000_000
"""Runs of positions that the steps of one question answer with, at most: 64 MB."""
ARRAYS_MAX = 1_000
"""Arrays that an answer lists."""
REASONS_MAX = 1_000
"""Reasons of each kind that it lists."""
Ask: TypeAlias = Callable[..., dict[str, Any]]
"""Has an operation of `lineage_arrays.saved.questions` answered, of an application and with arguments."""


class _Room:
    """How many runs the steps of one question may still answer with."""

    def __init__(self, runs: int) -> None:
        self._left = runs

    def cells(self, runs: tuple[bytes, bytes]) -> Region:
        """Cells of an answer.

        Raises:
            ArrayLineageError: they are too many.
        """
        first, last = (np.frombuffer(side, np.uint64) for side in runs)
        self._left -= len(first)
        if self._left < 0:
            raise ArrayLineageError(
                f"the trace leads through more than {RUNS_MAX:,} runs of cells: ask for fewer cells"
            )
        return Region(first, last)


class ServedRecording:
    """A recording whose cells are traced in confined processes: a `lineage_arrays.saved.following.TraceableRecording`."""

    def __init__(self, ask: Ask, app: str, room: _Room) -> None:
        self._ask = ask
        self._app = app
        self._room = room
        self._described: dict[int, dict[str, Any]] = {}
        self.sources: list[NamedArray] = []
        self.outputs: list[NamedArray] = []
        for plain in ask("names", app)["arrays"]:
            array = _named_array(plain)
            self._described[id(array)] = plain
            (self.sources if array.is_source else self.outputs).append(array)

    def described(self, array: NamedArray) -> dict[str, Any]:
        """One of its arrays by plain values."""
        return self._described[id(array)]

    def cells_at(self, array: NamedArray, address: str) -> Region:
        """The cells of an array that an address names.

        Raises:
            ArrayLineageError: it has no such cells.
        """
        return self._room.cells(self._ask("cells", self._app, array.node.number, address)["cells"])

    def back_to_sources(
        self, number: int, cells: Region, *, choices: bool
    ) -> tuple[Sequence[tuple[NamedArray, Region]], TraceClaims]:
        answer = self._ask("back", self._app, number, _runs(cells), choices)
        found = [(self.sources[at], self._room.cells(runs)) for at, runs in answer["found"]]
        return found, claims_of(answer)

    def forward_to_outputs(
        self, number: int, cells: Region, to: str | None, *, choices: bool
    ) -> Sequence[tuple[NamedArray, Region, TraceClaims]]:
        answer = self._ask("forward", self._app, number, _runs(cells), to, choices)
        return [
            (self.outputs[one["place"]], self._room.cells(one["cells"]), claims_of(one))
            for one in answer["found"]
        ]


class _ServedFiles(CurrentFiles):
    """Files that the caller may have read."""

    def __init__(self, reader: RowReader) -> None:
        self._reader = reader

    def real_path(self, path: str) -> str:
        # Links are followed where files are looked up; a relative path is the name of an array here.
        return path

    def is_folder(self, path: str) -> bool:
        return self._reader.is_folder(path)

    def version(self, path: str) -> FileVersion | None:
        try:
            state = self._reader.state(path)
        except RowsError:
            return None
        if state is None or state.mtime is None:
            return None
        return FileVersion(state.size, state.mtime)

    def checksum(self, path: str) -> str:
        try:
            return "" if self._reader.is_folder(path) else self._reader.checksum(path)
        except RowsError:
            return ""


def answer_followed(lineages: Lineages, read: Ask, request: FollowRequest) -> FollowedTraceModel:
    """Trace cells as `lineage_arrays.saved.trace_back` and `trace_forward` do, over the applications that a caller may trace.

    Args:
        lineages: of these applications, and no others.
        read: has an operation answered; refusals are `{"refused": ...}`.
        request: the question.

    Raises:
        NotFoundError: there is no such application.
        ArrayLineageError: there is no such array, or the trace is larger than one may be.
        ProblemError: a step takes more memory than it may.
        BudgetError: the question has no time left.
    """
    app = None if request.app is None else lineages.find(request.app)
    room = _Room(RUNS_MAX)
    recordings = Recordings[ServedRecording](
        lambda of_app: ServedRecording(partial(_accepted, read), of_app, room), PROGRAMS_MAX
    )
    backward, address = request.direction == "backward", request.cells
    links = FileLinks(lineages.store, recordings) if request.all_jobs else None
    located = locate(
        lineages.store,
        recordings,
        parse_address(address).name,
        app,
        sources=not backward,
        files=_ServedFiles(lineages.reader),
    )
    asked = recordings.of(located.app).cells_at(located.array, address)
    start, choices = (located.app, located.array), request.choices
    followed = (
        follow_back(recordings, links, start, asked, choices=choices)
        if backward
        else follow_forward(recordings, links, start, asked, to=request.to, choices=choices)
    )

    if request.all_jobs:
        followed.end_at_rows()

    def shown(of_app: str, array: NamedArray, cells: Region) -> FollowedCellsModel:
        described = recordings.of(of_app).described(array)
        model = array_model(lineages.reader_of(of_app), described)
        return _page(of_app, model, cells, request)

    found = sorted(
        ((of_app, *of_array) for (of_app, _, _), of_array in followed.found.items()),
        key=lambda one: not one[2],
    )
    return FollowedTraceModel(
        app=located.app,
        direction=request.direction,
        exact=not followed.superset,
        complete=not followed.incomplete,
        superset_reasons=_listed(followed.superset),
        incomplete_reasons=_listed(followed.incomplete),
        chosen_by=_listed(followed.chosen),
        warnings=list(lineages.scope_warnings()),
        asked=shown(located.app, located.array, asked),
        arrays=[shown(*one) for one in found[:ARRAYS_MAX]],
        arrays_total=len(found),
    )


def list_applications(lineages: Lineages, limit: int) -> ArrayApplications:
    """Applications that recorded arrays, among the latest ``limit`` ones.

    Raises:
        BudgetError: the question has no time left.
    """
    records = lineages.applications()
    items = []
    for record, arrays in listed_arrays(lineages.store, records[:limit]):
        current_budget().check()
        listed = [
            ListedArrayModel(name=one.name, type=one.description, path=one.path) for one in arrays
        ]
        items.append(
            ArrayApplication(
                app=record.app, name=record.name, started_at=record.started_at, arrays=listed
            )
        )
    return ArrayApplications(items=items, left_out=max(len(records) - limit, 0))


def _accepted(read: Ask, *arguments: Any) -> dict[str, Any]:
    """An answer that is no refusal.

    Raises:
        ArrayLineageError: it is one.
    """
    found = read(*arguments)
    if "refused" in found:
        raise ArrayLineageError(found["refused"])
    return found


def _page(app: str, array: ArrayModel, cells: Region, request: FollowRequest) -> FollowedCellsModel:
    """Cells of an array, from the position on that the request names."""
    after = int(request.after.get(f"{app}/{array.id}", -1))
    begin = int(np.searchsorted(cells.last, np.uint64(after + 1)))
    behind = begin + request.limit
    first, last = cells.first[begin:behind].copy(), cells.last[begin:behind]
    if len(first):
        first[0] = max(int(first[0]), after + 1)
    size = math.prod(array.shape)
    return FollowedCellsModel(
        app=app,
        array=array,
        count=cells.count,
        whole=size > 0 and cells.count == size,
        ranges=Region(first, last).to_text(),
        ranges_total=cells.runs,
        next=str(int(last[-1])) if behind < cells.runs and len(last) else None,
    )


def _listed(reasons: Mapping[str, None]) -> list[str]:
    left_out = len(reasons) - REASONS_MAX
    listed = list(reasons)[:REASONS_MAX]
    return [*listed, f"and {left_out:,} more"] if left_out > 0 else listed


def _named_array(plain: Mapping[str, Any]) -> NamedArray:
    node = Node(
        number=plain["number"],
        operator="",
        shape=tuple(plain["shape"]),
        # Shown as the text that came.
        dtype=np.dtype(np.void),
        call_site=plain["call_site"],
    )
    return NamedArray(
        plain["name"], node, plain["is_source"], file_of(plain["file"]), rows_of(plain["rows"])
    )


def _runs(cells: Region) -> tuple[bytes, bytes]:
    return cells.first.tobytes(), cells.last.tobytes()
