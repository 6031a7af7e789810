"""Questions about cells of arrays, answered in confined processes: a recording and a file of arrays come from a job.

This process decodes neither: it looks up the recording's parts, and decides which files may be read.
"""

from __future__ import annotations

import base64
import io
from contextlib import closing
from functools import partial
from http import HTTPStatus
from typing import IO, Any

import numpy as np

from lineage_core.contract.message import Arrays
from lineage_query.finding import NotFoundError
from lineage_query.rows.confined import ConfinedFormats
from lineage_query.rows.reader import RowReader
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
from lineage_query_api.errors import ProblemError, too_costly_error
from lineage_query_api.lineages import Lineages
from lineage_store.paths import RowsError, Spellings
from lineage_store.recorded_files import FileQuery

FILE_BYTES_MAX = 128 << 20
"""Longest file of which values are read: it is in memory as a whole, and its array beside it."""
READ_IN_PARTS = ".npy"
"""The ending of files that are read from end to end, and never held."""
PARTS_BYTES_MAX = 64 << 30
"""Longest file of these; before, the time of a question is over."""
ROW_FILES = ".parquet"
"""The ending of files whose rows are read as those of tables."""
NUMPY_FILES = (".npy", ".npz")
FEWER = "ask for fewer cells, or by `lineage arrays` where the store is"
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

    def follow(self, lineages: Lineages, request: FollowRequest) -> FollowedTraceModel:
        """The cells that some cells were made from, or went into, also in other applications that the caller may trace.

        Raises:
            NotFoundError: there is no such application.
            ArrayLineageError: there is no such array, or the trace is larger than one may be.
            ProblemError: a step takes more memory than it may.
            BudgetError: the question costs more than it may.
        """
        _check_numpy()
        # Not where this module is imported: it needs NumPy 2, and the server does not.
        from lineage_query_api.array_following import answer_followed

        with lineages.working():
            return answer_followed(lineages, partial(self._read, lineages), request)

    def list_applications(self, lineages: Lineages, limit: int) -> ArrayApplications:
        """Applications that recorded arrays, among the latest ``limit`` ones; raises as :meth:`follow`."""
        _check_numpy()
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
            return _accepted(self._read(lineages, operation, app, *arguments))

    def _read(
        self, lineages: Lineages, operation: str, app: str, *arguments: Any
    ) -> dict[str, Any]:
        """What a confined process answers about a recording, refusals too."""
        parts = _parts_of(lineages, app)
        return _answer(self._recordings, operation, io.BytesIO(), app, parts, *arguments)

    def _ask_of_file(
        self, lineages: Lineages, operation: str, app: str, array: str, *arguments: Any
    ) -> dict[str, Any]:
        described = ArrayModel.model_validate(self._ask(lineages, "array", app, array))
        file = described.file
        if file is None:
            raise _refusal("it is in no file: values of other arrays are not kept")
        if file.path.lower().endswith(ROW_FILES):
            raise _refusal("it is a file of rows: their values are those that traces of rows show")
        reader = lineages.reader_of(app)
        _check_recorded(lineages, app, file.path, file.checksum)
        source = file.path, file.member, file.checksum, described.shape
        with lineages.turn():
            try:
                return _accepted(self._answer_of_file(reader, operation, file, source, arguments))
            except RowsError as error:
                raise _refusal(str(error)) from error

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
            raise _refusal(f"{path} is gone: its values are not known")
        if reader.is_folder(path):
            tree = files_of(path)
            _check_size(path, tree.size, file.size, FILE_BYTES_MAX)
            stream = joined(reader, tree)
            return _answer(self._folders, operation, stream, tree.files, source, *arguments)
        in_parts = path.lower().endswith(READ_IN_PARTS)
        _check_size(path, state.size, file.size, PARTS_BYTES_MAX if in_parts else FILE_BYTES_MAX)
        formats = self._numpy_files if path.lower().endswith(NUMPY_FILES) else self._other_files
        with closing(reader.opened(path, packed=True)) as content:
            return _answer(formats, operation, content.stream, source, *arguments)


def _parts_of(lineages: Lineages, app: str) -> list[tuple[int, int, str]]:
    """The parts of the recording of an application.

    Raises:
        NotFoundError: it has none.
        BudgetError: they are more than may be held.
    """
    try:
        messages = lineages.store.messages(app, "arrays")
    except KeyError as error:
        raise NotFoundError(f"there is no application {app!r} any more") from error
    parts = [
        (message.part, message.parts, message.recording)
        for message in messages
        if isinstance(message, Arrays)
    ]
    if not parts:
        raise NotFoundError(f"{app} recorded no arrays")
    return parts


def _answer(
    formats: ConfinedFormats, operation: str, file: IO[bytes], *arguments: Any
) -> dict[str, Any]:
    """What a confined process answers; where it refuses, `refused` says why.

    Raises:
        ProblemError: it takes more memory than it may.
        BudgetError: it takes longer than the question may.
    """
    _check_numpy()
    try:
        found: dict[str, Any] = formats.read(operation, file, *arguments)
    except OSError as error:
        raise too_costly_error(str(error), FEWER) from error
    return found


def _accepted(found: dict[str, Any]) -> dict[str, Any]:
    """An answer that is no refusal.

    Raises:
        ProblemError: it is one.
    """
    if "refused" in found:
        raise _refusal(found["refused"])
    return found


def _check_numpy() -> None:
    """See that this server's NumPy can answer.

    Raises:
        ProblemError: it is too old.
    """
    if not hasattr(np, "permute_dims"):
        raise _refusal(f"this server has NumPy {np.__version__}, and cells need 2.0")


def _refusal(detail: str) -> ProblemError:
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)


def _check_recorded(lineages: Lineages, app: str, path: str, checksum: str) -> None:
    """See that a file is among those that the application says to have used: grants are about these.

    Raises:
        ProblemError: it is not.
    """
    recorded = lineages.store.recorded_files(FileQuery(path, Spellings(), app=app))
    if not any(one.path == path and one.version.checksum == checksum for one in recorded.items):
        raise _refusal("the application recorded no such file")


def _check_size(path: str, size: int, recorded: int, most: int) -> None:
    """See that a file, or the files of a folder, may be what was recorded, before their bytes are read.

    Raises:
        ProblemError: they are not, or are too large.
    """
    if size != recorded:
        raise _refusal(
            f"{path} has changed since it was recorded: its values now are not those of then"
        )
    if size > most:
        raise too_costly_error(
            f"{path} has {size / (1 << 20):,.0f} MiB; values are read of files of up to {most >> 20:,}",
            "read the file where it is, or keep the array as .npy, which is read in parts",
        )


def _cells(reader: RowReader, plain: dict[str, Any]) -> dict[str, Any]:
    picture = plain["picture"]
    return plain | {
        "array": array_model(reader, plain["array"]),
        "picture": None if picture is None else _encoded(picture),
    }


def _encoded(picture: dict[str, Any]) -> dict[str, Any]:
    return picture | {"png": base64.b64encode(picture["png"]).decode()}
