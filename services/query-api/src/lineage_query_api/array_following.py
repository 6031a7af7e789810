"""Traces of cells through the recordings of several applications: the way is found here, and each step is answered in a confined process."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from lineage_arrays.claims import TraceClaims
from lineage_arrays.saved.address import parse_address
from lineage_arrays.saved.following import follow_back, follow_forward
from lineage_arrays.saved.linking import FileLinks
from lineage_arrays.saved.locating import CurrentFiles, locate
from lineage_arrays.saved.reading import NamedArray, listed_arrays
from lineage_arrays.saved.row_tracing import claims_with, groups_beyond
from lineage_arrays.saved.storing import node_of
from lineage_core.contract.region import Region
from lineage_core.tracing.budget import current_budget
from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer, Group
from lineage_query.rows.reader import RowReader
from lineage_query_api.answer_models import AnswerGroup
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
from lineage_query_api.served_recordings import Ask, ServedCells
from lineage_store.paths import RowsError
from lineage_store.recorded_files import FileVersion

ARRAYS_MAX = 1_000
"""Arrays that an answer lists."""
REASONS_MAX = 1_000
"""Reasons of each kind that it lists."""


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


class FollowedCells:
    """A trace of cells over the applications that a caller may trace, as `lineage_arrays.saved.trace_back` and `trace_forward` do it.

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

    def __init__(self, lineages: Lineages, read: Ask, request: FollowRequest) -> None:
        self._lineages, self._request = lineages, request
        self.tracing = ServedCells(lineages, read, choices=request.choices)
        """Goes on with what was read of recordings."""
        self._direction = Direction(request.direction)
        app = None if request.app is None else lineages.find(request.app)
        backward, address = request.direction == "backward", request.cells
        self._recordings = recordings = self.tracing.recordings()
        links = FileLinks(lineages.store, recordings) if request.all_jobs else None
        self._located = located = locate(
            lineages.store,
            recordings,
            parse_address(address).name,
            app,
            sources=not backward,
            files=_ServedFiles(lineages.reader),
        )
        self._asked = recordings.of(located.app).cells_at(located.array, address)
        start, choices = (located.app, located.array), request.choices
        self._followed = (
            follow_back(recordings, links, start, self._asked, choices=choices)
            if backward
            else follow_forward(
                recordings, links, start, self._asked, to=request.to, choices=choices
            )
        )
        if request.all_jobs and request.to is not None:
            self._followed.stop_at_rows()

    @property
    def goes_on(self) -> bool:
        """Whether it ends at rows that other programs may go on with, and all jobs are asked about."""
        request = self._request
        return request.all_jobs and request.to is None and self._followed.ends_at_rows

    def ends(self) -> Answer:
        """Where it ends, as an answer about rows, which others go on with.

        Raises:
            TooMuchError: there are too many to list.
        """
        return self.tracing.answer(self._direction, self._followed)

    def model(self, beyond: Answer | None) -> FollowedTraceModel:
        """The answer. ``beyond``: as it goes on from rows."""
        request, located, followed = self._request, self._located, self._followed
        found = sorted(
            ((of_app, *of_array) for (of_app, _, _), of_array in followed.found.items()),
            key=lambda one: not one[2],
        )
        claims: TraceClaims = followed.claims
        rows: Sequence[Group] = ()
        if beyond is not None:
            claims = claims_with(located.app, claims, beyond)
            nodes = {(of_app, node_of(number)) for of_app, number, _ in followed.found}
            rows = groups_beyond(beyond, nodes)
        return FollowedTraceModel(
            app=located.app,
            direction=request.direction,
            exact=claims.exact,
            complete=claims.complete,
            superset_reasons=_listed(claims.superset_reasons),
            incomplete_reasons=_listed(claims.incomplete_reasons),
            chosen_by=_listed(claims.chosen_by),
            warnings=list(self._lineages.scope_warnings()),
            asked=self._shown(located.app, located.array, self._asked),
            arrays=[self._shown(*one) for one in found[:ARRAYS_MAX]],
            arrays_total=len(found),
            rows=[AnswerGroup.model_validate(group.to_json()) for group in rows],
        )

    def _shown(self, app: str, array: NamedArray, cells: Region) -> FollowedCellsModel:
        described = self._recordings.of(app).described(array)
        model = array_model(self._lineages.reader_of(app), described)
        return _page(app, model, cells, self._request)


def list_applications(lineages: Lineages, limit: int) -> ArrayApplications:
    """Applications that recorded arrays, among the latest ``limit`` ones.

    Raises:
        BudgetError: the question has no time left.
    """
    records = lineages.applications()
    latest = [record for record in records[:limit] if not record.damage]
    items = []
    for record, arrays in listed_arrays(lineages.store, latest):
        current_budget().check()
        listed = [
            ListedArrayModel(name=one.name, type=one.description, path=one.path) for one in arrays
        ]
        items.append(
            ArrayApplication(
                app=record.app, name=record.name, started_at=record.started_at, arrays=listed
            )
        )
    return ArrayApplications(items=items, left_out=len(records) - len(latest))


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


def _listed(reasons: Sequence[str]) -> list[str]:
    left_out = len(reasons) - REASONS_MAX
    listed = list(reasons)[:REASONS_MAX]
    return [*listed, f"and {left_out:,} more"] if left_out > 0 else listed
