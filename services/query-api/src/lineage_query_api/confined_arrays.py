"""Answers of the processes that decode recordings and files of arrays, and what is checked before they are asked."""

from __future__ import annotations

from http import HTTPStatus
from typing import IO, Any

import numpy as np

from lineage_core.contract.message import Arrays
from lineage_query.finding import NotFoundError
from lineage_query.rows.confined import ConfinedFormats
from lineage_query_api.errors import ProblemError, too_costly_error
from lineage_query_api.lineages import Lineages
from lineage_store.paths import Spellings
from lineage_store.recorded_files import FileQuery

FEWER = "ask for fewer cells, or by `lineage arrays` where the store is"


def parts_of(lineages: Lineages, app: str) -> list[tuple[int, int, str]]:
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


def answer(
    formats: ConfinedFormats, operation: str, file: IO[bytes], *arguments: Any
) -> dict[str, Any]:
    """What a confined process answers; where it refuses, `refused` says why.

    Raises:
        ProblemError: it takes more memory than it may.
        BudgetError: it takes longer than the question may.
    """
    check_numpy()
    try:
        found: dict[str, Any] = formats.read(operation, file, *arguments)
    except OSError as error:
        raise too_costly_error(str(error), FEWER) from error
    return found


def accepted(found: dict[str, Any]) -> dict[str, Any]:
    """An answer that is no refusal.

    Raises:
        ProblemError: it is one.
    """
    if "refused" in found:
        raise refusal(found["refused"])
    return found


def check_numpy() -> None:
    """See that this server's NumPy can answer.

    Raises:
        ProblemError: it is too old.
    """
    if not hasattr(np, "permute_dims"):
        raise refusal(f"this server has NumPy {np.__version__}, and cells need 2.0")


def refusal(detail: str) -> ProblemError:
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, detail)


def check_recorded(lineages: Lineages, app: str, path: str, checksum: str) -> None:
    """See that a file is among those that the application says to have used: grants are about these.

    Raises:
        ProblemError: it is not.
    """
    recorded = lineages.store.recorded_files(FileQuery(path, Spellings(), app=app))
    if not any(one.path == path and one.version.checksum == checksum for one in recorded.items):
        raise refusal("the application recorded no such file")


def check_size(path: str, size: int, recorded: int, most: int) -> None:
    """See that a file, or the files of a folder, may be what was recorded, before their bytes are read.

    Raises:
        ProblemError: they are not, or are too large.
    """
    if size != recorded:
        raise refusal(
            f"{path} has changed since it was recorded: its values now are not those of then"
        )
    if size > most:
        raise too_costly_error(
            f"{path} has {size / (1 << 20):,.0f} MiB; values are read of files of up to {most >> 20:,}",
            "read the file where it is, or keep the array as .npy, which is read in parts",
        )
