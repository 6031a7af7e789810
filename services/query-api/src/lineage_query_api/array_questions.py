"""Questions about cells of arrays, answered in confined processes: a recording and a file of arrays come from a job.

This process decodes neither: it looks up the recording's parts, and decides which files may be read.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from lineage_core.tracing.trace_result import Direction
from lineage_query.answers import Answer
from lineage_query.collected_rows import CellBackend
from lineage_query.rows.confined import ConfinedFormats
from lineage_query.rows.places import Location
from lineage_query.rows.reader import RowReader
from lineage_query.trace_query import TraceQuery
from lineage_query_api.array_models import (
    ArrayApplications,
    ArrayFileModel,
    ArrayModel,
    ArrayPage,
    CellTraceModel,
    CellTraceRequest,
    CellValues,
    FollowedTraceModel,
    FollowRequest,
    PictureModel,
)
from lineage_query_api.array_standings import array_model
from lineage_query_api.array_trees import files_of, joined
from lineage_query_api.confined_arrays import (
    accepted,
    answer,
    check_numpy,
    check_recorded,
    check_size,
    parts_of,
    refusal,
)
from lineage_query_api.lineages import Lineages
from lineage_store.paths import RowsError

FILE_BYTES_MAX = 128 << 20
"""Longest file of which values are read: it is in memory as a whole, and its array beside it."""
READ_IN_PARTS = ".npy"
"""The ending of files that are read from end to end, and never held."""
PARTS_BYTES_MAX = 64 << 30
"""Longest file of these; before, the time of a question is over."""
NUMPY_FILES = (".npy", ".npz")
_FROM = "lineage_arrays.saved"


class ArrayQuestions:
    """Has questions answered by `lineage_arrays.saved.questions` and its like. May be shared by threads."""

    def __init__(self) -> None:
        self._recordings = ConfinedFormats(f"{_FROM}.questions", opens_files=False)
        self._numpy_files = ConfinedFormats(f"{_FROM}.file_questions", opens_files=False)
        # Their libraries take seconds to load.
        self._other_files = ConfinedFormats(f"{_FROM}.library_questions", opens_files=False)
        self._folders = ConfinedFormats(f"{_FROM}.tree_questions", opens_files=False)

    def close(self) -> None:
        """End the processes."""
        for formats in (self._recordings, self._numpy_files, self._other_files, self._folders):
            formats.close()

    def list_arrays(self, lineages: Lineages, app: str, first: int, limit: int) -> ArrayPage:
        """Named arrays of an application, from the ``first`` one on.

        Raises:
            NotFoundError: it has no recording of arrays.
            ProblemError: the recording can't be read within bounds.
            BudgetError: the question costs more than it may.
        """
        found = self._ask(lineages, "arrays", app, first, limit)
        reader = lineages.reader_of(app)
        behind = first + limit
        return ArrayPage(
            app=app,
            items=[array_model(reader, one) for one in found["arrays"]],
            next=str(behind) if behind < found["total"] else None,
            total=found["total"],
        )

    def trace(self, lineages: Lineages, app: str, request: CellTraceRequest) -> CellTraceModel:
        """The cells that some cells were made from, or went into; raises as :meth:`list_arrays`."""
        question = request.model_dump(exclude={"direction", "after"}) | {
            "backward": request.direction == "backward",
            "after": {key: int(position) for key, position in request.after.items()},
        }
        found = self._ask(lineages, "trace", app, question)
        reader = lineages.reader_of(app)
        found["arrays"] = [_cells(reader, one) for one in found["arrays"]]
        found["asked"] = _cells(reader, found["asked"])
        return CellTraceModel.model_validate({"app": app, "direction": request.direction, **found})

    def follow(
        self, lineages: Lineages, request: FollowRequest, *, rows: bool
    ) -> FollowedTraceModel:
        """The cells that some cells were made from, or went into, also in other applications that the caller may trace.

        ``rows``: the caller may read the text of rows.

        Raises:
            NotFoundError: there is no such application.
            ArrayLineageError: there is no such array, or the trace is larger than one may be.
            ProblemError: a step takes more memory than it may, or the answer has too many items.
            BudgetError: the question costs more than it may.
        """
        check_numpy()
        # Not where this module is imported: it needs NumPy 2, and the server does not.
        from lineage_query_api.array_following import FollowedCells

        with lineages.working():
            followed = FollowedCells(lineages, partial(self._read, lineages), request)
            ends = followed.ends() if followed.goes_on else None
        beyond = None
        if ends is not None:
            query = TraceQuery(ends.direction, (request.cells,), all_jobs=True, texts=rows)
            beyond = lineages.follow(ends, query, followed.tracing)
        with lineages.working():
            return followed.model(beyond)

    def cells_of(self, lineages: Lineages) -> CellBackend:
        """What traces rows of one question through the arrays that a caller may trace."""
        return _Cells(lineages, partial(self._read, lineages))

    def list_applications(self, lineages: Lineages, limit: int) -> ArrayApplications:
        """Applications that recorded arrays, among the latest ``limit`` ones; raises as :meth:`follow`."""
        check_numpy()
        from lineage_query_api.array_following import list_applications

        with lineages.working():
            return list_applications(lineages, limit)

    def picture(
        self,
        lineages: Lineages,
        app: str,
        array: str,
        plane: str,
        side: int,
        bounds: tuple[float, float] | None,
        *,
        robust: bool,
    ) -> PictureModel:
        """A plane of an array as pixels.

        ``bounds``: the values that are black and white; None: the least and the greatest pixel, or with ``robust`` percentiles of them.

        Raises:
            ProblemError: the array is in no file, or this one may not be read, is another one now, or too large.
            NotFoundError, BudgetError: as :meth:`list_arrays`.
        """
        found = self._ask_of_file(lineages, "picture", app, array, plane, side, bounds, robust)
        return PictureModel.model_validate(_encoded(found))

    def values(
        self, lineages: Lineages, app: str, array: str, ranges: str, limit: int
    ) -> CellValues:
        """Values of the first ``limit`` cells at some positions; raises as :meth:`picture`."""
        found = self._ask_of_file(lineages, "values", app, array, ranges, limit)
        return CellValues.model_validate(found)

    def _ask(self, lineages: Lineages, operation: str, app: str, *arguments: Any) -> dict[str, Any]:
        with lineages.turn():
            return accepted(self._read(lineages, operation, app, *arguments))

    def _read(
        self, lineages: Lineages, operation: str, app: str, *arguments: Any
    ) -> dict[str, Any]:
        """What a confined process answers about a recording, refusals too."""
        parts = parts_of(lineages, app)
        return answer(self._recordings, operation, io.BytesIO(), app, parts, *arguments)

    def _ask_of_file(
        self, lineages: Lineages, operation: str, app: str, array: str, *arguments: Any
    ) -> dict[str, Any]:
        described = ArrayModel.model_validate(self._ask(lineages, "array", app, array))
        file = described.file
        if file is None:
            raise refusal("it is in no file: values of other arrays are not kept")
        reader = lineages.reader_of(app)
        check_recorded(lineages, app, file.path, file.checksum)
        source = file.path, file.member, file.checksum, described.shape
        with lineages.turn():
            try:
                return accepted(self._answer_of_file(reader, operation, file, source, arguments))
            except RowsError as error:
                raise refusal(str(error)) from error

    def _answer_of_file(
        self,
        reader: RowReader,
        operation: str,
        file: ArrayFileModel,
        source: tuple[Any, ...],
        arguments: tuple[Any, ...],
    ) -> dict[str, Any]:
        path = file.path
        state = reader.state(path)
        if state is None:
            raise refusal(f"{path} is gone: its values are not known")
        if reader.is_folder(path):
            tree = files_of(path)
            check_size(path, tree.size, file.size, FILE_BYTES_MAX)
            stream = joined(reader, tree)
            return answer(self._folders, operation, stream, tree.files, source, *arguments)
        in_parts = path.lower().endswith(READ_IN_PARTS)
        check_size(path, state.size, file.size, PARTS_BYTES_MAX if in_parts else FILE_BYTES_MAX)
        formats = self._numpy_files if path.lower().endswith(NUMPY_FILES) else self._other_files
        with closing(reader.opened(path, packed=True)) as content:
            return answer(formats, operation, content.stream, source, *arguments)


class _Cells(CellBackend):
    """Loads what traces rows through arrays with the first of them."""

    def __init__(self, lineages: Lineages, read: Callable[..., dict[str, Any]]) -> None:
        self._lineages, self._read = lineages, read
        self._served: CellBackend | None = None

    def trace_rows(
        self, direction: Direction, app: str, node: str, rows: Sequence[Location]
    ) -> Answer:
        check_numpy()
        # As above.
        from lineage_query_api.served_recordings import ServedCells

        self._served = self._served or ServedCells(self._lineages, self._read)
        return self._served.trace_rows(direction, app, node, rows)


def _cells(reader: RowReader, plain: dict[str, Any]) -> dict[str, Any]:
    picture = plain["picture"]
    return plain | {
        "array": array_model(reader, plain["array"]),
        "picture": None if picture is None else _encoded(picture),
    }


def _encoded(picture: dict[str, Any]) -> dict[str, Any]:
    return picture | {"png": base64.b64encode(picture["png"]).decode()}
