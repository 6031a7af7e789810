"""The record-level view of an application in Neo4j, made and removed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse

from lineage_core.tracing.trace_result import Direction
from lineage_query.record_views import ViewSelection, ViewSummary
from lineage_query_api.dependencies import Admin, AppName, Store
from lineage_query_api.models import ViewRemoved, ViewRequest
from lineage_query_api.problems import problem_of, request_id_of
from lineage_store.errors import StoreError
from lineage_store.port import GraphStore
from lineage_store.record_flow import RecordFlows

if TYPE_CHECKING:
    from lineage_store.neo4j.record_view import RecordView

router = APIRouter(prefix="/v1/applications/{app}", tags=["record-level view"])


@router.post(
    "/record-view",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Lines of JSON: `done` of `total` while it is written, `made` at the end "
            "(or `problem`: what is written stays, the same request goes on)",
            "content": {"application/x-ndjson": {"schema": {"type": "string"}}},
        }
    },
)
def create_record_view(
    app: AppName, requested: ViewRequest, request: Request, store: Store, _: Admin
) -> StreamingResponse:
    """Write flows of an application into its Neo4j as the published record-level schema has them.

    May be repeated: the same flows are not there twice. Other stores refuse it.
    """
    app_id = store.find(app)
    view = _view_of(store.unrestricted_store, app_id)
    selection = ViewSelection(
        tuple(requested.places), Direction(requested.direction), requested.limit, requested.texts
    )
    flows, warnings = store.flows(app_id, selection)
    lines = _lines(view, flows, warnings, request_id_of(request))
    return StreamingResponse(lines, media_type="application/x-ndjson")


@router.delete("/record-view")
def remove_record_view(app: AppName, store: Store, _: Admin) -> ViewRemoved:
    """Remove the record-level view of an application; its lineage stays."""
    app_id = store.find(app)
    return ViewRemoved(app=app_id, removed=_view_of(store.unrestricted_store, app_id).remove())


def _view_of(store: GraphStore, app_id: str) -> RecordView:
    # Neo4j's driver loads pandas: a third of a second of a server's start.
    from lineage_store.neo4j.opening_view import view_of

    return view_of(store, app_id)


def _lines(
    view: RecordView, flows: RecordFlows, warnings: tuple[str, ...], request_id: str
) -> Iterator[bytes]:
    try:
        for progress in view.creating(flows):
            yield _line({"done": progress.done, "total": progress.total})
    except StoreError as error:
        # The status is sent already.
        structlog.get_logger().warning("store_failed", reason=str(error))
        yield _line({"problem": problem_of(request_id, error)})
    else:
        yield _line({"made": ViewSummary.of(flows, warnings).to_json()})


def _line(content: dict[str, object]) -> bytes:
    return (json.dumps(content) + "\n").encode()
