"""The application: routes, errors, limits and the page, wired together."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anyio import CapacityLimiter
from anyio.to_thread import run_sync
from fastapi import APIRouter, FastAPI, Response
from fastapi.responses import JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from lineage_core.release import __version__
from lineage_query.rows.confined import ConfinedFormats
from lineage_query.rows.reader import RootedReader, RowReader
from lineage_query_api import problems
from lineage_query_api.array_questions import ArrayQuestions
from lineage_query_api.audit import Auditor
from lineage_query_api.audit_log import open_audit
from lineage_query_api.auth import Gate, LocalGate, Oidc, OpenGate, TokenGate
from lineage_query_api.budgets import Budgeted
from lineage_query_api.completeness import Completeness
from lineage_query_api.connections import Bounds
from lineage_query_api.dependencies import RIGHTS
from lineage_query_api.entity_tags import EncodedTags
from lineage_query_api.grants import Grants
from lineage_query_api.head_requests import HeadRequests
from lineage_query_api.hosts import KnownHosts
from lineage_query_api.lineages import Lineages
from lineage_query_api.models import OidcClient, SignIn
from lineage_query_api.openapi_document import PROBLEM_REFERENCE, DescribedApi
from lineage_query_api.own_page import OwnPage
from lineage_query_api.page import serve_page
from lineage_query_api.rates import Rates
from lineage_query_api.record_watching import RecordsWatched
from lineage_query_api.request_middleware import RequestMiddleware
from lineage_query_api.routes import (
    answers,
    applications,
    arrays,
    comparing,
    dead_letters,
    erasure,
    exports,
    following,
    graph,
    jobs,
    meta,
    openlineage,
    record_view,
    rows,
    traces,
    triples,
    watching,
)
from lineage_query_api.routes.answers import FRAMED
from lineage_query_api.row_following import RowsFollowed
from lineage_query_api.scopes import Scopes
from lineage_query_api.served_triples import ServedTriples
from lineage_query_api.settings import QueryApiSettings, read_redis_settings
from lineage_service.metrics import new_registry
from lineage_store.errors import StoreError
from lineage_store.port import GraphStore
from lineage_store.url import index_folder

LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]", "testserver")
DESCRIPTION = """Record-level lineage of PySpark jobs: which input rows made an output row, and back.

