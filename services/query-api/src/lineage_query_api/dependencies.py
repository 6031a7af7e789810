"""What routes ask for: the store, and who the caller is."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from lineage_query_api.audit import record_before
from lineage_query_api.auth import Gate, Principal
from lineage_query_api.errors import ProblemError, no_rows
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import NO_NUL


def _lineages(request: Request) -> Lineages:
    found: Lineages = request.app.state.lineages
    return found


def _caller(request: Request) -> Principal:
    gate: Gate = request.app.state.gate
    found = gate.authenticate(request.headers.get("authorization"))
    request.state.caller = found
    return found


Caller = Annotated[Principal, Depends(_caller)]
Store = Annotated[Lineages, Depends(_lineages)]


async def _admin(request: Request, caller: Caller, store: Store) -> Principal:
    if caller.role != "admin":
        raise ProblemError(HTTPStatus.FORBIDDEN, "only an admin may do this")
    store.allow_stream()
    await record_before(request)
    return caller


async def _deleter(request: Request, caller: Caller, store: Store) -> Principal:
    if not caller.delete:
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "this caller may not delete applications",
            hint="ask for a token with the right to delete, or for the role lineage-delete",
        )
    store.allow_stream()
    await record_before(request)
    return caller


def check_rows(caller: Principal) -> None:
    """Refuse who may not read the text of rows: what a search finds tells it, too.

    Raises:
        ProblemError: 403.
    """
    if not caller.rows:
        raise no_rows()


def _row_reader(caller: Caller) -> Principal:
    check_rows(caller)
    return caller


Admin = Annotated[Principal, Depends(_admin)]
Deleter = Annotated[Principal, Depends(_deleter)]
RowCaller = Annotated[Principal, Depends(_row_reader)]
AppName = Annotated[
    str,
    Path(
        max_length=512,
        pattern=NO_NUL,
        description="an application's id, the beginning of it, or latest",
    ),
]
NodeName = Annotated[
    str, Path(max_length=512, pattern=NO_NUL, description="a node's id or name, such as 4 or read")
]
Cursor = Annotated[str | None, Query(max_length=100, description="next of the page before")]
PageSize = Annotated[int, Query(ge=1, le=1_000)]
