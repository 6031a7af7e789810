"""Every error as application/problem+json (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from lineage_core.errors import LineageError
from lineage_core.tracing.budget import BudgetError, BusyError, ClientGoneError, TimeUpError
from lineage_query.finding import NotFoundError
from lineage_query_api.errors import ProblemError
from lineage_store.errors import DamagedError, DeletedError, StoreError, UnfitStoreError

CLIENT_LEFT = 499
"""Status of answers that nobody waits for, in logs and audit records alone; as nginx has it."""
RETRY_AFTER_S = 5
"""Seconds after which a question may be asked again that others left no room for."""
MEDIA_TYPE = "application/problem+json"
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "request_id"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string"},
        "error": {"type": "string", "description": "the kind of error, as commands name it"},
        "hint": {"type": "string", "description": "what the caller can do"},
    },
}


def problem(
    request_id: str,
    status: int,
    detail: str,
    *,
    hint: str = "",
    error: str = "",
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """One error."""
    body = _body(request_id, status, detail, hint=hint, error=error)
    return JSONResponse(body, int(status), headers=headers, media_type=MEDIA_TYPE)


def problem_of(request_id: str, error: LineageError) -> dict[str, Any]:
    """An error of the library as a problem."""
    return _body(request_id, _status_of(error), str(error), error=type(error).__name__)


def _body(
    request_id: str, status: int, detail: str, *, hint: str = "", error: str = ""
) -> dict[str, Any]:
    title = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Error"
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": int(status),
        "detail": _plain(detail),
        "request_id": request_id,
    }
    if hint:
        body["hint"] = _plain(hint)
    if error:
        body["error"] = error
    return body


def _plain(text: str) -> str:
    """Text that UTF-8 can hold: an answer may repeat what a caller sent as escapes of JSON."""
    return text.encode("utf-8", "replace").decode()


def budget_problem(request_id: str, error: BudgetError) -> JSONResponse:
    """An answer that costs more than it may."""
    kind = type(error).__name__
    headers = {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, BusyError) else None
    return problem(
        request_id, _status_of(error), error.detail, hint=error.hint, error=kind, headers=headers
    )


def _status_of(error: LineageError) -> int:
    if isinstance(error, TimeUpError):
        return HTTPStatus.GATEWAY_TIMEOUT
    if isinstance(error, ClientGoneError):
        return CLIENT_LEFT
    if isinstance(error, NotFoundError | DeletedError):
        return HTTPStatus.NOT_FOUND
    if isinstance(error, BusyError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    if isinstance(error, StoreError) and not isinstance(error, UnfitStoreError | DamagedError):
        return HTTPStatus.SERVICE_UNAVAILABLE
    return HTTPStatus.UNPROCESSABLE_ENTITY


def request_id_of(request: Request) -> str:
    """The id of the request that is being answered."""
    return str(getattr(request.state, "request_id", ""))


def install(app: FastAPI) -> None:
    """Answer every error of a route as a problem."""
    log = structlog.get_logger()

    @app.exception_handler(ProblemError)
    def refused(request: Request, error: ProblemError) -> JSONResponse:
        return problem(
            request_id_of(request),
            error.status,
            error.detail,
            hint=error.hint,
            headers=error.headers,
        )

    @app.exception_handler(BudgetError)
    def costs_too_much(request: Request, error: BudgetError) -> JSONResponse:
        return budget_problem(request_id_of(request), error)

    @app.exception_handler(LineageError)
    def lineage_error(request: Request, error: LineageError) -> JSONResponse:
        status = _status_of(error)
        if status == HTTPStatus.SERVICE_UNAVAILABLE:
            log.warning("store_failed", reason=str(error))
        body = problem_of(request_id_of(request), error)
        return JSONResponse(body, status, media_type=MEDIA_TYPE)

    @app.exception_handler(RequestValidationError)
    def not_valid(request: Request, error: RequestValidationError) -> JSONResponse:
        details = "; ".join(
            f"{'.'.join(map(str, field_error['loc']))}: {field_error['msg']}"
            for field_error in error.errors()[:10]
        )
        return problem(request_id_of(request), HTTPStatus.UNPROCESSABLE_ENTITY, details)

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> JSONResponse:
        return problem(
            request_id_of(request), error.status_code, str(error.detail), headers=error.headers
        )
