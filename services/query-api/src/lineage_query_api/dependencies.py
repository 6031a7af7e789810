"""Dependencies of routes: the store, and the authenticated caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, TypeAlias

from fastapi import Depends, Path, Query, Request

from lineage_query_api.audit import record_before
from lineage_query_api.auth import Gate, Principal
from lineage_query_api.errors import (
    ProblemError,
    partly_granted_error,
    rows_refused_error,
)
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import NO_NUL
from lineage_query_api.openapi_document import DescribedApi
from lineage_query_api.scopes import Scope, Scopes
from lineage_query_api.trace_ids import unpack

AllLineages: TypeAlias = tuple[Lineages, Principal]
"""The lineages of all applications, nothing left out, and the caller with the right to rows only where it holds for all."""
UNKNOWN_NAMED = 5
"""Parameters that a refusal names."""


def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a query with a parameter that the route has not: who misspells one would take the answer for another.

    Raises:
        ProblemError: 422; it names the parameters, and those that the route has.
    """
    app: DescribedApi = request.app
    parameters = app.query_parameters[request.method, request.scope["route"].path]
    unknown = sorted({name for name in request.query_params if name not in parameters})
    if unknown:
        named = ", ".join(f"{name!r:.60}" for name in unknown[:UNKNOWN_NAMED])
        raise ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"this address takes no parameter {named}",
            hint=f"it takes {', '.join(sorted(parameters))}" if parameters else "it takes none",
        )


def _scope(request: Request) -> Scope:
    gate: Gate = request.app.state.gate
    scopes: Scopes = request.app.state.scopes
    caller = gate.authenticate(request.headers.get("authorization"))
    request.state.caller = caller
    refuse_unknown_parameters(request)
    return scopes.of(caller, f"{request.method} {request.scope['route'].path}")


CallerScope = Annotated[Scope, Depends(_scope)]


def _within(request: Request, scope: CallerScope) -> tuple[Lineages, Principal]:
    parameters = request.path_params
    if "trace" in parameters:
        try:
            app = unpack(parameters["trace"]).app
        except ProblemError:
            # The lookup of the trace reports the error.
            return scope.traced, replace(scope.caller, rows=False)
        return scope.within(app)
    if "app" in parameters:
        return scope.within(parameters["app"])
    # All that may be known of are listed, and judged.
    return scope.listed, scope.caller


Within = Annotated[tuple[Lineages, Principal], Depends(_within)]


# Without a thread of their own: they only pick.
async def _lineages(within: Within) -> Lineages:
    return within[0]


async def _caller(within: Within) -> Principal:
    return within[1]


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


async def _eraser(request: Request, scope: CallerScope) -> AllLineages:
    if not scope.caller.erase:
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "this caller may make no plans to erase",
            hint="ask for a token with the right to erase, or for the role lineage-erase",
        )
    return await _recorded(request, scope.over_all())


async def _accessor(request: Request, scope: CallerScope) -> AllLineages:
    if not scope.caller.access:
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "this caller may have no access requests answered",
            hint="ask for a token with the right to access, or for the role lineage-access",
        )
    check_rows(scope.caller)
    lineages, caller = scope.over_all()
    if not caller.rows:
        raise partly_granted_error()
    return await _recorded(request, (lineages, caller))


async def _watcher(request: Request, scope: CallerScope) -> AllLineages:
    """Who may watch records of running jobs: these are of datasets that no grant can name yet."""
    if not scope.caller.watch:
        raise ProblemError(
            HTTPStatus.FORBIDDEN,
            "this caller may watch no running jobs",
            hint="ask for a token with the rights to watch and to rows, or for the roles lineage-watch and lineage-rows",
        )
    return await _recorded(request, await _all_rows(scope))


async def _all_rows(scope: CallerScope) -> AllLineages:
    """Who may read all rows: triples are of no application, so no grant names them."""
    check_rows(scope.caller)
    lineages, caller = scope.over_all()
    if not caller.rows:
        raise partly_granted_error()
    return lineages, caller


async def _recorded(request: Request, within: AllLineages) -> AllLineages:
    """Give a request the time of a stream, and record it before it starts."""
    within[0].allow_stream()
    await record_before(request)
    return within


def check_rows(caller: Principal) -> None:
    """Refuse callers who may not read the text of rows: search results reveal it too.

    Raises:
        ProblemError: 403.
    """
    if not caller.rows:
        raise rows_refused_error()


def _row_reader(caller: Caller) -> Principal:
    check_rows(caller)
    return caller


Admin = Annotated[Principal, Depends(_admin)]
Deleter = Annotated[Principal, Depends(_deleter)]
RowCaller = Annotated[Principal, Depends(_row_reader)]
Eraser = Annotated[AllLineages, Depends(_eraser)]
Accessor = Annotated[AllLineages, Depends(_accessor)]
Watcher = Annotated[AllLineages, Depends(_watcher)]
AllRows = Annotated[AllLineages, Depends(_all_rows)]
RIGHTS: Mapping[object, str] = {
    _scope: "read",
    _row_reader: "rows",
    _all_rows: "rows",
    _deleter: "delete",
    _eraser: "erase",
    _accessor: "access",
    _watcher: "watch",
    _admin: "admin",
}
"""The right that a dependency asks for."""
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
