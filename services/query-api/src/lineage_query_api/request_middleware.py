"""What every request passes: its id, limits, security headers, metrics and a line in the log."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Mapping

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lineage_core.tracing.budget import BudgetError
from lineage_query_api.problems import problem
from lineage_query_api.rates import Rates

CONTENT_POLICY = (
    "default-src 'self'; style-src 'self'; img-src 'self' data:; worker-src 'self'; connect-src {connect}; "
    "object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
UNEXPECTED = "something went wrong here; the server's log has it under the request id"
DIGITS_MAX = 20
"""Of the length of a body, as h11 reads it."""
PATH_MAX = 32_768
"""Paths contain trace ids."""
PROBES = frozenset({"/healthz", "/readyz", "/metrics"})
"""Readiness probes fail repeatedly until the service is ready: these responses do not count as errors."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
ERRORS = (400, 401, 403, 404, 413, 414, 422, 429, 500, 503, 504)
"""Exported as 0 from the start, so that the first one shows as a rate."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""HTTP methods with metric labels of their own: clients may send any word, and each label would stay in memory."""
LOGGED_MAX = 2_048
"""Signs of a path, and of a method, in a line of the log."""
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class RequestMiddleware:
    """ASGI middleware around all of the service.

    ``rates``: limits of requests of a caller; ``body_bytes``: maximum size of a body; ``issuer``: another origin from
    which the page may fetch tokens.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        rates: Rates,
        body_bytes: int,
        registry: CollectorRegistry,
        issuer: str = "",
    ) -> None:
        self._app = app
        policy = CONTENT_POLICY.format(connect=f"'self' {issuer}".rstrip())
        self._headers = {"Content-Security-Policy": policy, **SECURITY_HEADERS}
        self._rates = rates
        self._body_bytes = body_bytes
        self._requests = Counter(
            "lineage_api_requests", "Requests answered.", ("method", "route", "status"),
            registry=registry,
        )  # fmt: skip
        self._errors = Counter(
            "lineage_api_errors", "Answers that were errors.", ("status",), registry=registry
        )
        for status in ERRORS:
            self._errors.labels(str(status))
        self._seconds = Histogram(
            "lineage_api_request_seconds", "Time to the end of an answer.", ("route",),
            buckets=BUCKETS, registry=registry,
        )  # fmt: skip
        self._log = structlog.get_logger()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        sent_id = headers.get("x-request-id", "")
        request_id = sent_id if _REQUEST_ID.fullmatch(sent_id) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        started = time.perf_counter()
        status = 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                out = MutableHeaders(scope=message)
                out["X-Request-Id"] = request_id
                for name, value in self._headers.items():
                    out.setdefault(name, value)
                if "/v1/" in scope["path"]:
                    out.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            refusal = await self._refusal(scope, headers, request_id)
            if refusal is not None:
                await refusal(scope, receive, send_with_headers)
            else:
                await self._app(scope, self._bounded(receive), send_with_headers)
        except BudgetError as error:
            # An aborted stream: the server closes the connection, so that the response does not look complete.
            self._log.warning("request_broken", request_id=request_id, reason=error.detail)
            raise
        except Exception as error:
            self._log.error("request_failed", request_id=request_id, exc_info=error)
            if status:
                raise
            await problem(request_id, 500, UNEXPECTED)(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            elapsed = time.perf_counter() - started
            method = scope["method"] if scope["method"] in METHODS else "other"
            self._requests.labels(method, route, str(status)).inc()
            self._seconds.labels(route).observe(elapsed)
            if status >= 400 and route not in PROBES:
                self._errors.labels(str(status)).inc()
            self._log.info(
                "request",
                request_id=request_id,
                method=scope["method"][:LOGGED_MAX],
                path=scope["path"][:LOGGED_MAX],
                status=status,
                ms=round(elapsed * 1000, 1),
            )

    async def _refusal(self, scope: Scope, headers: Headers, request_id: str) -> ASGIApp | None:
        length = headers.get("content-length", "0")
        # Python reads no number of thousands of digits.
        digits = length.lstrip("0") if length.isdecimal() else ""
        if len(digits) > DIGITS_MAX or int(digits or "0") > self._body_bytes:
            return problem(request_id, 413, f"a body has at most {self._body_bytes} bytes")
        if len(scope["path"]) > PATH_MAX:
            return problem(request_id, 414, f"a path has at most {PATH_MAX:,} signs")
        if not scope["path"].startswith("/v1/"):
            return None
        wait = await self._rates.wait_s((scope.get("client") or ("",))[0])
        if not wait:
            return None
        return problem(
            request_id,
            429,
            f"more than {self._rates.rate} from one caller",
            hint=f"try again in {wait} s",
            headers={"Retry-After": str(wait)},
        )

    def _bounded(self, receive: Receive) -> Receive:
        """Count the bytes of bodies without a declared length as they arrive."""
        body_bytes = 0

        async def counted() -> Message:
            nonlocal body_bytes
            message = await receive()
            body_bytes += len(message.get("body", b""))
            if body_bytes > self._body_bytes:
                # Only exceptions of this type pass unchanged through the reading of bodies.
                raise HTTPException(413, f"a body has at most {self._body_bytes} bytes")
            return message

        return counted
