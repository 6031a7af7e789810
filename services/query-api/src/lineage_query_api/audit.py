"""Audit records: who requested what, from where, and with which outcome, written to a log that nobody rewrites.

A response is sent only after its record is written; a request that changes or deletes something is recorded before it
starts, too. If a record can't be written, the request is refused.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timezone
from hashlib import sha256
from http import HTTPStatus
from threading import Lock
from typing import Any

import structlog
from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from fastapi import Request
from prometheus_client import CollectorRegistry, Counter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lineage_core.environment.redaction import without_secrets
from lineage_query_api.audit_fields import (
    cut,
    question_fields,
    redacted_beginning,
    redacted_query,
)
from lineage_query_api.audit_log import WAIT_S, AuditLog
from lineage_query_api.auth import Principal
from lineage_query_api.errors import ProblemError
from lineage_query_api.problems import problem

ADDRESS_BYTES_MAX = 1_024
"""Bytes of a path in a record, and of a query."""
ANONYMOUS_BYTES_MAX = 256
"""The same for an unauthenticated caller, whose bodies are not recorded: outsiders can't fill the log."""
CLIENT_BYTES_MAX = 64
"""Bytes of the address of a caller: a proxy may hand on any text for one."""
FAILED_S = 1.0
"""Seconds without a new attempt after a record could not be written."""
WRITER_THREADS = 4
"""Threads that keep records: a log that hangs holds up no others."""
NOT_WRITTEN = "the audit log can't be written, so nothing is answered"
Fields = Mapping[str, Any]


class Auditor:
    """ASGI middleware: each request of the API is recorded before its answer leaves.

    ``registry``: registers the counter of records that could not be written.
    """

    def __init__(self, app: ASGIApp, *, audit: AuditLog, registry: CollectorRegistry) -> None:
        self._app = app
        self._audit = audit
        self._failed = Counter(
            "lineage_api_audit_failures", "Audit records that could not be kept.", registry=registry
        )
        self._log = structlog.get_logger()
        self._threads = CapacityLimiter(WRITER_THREADS)
        self._not_before = 0.0
        self._stuck_threads = 0
        """Abandoned threads that still wait for the log."""
        self._lock = Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "/v1/" not in scope["path"]:
            await self._app(scope, receive, send)
            return
        number = uuid.uuid4().hex
        body = bytearray()
        has_started = is_refused = False

        async def write_record(event: str, status: int | None = None) -> bool:
            first = {"event": event} if status is None else {"event": event, "status": status}

            def record() -> Fields:
                return {**first, "id": number, **_fields(scope, bytes(body))}

            return await self._write_in_thread(record, str(scope["state"].get("request_id", "")))

        async def receive_recorded() -> Message:
            message = await receive()
            body.extend(message.get("body", b""))
            return message

        async def send_recorded(message: Message) -> None:
            nonlocal has_started, is_refused
            if message["type"] == "http.response.start":
                is_refused = not await write_record("response", message["status"])
                has_started = True
                if is_refused:
                    await _refusal(scope)(scope, receive, send)
            if not is_refused:
                await send(message)

        async def record_request() -> None:
            if not await write_record("request"):
                raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, NOT_WRITTEN)

        scope.setdefault("state", {})["audit_request"] = record_request
        try:
            await self._app(scope, receive_recorded, send_recorded)
        except Exception as error:
            if has_started:
                await write_record("broken")
                raise
            if await write_record("response", 500):
                raise
            self._log.error("request_failed", reason=str(error), exc_info=error)
            await _refusal(scope)(scope, receive, send)

    async def _write_in_thread(self, record: Callable[[], Fields], request_id: str) -> bool:
        """Write a record in a thread; one that takes too long counts as failed, whatever its later outcome."""
        if time.monotonic() < self._not_before or self._stuck_threads >= WRITER_THREADS:
            self._failed.inc()
            return False
        has_started = has_ended = is_abandoned = False

        def write_record() -> str:
            nonlocal has_started, has_ended
            has_started = True
            try:
                self._audit.write_record(
                    json.dumps({"at": datetime.now(timezone.utc).isoformat(), **record()})
                )
            except Exception as error:
                return str(error) or type(error).__name__
            finally:
                with self._lock:
                    has_ended = True
                    self._stuck_threads -= is_abandoned
            return ""

        reason = "it takes too long"
        with move_on_after(2 * WAIT_S):
            reason = await run_sync(write_record, limiter=self._threads, abandon_on_cancel=True)
        with self._lock:
            is_abandoned = has_started and not has_ended
            self._stuck_threads += is_abandoned
        if reason:
            self._not_before = time.monotonic() + FAILED_S
            self._failed.inc()
            self._log.error("audit_failed", reason=reason, request_id=request_id)
        return not reason


async def record_before(request: Request) -> None:
    """Keep a record of a request that is about to change something, where the server keeps records.

    Raises:
        ProblemError: 503, it can't be kept.
    """
    record_request: Callable[[], Awaitable[None]] | None = getattr(
        request.state, "audit_request", None
    )
    if record_request is not None:
        await record_request()
    elif request.app.state.audited:
        raise ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, NOT_WRITTEN)


def _refusal(scope: Scope) -> ASGIApp:
    return problem(str(scope["state"].get("request_id", "")), 503, NOT_WRITTEN)


def _fields(scope: Scope, body: bytes) -> dict[str, Any]:
    caller: Principal | None = scope["state"].get("caller")
    most = ADDRESS_BYTES_MAX if caller is not None else ANONYMOUS_BYTES_MAX
    query = scope["query_string"].decode("utf-8", "replace")
    address = f"{scope['path']}?{query}".encode("utf-8", "replace")
    return {
        "request_id": scope["state"].get("request_id", ""),
        "from": cut((scope.get("client") or ("unknown",))[0], CLIENT_BYTES_MAX),
        "caller": None
        if caller is None
        else {
            "name": cut(caller.name, ANONYMOUS_BYTES_MAX),
            "identity": cut(caller.identity, ANONYMOUS_BYTES_MAX),
            "role": caller.role,
            "rows": caller.rows,
            "delete": caller.delete,
            "erase": caller.erase,
            "access": caller.access,
            "watch": caller.watch,
            "by": caller.auth,
        },
        "method": cut(scope["method"], CLIENT_BYTES_MAX),
        "path": cut(redacted_beginning(scope["path"], most, without_secrets), most),
        "query": cut(redacted_query(query, most), most),
        "address_sha256": sha256(address).hexdigest(),
        **({"question": None} if caller is None else question_fields(body)),
    }
