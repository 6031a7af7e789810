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
from lineage_query_api.errors import ProblemError
from lineage_store.errors import StoreError, StoreUnavailableError
from lineage_store.finding import NotFoundError

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
    title = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Error"
    status = int(status)
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title,
        "status": status,
        "detail": detail,
        "request_id": request_id,
    }
    if hint:
        body["hint"] = hint
    if error:
        body["error"] = error
    return JSONResponse(body, status, headers=headers, media_type=MEDIA_TYPE)


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

    @app.exception_handler(LineageError)
    def lineage_error(request: Request, error: LineageError) -> JSONResponse:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
        if isinstance(error, NotFoundError):
            status = HTTPStatus.NOT_FOUND
        elif isinstance(error, StoreUnavailableError | StoreError):
            log.warning("store_failed", reason=str(error))
            status = HTTPStatus.SERVICE_UNAVAILABLE
        return problem(request_id_of(request), status, str(error), error=type(error).__name__)

    @app.exception_handler(RequestValidationError)
    def not_valid(request: Request, error: RequestValidationError) -> JSONResponse:
        said = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:10]
        )
        return problem(request_id_of(request), HTTPStatus.UNPROCESSABLE_ENTITY, said)

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> JSONResponse:
        return problem(
            request_id_of(request), error.status_code, str(error.detail), headers=error.headers
        )