Errors are problems (RFC 9457) with a request id and, where there is one, a hint how to go on."""
PROBED_AT_ONCE = 4
READY_S = 1.0
"""Seconds for which a store that answered counts as there: probes are answered to anybody, at any rate."""
COMPRESSED_FROM = 1024
"""Minimum size of a compressed response: a smaller one fits in one packet anyway."""
COMPRESSION = 5
"""Higher levels take three times as long for a twentieth less."""
AS_THEY_ARE = (
    "application/x-ndjson",
    FRAMED,
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.parquet",
)
"""Media types that are not compressed: streamed progress lines, which compression would delay, and compressed formats."""
REFUSALS = (400, 401, 403, 404, 413, 414, 422, 429, 500, 503, 504)
"""Statuses of problems that any route may answer."""


def create_app(
    store: GraphStore, settings: QueryApiSettings, reader: RowReader | None = None
) -> FastAPI:
    """The service over a store.

    ``reader``: reads rows of files; by default just those below ``settings.api_roots``.

    Raises:
        SettingsError: a file of tokens or of grants, the destination of audit records or the login of Redis can't be used.
    """
    if reader is None:
        reader = RootedReader(settings.api_roots, index_folder(settings.store))
    # Files of rows are untrusted: any job may have written them.
    reader.formats = ConfinedFormats()
    problem = {"content": {problems.MEDIA_TYPE: {"schema": {"$ref": PROBLEM_REFERENCE}}}}
    array_questions = ArrayQuestions()
    lineages = Lineages(store, reader, settings, cells=array_questions.cells_of)
    audit = open_audit(settings.api_audit, settings.api_audit_days)
    registry = new_registry()
    rates = Rates(settings.api_rate, read_redis_settings(), registry)

    @asynccontextmanager
    async def closing(_: FastAPI) -> AsyncIterator[None]:
        # The first thread loads what all need: no request waits for that.
        await run_sync(lambda: None)
        yield
        await rates.close()
        lineages.close()
        reader.formats.close()
        array_questions.close()
        if audit is not None:
            audit.close()

    app = DescribedApi(
        lifespan=closing,
        title="Lineage Master",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
        responses={status: {"description": "Problem", **problem} for status in REFUSALS},
    )
    app.state.lineages = lineages
    app.state.array_questions = array_questions
    app.state.rows_followed = RowsFollowed()
    app.state.records_watched = RecordsWatched()
    app.state.served_triples = ServedTriples(settings.store)
    app.state.bounds = Bounds(
        request_s=settings.api_request_s,
        answer_s=settings.api_stream_s,
        connections=settings.api_connections,
    )
    app.state.audited = audit is not None
    grants = None if settings.api_grants is None else Grants(settings.api_grants)
    app.state.scopes = Scopes(lineages, grants)
    gate = app.state.gate = gate_of(settings)
    app.state.local_store = settings.store if isinstance(gate, LocalGate) else None
    app.state.sign_in = sign_in_of(settings)
    app.state.rights = RIGHTS
    app.state.oidc_issuer = "" if settings.is_local else settings.oidc_issuer
    app.state.is_open = isinstance(gate, OpenGate)
    problems.install(app)
    for module in (
        meta,
        applications,
        jobs,
        graph,
        traces,
        exports,
        rows,
        arrays,
        comparing,
        dead_letters,
        answers,
        erasure,
        openlineage,
        record_view,
        triples,
        following,
        watching,
    ):
        app.include_router(module.router)
    app.include_router(arrays.all_router)
    if settings.api_metrics_applications:
        registry.register(Completeness(app.state.lineages, settings.api_metrics_applications))
    app.include_router(_probes(app, rates, registry))
    serve_page(app)
    # The last one is the outermost.
    app.add_middleware(
        GZipMiddleware,
        minimum_size=COMPRESSED_FROM,
        compresslevel=COMPRESSION,
        exclude_content_types=(*DEFAULT_EXCLUDED_CONTENT_TYPES, *AS_THEY_ARE),
    )
    app.add_middleware(EncodedTags)
    app.add_middleware(Budgeted, new=lineages.new_budget)
    if isinstance(gate, LocalGate):
        app.add_middleware(OwnPage)
    hosts = settings.api_hosts or (LOCAL_HOSTS if settings.on_loopback else ("*",))
    app.add_middleware(KnownHosts, hosts=hosts)
    app.add_middleware(HeadRequests)
    if audit is not None:
        app.add_middleware(Auditor, audit=audit, registry=registry)
    app.add_middleware(
        RequestMiddleware,
        rates=rates,
        body_bytes=settings.api_body_bytes,
        registry=registry,
        issuer=settings.page_issuer,
    )
    if settings.api_proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(settings.trusted_proxies))
    return app


def local_token(app: FastAPI) -> str:
    """The token of the user who runs the server; empty if others have access too."""
    gate: Gate = app.state.gate
    return gate.token if isinstance(gate, LocalGate) else ""


def gate_of(settings: QueryApiSettings) -> Gate:
    """The authentication of the server.

    Raises:
        SettingsError: the file of tokens can't be used.
    """
    if settings.is_local:
        return OpenGate() if settings.api_open else LocalGate(settings.api_token)
    oidc = None
    if settings.oidc_issuer:
        oidc = Oidc(settings.oidc_issuer, settings.oidc_audience, settings.oidc_role_claim)
    return TokenGate(settings.api_tokens, oidc)


def sign_in_of(settings: QueryApiSettings) -> SignIn:
    """How the page signs people in."""
    if not settings.page_issuer:
        return SignIn(oidc=None)
    client = OidcClient(
        issuer=settings.oidc_issuer, client_id=settings.oidc_client_id, scopes=settings.oidc_scopes
    )
    return SignIn(oidc=client)


def _probes(app: FastAPI, rates: Rates, registry: CollectorRegistry) -> APIRouter:
    router = APIRouter(include_in_schema=False)
    threads = CapacityLimiter(PROBED_AT_ONCE)
    store_answered_at = float("-inf")

    # Not in the threads of requests: these may all wait for a store or a log.
    @router.get("/healthz")
    async def healthz() -> JSONResponse:
        return JSONResponse({"status": "ok"})

    @router.get("/readyz")
    async def readyz() -> JSONResponse:
        nonlocal store_answered_at
        lineages: Lineages = app.state.lineages
        if time.monotonic() - store_answered_at >= READY_S:
            try:
                await run_sync(lineages.store.application_ids, limiter=threads)
            except StoreError as error:
                body = {"ready": False, "problems": {"store": str(error)}}
                return JSONResponse(body, status_code=503)
            store_answered_at = time.monotonic()
        tracing = await run_sync(lineages.recipe_traces.unmet_restrictions, limiter=threads)
        # Requests are answered without Redis, too, and by a Spark that is confined in part.
        problems = {"rates": rates.problem, "tracing": tracing}
        return JSONResponse(
            {
                "ready": True,
                "problems": {name: problem for name, problem in problems.items() if problem},
            }
        )

    @router.get("/metrics")
    async def metrics() -> Response:
        text = await run_sync(generate_latest, registry, limiter=threads)
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return router
